"""The quirks of providers that break agent loops, one story each: an agent gets through all of them.

Each goes over every wire on which it was seen, streamed and plain where both have it. The fakes refuse
what their providers refuse.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator, Sequence
from typing import Any

import pytest

import windlass as w
from tests.stories.helpers import kept
from tests.stories.wire_fakes import servers
from windlass import seams
from windlass.testing.providers import (
    FAULTS,
    FakeAzure,
    FakeMistral,
    FakeServer,
    Faults,
    Reply,
    Status,
    Twist,
    applies,
    conversation,
)
from windlass.testing.providers.faults import choose

pytestmark = pytest.mark.usefixtures("reachable")


class Desk:
    """Two tools that write down what they were asked for."""

    def __init__(self) -> None:
        self.log: list[Any] = []

    @property
    def tools(self) -> list[w.Tool]:
        @w.tool
        async def look(order: str = "none") -> str:
            """Look an order up."""
            self.log.append(order)
            return f"order {order} is on its way"

        @w.tool
        async def pay(cents: int = 0) -> str:
            """Pay an amount out."""
            self.log.append(cents)
            return "paid"

        return [look, pay]


BOTH = Reply("Let me see.", tool_calls=[("look", {"order": "7"}), ("pay", {"cents": 100})])
WIRES = ("anthropic", "openai", "gemini", "bedrock", "responses", "ollama", "vertex")


def seen(*twists: str) -> list[Any]:
    """Every place where one of the twists is possible: twist, wire, streamed."""
    return [
        pytest.param(twist, wire, stream, id=f"{twist}-{wire}-{'stream' if stream else 'plain'}")
        for twist in twists
        for wire in WIRES
        for stream in (True, False)
        if applies(twist, wire, stream=stream)
    ]


async def serve(
    wire: str,
    replies: Sequence[Reply | str],
    *,
    faults: Faults = None,
    tools: Sequence[w.Tool] = (),
    **options: Any,
) -> tuple[w.LoopResult, FakeServer]:
    """A run over a wire with these faults; the provider has refused nothing."""
    server, model = servers(conversation(*replies))[wire]
    server.faults = faults
    async with server:
        out = await w.agent_loop("Please.", model=model(server.url), tools=tools, **options)
    assert not server.refused, server.refused[0].message
    await kept(out)
    return out, server


def first(fault: Any) -> list[Any]:
    """The fault, once."""
    return [fault, None, None, None]


# --------------------------------------------------------------------------- 1 to 6: what was said


@pytest.mark.parametrize(("twist", "wire", "stream"), seen("index_zero", "no_index", "index_gaps"))
async def test_1_parallel_calls_are_not_merged(twist: str, wire: str, stream: bool):
    desk = Desk()
    twice = Reply(tool_calls=[("look", {"order": "7"}), ("look", {"order": "8"}), *BOTH.tool_calls])
    out, _ = await serve(
        wire, [twice, "Done."], faults=Twist(twist), tools=desk.tools, stream=stream
    )
    assert (out.status, desk.log) == ("done", ["7", "8", "7", 100])


@pytest.mark.parametrize(
    ("wire", "mark"),
    [
        ("anthropic", '"signature"'),
        ("bedrock", '"signature"'),
        ("gemini", '"thoughtSignature"'),
        ("vertex", '"thoughtSignature"'),
        ("responses", '"encrypted_content"'),
        ("openrouter", '"reasoning_details"'),
    ],
)
@pytest.mark.parametrize("stream", [True, False])
async def test_2_opaque_state_goes_back_to_who_made_it_and_to_nobody_else(
    wire: str, mark: str, stream: bool
):
    thought = Reply("", "Where is it?", tool_calls=[("look", {"order": "7"})])
    _, server = await serve(
        wire, [thought, "Done."], tools=Desk().tools, stream=stream, session_id="s", thinking=True
    )
    assert mark in server.requests[1].body.decode()
    other, model = servers(lambda _body, _headers: Reply("Done again."))["openai"]
    async with other:
        await w.agent_loop(
            "And now?", model=model(other.url), tools=Desk().tools, session_id="s", stream=stream
        )
    assert not other.refused and "Where is it?" not in other.requests[0].body.decode()
    assert mark not in other.requests[0].body.decode()
    assert "order 7 is on its way" in other.requests[0].body.decode()


@pytest.mark.parametrize("wire", WIRES)
async def test_3_a_call_that_was_cut_off_is_answered_before_the_next_request(wire: str):
    abort = w.Abort()

    @w.tool
    async def stuck(order: str) -> str:
        """Takes for ever."""
        abort.abort("the user left")
        await asyncio.Event().wait()
        return "never"

    calls = [("stuck", {"order": "7"}), ("stuck", {"order": "8"})]
    script = conversation(Reply(tool_calls=calls), "Done.")
    server, model = servers(script)[wire]
    async with server:
        made = model(server.url)
        cut = await w.agent_loop("Go.", model=made, tools=[stuck], abort=abort, session_id="s")
        out = await w.agent_loop("Go on.", model=made, tools=[stuck], session_id="s")
    assert not server.refused, server.refused[0].message
    assert (cut.status, out.status) == ("cancelled", "done")
    assert [r.outcome for r in cut.tool_calls] == ["interrupted", "not_run"]
    await kept(out)


@pytest.mark.parametrize("wire", servers(""))
async def test_3_a_history_that_begins_with_the_model_is_taken_by_everybody(wire: str):
    server, model = servers(lambda _body, _headers: Reply("Yes."))[wire]
    said = [w.Message("assistant", "Can I help you?"), w.Message("user", "Please.")]
    async with server:
        reply = await w.llm_call(model=model(server.url), messages=said)
    assert not server.refused, server.refused[0].message
    assert reply.text == "Yes." and "Can I help you?" in server.requests[0].body.decode()


@pytest.mark.parametrize(
    ("twist", "wire", "stream"),
    seen("no_arguments", "null_arguments", "double_encoded", "object_arguments"),
)
async def test_4_arguments_in_any_spelling_are_an_object(twist: str, wire: str, stream: bool):
    desk = Desk()
    out, _ = await serve(
        wire, [BOTH, "Done."], faults=first(Twist(twist)), tools=desk.tools, stream=stream
    )
    lost = twist in ("no_arguments", "null_arguments")
    assert (out.status, desk.log) == ("done", ["none", 0] if lost else ["7", 100])


async def test_4_arguments_that_are_none_are_kept_as_text_and_the_model_is_told():
    desk = Desk()

    def damage(answer: Any) -> Any:
        answer["choices"][0]["message"]["tool_calls"][0]["function"]["arguments"] = '{"order": '
        return answer

    server, model = servers(conversation(Reply(tool_calls=[BOTH.tool_calls[0]]), "Sorry."))[
        "openai"
    ]
    server.rewrites = {**server.rewrites, "damaged": damage}  # type: ignore[misc]
    server.faults = first(Twist("damaged"))
    async with server:
        out = await w.agent_loop("Go.", model=model(server.url), tools=desk.tools, stream=False)
    assert not server.refused and (out.status, desk.log) == ("done", [])
    [call] = [c for m in out.all_messages for c in m.tool_calls]
    assert call.raw == '{"order": ' and out.tool_calls[0].outcome == "invalid"
    assert "JSON" in json.dumps(server.requests[1].json["messages"][-1])


@pytest.mark.parametrize(("twist", "wire", "stream"), seen("no_ids", "same_ids", "reused_ids"))
async def test_5_every_call_has_an_id_of_its_own(twist: str, wire: str, stream: bool):
    desk = Desk()
    replies = [BOTH, Reply(tool_calls=[("look", {"order": "8"})]), "Done."]
    out, server = await serve(wire, replies, faults=Twist(twist), tools=desk.tools, stream=stream)
    assert desk.log == ["7", 100, "8"]
    ids = [call.id for message in out.all_messages for call in message.tool_calls]
    assert len(set(ids)) == 3 and all(ids)
    assert len(server.requests) == 3


@pytest.mark.parametrize(
    ("twist", "wire", "stream"), seen("finish_lies", "finish_empty", "no_finish")
)
async def test_6_calls_run_whatever_the_finish_reason_says(twist: str, wire: str, stream: bool):
    desk = Desk()
    faults = first(Twist(twist))
    out, _ = await serve(wire, [BOTH, "Done."], faults=faults, tools=desk.tools, stream=stream)
    assert (out.status, desk.log) == ("done", ["7", 100])


# --------------------------------------------------------------------------- 7 to 10: how it ended


@pytest.mark.parametrize(
    ("twist", "wire", "stream"),
    [p for p in seen("error_after_200", "error_event", "no_end", "truncated") if p.values[2]],
)
async def test_7_a_stream_that_fails_after_200_runs_nothing_and_is_tried_again(
    twist: str, wire: str, stream: bool, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(seams, "sleep", lambda _seconds: asyncio.sleep(0))
    desk, steps = Desk(), []

    def faults(index: int, asked: Any) -> Any:
        steps.append(list(desk.log))
        return choose(first(FAULTS[twist]), index, asked)

    out, server = await serve(wire, [BOTH, "Done."], faults=faults, tools=desk.tools)
    assert (out.status, desk.log) == ("done", ["7", 100])
    assert steps == [[], [], ["7", 100]] and len(server.requests) == 3


@pytest.mark.parametrize("stream", [True, False])
@pytest.mark.parametrize("wire", WIRES)
async def test_8_usage_is_found_wherever_it_stands_and_may_be_missing(wire: str, stream: bool):
    told = Reply("Hello.", usage=w.Usage(120, 30))
    out, _ = await serve(wire, [told], stream=stream)
    assert (out.usage.input_tokens, out.usage.output_tokens) == (120, 30)
    out, _ = await serve(wire, [told], faults=Twist("no_usage"), stream=stream)
    assert (out.status, out.usage.estimated) == ("done", True)
    assert out.usage.input_tokens > 0 and out.usage.output_tokens > 0


@pytest.mark.parametrize("wire", WIRES)
@pytest.mark.parametrize(
    ("fault", "waited"),
    [
        ("429_seconds", 2.0),
        ("429_ms", 1.5),
        ("429_date", 30.0),
        ("429_reset", 20.0),
        ("429_retry_info", 34.0),
        ("503", 1.0),
        ("retry_after_on_200", None),
        ("429_no_quota", "QuotaExceeded"),
        ("400", "BadRequest"),
        ("401", "AuthFailed"),
    ],
)
async def test_9_it_comes_back_when_it_was_told_to_and_not_where_that_is_useless(
    wire: str, fault: str, waited: Any, monkeypatch: pytest.MonkeyPatch
):
    if not applies(fault, wire, stream=True):
        return
    slept: list[float] = []

    async def sleep(seconds: float) -> None:
        slept.append(seconds)

    monkeypatch.setattr(seams, "sleep", sleep)
    monkeypatch.setattr(seams, "now", lambda: 1_790_000_000.0)
    out, server = await serve(wire, ["Done."], faults=first(FAULTS[fault]))
    if isinstance(waited, str):
        assert (out.status, slept, len(server.requests)) == ("provider_error", [], 1)
        assert out.error is not None and out.error["kind"] == waited
    elif waited is None:
        assert (out.status, slept) == ("done", [])
    else:
        assert out.status == "done" and slept[0] == pytest.approx(waited, rel=0.3)


async def test_9_what_a_tool_did_is_never_done_again(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(seams, "sleep", lambda _seconds: asyncio.sleep(0))
    desk = Desk()
    out, server = await serve(
        "openai", [BOTH, "Done."], faults=[None, Status(500), Status(500), None], tools=desk.tools
    )
    assert (out.status, desk.log, len(server.requests)) == ("done", ["7", 100], 4)


@pytest.mark.parametrize(("twist", "wire", "stream"), seen("call_cut_short"))
async def test_10_a_call_cut_by_the_limit_is_not_run(twist: str, wire: str, stream: bool):
    desk = Desk()
    cut = Reply("Let me see.", tool_calls=[("pay", {"cents": 100}), ("look", {"order": "7777777"})])
    out, _ = await serve(
        wire, [cut, "Sorry."], faults=first(Twist(twist)), tools=desk.tools, stream=stream
    )
    assert out.status == "done" and "7777777" not in desk.log
    assert all("7" not in str(order) for order in desk.log)


@pytest.mark.parametrize("wire", WIRES)
@pytest.mark.parametrize("stream", [True, False])
async def test_10_a_reply_without_anything_in_it_harms_nobody(wire: str, stream: bool):
    nothing = Reply("", stop_reason="max_tokens" if wire == "ollama" else "refusal")
    server, model = servers(lambda _b, _h: nothing if len(server.requests) == 1 else Reply("Yes."))[
        wire
    ]
    async with server:
        made = model(server.url)
        empty = await w.agent_loop("Go.", model=made, session_id="s", stream=stream)
        after = await w.agent_loop("And now?", model=made, session_id="s", stream=stream)
    assert not server.refused, server.refused[0].message
    assert (empty.status, empty.final_text) == ("done", "")
    assert (after.status, after.final_text) == ("done", "Yes.")


@pytest.mark.parametrize("stream", [True, False])
async def test_10_a_pause_is_no_end(stream: bool):
    out, _ = await serve(
        "anthropic", [Reply("Looking.", stop_reason="pause_turn"), "Found."], stream=stream
    )
    assert (out.status, out.final_text) == ("done", "Found.")


# --------------------------------------------------------------------------- 11 to 14: what is odd


@pytest.mark.parametrize(("twist", "wire", "stream"), seen("unknown_things"))
async def test_11_what_nobody_knows_is_carried_or_passed_over(twist: str, wire: str, stream: bool):
    desk = Desk()
    out, _ = await serve(
        wire, [BOTH, "Done."], faults=Twist(twist), tools=desk.tools, stream=stream
    )
    assert (out.status, desk.log, out.final_text) == ("done", ["7", 100], "Done.")


@pytest.mark.parametrize("wire", WIRES)
async def test_12_tools_keep_their_names_whatever_a_provider_takes(wire: str):
    ran: list[str] = []
    long = "mcp__files__" + "read_" * 14 + "it"

    def made(name: str) -> w.Tool:
        @w.tool(name=name)
        async def one() -> str:
            """Does one thing."""
            ran.append(name)
            return "ok"

        return one

    names = ["files.read", "files:read", "files_read", long, long + "_too"]
    wired: list[str] = []

    def script(body: Any, _headers: Any) -> Reply:
        if not wired:
            found = str(json.dumps(body["tools"] if "tools" in body else body["toolConfig"]))
            wired.extend(_names_in(json.loads(found)))
            return Reply(tool_calls=[(name, {}) for name in wired])
        return Reply("Done.")

    server, model = servers(script)[wire]
    async with server:
        out = await w.agent_loop(
            "Go.", model=model(server.url), tools=[made(n) for n in names], await_resumption=False
        )
    assert not server.refused, server.refused[0].message
    assert len(set(wired)) == 5 and all(len(name) <= 64 for name in wired)
    assert (out.status, ran) == ("done", names)
    assert [record.name for record in out.tool_calls] == names


def _names_in(value: Any) -> Iterator[str]:
    if isinstance(value, dict):
        if isinstance(value.get("name"), str):
            yield value["name"]
        for each in value.values():
            yield from _names_in(each)
    elif isinstance(value, list):
        for each in value:
            yield from _names_in(each)


@pytest.mark.parametrize("stream", [True, False])
@pytest.mark.parametrize("wire", WIRES)
async def test_13_a_tool_that_was_not_offered_is_answered_and_not_run(wire: str, stream: bool):
    desk = Desk()
    odd = Reply(tool_calls=[("lok", {"order": "7"}), ("look", {"order": "8"})])
    out, _ = await serve(wire, [odd, "Done."], tools=desk.tools, stream=stream)
    assert (out.status, desk.log) == ("done", ["8"])
    assert [r.outcome for r in out.tool_calls] == ["unknown_tool", "ok"]
    assert "'look'" in str(out.tool_calls[0].result)


async def test_13_a_call_that_the_provider_could_not_read_is_asked_for_again(
    monkeypatch: pytest.MonkeyPatch,
):
    monkeypatch.setattr(seams, "sleep", lambda _seconds: asyncio.sleep(0))
    desk = Desk()
    refused = Status(400, code="tool_use_failed", message="Failed to call a function.")
    out, server = await serve("openai", [BOTH, "Done."], faults=first(refused), tools=desk.tools)
    assert (out.status, desk.log, len(server.requests)) == ("done", ["7", 100], 3)


@pytest.mark.parametrize("wire", WIRES)
@pytest.mark.parametrize(
    "fault",
    ["one_byte_chunks", "split_characters", "crlf", "byte_order_mark", "pings_then_answer"],
)
async def test_14_bytes_in_any_pieces_say_the_same(wire: str, fault: str):
    if not applies(fault, wire, stream=True):
        return
    desk = Desk()
    said = Reply("Grüße – 東京 🌦", tool_calls=[("look", {"order": "№ ü 🚚"})])
    out, _ = await serve(wire, [said, "Fertig – 🌦"], faults=FAULTS[fault], tools=desk.tools)
    assert (out.status, desk.log, out.final_text) == ("done", ["№ ü 🚚"], "Fertig – 🌦")
    assert "Grüße – 東京 🌦" in out.text


@pytest.mark.parametrize("stream", [True, False])
@pytest.mark.parametrize("provider", ["mistral", "azure"])
async def test_14_paddings_and_chunks_without_a_choice_are_nothing(provider: str, stream: bool):
    fakes: dict[str, Any] = {"mistral": FakeMistral, "azure": FakeAzure}
    desk = Desk()
    async with fakes[provider](conversation(BOTH, "Done."), api_key="k") as server:
        model = w.models.openai_chat("m", provider=provider, api_key="k", base_url=server.url)
        out = await w.agent_loop("Go.", model=model, tools=desk.tools, stream=stream)
    assert not server.refused, server.refused[0].message
    assert (out.status, desk.log, out.final_text) == ("done", ["7", 100], "Done.")


@pytest.mark.parametrize("wire", ["anthropic", "bedrock"])
async def test_11_a_delta_nested_beyond_reason_is_no_crash(
    wire: str, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(seams, "sleep", lambda _seconds: asyncio.sleep(0))
    deep: Any = "[" * 50_000 + "]" * 50_000

    def nest(frames: list[Any]) -> list[Any]:
        for frame in frames:
            if isinstance(frame.data, dict) and "delta" in frame.data:
                frame.data = json.dumps(frame.data)[:-1] + f', "odd": {deep}}}'
                break
        return frames

    server, model = servers(lambda _body, _headers: Reply("Hello."))[wire]
    server.reframes = {**server.reframes, "nested": nest}  # type: ignore[misc]
    server.faults = Twist("nested")
    async with server:
        out = await w.agent_loop("Go.", model=model(server.url), max_iterations=1)
    assert out.status in ("done", "provider_error"), out.error
