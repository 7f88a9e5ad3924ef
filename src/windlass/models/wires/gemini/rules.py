"""Rules of a generateContent request: what Gemini refuses, with its error messages."""

from __future__ import annotations

import re
from typing import Any, Final, cast

from windlass.json_types import is_list, is_object
from windlass.models.wires.rules import Data, Rejected, Sign

KNOWN = frozenset(
    "contents systemInstruction tools toolConfig generationConfig safetySettings cachedContent"
    " labels serviceTier store".split()
)
CONFIG = frozenset(
    "maxOutputTokens temperature topP topK stopSequences seed frequencyPenalty presencePenalty"
    " thinkingConfig responseMimeType responseJsonSchema responseSchema responseModalities"
    " candidateCount responseLogprobs logprobs mediaResolution".split()
)
KINDS = frozenset(
    "text inlineData fileData functionCall functionResponse executableCode codeExecutionResult"
    " toolCall toolResponse"
    " hologram".split()  # the twist `unknown_things` made it up: a provider takes its own back
)
BESIDE = frozenset("thought thoughtSignature videoMetadata partMetadata mediaResolution".split())
NAME = re.compile(r"[a-zA-Z_][a-zA-Z0-9_.:-]{0,63}")
_SNAKE: Final = re.compile(r"_([a-z0-9])")
FOREIGN = "skip_thought_signature_validator"


def check(body: Data, sign: Sign | None = None, *, ids: bool = True, signs: bool = True) -> None:
    """Raise `Rejected` for the first rule the request breaks.

    `ids`: calls have ids, and results may; `signs`: calls without a signature are refused.
    """
    body = normalize(body)
    only(body, KNOWN, "")
    _check_tools(body)
    config: Data = body.get("generationConfig", {})
    only(config, CONFIG, " at 'generation_config'")
    _check_config(config)
    _check_contents(body, sign, ids, signs)
    _check_pairs(body["contents"])


#: Fields with values of the caller's own: their keys are no fields of Google's.
_OWN: Final = frozenset(
    "args response parameters parametersJsonSchema responseSchema responseJsonSchema labels".split()
)
#: Fields with several values, one of which may stand without a list.
_SEVERAL: Final = frozenset("tools contents parts functionDeclarations safetySettings".split())


_FIELDS: Final = (
    KNOWN
    | CONFIG
    | KINDS
    | BESIDE
    | _OWN
    | frozenset(
        "functionDeclarations functionCallingConfig allowedFunctionNames mimeType fileUri displayName"
        " thinkingBudget thinkingLevel includeThoughts generateContentRequest".split()
    )
)


def normalize(body: Data) -> Data:
    """Return the request in the one form that is checked: Google reads snake_case and single values too."""
    return {name: _normalize_value(name, value) for name, value in _rename(body).items()}


def _rename(given: Data) -> Data:
    renamed: Data = {}
    for key, value in given.items():
        name = _SNAKE.sub(lambda found: found[1].upper(), key)
        if name not in _FIELDS:
            name = key  # it is unknown as it was written
        if name in renamed:
            raise Rejected(f'Invalid JSON payload received. Multiple values for "{name}".')
        renamed[name] = value
    return renamed


def _normalize_value(name: str, value: object) -> object:
    if name in _OWN:
        return value
    if name in _SEVERAL and is_object(value):
        value = [value]
    if is_list(value):
        return [normalize(one) if is_object(one) else one for one in value]
    return normalize(value) if is_object(value) else value


def only(given: Data, known: frozenset[str], where: str) -> None:
    """Raise `Rejected` for a field that is not known."""
    for key in given:
        if key not in known:
            raise Rejected(
                f'Invalid JSON payload received. Unknown name "{key}"{where}: Cannot find field.'
            )


def _check_tools(body: Data) -> None:
    names: list[str] = []
    for at, tool in enumerate(cast("list[Data]", body.get("tools", []))):
        for number, function in enumerate(cast("list[Data]", tool.get("functionDeclarations", []))):
            where = f"tools[{at}].function_declarations[{number}]"
            name: object = function.get("name")
            if not isinstance(name, str) or not NAME.fullmatch(name):
                raise Rejected(
                    f"Invalid function name at {where}.name. Must start with a letter or an"
                    " underscore and hold letters, digits, underscores, dots, colons or dashes"
                )
            if "parameters" in function and "parametersJsonSchema" in function:
                raise Rejected(f"{where}: set only one of parameters and parameters_json_schema")
            if "parametersJsonSchema" in function:
                _check_schema(function["parametersJsonSchema"], f"{where}.parameters_json_schema")
            names.append(name)
    if len(set(names)) != len(names):
        raise Rejected("Duplicate function declaration found")
    choice: Data = body.get("toolConfig", {}).get("functionCallingConfig", {})
    if choice.get("mode", "AUTO") not in ("AUTO", "ANY", "NONE", "VALIDATED"):
        raise Rejected("Invalid value at 'tool_config.function_calling_config.mode'")
    allowed: list[str] = choice.get("allowedFunctionNames", [])
    if allowed and choice.get("mode") not in ("ANY", "VALIDATED"):
        raise Rejected("Function calling config is set without function calling mode ANY.")
    for name in allowed:
        if name not in names:
            raise Rejected(f"allowed_function_names holds {name}, which is not declared")


def _check_config(config: Data) -> None:
    thinking: Data = config.get("thinkingConfig", {})
    if "thinkingBudget" in thinking and "thinkingLevel" in thinking:
        raise Rejected("You can only set only one of thinking budget and thinking level.")
    if thinking.get("thinkingLevel", "LOW") not in ("MINIMAL", "LOW", "MEDIUM", "HIGH"):
        raise Rejected("Invalid value at 'generation_config.thinking_config.thinking_level'")
    if "responseJsonSchema" in config:
        if config.get("responseMimeType") != "application/json":
            raise Rejected("A response schema needs the response mime type application/json")
        if "responseSchema" in config:
            raise Rejected("set only one of response_schema and response_json_schema")
        _check_schema(config["responseJsonSchema"], "generation_config.response_json_schema")
    limit: Any = config.get("maxOutputTokens", 1)
    if type(limit) is not int or limit < 1:
        raise Rejected("Invalid value at 'generation_config.max_output_tokens'")


def _check_schema(schema: Data, where: str) -> None:
    """Check that a schema has only keywords that Gemini reads, and that references resolve."""
    defs: object = schema.get("$defs") or {}
    waiting: list[object] = [schema, *cast("Data", defs).values()]
    while waiting:
        node = waiting.pop()
        if not is_object(node):
            raise Rejected(f"Invalid value at '{where}': not a schema")
        one = node
        if odd := one.keys() & {"const", "allOf", "definitions"}:
            raise Rejected(f"{where}: the field {min(odd)} is not supported")
        if "$ref" in one:
            if any(not key.startswith("$") for key in one):
                raise Rejected(f"{where}: no other fields may be set beside $ref")
            if str(one["$ref"]).removeprefix("#/$defs/") not in cast("Data", defs):
                raise Rejected(f"{where}: the reference {one['$ref']} was not found")
        if any(
            isinstance(v, bool) or not isinstance(v, (str, int, float)) for v in one.get("enum", ())
        ):
            raise Rejected(f"{where}: an enum holds strings and numbers only")
        waiting += [*one.get("properties", {}).values(), *one.get("anyOf", ())]
        waiting += [*one.get("oneOf", ()), *one.get("prefixItems", ())]
        waiting += [one["items"]] if "items" in one else []
        waiting += [more] if isinstance(more := one.get("additionalProperties"), dict) else []


def _check_contents(body: Data, sign: Sign | None, ids: bool, signs: bool) -> None:
    contents: object = body.get("contents")
    if not is_list(contents) or not contents:
        raise Rejected("* GenerateContentRequest.contents: contents is not specified")
    turns = contents
    for at, content in enumerate(turns):
        if content.get("role") not in ("user", "model"):
            raise Rejected("Please use a valid role: user, model.")
        parts: list[Data] = content.get("parts", [])
        if not parts:
            raise Rejected(f"* GenerateContentRequest.contents[{at}].parts: must not be empty")
        for number, part in enumerate(parts):
            _check_part(part, f"contents[{at}].parts[{number}]", ids)
            if part.get("text") == "" and content["role"] == "model":
                if "thoughtSignature" not in part:  # a user message may be empty, a model's may not
                    raise Rejected(f"contents[{at}].parts[{number}]: the text is empty")
        if content["role"] == "model":
            _check_signatures(parts, at, sign, signs)
    if turns[0]["role"] != "user" or turns[-1]["role"] != "user":
        raise Rejected("Please ensure that multiturn requests begin and end with a user role.")


def _check_part(part: Data, where: str, ids: bool) -> None:
    kinds = [key for key in part if key in KINDS]
    if len(kinds) != 1:
        raise Rejected(f"{where}.data: required oneof field 'data' must have one initialized field")
    only(part, KINDS | BESIDE, f" at '{where}'")
    for key in ("functionCall", "functionResponse"):
        if key not in part:
            continue
        function: Data = part[key]
        if "id" in function and not ids:
            raise Rejected(
                f"Invalid JSON payload received. Unknown name \"id\" at '{where}.{key}':"
                " Cannot find field."
            )
        if not isinstance(function.get("args", function.get("response")), dict):
            raise Rejected(f"Invalid value at '{where}.{key}': not a Struct")


def _check_signatures(parts: list[Data], at: int, sign: Sign | None, signs: bool) -> None:
    calls = [part for part in parts if "functionCall" in part]
    text = ""
    for part in parts:
        signed = part.get("thoughtSignature")
        if isinstance(signed, str) and signed != FOREIGN:
            signed = signed.replace("-", "+").replace("_", "/")  # bytes, in either alphabet
        if "functionCall" in part:
            name: str = part["functionCall"]["name"]
            if part is not calls[0]:
                right = signed is None or sign is None
            elif signed is None and not signs:
                right = True
            elif signed is None:
                raise Rejected(
                    "Function call is missing a thought_signature in functionCall parts."
                    f" Function call `{name}`, position {at}."
                )
            else:
                right = sign is None or signed in (sign(f"call {name}"), FOREIGN)
        else:
            text += "" if part.get("thought") else part.get("text", "")
            right = signed is None or sign is None or signed == sign(text)
        if not right:
            raise Rejected("Thought signature is not valid.")


def _check_pairs(contents: list[Data]) -> None:
    asked: list[Data] = []
    for content in contents:
        parts: list[Data] = content["parts"]
        answers: list[Data] = [p["functionResponse"] for p in parts if "functionResponse" in p]
        if len(answers) != len(asked):
            raise Rejected(
                "Please ensure that the number of function response parts is equal to the number"
                " of function call parts of the function call turn."
            )
        if [a.get("id") for a in answers] != [a.get("id") for a in asked]:
            raise Rejected("Function response ids do not match the function calls.")
        if [a["name"] for a in answers] != [a["name"] for a in asked]:
            raise Rejected("Function response names do not match the function calls.")
        asked = [part["functionCall"] for part in parts if "functionCall" in part]
