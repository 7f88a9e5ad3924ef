"""The marks of Anthropic's prompt cache: where they stand, and that what they cover stands still."""

from __future__ import annotations

import json
from os.path import commonprefix
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import windlass as w
from windlass.messages import Message, Text, ToolCall, ToolResult, ToolSpec
from windlass.models.base import Frame, Request, Settings, Strand
from windlass.models.wires.anthropic.model import AnthropicMessages
from windlass.models.wires.base import HttpModel
from windlass.models.wires.bedrock.model import BedrockConverse
from windlass.testing.providers import FakeAnthropic, Reply
from windlass.usage import Usage

CLAUDE = AnthropicMessages("claude-sonnet-4-5", api_key="k")
ELSEWHERE = AnthropicMessages("glm-9", provider="elsewhere", base_url="http://h")
BEDROCK = BedrockConverse("us.anthropic.claude-sonnet-4-5-20250929-v1:0", api_key="k", region="r")
ADD = ToolSpec("add", "Add.", {"type": "object", "properties": {"a": {"type": "number"}}})
MARK = {"type": "ephemeral"}
HOUR = {"type": "ephemeral", "ttl": "1h"}


def sent(
    model: HttpModel, *messages: Message, tail: tuple[Message, ...] = (), **frame: Any
) -> dict[str, Any]:
    settings = Settings(**frame.pop("settings", {}))
    request = Request(messages, Frame(settings=settings, **frame), tail)
    return json.loads(b"".join(model.encode(request)))


def marks(body: dict[str, Any]) -> list[Any]:
    """Where the marks stand: the name of a place, or numbers of a message and a block."""
    found: list[Any] = [name for name in ("cache_control",) if name in body]
    for place in ("tools", "system"):
        blocks = body.get(place) or []
        found += [(place, n) for n, b in enumerate(blocks) if "cache_control" in b]
    for at, message in enumerate(body["messages"]):
        found += [(at, n) for n, b in enumerate(message["content"]) if "cache_control" in b]
    return found


def turn(number: int, calls: int = 1) -> list[Message]:
    ids = [f"c{number}_{n}" for n in range(calls)]
    return [
        Message("assistant", (Text("t" * 300), *(ToolCall(id, "add", {"a": 1}) for id in ids))),
        Message("tool", tuple([ToolResult(id, "r" * 300, name="add") for id in ids])),
    ]


ASK = Message("user", "q")


def test_one_mark_behind_the_head_and_the_providers_own_for_the_messages() -> None:
    body = sent(CLAUDE, ASK, system="s", tools=(ADD,))
    assert marks(body) == ["cache_control", ("system", 0)]
    assert body["cache_control"] == MARK and body["system"][0]["cache_control"] == MARK
    assert marks(sent(CLAUDE, ASK, tools=(ADD, ADD))) == ["cache_control", ("tools", 1)]
    assert marks(sent(CLAUDE, ASK)) == ["cache_control"]
    assert sent(CLAUDE, ASK, system="s", settings={"cache": False})["system"] == "s"


def test_the_tail_stands_behind_what_is_cached() -> None:
    tail = (Message("user", "the time is 12"),)
    body = sent(CLAUDE, ASK, *turn(0), tail=tail, system="s")
    assert marks(body) == [("system", 0), (2, 0)] and len(body["messages"]) == 4
    assert marks(sent(CLAUDE, tail=tail, system="s")) == [("system", 0)]


def test_servers_that_may_not_know_the_short_form_get_a_mark_that_moves() -> None:
    body = sent(ELSEWHERE, ASK, *turn(0, 3), system="s", settings={"cache": True})
    assert marks(body) == [("system", 0), (2, 2)]
    assert marks(sent(ELSEWHERE, ASK, system="s")) == []  # nobody knows whether it caches
    mine = sent(ELSEWHERE, ASK, Message("assistant", "and"), settings={"cache": True})
    assert marks(mine) == []  # what goes on with its own words
    blank = sent(ELSEWHERE, ASK, Message("user", "  "), settings={"cache": True})
    assert marks(blank) == [(0, 0)]


@pytest.mark.parametrize("calls", [1, 9, 10, 30, 70])
@pytest.mark.parametrize("tail", [(), (Message("user", "now"),)])
def test_a_turn_of_many_blocks_does_not_hide_what_was_cached(
    calls: int, tail: tuple[Message, ...]
) -> None:
    """The provider looks back twenty blocks from a mark; what it wrote last stands further away."""
    strand = Strand([ASK, *turn(0), *turn(1, calls), Message("user", "and")])
    body = json.loads(b"".join(CLAUDE.encode(Request(strand.snapshot(), tail=tail))))
    far = [(2, 0)] if 2 * calls + 2 > 20 else []
    last = [(5, 0)] if tail else []
    assert marks(body) == [*(["cache_control"] if not tail else []), *far, *last]
    assert body == sent(CLAUDE, *strand.items, tail=tail)


def test_a_mark_of_the_users_own_is_the_mark_everywhere() -> None:
    own = {"extra": {"cache_control": HOUR}}  # a shorter life may not stand before a longer one
    body = sent(CLAUDE, ASK, system="s", settings=own)
    assert body["cache_control"] == HOUR and body["system"][0]["cache_control"] == HOUR
    raw = b"".join(CLAUDE.encode(Request([ASK], Frame("s", settings=Settings(**own)))))
    assert raw.count(b'"cache_control"') == 2
    body = sent(CLAUDE, ASK, tail=(ASK,), settings=own)
    assert body["messages"][0]["content"][0]["cache_control"] == HOUR
    assert marks(sent(CLAUDE, ASK, system="s", settings={"extra": {"cache_control": None}})) == []


def test_no_mark_on_a_tool_that_is_kept_back() -> None:
    later = ToolSpec("b", "", {}, defer_loading=True)
    body = sent(CLAUDE, ASK, tools=(ADD, later), settings={"tool_search": "bm25"})
    assert [(t["name"], "cache_control" in t) for t in body["tools"]] == [
        ("tool_search_tool_bm25", False),
        ("add", True),
        ("b", False),
    ]
    body = sent(CLAUDE, ASK, tools=(later,), settings={"tool_search": "bm25"})
    assert marks(body) == ["cache_control", ("tools", 0)]


@pytest.mark.parametrize("model", [CLAUDE, ELSEWHERE, BEDROCK], ids=["own", "other", "bedrock"])
@pytest.mark.parametrize("reminded", [False, True])
def test_a_request_is_the_beginning_of_the_next(model: HttpModel, reminded: bool) -> None:
    """Over a hundred turns: of each request all but the marks and the tail begins the next one."""
    frame = Frame("You add numbers. " * 40, (ADD,), Settings(cache=True))
    strand, before = Strand([Message("user", "Add all of these. " * 40)]), b""
    for number in range(100):
        tail = (Message("user", f"turn {number}"),) if reminded else ()
        now = b"".join(model.encode(Request(strand.snapshot(), frame, tail)))
        assert json.loads(now)
        if before:
            same = len(commonprefix([before, now]))
            assert len(before) - same <= 130  # the marks, the tail, and what closes the brackets
            if number > 20:
                assert same >= 0.99 * len(before)
        before = now
        strand.items.extend(turn(number))


def without_marks(value: Any) -> Any:
    if isinstance(value, dict):
        return {k: without_marks(v) for k, v in value.items() if k != "cache_control"}
    if isinstance(value, list):
        kept = [one for one in value if "cachePoint" not in one]
        return [without_marks(one) for one in kept]
    return value


BLOCKS = st.sampled_from([Text("words"), Text(" "), Text('{"role":"user","content":[]},')])
HISTORY = st.lists(
    st.one_of(
        st.builds(Message, st.just("user"), st.lists(BLOCKS, max_size=3).map(tuple)),
        st.builds(Message, st.just("assistant"), st.lists(BLOCKS, max_size=3).map(tuple)),
        st.builds(lambda n: tuple(turn(n, 1 + n)), st.integers(0, 14)),
    ),
    max_size=8,
)


@given(HISTORY, st.lists(st.just(Message("user", "now")), max_size=2), st.booleans())
def test_marks_change_nothing_but_themselves(history: Any, tail: Any, hoisted: bool) -> None:
    messages: list[Message] = [Message("system", "first")] if hoisted else []
    for one in history:
        messages.extend(one if isinstance(one, tuple) else [one])
    for model in (CLAUDE, ELSEWHERE, BEDROCK):
        bodies: list[Any] = []
        for cache in (True, False):
            frame = Frame("s", (ADD,), Settings(cache=cache))
            raw = b"".join(model.encode(Request(messages, frame, tuple(tail))))
            view = Strand(list(messages)).snapshot()
            assert b"".join(model.encode(Request(view, frame, tuple(tail)))) == raw
            bodies.append(json.loads(raw))
        marked, plain = bodies
        if model is not BEDROCK:
            [text] = marked["system"]
            marked["system"] = text["text"]
            assert len(marks({**marked, "system": []})) <= 3
        assert without_marks(marked) == without_marks(plain) == plain


async def test_what_was_cached_is_counted() -> None:
    usage = Usage(1000, 5, cache_read_tokens=700, cache_write_tokens=200)
    async with FakeAnthropic(Reply("hi", usage=usage)) as server:
        model = AnthropicMessages("claude-sonnet-4-5", api_key="k", base_url=server.url)
        out = await w.llm_call("q", "s", model=model)
    assert (out.cache_read_tokens, out.cache_write_tokens, out.input_tokens) == (700, 200, 1000)
    assert marks(server.requests[0].json) == ["cache_control", ("system", 0)]
    assert not server.refused
