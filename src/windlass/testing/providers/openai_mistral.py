"""A fake Mistral: Chat Completions with its ids, order of roles, padding and thinking."""

from __future__ import annotations

import hashlib
import json
import re

from windlass.json_types import as_list
from windlass.models.wires.rules import Rejected
from windlass.testing.providers import openai_completions as completions
from windlass.testing.providers.frames import Data, Frame
from windlass.testing.providers.openai import FakeOpenAI
from windlass.testing.providers.openai_rules import check_headers
from windlass.testing.providers.reply import Asked, Reply

KNOWN = frozenset(
    "model messages stream tools tool_choice parallel_tool_calls max_tokens temperature top_p stop"
    " random_seed frequency_penalty presence_penalty n response_format prompt_mode prediction"
    " safe_prompt reasoning_effort metadata".split()
)
_ID = re.compile(r"[a-zA-Z0-9]{9}")


class FakeMistral(FakeOpenAI):
    """A fake of Mistral on a local port (`POST /v1/chat/completions`).

    ```python
    async with FakeMistral("hello", api_key="k") as server:
        model = OpenAIChat("mistral-x", provider="mistral", api_key="k", base_url=server.url)
    ```
    A call comes in one piece, without a type; reasoning is a part of the content.
    """

    def check(self, asked: Asked) -> None:
        check_headers(asked.headers, self.api_key)
        if asked.path in completions.PATHS:
            return completions.check(asked)
        for key in asked.json:
            if key not in KNOWN:
                raise Rejected(f"Extra inputs are not permitted: {key}", status=422)
        _check_order(asked.json["messages"])
        return None

    def plain(self, asked: Asked, reply: Reply) -> Data:
        if asked.path in completions.PATHS:
            return completions.plain(asked, reply)
        answer = super().plain(asked, _thoughtless(reply))
        message: Data = {
            "role": "assistant",
            "content": _content(reply),
            "tool_calls": _calls(asked, reply) or None,
        }
        answer["choices"] = [{**answer["choices"][0], "message": message}]
        return answer

    def frames(self, asked: Asked, reply: Reply) -> list[Frame]:
        if asked.path in completions.PATHS:
            return completions.frames(asked, reply)
        whole = self.plain(asked, reply)
        shell = {k: v for k, v in whole.items() if k not in ("choices", "usage")}
        deltas: list[Data] = [{"role": "assistant", "content": ""}]
        if reply.thinking:
            deltas += [{"content": [_thought(piece)]} for piece in _halves(reply.thinking)]
        deltas += [{"content": piece} for piece in _halves(reply.text)]
        deltas += [{"content": "", "tool_calls": [call]} for call in _calls(asked, reply)]
        chunks: list[Data] = [
            {**shell, "choices": [{"index": 0, "delta": delta, "finish_reason": None}]}
            for delta in deltas
        ]
        finish = whole["choices"][0]["finish_reason"]
        end = {"index": 0, "delta": {"content": ""}, "finish_reason": finish}
        chunks.append({**shell, "choices": [end], "usage": whole["usage"]})
        for number, chunk in enumerate(chunks):
            chunk["p"] = asked.seed[: number * 7 % 15]
        return [*(Frame(chunk) for chunk in chunks), Frame("[DONE]")]


def _check_order(messages: list[Data]) -> None:
    before = ""
    for message in messages:
        role = message.get("role")
        if role == "user" and before == "tool":
            raise Rejected("Unexpected role 'user' after role 'tool'", code="3230")
        for call in as_list(message.get("tool_calls")):
            _check_id(call.get("id"))
        if role == "tool":
            _check_id(message.get("tool_call_id"))
        before = str(role)
    last = messages[-1]
    if last["role"] == "assistant" and last.get("prefix") is not True:
        raise Rejected(
            "Expected last role User or Tool (or Assistant with prefix True) for serving but got"
            " assistant",
            code="3230",
        )


def _check_id(id: object) -> None:
    if not isinstance(id, str) or not _ID.fullmatch(id):
        raise Rejected(
            f"Tool call id was {id} but must be a-z, A-Z, 0-9, with a length of 9.", code="3280"
        )


def _calls(asked: Asked, reply: Reply) -> list[Data]:
    return [
        {
            "id": hashlib.sha256(f"{asked.seed}:{number}".encode()).hexdigest()[:9],
            "function": {"name": name, "arguments": json.dumps(arguments, ensure_ascii=False)},
            "index": number,
        }
        for number, (name, arguments) in enumerate(reply.tool_calls)
    ]


def _content(reply: Reply) -> str | list[Data]:
    if not reply.thinking:
        return reply.text
    return [_thought(reply.thinking), {"type": "text", "text": reply.text}]


def _thought(text: str) -> Data:
    return {"type": "thinking", "thinking": [{"type": "text", "text": text}]}


def _halves(text: str) -> list[str]:
    middle = len(text) // 2
    return [half for half in (text[:middle], text[middle:]) if half]


def _thoughtless(reply: Reply) -> Reply:
    return Reply(reply.text, "", reply.tool_calls, reply.stop_reason, reply.usage)
