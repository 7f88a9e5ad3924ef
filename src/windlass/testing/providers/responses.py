"""A fake OpenAI Responses API, plain and streamed, framed as the provider frames it."""

from __future__ import annotations

import hashlib
from copy import deepcopy

import msgspec

from windlass.json_types import JsonObject
from windlass.testing.providers import responses_rules
from windlass.testing.providers import responses_searches as searches
from windlass.testing.providers.faults import Faults
from windlass.testing.providers.frames import Data, Frame
from windlass.testing.providers.openai import CREATED, FakeOpenAI
from windlass.testing.providers.reply import (
    Asked,
    Reply,
    Script,
    cut,
    signature,
    usage_of,
)
from windlass.testing.providers.responses_twists import REFRAMES, REWRITES
from windlass.testing.providers.server import Rejected
from windlass.usage import Usage

COUNTS = "/v1/responses/input_tokens"
COUNTED = frozenset(
    "model input instructions parallel_tool_calls reasoning text tool_choice tools conversation"
    " previous_response_id truncation".split()
)


class FakeResponses(FakeOpenAI):
    """A fake of the OpenAI Responses API on a local port (`POST /v1/responses`).

    ```python
    async with FakeResponses("hello", faults=[Status(429), None]) as server:
        model = OpenAIResponses("gpt-x", api_key="k", base_url=server.url)
    ```
    A reply with reasoning has a reasoning item with a summary, encrypted if the request asks for
    that; it is checked when it comes back. With `phases` a message says whether it is an aside
    before the calls or the answer. Before a call of a deferred tool comes a search, by the server,
    or with `execution: client` by the client: `("tool_search", {…})` is then the call.
    `/v1/responses/input_tokens` counts tokens.
    """

    wire = "responses"
    path = "/v1/responses"
    rewrites = REWRITES
    reframes = REFRAMES

    def __init__(
        self,
        script: Script | Reply | str,
        *,
        faults: Faults = None,
        api_key: str | None = None,
        phases: bool = False,
    ) -> None:
        super().__init__(script, faults=faults, api_key=api_key)
        self.phases = phases

    def serves(self, asked: Asked) -> bool:
        return asked.path in (self.path, COUNTS)

    def check(self, asked: Asked) -> None:
        responses_rules.check(asked, self.api_key)
        if asked.path == COUNTS and (extra := asked.json.keys() - COUNTED):
            raise Rejected(f"Unknown parameter: '{min(extra)}'.", code="unknown_parameter")

    def plain(self, asked: Asked, reply: Reply) -> Data:
        if asked.path == COUNTS:
            tokens = usage_of(asked, reply).input_tokens
            return {"object": "response.input_tokens", "input_tokens": tokens}
        cut_off = reply.stop == "max_tokens"
        return {
            **_shell(asked),
            "status": "incomplete" if cut_off else "completed",
            "incomplete_details": {"reason": "max_output_tokens"} if cut_off else None,
            "output": self._items(asked, reply),
            "usage": _usage(usage_of(asked, reply)),
        }

    def frames(self, asked: Asked, reply: Reply) -> list[Frame]:
        answer = self.plain(asked, reply)
        begun: Data = {**answer, "status": "in_progress", "output": [], "usage": None}
        begun["incomplete_details"] = None
        events: list[Data] = [
            {"type": "response.created", "response": begun},
            {"type": "response.in_progress", "response": begun},
        ]
        for index, item in enumerate(answer["output"]):
            events += [{**event, "output_index": index} for event in _item_events(item)]
        events.append({"type": f"response.{answer['status']}", "response": answer})
        return [
            Frame({**deepcopy(event), "sequence_number": number}, event["type"])
            for number, event in enumerate(events)
        ]

    def _items(self, asked: Asked, reply: Reply) -> list[Data]:
        items: list[Data] = []
        if reply.thinking:
            thought = {
                "id": f"rs_{asked.seed[:24]}",
                "type": "reasoning",
                "summary": [{"type": "summary_text", "text": reply.thinking}],
            }
            if responses_rules.ENCRYPTED in asked.json.get("include", ()):
                thought["encrypted_content"] = signature(reply.thinking)
            items.append(thought)
        if reply.text:
            items.append(self._message_item(asked, reply))
        for number, (name, arguments) in enumerate(reply.tool_calls):
            mark = hashlib.sha256(f"{asked.seed}:{number}".encode()).hexdigest()[:24]
            items += searches.before(asked.json, name, arguments, mark)
            if name == searches.NAME:
                continue
            items.append(
                {
                    "id": f"fc_{mark}",
                    "type": "function_call",
                    "status": "completed",
                    "arguments": msgspec.json.encode(arguments).decode(),
                    "call_id": f"call_{mark}",
                    "name": name,
                    **searches.namespace(asked.json, name),
                }
            )
        return items

    def _message_item(self, asked: Asked, reply: Reply) -> Data:
        part: Data = {
            "type": "output_text",
            "annotations": [],
            "logprobs": [],
            "text": reply.text,
        }
        if reply.stop == "refusal":
            part = {"type": "refusal", "refusal": reply.text}
        item: Data = {
            "id": f"msg_{asked.seed[:24]}",
            "type": "message",
            "status": "completed",
            "content": [part],
            "role": "assistant",
        }
        if self.phases:
            item["phase"] = "commentary" if reply.tool_calls else "final_answer"
        return item


def _item_events(item: Data) -> list[Data]:
    """Build the events that bring an item."""
    begun: Data = {**item, "status": "in_progress"}
    match item["type"]:
        case "function_call":
            begun["arguments"], body = "", _argument_events(item)
        case "message":
            begun["content"], body = [], _text_events(item)
        case "tool_search_call" | "tool_search_output":
            body: list[Data] = []
        case _:
            begun["summary"], body = [], _thought(item)
            del begun["status"]
    return [
        {"type": "response.output_item.added", "item": begun},
        *({**event, "item_id": item["id"]} for event in body),
        {"type": "response.output_item.done", "item": item},
    ]


def _argument_events(item: Data) -> list[Data]:
    kind, text = "response.function_call_arguments", item["arguments"]
    return [
        *({"type": f"{kind}.delta", "delta": piece, "obfuscation": "x"} for piece in cut(text)),
        {"type": f"{kind}.done", "arguments": text},
    ]


def _text_events(item: Data) -> list[Data]:
    part: Data = item["content"][0]
    field = "refusal" if part["type"] == "refusal" else "text"
    kind = f"response.{part['type']}"
    events: list[Data] = [
        {"type": "response.content_part.added", "part": {**part, field: ""}},
        *({"type": f"{kind}.delta", "delta": piece, "logprobs": []} for piece in cut(part[field])),
        {"type": f"{kind}.done", field: part[field], "logprobs": []},
        {"type": "response.content_part.done", "part": part},
    ]
    return [{**event, "content_index": 0} for event in events]


def _thought(item: Data) -> list[Data]:
    part: Data = item["summary"][0]
    part_kind, kind = "response.reasoning_summary_part", "response.reasoning_summary_text"
    events: list[Data] = [
        {"type": f"{part_kind}.added", "part": {**part, "text": ""}},
        *({"type": f"{kind}.delta", "delta": piece} for piece in cut(part["text"])),
        {"type": f"{kind}.done", "text": part["text"]},
        {"type": f"{part_kind}.done", "part": part},
    ]
    return [{**event, "summary_index": 0} for event in events]


def _shell(asked: Asked) -> JsonObject:
    body: Data = asked.json
    return {
        "id": f"resp_{asked.seed[:24]}",
        "object": "response",
        "created_at": CREATED,
        "background": False,
        "error": None,
        "instructions": body.get("instructions"),
        "max_output_tokens": body.get("max_output_tokens"),
        "model": body["model"],
        "parallel_tool_calls": body.get("parallel_tool_calls", True),
        "previous_response_id": None,
        "reasoning": {"effort": None, "summary": None},
        "store": body.get("store", True),
        "temperature": 1.0,
        "text": {"format": {"type": "text"}},
        "tool_choice": body.get("tool_choice", "auto"),
        "tools": body.get("tools", []),
        "top_p": 1.0,
        "truncation": "disabled",
        "metadata": {},
    }


def _usage(usage: Usage) -> Data:
    return {
        "input_tokens": usage.input_tokens,
        "input_tokens_details": {
            "cached_tokens": usage.cache_read_tokens,
            "cache_write_tokens": usage.cache_write_tokens,
        },
        "output_tokens": usage.output_tokens,
        "output_tokens_details": {"reasoning_tokens": usage.reasoning_tokens},
        "total_tokens": usage.total_tokens,
    }
