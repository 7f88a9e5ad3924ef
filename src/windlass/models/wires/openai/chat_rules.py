"""Rules of a Chat Completions request: what OpenAI refuses, with its error messages."""

from __future__ import annotations

import re
from typing import cast

from windlass.json_types import as_given, is_list, is_object
from windlass.models.wires.rules import Data, Rejected

KNOWN = frozenset(
    "model messages stream stream_options tools tool_choice parallel_tool_calls max_tokens"
    " max_completion_tokens temperature top_p stop seed frequency_penalty presence_penalty n"
    " logit_bias logprobs top_logprobs response_format user metadata store reasoning_effort"
    " service_tier modalities audio prediction verbosity web_search_options prompt_cache_key"
    " prompt_cache_retention safety_identifier functions function_call".split()
)
ROLES = ("system", "developer", "user", "assistant", "tool", "function")
NAME = re.compile(r"[a-zA-Z0-9_-]+")

_NINE = re.compile(r"[a-zA-Z0-9]{9}")


def check(body: Data, also: frozenset[str] = frozenset(), *, short_ids: bool = False) -> None:
    """Raise `Rejected` for the first rule the request breaks.

    `also`: keys that the server knows beside OpenAI's; `short_ids`: calls have ids of nine characters.
    """
    _check_shape(body, also)
    _check_tools(body)
    messages: list[Data] = body["messages"]
    for at, message in enumerate(messages):
        _check_message(at, message)
    _check_pairs(messages)
    if short_ids:
        _check_short_ids(body)


def _check_short_ids(body: Data) -> None:
    messages: list[Data] = body["messages"]
    for message in messages:
        calls: list[Data] = message.get("tool_calls") or []
        ids = [str(call["id"]) for call in calls]
        for id_ in (*ids, *([message["tool_call_id"]] if message.get("tool_call_id") else [])):
            if not _NINE.fullmatch(id_):
                raise Rejected(
                    f"Tool call id was {id_} but must be a-z, A-Z, 0-9, with a length of 9."
                )


def _check_shape(body: Data, also: frozenset[str]) -> None:
    for key in body:
        if key not in KNOWN and key not in also:
            raise Rejected(f"Unrecognized request argument supplied: {key}")
    if not body.get("model"):
        raise Rejected("you must provide a model parameter")
    if "messages" not in body:
        raise missing("messages")
    if not isinstance(body["messages"], list):
        raise wrong_type("messages", "an array of objects")
    if not body["messages"]:
        raise empty("messages")
    if "stream_options" in body and not body.get("stream"):
        raise Rejected(
            "The 'stream_options' parameter is only allowed when 'stream' is enabled.",
            param="stream_options",
        )
    for key in ("max_tokens", "max_completion_tokens"):
        if key in body and (type(body[key]) is not int or body[key] < 1):
            raise Rejected(
                f"Invalid '{key}': integer below minimum value.",
                param=key,
                code="integer_below_min_value",
            )
    form: Data = body.get("response_format") or {}
    if form.get("type") == "json_schema":
        check_answer(form.get("json_schema"), "response_format.json_schema")


def check_answer(form: Data | None, where: str) -> None:
    """Check the response format: it has a name, and its schema is closed if strict."""
    form = form or {}
    check_name(form.get("name"), f"{where}.name")
    if form.get("strict"):
        check_closed(form.get("schema"), f"response_format '{form['name']}'")


def check_closed(schema: object, label: str) -> None:
    """Check that a strict schema closes every object and requires all its properties."""
    if is_list(schema):
        for part in schema:
            check_closed(part, label)
    if not is_object(schema):
        return
    keywords = schema
    if keywords.get("type") == "object":
        problem = ""
        if keywords.get("additionalProperties") is not False:
            problem = "'additionalProperties' is required to be supplied and to be false."
        elif set(keywords.get("required", ())) != set(keywords.get("properties", ())):
            problem = "'required' is required to be supplied and to include every key."
        if problem:
            raise Rejected(
                f"Invalid schema for {label}: In context=(), {problem}",
                param="response_format",
                code="invalid_json_schema",
            )
    for part in keywords.values():
        check_closed(part, label)


def _check_tools(body: Data) -> None:
    tools: list[Data] | None = body.get("tools")
    if tools is None:
        for key in ("tool_choice", "parallel_tool_calls"):
            if key in body and body[key] != "none":
                raise Rejected(
                    f"Invalid value for '{key}': '{key}' is only allowed when 'tools' are specified.",
                    param=key,
                )
        return
    if not tools:
        raise empty("tools")
    names: list[str] = []
    for at, tool in enumerate(tools):
        if tool.get("type") != "function":
            raise Rejected(f"Invalid value for 'tools[{at}].type'.", param=f"tools[{at}].type")
        where = f"tools[{at}].function"
        check_name(tool.get("function", {}).get("name"), f"{where}.name")
        names.append(tool["function"]["name"])
        schema: object = tool["function"].get("parameters", {"type": "object"})
        if not is_object(schema) or schema.get("type") != "object":
            raise Rejected(
                f"Invalid schema for function '{names[-1]}': schema must be a JSON Schema of"
                " 'type: \"object\"'.",
                param=f"{where}.parameters",
                code="invalid_function_parameters",
            )
        if tool["function"].get("strict"):
            check_closed(as_given(schema), f"function '{names[-1]}'")
    choice: object = body.get("tool_choice", "auto")
    if isinstance(choice, str):
        if choice not in ("auto", "none", "required"):
            raise Rejected(f"Invalid value: '{choice}'.", param="tool_choice", code="invalid_value")
        return
    wanted: object = cast("Data", choice).get("function", {}).get("name")
    if cast("Data", choice).get("type") == "function" and wanted not in names:
        raise Rejected(
            f"Invalid value for 'tool_choice': no function named '{wanted}' was specified in the"
            " 'tools' parameter.",
            param="tool_choice",
        )


def _check_message(at: int, message: Data) -> None:
    where = f"messages[{at}]"
    role: object = message.get("role")
    if role not in ROLES:
        raise Rejected(f"Invalid value: '{role}'.", param=f"{where}.role", code="invalid_value")
    calls: object = message.get("tool_calls")
    if role == "tool" and not isinstance(message.get("tool_call_id"), str):
        raise missing(f"{where}.tool_call_id")
    if calls is not None:
        if role != "assistant":
            raise Rejected(f"'tool_calls' is not allowed for role '{role}'.", param=where)
        if not calls:
            raise empty(f"{where}.tool_calls")
        for number, call in enumerate(cast("list[Data]", calls)):
            _check_call(f"{where}.tool_calls[{number}]", call)
    content: str | list[Data] | None = message.get("content")
    if content is None and not (role == "assistant" and calls):
        raise Rejected(
            "Invalid value for 'content': expected a string, got null.",
            param=f"messages.[{at}].content",
        )
    if content is not None and not isinstance(as_given(content), (str, list)):
        raise wrong_type(f"{where}.content", "one of a string or array of objects")
    if isinstance(content, list):
        _check_parts(where, content)


def _check_parts(where: str, parts: list[Data]) -> None:
    if not parts:
        raise empty(f"{where}.content")
    for number, part in enumerate(parts):
        if part.get("type") not in ("text", "image_url", "input_audio", "file", "refusal"):
            raise Rejected(
                f"Invalid value: '{part.get('type')}'.",
                param=f"{where}.content[{number}].type",
                code="invalid_value",
            )


def _check_call(where: str, call: Data) -> None:
    if not isinstance(call.get("id"), str):
        raise missing(f"{where}.id")
    if len(call["id"]) > 40:
        raise too_long(f"{where}.id", 40, len(call["id"]))
    if call.get("type") != "function":
        raise missing(f"{where}.type")
    check_name(call.get("function", {}).get("name"), f"{where}.function.name")
    if not isinstance(call["function"].get("arguments"), str):
        raise wrong_type(f"{where}.function.arguments", "a string")


def check_name(name: object, where: str) -> None:
    """Check a function's name by OpenAI's rules."""
    if not isinstance(name, str) or not name:
        raise missing(where)
    if len(name) > 64:
        raise too_long(where, 64, len(name))
    if not NAME.fullmatch(name):
        raise Rejected(
            f"Invalid '{where}': string does not match pattern. Expected a string that matches the"
            f" pattern '^{NAME.pattern}$'.",
            param=where,
            code="invalid_value",
        )


def _check_pairs(messages: list[Data]) -> None:
    """Check that tool messages answer every call before another message follows."""
    called: list[str] = []
    answered: list[str] = []
    for at, message in enumerate(messages):
        if message["role"] == "tool":
            _check_answer(at, message["tool_call_id"], called, answered)
            answered.append(message["tool_call_id"])
            continue
        _check_all_answered(called, answered)
        called = [call["id"] for call in message.get("tool_calls") or ()]
        answered = []
        if len(set(called)) != len(called):
            raise Rejected(
                f"Duplicate value for 'tool_call_id' in message[{at}].",
                param=f"messages.[{at}].tool_calls",
            )
    _check_all_answered(called, answered)


def _check_answer(at: int, call: str, called: list[str], answered: list[str]) -> None:
    if not called:
        raise Rejected(
            "Invalid parameter: messages with role 'tool' must be a response to a preceeding message"
            " with 'tool_calls'.",
            param=f"messages.[{at}].role",
        )
    if call not in called:
        raise Rejected(
            f"Invalid parameter: 'tool_call_id' of '{call}' not found in 'tool_calls' of previous"
            " message.",
            param=f"messages.[{at}].tool_call_id",
        )
    if call in answered:
        raise Rejected(
            f"Duplicate value for 'tool_call_id' of '{call}' in message[{at}].",
            param=f"messages.[{at}].tool_call_id",
        )


def _check_all_answered(called: list[str], answered: list[str]) -> None:
    if missing := [call for call in called if call not in answered]:
        raise Rejected(
            "An assistant message with 'tool_calls' must be followed by tool messages responding to"
            " each 'tool_call_id'. The following tool_call_ids did not have response messages: "
            + ", ".join(missing),
            param="messages",
        )


def missing(where: str) -> Rejected:
    """Build the refusal of a missing parameter."""
    return Rejected(
        f"Missing required parameter: '{where}'.", param=where, code="missing_required_parameter"
    )


def wrong_type(where: str, wanted: str) -> Rejected:
    """Build the refusal of a value of another type."""
    return Rejected(
        f"Invalid type for '{where}': expected {wanted}.", param=where, code="invalid_type"
    )


def empty(where: str) -> Rejected:
    """Build the refusal of an empty list."""
    return Rejected(
        f"Invalid '{where}': empty array. Expected an array with minimum length 1, but got an empty"
        " array instead.",
        param=where,
        code="empty_array",
    )


def too_long(where: str, most: int, length: int) -> Rejected:
    """Build the refusal of a text over its limit."""
    return Rejected(
        f"Invalid '{where}': string too long. Expected a string with maximum length {most}, but got"
        f" a string with length {length} instead.",
        param=where,
        code="string_above_max_length",
    )
