"""Rules of a Messages request: what Anthropic refuses, with its error messages."""

from __future__ import annotations

import re
from typing import Any, cast

from windlass.json_types import is_list, is_object
from windlass.models.wires.rules import Data, Rejected, Sign

KNOWN = frozenset(
    "model messages max_tokens system tools tool_choice stream temperature top_p top_k stop_sequences"
    " metadata thinking service_tier container context_management mcp_servers output_config"
    " cache_control inference_geo speed".split()
)
BLOCKS = {
    "user": frozenset("text image document search_result tool_result container_upload".split()),
    "assistant": frozenset(
        "text thinking redacted_thinking tool_use server_tool_use mcp_tool_use mcp_tool_result"
        " web_search_tool_result web_fetch_tool_result code_execution_tool_result compaction"
        " tool_search_tool_result"
        " hologram".split()  # the twist `unknown_things` made it up: a provider takes its own back
    ),
}
ID = re.compile(r"[a-zA-Z0-9_-]+")
NAME = re.compile(r"[a-zA-Z0-9_-]{1,64}")


COUNTED = KNOWN - set(
    "max_tokens stream temperature top_p top_k stop_sequences metadata service_tier container"
    " inference_geo".split()
)
EFFORTS = ("low", "medium", "high", "xhigh", "max")


def check_count(body: Data, sign: Sign | None = None) -> None:
    """Check a request to the endpoint that counts tokens."""
    for key in body:
        if key not in COUNTED:
            raise Rejected(f"{key}: Extra inputs are not permitted")
    check({**body, "max_tokens": 2**31}, sign)


def check(body: Data, sign: Sign | None = None) -> None:
    """Raise `Rejected` for the first rule the request breaks."""
    _check_shape(body)
    _check_tools(body)
    _check_thinking(body)
    _check_output(body.get("output_config") or {})
    messages: list[Data] = body["messages"]
    _check_roles(messages)
    for at, message in enumerate(messages):
        _check_content(at, message, sign, last=at == len(messages) - 1)
    _check_pairs(messages)
    thinking: Data = body.get("thinking") or {"type": "disabled"}
    if thinking["type"] == "enabled":
        _check_opening(messages)
    _check_searches(messages, [tool.get("name", "") for tool in body.get("tools", [])])
    _check_cache(body)


def _check_shape(body: Data) -> None:
    for key in body:
        if key not in KNOWN:
            raise Rejected(f"{key}: Extra inputs are not permitted")
    for key in ("model", "messages", "max_tokens"):
        if key not in body:
            raise Rejected(f"{key}: Field required")
    if type(body["max_tokens"]) is not int or body["max_tokens"] < 1:
        raise Rejected("max_tokens: Input should be greater than or equal to 1")
    if not isinstance(body["model"], str) or not body["model"]:
        raise Rejected("model: Input should be a valid string")
    if not isinstance(body["messages"], list):
        raise Rejected("messages: Input should be a valid list")
    if not body["messages"]:
        raise Rejected("messages: at least one message is required")
    system: object = body.get("system", "")
    if not isinstance(system, str):
        blocks = system if is_list(system) else None
        if blocks is None or any(block.get("type") != "text" for block in blocks):
            raise Rejected("system: Input should be a valid string or list of text blocks")


def _check_tools(body: Data) -> None:
    tools: list[Data] = body.get("tools", [])
    names: list[str] = []
    for at, tool in enumerate(tools):
        where = f"tools.{at}.custom"
        if tool.get("defer_loading") and "cache_control" in tool:
            raise Rejected(
                f"tools.{at}: Tool '{tool.get('name')}' cannot have both defer_loading=true and"
                " cache_control set. Tools with defer_loading cannot use prompt caching."
            )
        if "type" in tool and tool["type"] != "custom":
            names.append(tool.get("name", ""))
            continue  # the provider's own tools have other fields
        _match(NAME, tool.get("name"), f"{where}.name")
        names.append(tool["name"])
        if not isinstance(tool.get("input_schema"), dict):
            raise Rejected(f"{where}.input_schema: Field required")
        if tool["input_schema"].get("type") != "object":
            raise Rejected(f"{where}.input_schema.type: Input should be 'object'")
        if tool.get("strict"):
            _check_closed(tool["input_schema"], where)
    if tools and all(tool.get("defer_loading") for tool in tools):
        raise Rejected("At least one tool must have defer_loading=false.")
    if len(set(names)) != len(names):
        raise Rejected("tools: Tool names must be unique.")
    choice: Data | None = body.get("tool_choice")
    if choice is None:
        return
    if not tools:
        raise Rejected("tool_choice: may only be specified while providing tools")
    if choice.get("type") not in ("auto", "any", "tool", "none"):
        raise Rejected(
            "tool_choice: Input tag does not match any of: 'auto', 'any', 'tool', 'none'"
        )
    if choice["type"] == "tool" and choice.get("name") not in names:
        raise Rejected(f"Tool '{choice.get('name')}' not found in provided tools")


def _check_thinking(body: Data) -> None:
    thinking: Data = body.get("thinking") or {"type": "disabled"}
    if thinking["type"] == "disabled":
        return
    if thinking["type"] not in ("enabled", "adaptive", "between_tools"):
        raise Rejected("thinking: Input tag does not match any of the expected tags")
    if thinking["type"] == "enabled":
        if thinking.get("budget_tokens", 0) < 1024:
            raise Rejected(
                "thinking.enabled.budget_tokens: Input should be greater than or equal to 1024"
            )
        if thinking["budget_tokens"] >= body["max_tokens"]:
            raise Rejected("`max_tokens` must be greater than `thinking.budget_tokens`.")
        if body.get("tool_choice", {}).get("type") in ("any", "tool"):
            raise Rejected("Thinking may not be enabled when tool_choice forces tool use.")
    if body.get("temperature", 1) != 1:
        raise Rejected("`temperature` may only be set to 1 when thinking is enabled.")


def _check_output(config: Data) -> None:
    effort = config.get("effort")
    if effort is not None and effort not in EFFORTS:
        raise Rejected(f"output_config.effort: Input should be one of {', '.join(EFFORTS)}")
    form: Data | None = config.get("format")
    if form is not None:
        if form.get("type") != "json_schema" or not isinstance(form.get("schema"), dict):
            raise Rejected("output_config.format: Input should be a JSON schema")
        _check_closed(form["schema"], "output_config.format.schema")


def _check_closed(schema: object, where: str) -> None:
    """Check that every object of a schema is closed and uses only supported keywords."""
    if is_list(schema):
        for part in schema:
            _check_closed(part, where)
    if not is_object(schema):
        return
    keywords = schema
    if keywords.get("type") == "object" and keywords.get("additionalProperties") is not False:
        raise Rejected(
            f"{where}: For 'object' type, 'additionalProperties' must be explicitly set to false"
        )
    for keyword in ("minimum", "maximum", "minLength", "maxLength", "maxItems", "multipleOf"):
        if keyword in keywords and not isinstance(keywords[keyword], dict):
            raise Rejected(f"{where}: property '{keyword}' is not supported")
    for name, part in keywords.items():
        if name not in ("enum", "const", "required", "default"):
            _check_closed(part, where)


def _check_opening(messages: list[Data]) -> None:
    """Check that an open turn of calls and results begins with a thinking block."""
    opening: int | None = None
    for at in range(len(messages) - 1, -1, -1):
        kinds = [block["type"] for block in blocks_of(messages[at])]
        if messages[at]["role"] == "assistant":
            opening = at
        elif any(kind != "tool_result" for kind in kinds):
            break
    if opening is None or messages[-1]["role"] == "assistant":
        return
    first = blocks_of(messages[opening])
    if any(b["type"] == "tool_use" for b in first) and not first[0]["type"].endswith("thinking"):
        raise Rejected(
            f"messages.{opening}.content.0.type: Expected `thinking` or `redacted_thinking`, but"
            f" found `{first[0]['type']}`. When `thinking` is enabled, a final `assistant` message"
            " must start with a thinking block (preceeding the lastmost set of `tool_use` and"
            " `tool_result` blocks)."
        )


def _check_searches(messages: list[Data], names: list[str]) -> None:
    """Check that each search result follows its search and names known tools."""
    begun: set[str] = set()
    for at, message in enumerate(messages):
        for number, block in enumerate(blocks_of(message)):
            where = f"messages.{at}.content.{number}"
            if block["type"] == "server_tool_use":
                begun.add(block.get("id", ""))
            if block["type"].endswith("_tool_result") and block["type"] != "mcp_tool_result":
                if block.get("tool_use_id") not in begun:
                    raise Rejected(f"{where}: no server_tool_use for this {block['type']}")
            if block["type"] != "tool_search_tool_result":
                continue
            for one in block["content"].get("tool_references", []):
                if one["tool_name"] not in names:
                    raise Rejected(
                        f"{where}: Tool reference '{one['tool_name']}' not found in available tools"
                    )


def _check_roles(messages: list[Data]) -> None:
    for at, message in enumerate(messages):
        if set(message) - {"role", "content"}:
            extra = sorted(set(message) - {"role", "content"})[0]
            raise Rejected(f"messages.{at}.{extra}: Extra inputs are not permitted")
        if message.get("role") not in BLOCKS:
            raise Rejected(
                f'messages: Unexpected role "{message.get("role")}". Allowed roles are "user" or '
                '"assistant". Use the top-level `system` parameter for a system prompt.'
            )
    if messages[0]["role"] != "user":
        raise Rejected('messages: first message must use the "user" role')


def blocks_of(message: Data) -> list[Data]:
    """Return the content as blocks; a string becomes one text block."""
    content: object = message.get("content")
    if isinstance(content, str):
        return [{"type": "text", "text": content}] if content else []
    if not is_list(content):
        raise Rejected("messages: content: Input should be a valid list or string")
    return content


def _check_content(at: int, message: Data, sign: Sign | None, *, last: bool) -> None:
    blocks = blocks_of(message)
    role: str = message["role"]
    if not blocks and not (last and role == "assistant"):
        raise Rejected(
            f"messages.{at}: all messages must have non-empty content"
            " except for the optional final assistant message"
        )
    for number, block in enumerate(blocks):
        where = f"messages.{at}.content.{number}"
        if block.get("type") not in BLOCKS[role]:
            raise Rejected(f"{where}: Input tag '{block.get('type')}' is not allowed for {role}")
        _check_block(where, block, sign)
    if last and role == "assistant" and blocks and blocks[-1]["type"] == "text":
        if blocks[-1]["text"] != blocks[-1]["text"].rstrip():
            raise Rejected("messages: final assistant content cannot end with trailing whitespace")


def _check_block(where: str, block: Data, sign: Sign | None) -> None:
    kind = block["type"]
    if kind == "text" and not block.get("text", "").strip():
        raise Rejected("messages: text content blocks must be non-empty")
    if kind == "thinking":
        if not isinstance(block.get("signature"), str):
            raise Rejected(f"{where}.thinking.signature: Field required")
        if sign is not None and block["signature"] != sign(block.get("thinking", "")):
            raise Rejected(f"{where}: Invalid `signature` in `thinking` block")
    if kind == "tool_use":
        _match(ID, block.get("id"), f"{where}.tool_use.id")
        _match(NAME, block.get("name"), f"{where}.tool_use.name")
        if not isinstance(block.get("input"), dict):
            raise Rejected(f"{where}.tool_use.input: Input should be a valid dictionary")
    if kind == "tool_result":
        _match(ID, block.get("tool_use_id"), f"{where}.tool_result.tool_use_id")
        content: Any = block.get("content", "")
        if not isinstance(content, (str, list)):
            raise Rejected(f"{where}.tool_result.content: Input should be a valid string or list")
    if kind in ("image", "document") and not isinstance(block.get("source"), dict):
        raise Rejected(f"{where}.{kind}.source: Field required")


def _check_pairs(messages: list[Data]) -> None:
    """Check that each call has one result in the next message, and each result a call."""
    seen: set[str] = set()
    asked: list[str] = []
    for at, message in enumerate(messages):
        blocks = blocks_of(message)
        _check_answers(at, blocks, asked if message["role"] == "user" else [])
        asked = [b["id"] for b in blocks if b["type"] == "tool_use"]
        for call in asked:
            if call in seen:
                raise Rejected(f"messages.{at}: `tool_use` ids must be unique")
            seen.add(call)
        following = blocks_of(messages[at + 1]) if at + 1 < len(messages) else []
        leading = _leading_results(following)
        if missing := [call for call in asked if call not in leading]:
            raise Rejected(
                f"messages.{at}: `tool_use` ids were found without `tool_result` blocks immediately"
                f" after: {', '.join(missing)}. Each `tool_use` block must have a corresponding"
                " `tool_result` block in the next message."
            )


def _leading_results(blocks: list[Data]) -> list[str]:
    """Return the ids of the results that stand before anything else in the message."""
    found: list[str] = []
    for block in blocks:
        if block["type"] != "tool_result":
            break
        found.append(block["tool_use_id"])
    return found


def _check_answers(at: int, blocks: list[Data], asked: list[str]) -> None:
    answered: set[str] = set()
    for number, block in enumerate(blocks):
        if block["type"] != "tool_result":
            continue
        call: str = block["tool_use_id"]
        if call not in asked:
            raise Rejected(
                f"messages.{at}.content.{number}: unexpected `tool_use_id` found in `tool_result`"
                f" blocks: {call}. Each `tool_result` block must have a corresponding `tool_use`"
                " block in the previous message."
            )
        if call in answered:
            raise Rejected(
                f"messages.{at}.content.{number}: each tool_use must have a single result."
                f" Found multiple `tool_result` blocks with id: {call}"
            )
        answered.add(call)


def _check_cache(body: Data) -> None:
    marked = "cache_control" in body
    system: Any = body.get("system")
    marked += _marks([] if isinstance(system, str) else system or [])
    marked += _marks(body.get("tools") or [])
    for at, message in enumerate(body["messages"]):
        blocks = blocks_of(message)
        marked += _marks(blocks)
        for number, block in enumerate(blocks):
            if "cache_control" in block and block["type"].endswith("thinking"):
                where = f"messages.{at}.content.{number}.{block['type']}.cache_control"
                raise Rejected(f"{where}: Extra inputs are not permitted")
    if marked > 4:
        raise Rejected(f"A maximum of 4 blocks with cache_control may be provided. Found {marked}.")


def _marks(blocks: object) -> int:
    count = 0
    for block in cast("list[Data]", blocks):
        mark: object = block.get("cache_control")
        if mark is not None:
            count += 1
            if not is_object(mark) or mark.get("type") != "ephemeral":
                raise Rejected("cache_control.type: Input should be 'ephemeral'")
        if block.get("type") == "tool_result" and isinstance(block.get("content"), list):
            count += _marks(block["content"])
    return count


def _match(pattern: re.Pattern[str], value: object, where: str) -> None:
    if not isinstance(value, str) or not pattern.fullmatch(value):
        raise Rejected(f"{where}: String should match pattern '^{pattern.pattern}$'")
