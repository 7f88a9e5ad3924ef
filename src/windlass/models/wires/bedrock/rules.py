"""Rules of a Converse request: what Bedrock refuses, with its error messages."""

from __future__ import annotations

import re
from typing import cast

from windlass.json_types import is_object
from windlass.models.wires.rules import Data, Rejected, Sign

KNOWN = frozenset(
    "messages system inferenceConfig toolConfig guardrailConfig additionalModelRequestFields"
    " promptVariables additionalModelResponseFieldPaths requestMetadata performanceConfig"
    " serviceTier outputConfig".split()
)
NAME = re.compile(r"[a-zA-Z0-9_-]{1,64}")
ID = re.compile(r"[a-zA-Z0-9_.:-]{1,64}")
DOCUMENT = re.compile(r"(?!.*\s\s)[a-zA-Z0-9\s()\[\]-]{1,200}")


COUNTED = frozenset({"messages", "system", "toolConfig", "additionalModelRequestFields"})


def check_count(body: Data, sign: Sign | None = None) -> None:
    """Check a request to the endpoint that counts tokens."""
    given: object = body.get("input")
    inner: object = given.get("converse") if is_object(given) else None
    if set(body) != {"input"} or not is_object(inner):
        raise Rejected("input: exactly one of invokeModel and converse must be set.")
    for key in inner:
        if key not in COUNTED:
            raise Rejected(f"Unknown field: input.converse.{key}")
    check(inner, sign)


def check(body: Data, sign: Sign | None = None) -> None:
    """Raise `Rejected` for the first rule the request breaks."""
    for key in body:
        if key not in KNOWN:
            raise Rejected(f"Unknown field: {key}")
    messages: list[Data] = body.get("messages") or []
    if not messages or messages[0]["role"] != "user":
        raise Rejected("A conversation must start with a user message.")
    for block in cast("list[Data]", body.get("system") or []):
        _check_text(block)
    tools = _check_tools(body)
    for before, message in zip([None, *messages], messages, strict=False):
        if before is not None and before["role"] == message["role"]:
            raise Rejected("A conversation must alternate between user and assistant roles.")
        _check_message(message, tools, sign)
    _check_pairs(messages)
    _check_points(body)
    _check_output(body.get("outputConfig") or {})


def _check_points(body: Data) -> None:
    """Check that cache points stand behind a block, and that there are at most four."""
    tools: list[Data] = body.get("toolConfig", {}).get("tools", [])
    places = [body.get("system") or [], tools, *(m["content"] for m in body["messages"])]
    count = 0
    for blocks in cast("list[list[Data]]", places):
        for before, block in zip([None, *blocks], blocks, strict=False):
            if "cachePoint" not in block:
                continue
            count += 1
            if block["cachePoint"].get("type") != "default" or before is None:
                raise Rejected("The cachePoint is not valid.")
            if before.get("document", {}).get("format", "pdf") != "pdf":
                raise Rejected("The model returned the following errors: type: Field required")
    if count > 4:
        raise Rejected(f"A maximum of 4 cache points may be provided. Found {count}.")


def _check_output(config: Data) -> None:
    form: Data | None = config.get("textFormat")
    if form is None:
        return
    json_schema: Data = form.get("structure", {}).get("jsonSchema", {})
    if form.get("type") != "json_schema" or not isinstance(json_schema.get("schema"), str):
        raise Rejected("outputConfig.textFormat is not valid.")


def _check_tools(body: Data) -> bool:
    config: Data | None = body.get("toolConfig")
    if config is None:
        return False
    if not config.get("tools"):
        raise Rejected("toolConfig.tools must have at least 1 item.")
    names: list[str] = []
    for tool in cast("list[Data]", config["tools"]):
        if "cachePoint" in tool or "systemTool" in tool:
            continue
        spec: Data = tool.get("toolSpec", {})
        names.append(spec.get("name", ""))
        if not NAME.fullmatch(names[-1]) or "json" not in spec.get("inputSchema", {}):
            raise Rejected("toolConfig.tools.toolSpec is not valid.")
        if spec.get("description") == "":
            raise Rejected("toolSpec.description must have at least 1 character.")
    choice: Data = config.get("toolChoice", {"auto": {}})
    if len(choice) != 1 or not set(choice) <= {"auto", "any", "tool"}:
        raise Rejected("toolConfig.toolChoice is not valid.")
    if "tool" in choice and choice["tool"].get("name") not in names:
        raise Rejected("toolConfig.toolChoice names a tool that is not there.")
    return True


def _check_message(message: Data, tools: bool, sign: Sign | None) -> None:
    content: list[Data] = message.get("content") or []
    if message.get("role") not in ("user", "assistant") or not content:
        raise Rejected("The content field in the Message object is empty.")
    for block in content:
        if len(block) != 1:
            raise Rejected("A content block has exactly one member.")
        if ("toolUse" in block or "toolResult" in block) and not tools:
            raise Rejected(
                "The toolConfig field must be defined when using toolUse and toolResult content"
                " blocks."
            )
        _check_text(block)
        _check_block(block, sign)
    if any("document" in b for b in content) and not any("text" in b for b in content):
        raise Rejected("A document must be accompanied by a text block.")


def _check_text(block: Data) -> None:
    if "text" in block and not str(block["text"]).strip():
        raise Rejected("The text field in the ContentBlock object is blank.")


def _check_block(block: Data, sign: Sign | None) -> None:
    if "toolUse" in block:
        use: Data = block["toolUse"]
        if not ID.fullmatch(use["toolUseId"]) or not NAME.fullmatch(use["name"]):
            raise Rejected("toolUse is not valid.")
        if not isinstance(use.get("input"), dict):
            raise Rejected("The format of toolUse.input is invalid. Provide a json object.")
    if "toolResult" in block:
        for part in cast("list[Data]", block["toolResult"]["content"]):
            _check_text(part)
    if "document" in block and not DOCUMENT.fullmatch(block["document"]["name"]):
        raise Rejected("The document name is not valid.")
    reasoning_text: Data = block.get("reasoningContent", {}).get("reasoningText")
    if (
        reasoning_text
        and sign is not None
        and reasoning_text.get("signature") != sign(reasoning_text["text"])
    ):
        raise Rejected("messages.content.thinking: Invalid `signature` in `thinking` block")


def _check_pairs(messages: list[Data]) -> None:
    """Check that every call is answered in the next turn, and that nothing else is."""
    called: list[str] = []
    for message in messages:
        results = [b["toolResult"]["toolUseId"] for b in message["content"] if "toolResult" in b]
        if sorted(called) != sorted(results):
            raise Rejected(
                "Expected toolResult blocks for the toolUse blocks of the previous turn, and only"
                f" for these: {called}"
            )
        called = [b["toolUse"]["toolUseId"] for b in message["content"] if "toolUse" in b]
        if len(set(called)) != len(called):
            raise Rejected("The toolUse blocks contain duplicate Ids.")
    if called:
        raise Rejected(f"No toolResult for {called}")
