"""Rules of a Responses request: what OpenAI refuses, with its error messages."""

from __future__ import annotations

from typing import cast

from windlass.json_types import is_list
from windlass.models.wires.openai.chat_rules import (
    check_answer,
    check_closed,
    check_name,
    empty,
    missing,
    too_long,
    wrong_type,
)
from windlass.models.wires.rules import Data, Rejected, Sign

KNOWN = frozenset(
    "model input stream stream_options store include instructions tools tool_choice"
    " parallel_tool_calls max_output_tokens max_tool_calls temperature top_p top_logprobs reasoning"
    " text truncation user metadata service_tier previous_response_id conversation background"
    " prompt prompt_cache_key prompt_cache_retention safety_identifier context_management".split()
)
ENCRYPTED = "reasoning.encrypted_content"
INCLUDES = (ENCRYPTED, "message.output_text.logprobs", "web_search_call.action.sources")
SPOKEN = ("output_text", "refusal")
GIVEN = ("input_text", "input_image", "input_file")
FEWEST = 16  # tokens of a reply


def check(body: Data, sign: Sign | None = None) -> None:
    """Raise `Rejected` for the first rule the request breaks."""
    _check_shape(body)
    _check_tools(body)
    items: list[Data] = body["input"]
    for at, item in enumerate(items):
        _check_item(f"input[{at}]", item, body, sign)
    _check_pairs(items)
    _check_reasoning(items)


def _check_shape(body: Data) -> None:
    for key in body:
        if key not in KNOWN:
            raise Rejected(f"Unknown parameter: '{key}'.", param=key, code="unknown_parameter")
    if not body.get("model"):
        raise missing("model")
    if not isinstance(body.get("input"), list):
        raise wrong_type("input", "one of a string or array of objects")
    if not body["input"]:
        raise empty("input")
    limit: object = body.get("max_output_tokens", FEWEST)
    if not isinstance(limit, int) or limit < FEWEST:
        raise Rejected(
            f"Invalid 'max_output_tokens': integer below minimum value. Expected a value >= {FEWEST},"
            f" but got {limit} instead.",
            param="max_output_tokens",
            code="integer_below_min_value",
        )
    form: Data = cast("Data", body.get("text") or {}).get("format") or {}
    if form.get("type") == "json_schema":
        check_answer(form, "text.format")
    for value in body.get("include", ()):
        if value not in INCLUDES:
            raise Rejected(f"Invalid value: '{value}'.", param="include", code="invalid_value")


def _check_tools(body: Data) -> None:
    names: list[str] = []
    tools = cast("list[Data]", body.get("tools", []))
    searches = any(tool.get("type") == "tool_search" for tool in tools)
    for at, tool in enumerate(tools):
        where = f"tools[{at}]"
        if not isinstance(tool.get("type"), str):
            raise missing(f"{where}.type")
        inner = [tool]
        if tool["type"] == "namespace":
            check_name(tool.get("name"), f"{where}.name")
            if not tool.get("description"):
                raise missing(f"{where}.description")
            inner = cast("list[Data]", tool.get("tools") or [])
        for one in inner:
            if one.get("type") == "function":
                names.append(_check_function(where, one, searches=searches))
    choice: object = body.get("tool_choice", "auto")
    if isinstance(choice, str):
        if choice not in ("auto", "none", "required"):
            raise Rejected(f"Invalid value: '{choice}'.", param="tool_choice", code="invalid_value")
    elif (wanted := cast("Data", choice).get("name")) not in names:
        raise Rejected(f"Tool choice '{wanted}' not found in 'tools'.", param="tool_choice")


def _check_function(where: str, tool: Data, *, searches: bool) -> str:
    if "function" in tool:  # as Chat Completions has it
        raise missing(f"{where}.name")
    check_name(tool.get("name"), f"{where}.name")
    name: str = tool["name"]
    if cast("Data", tool.get("parameters") or {}).get("type") != "object":
        raise Rejected(
            f"Invalid schema for function '{name}': schema must be a JSON Schema of"
            " 'type: \"object\"'.",
            param=f"{where}.parameters",
            code="invalid_function_parameters",
        )
    if tool.get("strict"):
        check_closed(tool["parameters"], f"function '{name}'")
    if tool.get("defer_loading") and not searches:
        raise Rejected(
            "Deferred tools require the tool_search tool to be provided.",
            param=f"{where}.defer_loading",
        )
    return name


def _check_item(where: str, item: Data, body: Data, sign: Sign | None) -> None:
    match item.get("type", "message"):
        case "message":
            _check_message(where, item)
        case "function_call":
            _check_call_id(where, item)
            check_name(item.get("name"), f"{where}.name")
            if not isinstance(item.get("arguments"), str):
                raise wrong_type(f"{where}.arguments", "a string")
        case "function_call_output":
            _check_call_id(where, item)
            output: object = item.get("output")
            if is_list(output):
                _check_parts(f"{where}.output", output, GIVEN)
            elif not isinstance(output, str):
                raise wrong_type(f"{where}.output", "one of an array of objects or string")
        case "reasoning":
            _check_thought(where, item, body, sign)
        case "tool_search_call" | "tool_search_output" if item.get("execution") == "client":
            _check_call_id(where, item)
            if item["type"] == "tool_search_output" and not isinstance(item.get("tools"), list):
                raise missing(f"{where}.tools")
        case _:
            pass  # tools that the provider runs itself


def _check_message(where: str, item: Data) -> None:
    role: object = item.get("role")
    if role not in ("user", "assistant", "system", "developer"):
        raise Rejected(f"Invalid value: '{role}'.", param=f"{where}.role", code="invalid_value")
    if item.get("phase") not in (None, "commentary", "final_answer"):
        raise Rejected("Invalid value.", param=f"{where}.phase", code="invalid_value")
    content: object = item.get("content")
    if is_list(content):
        parts = content
        _check_parts(f"{where}.content", parts, SPOKEN if role == "assistant" else GIVEN)
    elif not isinstance(content, str):
        raise wrong_type(f"{where}.content", "one of an array of objects or string")


def _check_parts(where: str, parts: list[Data], kinds: tuple[str, ...]) -> None:
    for number, part in enumerate(parts):
        if part.get("type") not in kinds:
            raise Rejected(
                f"Invalid value: '{part.get('type')}'. Supported values are: {kinds}.",
                param=f"{where}[{number}].type",
                code="invalid_value",
            )


def _check_call_id(where: str, item: Data) -> None:
    if not isinstance(item.get("call_id"), str) or not item["call_id"]:
        raise missing(f"{where}.call_id")
    if len(item["call_id"]) > 64:
        raise too_long(f"{where}.call_id", 64, len(item["call_id"]))


def _check_thought(where: str, item: Data, body: Data, sign: Sign | None) -> None:
    if not isinstance(item.get("summary"), list):
        raise missing(f"{where}.summary")
    sealed: object = item.get("encrypted_content")
    if not sealed and body.get("store") is False:
        raise Rejected(
            f"Item with id '{item.get('id')}' not found. Items are not persisted when `store` is set"
            " to false. Try again with `store` set to true, or remove this item from your input.",
            status=404,
            param="input",
        )
    text = "".join([part["text"] for part in item["summary"]])
    if sealed and sign is not None and sealed != sign(text):
        raise Rejected(
            "The encrypted content could not be verified.", code="invalid_encrypted_content"
        )


def _check_pairs(items: list[Data]) -> None:
    """Check that every call is answered once, and that no answer lacks its call."""
    called: list[str] = []
    answered: list[str] = []
    for item in items:
        if _asks(item, "function_call", "tool_search_call"):
            if item["call_id"] in called:
                raise Rejected(f"Duplicate call_id {item['call_id']}.", param="input")
            called.append(item["call_id"])
        elif _asks(item, "function_call_output", "tool_search_output"):
            if item["call_id"] not in called or item["call_id"] in answered:
                raise Rejected(
                    f"No tool call found for function call output with call_id {item['call_id']}.",
                    param="input",
                )
            answered.append(item["call_id"])
    for call in called:
        if call not in answered:
            raise Rejected(f"No tool output found for function call {call}.", param="input")


def _asks(item: Data, call: str, search: str) -> bool:
    """Check whether an item is a call (or an answer) between the model and the client."""
    kind = item.get("type")
    return kind == call or (kind == search and item.get("execution") == "client")


def _check_reasoning(items: list[Data]) -> None:
    for item, after in zip(items, [*items[1:], None], strict=True):
        if item.get("type") == "reasoning" and (after is None or not by_model(after)):
            raise Rejected(
                f"Item '{item.get('id')}' of type 'reasoning' was provided without its required"
                " following item.",
                param="input",
            )


def by_model(item: Data) -> bool:
    """Check whether an item of a request was written by the model."""
    if item.get("type", "message") == "message":
        return item.get("role") == "assistant"
    if item["type"] == "tool_search_output" and item.get("execution") == "client":
        return False
    return not item["type"].endswith("call_output")
