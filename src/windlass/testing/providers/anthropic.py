"""A fake Anthropic: Messages, plain and streamed, framed as the provider frames them."""

from __future__ import annotations

import hashlib

import msgspec

from windlass.json_types import JsonObject
from windlass.testing.providers import anthropic_rules
from windlass.testing.providers.anthropic_twists import REFRAMES, REWRITES
from windlass.testing.providers.frames import Data, Frame
from windlass.testing.providers.reply import (
    Asked,
    Reply,
    cut,
    signature,
    usage_of,
)
from windlass.testing.providers.server import FakeServer, Rejected
from windlass.usage import Usage

ERRORS = {
    400: ("invalid_request_error", "Bad request."),
    401: ("authentication_error", "invalid x-api-key"),
    403: ("permission_error", "Your API key does not have permission to use this resource."),
    404: ("not_found_error", "model: not found"),
    405: ("invalid_request_error", "Method not allowed."),
    413: ("request_too_large", "Request exceeds the maximum size"),
    429: ("rate_limit_error", "This request would exceed your organization's rate limit."),
    500: ("api_error", "Internal server error"),
    503: ("overloaded_error", "Service unavailable"),
    504: ("timeout_error", "The request timed out."),
    529: ("overloaded_error", "Overloaded"),
}
CODES = {
    "context_length_exceeded": "prompt is too long: 200082 tokens > 200000 maximum",
}


class FakeAnthropic(FakeServer):
    """A fake of the Anthropic Messages API on a local port (`POST /v1/messages`).

    ```python
    async with FakeAnthropic(conversation(Reply(tool_calls=[("add", {"a": 1})]), "1")) as server:
        model = AnthropicMessages("claude-x", api_key="k", base_url=server.url)
    ```
    """

    wire = "anthropic"
    path = "/v1/messages"
    base = ""
    ping = b'event: ping\ndata: {"type": "ping"}\n\n'
    rewrites = REWRITES
    reframes = REFRAMES

    def serves(self, asked: Asked) -> bool:
        return asked.path in (self.path, f"{self.path}/count_tokens")

    def check(self, asked: Asked) -> None:
        anthropic_rules.check(asked, self.api_key)

    def plain(self, asked: Asked, reply: Reply) -> Data:
        if anthropic_rules.counting(asked):
            return {"input_tokens": usage_of(asked, reply).input_tokens}
        return {
            **_shell(asked),
            "content": _blocks(asked, reply),
            "stop_reason": reply.stop,
            "usage": _usage(usage_of(asked, reply)),
        }

    def frames(self, asked: Asked, reply: Reply) -> list[Frame]:
        usage = usage_of(asked, reply)
        start = {**_shell(asked), "usage": {**_usage(usage), "output_tokens": 1}}
        events: list[Data] = [{"type": "message_start", "message": start}]
        for index, block in enumerate(_blocks(asked, reply)):
            events += _block_events(index, block)
            if index == 0:
                events.insert(2, {"type": "ping"})
        end = {"stop_reason": reply.stop, "stop_sequence": None}
        events.append({"type": "message_delta", "delta": end, "usage": _usage(usage)})
        events.append({"type": "message_stop"})
        return [
            Frame(event, event["type"], padding=number * 7 % 15 if event["type"] != "ping" else 0)
            for number, event in enumerate(events)
        ]

    def error(self, problem: Rejected) -> Data:
        kind, text = ERRORS.get(problem.status, ERRORS[500])
        message = problem.message or CODES.get(problem.code or "", text)
        return {
            "type": "error",
            "error": {"type": kind, "message": message},
            "request_id": "req_011CSHoEeqs5C35K2UUqR7Fy",
        }

    def headers(self, asked: Asked) -> dict[str, str]:
        return {"request-id": f"req_{asked.index:024d}", "anthropic-organization-id": "org-fake"}


def _shell(asked: Asked) -> Data:
    return {
        "model": asked.json["model"],
        "id": f"msg_01{asked.seed[:22]}",
        "type": "message",
        "role": "assistant",
        "content": [],
        "stop_reason": None,
        "stop_sequence": None,
    }


def _blocks(asked: Asked, reply: Reply) -> list[Data]:
    blocks: list[Data] = _resume_blocks(asked)
    if reply.thinking:
        sign = signature(reply.thinking)
        blocks.append({"type": "thinking", "thinking": reply.thinking, "signature": sign})
    if reply.text:
        blocks.append({"type": "text", "text": reply.text})
    for number, (name, arguments) in enumerate(reply.tool_calls):
        blocks += _search_blocks(asked, name, number)
        call_id = _id(asked, f"{number}")
        blocks.append(
            {"type": "tool_use", "id": f"toolu_01{call_id}", "name": name, "input": arguments}
        )
    if reply.stop == "pause_turn":
        look: Data = {"query": reply.text or "the web"}
        id = f"srvtoolu_01{_id(asked, 'pause')}"
        blocks.append({"type": "server_tool_use", "id": id, "name": "web_search", "input": look})
    return blocks


def _id(asked: Asked, what: str) -> str:
    return hashlib.sha256(f"{asked.seed}:{what}".encode()).hexdigest()[:22]


def _resume_blocks(asked: Asked) -> list[Data]:
    """Build the results of server tools that were still running when the turn paused."""
    last: Data = asked.json["messages"][-1]
    if last["role"] != "assistant":
        return []
    blocks = anthropic_rules.blocks_of(last)
    done = {block.get("tool_use_id") for block in blocks}
    page: Data = {"type": "web_search_result", "url": "https://example.org", "title": "A page"}
    pages = [{**page, "encrypted_content": "EqMDCioIAR", "page_age": None}]
    return [
        {"type": "web_search_tool_result", "tool_use_id": block["id"], "content": pages}
        for block in blocks
        if block["type"] == "server_tool_use" and block["id"] not in done
    ]


def _search_blocks(asked: Asked, name: str, number: int) -> list[Data]:
    """Build the search that a model needs before it can call a deferred tool."""
    tools: list[Data] = asked.json.get("tools", [])
    search = next((t for t in tools if t.get("type", "").startswith("tool_search_tool_")), None)
    deferred = any(t.get("name") == name and t.get("defer_loading") for t in tools)
    if search is None or not deferred or name in _found_tools(asked):
        return []
    id = f"srvtoolu_01{_id(asked, f'search {number}')}"
    reference = {"type": "tool_reference", "tool_name": name}
    content = {"type": "tool_search_tool_search_result", "tool_references": [reference]}
    return [
        {
            "type": "server_tool_use",
            "id": id,
            "name": search["name"],
            "input": {"query": name.replace("_", " ")},
        },
        {"type": "tool_search_tool_result", "tool_use_id": id, "content": content},
    ]


def _found_tools(asked: Asked) -> set[str]:
    """Return the deferred tools that a search in the history has found."""
    return {
        one["tool_name"]
        for message in asked.json["messages"]
        for block in anthropic_rules.blocks_of(message)
        if block["type"] == "tool_search_tool_result"
        for one in block["content"].get("tool_references", [])
    }


def _block_events(index: int, block: Data) -> list[Data]:
    start, deltas = _opening(block)
    return [
        {"type": "content_block_start", "index": index, "content_block": start},
        *({"type": "content_block_delta", "index": index, "delta": delta} for delta in deltas),
        {"type": "content_block_stop", "index": index},
    ]


def _opening(block: Data) -> tuple[Data, list[Data]]:
    """Split a block into its start and the deltas that complete it."""
    if block["type"] == "thinking":
        deltas: list[Data] = [
            {"type": "thinking_delta", "thinking": piece} for piece in cut(block["thinking"])
        ]
        deltas.append({"type": "signature_delta", "signature": block["signature"]})
        return {"type": "thinking", "thinking": "", "signature": ""}, deltas
    if block["type"] == "text":
        return {"type": "text", "text": ""}, [
            {"type": "text_delta", "text": piece} for piece in cut(block["text"])
        ]
    if block["type"].endswith("_tool_result"):
        return block, []  # what the provider's own tools answer comes whole
    text = msgspec.json.encode(block["input"]).decode() if block["input"] else ""
    pieces = ["", *cut(text)]  # the first is always empty; without arguments it is the only one
    return {**block, "input": {}}, [
        {"type": "input_json_delta", "partial_json": piece} for piece in pieces
    ]


def _usage(usage: Usage) -> JsonObject:
    cached = usage.cache_read_tokens + usage.cache_write_tokens
    return {
        "input_tokens": usage.input_tokens - cached,
        "cache_creation_input_tokens": usage.cache_write_tokens,
        "cache_read_input_tokens": usage.cache_read_tokens,
        "output_tokens": usage.output_tokens,
        "service_tier": "standard",
    }
