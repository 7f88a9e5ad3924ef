"""Chats: what a person says, a turn of the model, and what comes of kills and nonsense."""

from __future__ import annotations

import asyncio
import io
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import windlass as w
from tests.stories.helpers import written
from tests.stories.policies import named
from windlass.events import Framed, IterationEnd, Noted, Replied, RunStarted, Said
from windlass.testing import call, scripted


def typing(*inputs: Any) -> Callable[[dict[str, Any]], Any]:
    """Build an `on_user_input` that types these, and leaves."""
    left = [*inputs]

    def on_user_input(state: dict[str, Any]) -> Any:
        return left.pop(0) if left else {"kind": "exit", "reason": "left"}

    return on_user_input


def count_turn(turn: w.LoopResult, state: dict[str, Any]) -> dict[str, Any]:
    return {"state": {**state, "seen": [*state.get("seen", []), turn.visible_text]}}


async def chat(model: w.Model, *inputs: Any, **options: Any) -> w.ChatResult:
    options.setdefault("on_user_input", typing(*inputs))
    return await w.agent_chat_loop(model=model, **options)


@w.tool
async def look(what: str) -> str:
    """Look at something."""
    return f"{what} is fine"


@w.tool(name="wait_for_user")
async def waits() -> str:
    """Wait in another way."""
    return "waited"


async def test_chat_keeps_one_session_and_hands_state_on():
    model = scripted("hello", "fine")
    result = await chat(model, "hi", "how are you", on_model_turn=count_turn, session_id="talk")
    assert (result.turns, result.stop_reason, result.session_id) == (2, "left", "talk")
    assert result.state == {"seen": ["hello", "fine"]} and result.closed
    assert result.last_result is not None and result.last_result.visible_text == "fine"
    assert [m.text for m in model.requests[1].messages] == ["hi", "hello", "how are you"]


async def test_chat_takes_its_options_as_a_dict():
    result = await w.agent_chat_loop(
        {"model": scripted("hello"), "on_user_input": typing("hi"), "max_turns": 1}
    )
    assert (result.turns, result.stop_reason) == (1, "max_turns")


async def test_chat_inputs_are_sent_handled_or_exit():
    shown: list[str] = []
    model = scripted("one", "two")
    result = await chat(
        model,
        {"kind": "handled", "message": "shown"},
        {"kind": "handled"},
        "",
        {"kind": "send", "message": "first"},
        "second",
        {"kind": "exit"},
        show=shown.append,
    )
    assert shown == ["shown"] and (result.turns, result.stop_reason) == (2, "exit")


async def test_chat_commands_are_routed():
    shown: list[str] = []

    async def runs(request: w.ChatCommand) -> dict[str, Any]:
        return {"kind": "handled", "message": f"{request.arguments}:{request.state}"}

    def quit(request: w.ChatCommand) -> dict[str, Any]:
        return {"kind": "exit", "reason": request["name"]}

    lines = ["/runs last 3", "/rnus", "  ", "//etc is a folder", "plain", "/quit"]

    def on_user_input(state: dict[str, Any]) -> Any:
        return w.agent_chat_route_input(lines.pop(0), state, {"/runs": runs, "/quit": quit})

    model = scripted("a", "b")
    result = await chat(model, on_user_input=on_user_input, show=shown.append)
    assert result.stop_reason == "/quit" and shown[0] == "last 3:{}"
    assert "'/rnus'" in shown[1] and "/quit, /runs" in shown[1] and len(shown) == 2
    assert [r.messages[-1].text for r in model.requests] == ["/etc is a folder", "plain"]


async def test_chat_model_waits_for_the_user():
    model = scripted(("Which one?", call("wait_for_user")), "The red one, then.")
    stops: list[str | None] = []

    def on_model_turn(turn: w.LoopResult, state: dict[str, Any]) -> None:
        stops.append(turn.stop_reason)

    result = await chat(
        model, "paint it", "red", tools=[look], loop_until_done=True, on_model_turn=on_model_turn
    )
    assert stops[0] == "wait_for_user" and result.turns == 2
    assert len(model.requests) == 2
    assert [tool.name for tool in model.requests[0].tools] == ["look", "wait_for_user"]


async def test_chat_without_the_wait_tool_leaves_the_tools_as_they_are():
    model = scripted("hello")
    await chat(model, "hi", tools=[look], wait_for_user_tool=False)
    assert [tool.name for tool in model.requests[0].tools] == ["look"]


@pytest.mark.parametrize("close_session", [True, False])
async def test_chat_end_is_on_record_with_its_reason(close_session: bool):
    result = await chat(scripted("hello"), "hi", session_id="end", close_session=close_session)
    session = await w.agent_session_read("end")
    closed = [e.data for e in session.entries if isinstance(e, Noted) and e.name == "chat_closed"]
    assert closed == ([{"reason": "left", "turns": 1}] if close_session else [])
    assert result.closed is close_session


async def test_chat_goes_on_with_the_same_session_id():
    model = scripted("one", "two", "three")
    for said in ("a", "b", "c"):
        result = await chat(model, said, on_model_turn=count_turn, session_id="again")
    assert result.state == {"seen": ["one", "two", "three"]} and result.turns == 1
    assert len(model.requests[-1].messages) == 5


async def test_chat_goes_on_in_the_store_that_it_is_given(tmp_path: Path):
    given: dict[str, Any] = {
        "on_model_turn": count_turn,
        "session_id": "again",
        "store": f"sqlite:///{tmp_path / 'chats.db'}",
    }
    model = scripted("one", "two")
    assert (await chat(model, "a", **given)).closed
    result = await chat(model, "b", **given)
    assert result.state == {"seen": ["one", "two"]}
    with pytest.raises(w.NoSuchSession):
        await w.agent_session_read("again")


async def test_chat_turns_run_under_the_policies_that_it_is_given():
    async def before_turn(self: Any, run: w.Run) -> None:
        run.say("Be brief.", "style")

    model = scripted("hello")
    await chat(model, "hi", policies=[named("Brief", before_turn=before_turn)])
    assert [message.text for message in model.requests[0].messages] == ["hi", "Be brief."]


class Killed(BaseException):
    """The end of the process, as far as a callback can bring it about."""


async def test_chat_killed_before_its_callback_shows_the_turn_again():
    model = scripted("one", "two")

    def die(turn: w.LoopResult, state: dict[str, Any]) -> None:
        raise Killed

    with pytest.raises(Killed):
        await chat(model, "a", on_model_turn=die, session_id="cut")
    result = await chat(model, on_model_turn=count_turn, session_id="cut")
    assert result.state == {"seen": ["one"]} and len(model.requests) == 1
    result = await chat(model, "b", on_model_turn=count_turn, session_id="cut")
    assert result.state == {"seen": ["one", "two"]}


async def test_chat_cut_after_every_row_comes_to_the_same_end():
    def answer(request: w.Request) -> Any:
        last = request.messages[-1]
        if last.text == "b":
            return call("look", what="b")
        return f"after {len(request.messages)}"

    async def talk(*inputs: str) -> w.ChatResult:
        return await chat(
            scripted(then=answer),
            *inputs,
            tools=[look],
            session_id="s",
            on_model_turn=count_turn,
            close_session=False,
        )

    inputs = ("a", "b", "c")
    whole = await talk(*inputs)
    entries = (await w.agent_session_read("s")).entries
    assert len(whole.state["seen"]) == 3
    first = next(at for at, entry in enumerate(entries) if type(entry) is Said)
    for cut in range(first + 1, len(entries) + 1):
        kept = entries[:cut]
        if type(kept[-1]) in (RunStarted, Framed, IterationEnd):
            continue  # stored together with what was said, or with the end of the run
        heard = [e for e in kept if type(e) is Said and e.message.role == "user"]
        async with w.Runtime(store="memory:", environ={}) as runtime:
            await written(runtime.store, "s", kept)
            result = await talk(*inputs[len(heard) :])
            assert result.state == whole.state, kept[-1]
            stored = (await w.agent_session_read("s")).entries
        replies = [e.message for e in stored if type(e) is Replied]
        assert [m.text for m in replies] == [
            e.message.text for e in entries if type(e) is Replied
        ], kept[-1]


async def test_chat_parked_turn_goes_on_once_it_is_approved():
    policy = {"rules": [{"ask": {"tool": "look"}}]}
    model = scripted(call("look", what="it"), "it is fine")
    result = await chat(model, "see", "more", tools=[look], approval_policy=policy, session_id="p")
    assert result.stop_reason == "suspended" and not result.closed and result.turns == 1
    again = await chat(model, tools=[look], approval_policy=policy, session_id="p")
    assert again.stop_reason == "suspended"
    (waiting,) = await w.approvals()
    await w.approve(waiting.id)
    last = await chat(
        model, tools=[look], approval_policy=policy, session_id="p", on_model_turn=count_turn
    )
    assert (last.state, last.stop_reason) == ({"seen": ["it is fine"]}, "left")


async def test_chat_cancelled_in_mid_turn_goes_on():
    started = asyncio.Event()

    @w.tool
    async def slow() -> str:
        """Wait."""
        started.set()
        await asyncio.sleep(3600)
        return "late"

    task = asyncio.create_task(
        chat(scripted(call("slow")), "go", tools=[slow], session_id="c", on_cancel="park")
    )
    await started.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task

    @w.tool(name="slow")
    async def quick() -> str:
        """Answer."""
        return "now"

    model = scripted("done")
    result = await chat(model, tools=[quick], session_id="c", on_model_turn=count_turn)
    assert result.state == {"seen": ["done"]} and result.turns == 1


async def test_chat_survives_a_turn_that_failed():
    model = scripted(w.AuthFailed("no key"), "back")
    result = await chat(model, "a", "b")
    assert result.turns == 2 and result.last_result is not None
    assert result.last_result.status == "done"


NONSENSE: dict[str, Any] = {
    "None": None,
    "number": 3,
    "no kind": {"message": "x"},
    "unknown kind": {"kind": "sent", "message": "x"},
    "kind of another type": {"kind": ["send"]},
    "send without a message": {"kind": "send"},
    "send of a blank": {"kind": "send", "message": " "},
    "wrong field": {"kind": "exit", "message": "x"},
    "reason is no text": {"kind": "exit", "reason": 3},
    "message is no text": {"kind": "handled", "message": 3},
}


@pytest.mark.parametrize("name", NONSENSE)
async def test_chat_input_without_meaning_is_a_config_error(name: str):
    model = scripted("one", "two")
    with pytest.raises(w.ConfigError, match="on_user_input"):
        await chat(model, "a", NONSENSE[name], session_id="n", on_model_turn=count_turn)
    result = await chat(model, "b", session_id="n", on_model_turn=count_turn)
    assert result.state == {"seen": ["one", "two"]}


@pytest.mark.parametrize(
    "answer", [3, "text", {}, {"state": 3}, {"stat": {}}, {"state": {}, "x": 1}]
)
async def test_chat_turn_answer_without_meaning_loses_nothing(answer: Any):
    model = scripted("one")
    with pytest.raises(w.ConfigError, match="on_model_turn"):
        await chat(model, "a", session_id="n", on_model_turn=lambda turn, state: answer)
    result = await chat(model, session_id="n", on_model_turn=count_turn)
    assert result.state == {"seen": ["one"]}


async def test_chat_state_must_be_plain_data():
    with pytest.raises(w.ConfigError, match="the state of a chat"):
        await chat(
            scripted("one"), "a", on_model_turn=lambda turn, state: {"state": {"x": object()}}
        )


@pytest.mark.parametrize(
    "options",
    [
        {"on_user_input": None},
        {"on_user_input": 3},
        {"on_model_turn": "x"},
        {"close_session": 1},
        {"wait_for_user_tool": None},
        {"max_turns": -1},
        {"messages": []},
        {"run_id": "x"},
        {"max_turn": 3},
        {"show": 3},
        {"tools": [waits]},
        {"model": "nobody:nothing"},
    ],
)
async def test_chat_option_without_meaning_is_refused_before_anybody_is_asked(
    options: dict[str, Any],
):
    asked: list[Any] = []
    with pytest.raises(w.ConfigError):
        await w.agent_chat_loop(
            **{"model": scripted("x"), "on_user_input": asked.append, **options}
        )
    assert not asked


@pytest.mark.parametrize(
    "routes", [None, {"runs": print}, {"/a b": print}, {"//x": print}, {"/x": 3}]
)
def test_chat_routes_without_meaning_are_refused(routes: Any):
    with pytest.raises(w.ConfigError):
        w.agent_chat_route_input("/x", {}, routes)


async def test_chat_two_callers_have_two_sessions_of_one_id():
    ann, bob = w.Caller("ann", tenant="a"), w.Caller("bob", tenant="b")
    model = scripted("one", "two")
    await chat(model, "a", session_id="t", caller=ann, on_model_turn=count_turn)
    result = await chat(model, "b", session_id="t", caller=bob, on_model_turn=count_turn)
    assert result.state == {"seen": ["two"]}


async def test_chat_reads_lines(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(sys, "stdin", io.StringIO("hi\r\n\nlast"))
    lines = [await w.read_line() for _ in range(4)]
    assert [line.value for line in lines] == ["hi", "", "last", ""]
    assert [line.ok for line in lines] == [True, True, True, False]
    assert lines[-1].status == "closed"
    sys.stdin.close()
    assert (await w.read_line()).status == "closed"
    broken = io.TextIOWrapper(io.BytesIO(b"\xff\xfe\n"), "utf-8")
    monkeypatch.setattr(sys, "stdin", broken)
    assert (await w.read_line())["status"] == "invalid_text"


async def test_chat_line_of_a_cancelled_reader_is_not_lost(monkeypatch: pytest.MonkeyPatch):
    class Slow(io.StringIO):
        def readline(self, size: int = -1, /) -> str:
            asked.set()
            typed.wait(10)
            return super().readline()

    asked, typed = threading.Event(), threading.Event()
    monkeypatch.setattr(sys, "stdin", Slow("kept\n"))
    first = asyncio.create_task(w.read_line())
    await asyncio.to_thread(asked.wait, 10)
    first.cancel()
    with pytest.raises(asyncio.CancelledError):
        await first
    typed.set()
    assert (await w.read_line()).value == "kept"
