"""`windlass replay`: the same requests from the journal alone, or the first one that is another."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import windlass as w
from tests.cli.conftest import LOOKUP
from windlass import errors
from windlass.cli import compare
from windlass.engine.environment import current_store
from windlass.events import IterationStart, Replied
from windlass.messages import Message, ToolSpec
from windlass.models.base import Frame, Request, Response, Settings
from windlass.models.meter import receive_part
from windlass.models.registry.providers import resolve
from windlass.replay.diff import first_difference
from windlass.replay.replay import NeverAsked, recorded_runs, replay_run
from windlass.testing import call, scripted
from windlass.testing.script import ScriptedModel

MOCK = ("--provider", "mock")
STORE = ("--store", "a.db")


@pytest.fixture
def kept(project: Path) -> Callable[..., Any]:
    """`kept(work)` runs `await work()` with sessions in a.db."""

    def run(work: Callable[[], Any]) -> Any:
        async def inside() -> Any:
            async with w.Runtime(store=str(project / "a.db")):
                return await work()

        return asyncio.run(inside())

    return run


@pytest.fixture
def shop(windlass, module) -> None:
    module("shop", LOOKUP)
    windlass("run", "What does it cost?", *MOCK, "-t", "shop:look_up", "--session", "s")


@w.tool
async def add(a: int, b: int) -> int:
    """Add."""
    effects.append((a, b))
    return a + b


effects: list[tuple[int, int]] = []


# --------------------------------------------------------------------------- as it was


def test_a_session_replays_without_its_program(windlass, shop):
    done = windlass("replay", "s")
    assert "run 1: mock:" in done.stdout and "by agent" in done.stdout
    assert "2 requests as on record, 1 tool result played back" in done.stdout
    assert done.stdout.endswith("identical: 2 requests in 1 run\n")
    told = json.loads(windlass("replay", "s", "--json").stdout)
    assert told["identical"] is True and told["requests"] == 2
    assert told["runs"][0]["tool_results"] == 1 and told["runs"][0]["status"] == "done"


def test_built_in_tools_are_replayed_by_name(windlass, module):
    module(
        "ask",
        """
        async def nothing(): "x"

        w.llm_mock(tool_calls=[{"name": "glob", "arguments": {"pattern": "*.toml"}}])
    """,
    )
    windlass("run", "x", *MOCK, "-t", "ask:nothing", "--tools-preset", "readonly", "--session", "s")
    names = [flag for name in w.TOOL_PRESETS["readonly"] for flag in ("-t", name)]
    done = windlass("replay", "s", "-t", "ask:nothing", *names)
    assert "identical: 2 requests" in done.stdout
    assert "tools" in windlass("replay", "s", "-t", "ask:nothing", "-t", "grep", code=1).stdout
    assert "glob: " in windlass("lint", "--registry", "glob").stdout


def test_no_effect_is_repeated(windlass, kept):
    async def work() -> None:
        model = scripted(
            call("add", a=1, b=2), [call("add", a=3, b=4), call("add", a=5, b=6)], "ok"
        )
        await w.Agent(model, tools=[add], system="Add up.").run("go", session_id="s")

    effects.clear()
    kept(work)
    assert len(effects) == 3
    told = json.loads(windlass("replay", "s", *STORE, "--json").stdout)
    assert told["identical"] and told["requests"] == 3 and told["runs"][0]["tool_results"] == 3
    assert len(effects) == 3


def test_every_run_of_a_session_is_replayed(windlass):
    for task in ("one", "two", "three"):
        windlass("run", task, *MOCK, "--session", "s")
    done = windlass("replay", "s").stdout
    assert "run 3: " in done and done.endswith("identical: 3 requests in 3 runs\n")


def test_what_policies_said_and_decided_is_taken_from_the_record(windlass, kept):
    async def work() -> Any:
        class Nag(w.Policy):
            async def after_turn(self, run, turn):
                if turn.number < 3:
                    run.say(f"Go on, that was {turn.number}.", "nag")
                    run.say("Hurry.", "reminder", ttl=1)
                    return w.KeepGoing("nag")
                return None

            async def before_model(self, run, request):
                judge = scripted("fine", name="small")
                await run.ask(Request((Message("user", "good?"),)), "judge", judge)
                return request

            async def after_tool(self, run, call, result):
                return w.ToolResult(result.id, "[hidden]", name=result.name)

        model = scripted("one", call("add", a=1, b=2), "two", "three")
        agent = w.Agent(model, policies=[Nag()], tools=[add], max_turns=9)
        return await agent.run("go", session_id="s")

    out = kept(work)
    assert out.status == "done"
    done = windlass("replay", "s", *STORE)
    assert f"{out.turns} requests as on record" in done.stdout
    assert f"{out.turns} calls by policies not made again" in done.stdout
    assert "identical" in done.stdout


def test_a_view_that_was_reshaped(windlass, kept):
    async def work() -> str:
        class Forget(w.Policy):
            async def before_turn(self, run):
                if run.iteration == 3:
                    run.say("You have added a lot.", "summary")
                    run.reshape((0, 4), [Message("user", "We added up.", "summary")], "compacted")

        model = scripted(*[call("add", a=n, b=n) for n in range(5)], "done")
        out = await w.Agent(model, tools=[add], policies=[Forget()]).run("go", session_id="s")
        return out.status

    assert kept(work) == "done"
    assert "identical: 6 requests" in windlass("replay", "s", *STORE).stdout


def test_judges_stalls_and_gates(windlass, kept):
    async def work() -> str:
        asked = iter(["continue", "done"])
        judge = scripted(then=lambda _: json.dumps({"verdict": next(asked), "reasoning": "so"}))
        model = scripted(*[call("add", a=1, b=1) for _ in range(4)], "done", "really done")
        out = await w.agent_loop(
            "go",
            model=model,
            tools=[add],
            session_id="s",
            stall_diagnostics=True,
            done_judge={"model": judge},
        )
        return out.status

    status = kept(work)
    done = windlass("replay", "s", *STORE)
    assert status == "done" and "identical: 6 requests" in done.stdout, (status, done.stdout)
    assert "2 calls by policies not made again" in done.stdout
    assert "done_judge: continue" in windlass("trace", "s", *STORE).stdout


def test_text_tools_dropped_replies_and_limits(windlass, kept):
    async def work() -> list[str]:
        class Drop(w.Policy):
            async def after_reply(self, run, turn):
                if "bad" in turn.text:
                    run.say("Not so.", "critique")
                    return w.KeepGoing("critique", drop=True)
                return None

        said = '<tool_call>{"name": "add", "arguments": {"a": 1, "b": 2}}</tool_call>'
        ends = []
        for session, model, options in (
            ("text", scripted(said, "3", native_tools=False), {"tools": [add]}),
            ("drop", scripted("bad", "good"), {"policies": [Drop()]}),
            ("limit", scripted(then=call("add", a=1, b=1)), {"tools": [add], "max_turns": 3}),
            ("failed", scripted("a", errors.BadRequest("no")), {"loop_until_done": True}),
        ):
            out = await w.Agent(model, **options).run("go", session_id=session)
            ends.append(out.status)
        return ends

    assert kept(work) == ["done", "done", "budget_exhausted", "provider_error"]
    for session in ("text", "drop", "limit", "failed"):
        done = windlass("replay", session, *STORE, code=None)
        assert done.exit_code == 0, done.output
        assert "identical" in done.stdout


def test_parked_steered_and_resumed(windlass, kept):
    fetch = w.Tool(name="fetch", description="Fetch.", parameters={"url": {"type": "string"}})

    async def work() -> str:
        agent = w.Agent(scripted(call("fetch", url="u"), "page read"), tools=[fetch])
        await agent.run("go", session_id="s")
        store = current_store()
        await store.post("s", "steer", "Read it slowly.")
        out = await agent.resume("s", results={"call_1": "the page"})
        return out.status

    assert kept(work) == "done"
    done = windlass("replay", "s", *STORE).stdout
    assert "2 requests as on record" in done and "identical" in done


def test_a_run_that_was_killed_replays_as_far_as_it_goes(windlass, kept, project: Path):
    async def work() -> None:
        model = scripted(call("add", a=1, b=2), "ok")
        await w.Agent(model, tools=[add]).run("go", session_id="s")
        store = current_store()
        entries = await store.read("s")
        at = max(n for n, entry in enumerate(entries) if type(entry) is IterationStart)
        journal = await store.open("killed")
        for entry in entries[1 : at + 1]:
            journal.append(entry)
        await journal.durable()
        await journal.close()

    kept(work)
    done = windlass("replay", "killed", *STORE).stdout
    assert "1 request as on record" in done and "the record ends before the run does" in done
    assert "identical" in done


async def test_a_journal_that_was_cut_anywhere_replays_as_far_as_it_goes():
    """Killed after any entry, a run has made no request that the loop would not make again."""

    class Nag(w.Policy):
        async def after_turn(self, run, turn):
            if turn.number < 3 and not turn.calls:
                run.say("Go on.", "nag")
                run.say("Hurry.", "reminder", ttl=2)
                return w.KeepGoing("nag")
            return None

    async with w.Runtime(store="memory:") as runtime:
        model = scripted(
            "hm", [call("add", a=1, b=2), call("add", a=3, b=4)], "and", "done", then="more"
        )
        agent = w.Agent(model, tools=[add], policies=[Nag()], loop_until_done=False)
        await agent.run("go", session_id="s")
        await agent.run("again", session_id="s")
        entries = await runtime.store.read("s")
    whole = 0
    for cut in range(2, len(entries) + 1):
        async with w.Runtime(store="memory:") as runtime:
            for run in recorded_runs(entries[:cut]):
                done = await replay_run("s", entries[:cut], run, runtime)
                assert done.difference is None, (cut, done.difference)
                whole = max(whole, done.requests)
    assert whole >= 3


def test_forks_and_called_agents_replay(windlass, kept):
    async def work() -> None:
        inner = w.Agent(scripted("looked"), name="inner")
        outer = w.Agent(scripted(call("inner", task="x"), "done", "more"), tools=[inner.as_tool()])
        await outer.run("go", session_id="s")
        await w.agent_session_fork("s", "f")
        await outer.run("again", session_id="f")

    kept(work)
    for session in ("s", "s.call_1", "f"):
        assert "identical" in windlass("replay", session, *STORE).stdout


def test_a_session_that_never_ran(windlass, kept):
    async def work() -> None:
        journal = await current_store().open("empty")
        await journal.durable()
        await journal.close()

    kept(work)
    assert "has never run" in windlass("replay", "empty", *STORE).stdout
    assert "nothing is kept" in windlass("replay", "s", "--store", "none.db", code=1).stderr


# --------------------------------------------------------------------------- as it is now


def test_another_description_of_a_tool_is_found(windlass, module, shop):
    module("shop2", LOOKUP.replace("Find an order.", "Find an order, or a parcel."))
    done = windlass("replay", "s", "--tools", "shop2:look_up", code=1)
    assert "request 1, turn 1, journal entry " in done.stdout
    assert "tool 'look_up', its description" in done.stdout
    assert "-Find an order.\n" in done.stdout and "+Find an order, or a parcel.\n" in done.stdout
    assert "identical" in windlass("replay", "s", "--tools", "shop:look_up").stdout
    told = json.loads(windlass("replay", "s", "--tools", "shop2:look_up", "--json", code=1).stdout)
    assert told["identical"] is False
    assert told["runs"][0]["difference"]["where"] == "tool 'look_up', its description"


def test_another_system_prompt_is_found(windlass, shop):
    done = windlass("replay", "s", "--system", "Be brief.", code=1)
    assert "the system prompt" in done.stdout and "+Be brief." in done.stdout


AGENT = """
    from windlass.testing import scripted, call

    @w.tool
    async def add(a: int, b: int) -> int:
        '''Add.'''
        raise AssertionError("it must not run again")

    class Nag(w.Policy):
        async def after_turn(self, run, turn):
            if turn.number < 2 and not turn.calls:
                run.say("{words}", "nag")
                return w.KeepGoing("nag")

    agent = w.Agent(scripted(), tools=[add], policies=[Nag()], system="Add up.")
"""


def test_the_agent_itself_decides_anew(windlass, module, kept):
    async def work() -> None:
        class Nag(w.Policy):
            async def after_turn(self, run, turn):
                if turn.number < 2 and not turn.calls:
                    run.say("Go on.", "nag")
                    return w.KeepGoing("nag")

        model = scripted("hm", call("add", a=1, b=2), "3")
        agent = w.Agent(model, tools=[add], policies=[Nag()], system="Add up.")
        await agent.run("go", session_id="s")

    kept(work)
    module("same", AGENT.format(words="Go on."))
    assert (
        "identical: 3 requests" in windlass("replay", "s", *STORE, "--agent", "same:agent").stdout
    )
    module("other", AGENT.format(words="Please go on."))
    done = windlass("replay", "s", *STORE, "--agent", "other:agent", code=1)
    assert "request 2, turn 2" in done.stdout
    assert "messages[2] (user), content[0], text" in done.stdout
    assert "-Go on." in done.stdout and "+Please go on." in done.stdout
    module("silent", AGENT.format(words="x").replace("turn.number < 2", "False"))
    done = windlass("replay", "s", *STORE, "--agent", "silent:agent", code=1)
    assert "the run ends here as 'done', and the record goes on" in done.stdout
    module("nothing", "agent = 3")
    assert (
        "it must be an Agent"
        in windlass("replay", "s", *STORE, "--agent", "nothing:agent", code=2).stderr
    )


LOOP = """
    from windlass.testing import scripted

    @w.tool
    async def add(a: int, b: int) -> int:
        '''Add.'''
        raise AssertionError("it must not run again")

    options = {
        "model": scripted(name="big"), "tools": [add], "system": "Add up.",
        "done_judge": {"model": scripted(name="small"), "system": "Judge."},
    }
"""


def test_options_of_a_loop_and_its_judge_are_played_from_the_record(windlass, module, kept):
    async def work() -> str:
        asked = iter(["continue", "done"])
        judge = scripted(then=lambda _: json.dumps({"verdict": next(asked), "reasoning": "so"}))
        model = scripted(call("add", a=1, b=1), "done", "really done", name="big")
        options: Any = {"tools": [add], "done_judge": {"model": judge, "system": "Judge."}}
        out = await w.agent_loop("go", "Add up.", model=model, session_id="s", **options)
        return out.status

    assert kept(work) == "done"
    module("loop", LOOP)
    done = windlass("replay", "s", *STORE, "--agent", "loop:options")
    assert "5 requests as on record, 1 tool result" in done.stdout and "identical" in done.stdout
    module("stern", LOOP.replace("Judge.", "Judge sternly."))
    done = windlass("replay", "s", *STORE, "--agent", "stern:options", code=1)
    assert "the system prompt" in done.stdout and "+Judge sternly." in done.stdout


def test_an_agent_replays_without_its_key(windlass, module, kept):
    async def work() -> None:
        model = NeverAsked(resolve("anthropic:claude-sonnet-4-5", None))
        answers = scripted(call("add", a=1, b=2), "3")
        model.respond = answers.respond
        await w.Agent(model, tools=[add], system="Add up.").run("go", session_id="s")

    kept(work)
    module(
        "keyless",
        """
        @w.tool
        async def add(a: int, b: int) -> int:
            '''Add.'''
            raise AssertionError("it must not run again")

        agent = w.Agent("anthropic:claude-sonnet-4-5", tools=[add], system="Add up.")
        """,
    )
    done = windlass("replay", "s", *STORE, "--agent", "keyless:agent")
    assert "identical: 2 requests" in done.stdout


def test_hostile_words_in_a_diff_cannot_disturb_the_terminal(windlass, shop):
    done = windlass("replay", "s", "--system", "\x1b[2J\x1b]0;x\x07ha\u202e", code=1)
    assert "+ha" in done.stdout and "\x1b" not in done.stdout and "\u202e" not in done.stdout


# --------------------------------------------------------------------------- from an entry


def test_from_an_entry(windlass, kept):
    async def work() -> list[Any]:
        model = scripted(*[call("add", a=n, b=n) for n in range(6)], "done")
        await w.Agent(model, tools=[add]).run("go", session_id="s")
        return await current_store().read("s")

    entries = kept(work)
    turns = [n for n, entry in enumerate(entries) if type(entry) is IterationStart]
    replies = [n for n, entry in enumerate(entries) if type(entry) is Replied]
    done = json.loads(windlass("replay", "s", *STORE, "--from", str(replies[4]), "--json").stdout)
    assert done["identical"] and done["requests"] == 3
    done = json.loads(windlass("replay", "s", *STORE, "--from", str(turns[1]), "--json").stdout)
    assert done["requests"] == 6
    wrong = windlass("replay", "s", *STORE, "--from", "999", code=2)
    assert f"the session has entries 0 to {len(entries) - 1}" in wrong.stderr


# --------------------------------------------------------------------------- another model


def test_another_model_is_asked_the_same(windlass, module, shop):
    module("queue", "w.llm_mock(text='Cheap.')")
    done = windlass("replay", "s", "--model", "mock:other")
    assert "turn 1, journal entry " in done.stdout and "other calls" in done.stdout
    assert 'look_up(order="A-1")' in done.stdout and " | " in done.stdout
    assert "2 of 2 requests sent to mock:other" in done.stdout
    told = json.loads(windlass("replay", "s", "--model", "mock:other", "--json").stdout)
    assert told["sent"] == 2 and told["stopped"] is None
    assert {reply["turn"] for reply in told["replies"]} == {1, 2}


def test_another_model_is_kept_within_its_budget(windlass, shop, monkeypatch):
    class Dear(ScriptedModel):
        def price(self, usage: w.Usage) -> float:
            return 0.001 * usage.input_tokens

    dear = scripted(then="Cheap.", usage={"input_tokens": 100})
    dear.__class__ = Dear
    monkeypatch.setattr(compare, "resolve", lambda *_: dear)
    done = windlass("replay", "s", "--model", "dear", "--max-usd", "0.15", code=1)
    assert "1 of 2 requests sent to dear" in done.stdout
    assert "stopped: --max-usd 0.15 leaves no room for more" in done.stdout
    assert len(dear.requests) == 1 and "$0.1000 now" in done.stdout
    free = windlass("replay", "s", "--model", "dear", "--max-usd", "0", code=1)
    assert "0 of 2 requests" in free.stdout and len(dear.requests) == 1


def test_another_model_that_fails_is_told_of(windlass, shop, monkeypatch):
    model = scripted(errors.BadRequest("no such thing"), "It costs 59.90.")
    monkeypatch.setattr(compare, "resolve", lambda *_: model)
    done = windlass("replay", "s", "--model", "m", code=1)
    assert "failed: " in done.stdout and "no such thing" in done.stdout
    assert "other words" in done.stdout or "the same" in done.stdout
    assert model.requests[0].settings.thinking is None and not model.requests[0].settings.stream


def test_what_another_model_sent_before_it_failed_is_paid_for(windlass, shop, monkeypatch):
    """A reply that broke off counts on `--max-usd`; one that was refused does not."""

    class Dear(ScriptedModel):
        def price(self, usage: w.Usage) -> float:
            return 0.001 * usage.input_tokens

        async def respond(self, request: Request, emit: Any) -> Any:
            if self.cut:
                receive_part(Response(Message("assistant", "It costs"), w.Usage(100, 2)))
            return await super().respond(request, emit)

    for cut, sent in ((True, 1), (False, 2)):
        dear = scripted(errors.BadRequest("cut"), errors.BadRequest("cut"))
        dear.__class__ = Dear
        dear.cut, dear.reports_parts = cut, True
        monkeypatch.setattr(compare, "resolve", lambda *_, dear=dear: dear)
        done = windlass("replay", "s", "--model", "dear", "--max-usd", "0.15", code=1)
        assert f"{sent} of 2 requests sent" in done.stdout and len(dear.requests) == sent
        assert ("$0.1000 now" in done.stdout) is cut


def test_options_that_contradict_each_other(windlass, shop):
    said = windlass("replay", "s", "--model", "mock", "--system", "x", code=2).stderr
    assert "--model sends what is on record" in said
    said = windlass("replay", "s", "--agent", "a:b", "--system", "x", code=2).stderr
    assert "--agent brings its own" in said


# --------------------------------------------------------------------------- what is told


def req(*said: Message, **frame: Any) -> Request:
    return Request(said, Frame(**frame))


SPEC = ToolSpec("a", "A.", {"type": "object"})


@pytest.mark.parametrize(
    "old, new, where",
    [
        (
            req(Message("user", "a")),
            req(Message("user", "b")),
            "messages[0] (user), content[0], text",
        ),
        (req(Message("user", "a")), req(Message("assistant", "a")), "messages[0]: the role"),
        (req(Message("user", "a")), req(), "messages[0] (user) is on record and not asked now"),
        (req(), req(Message("user", "a")), "messages[0] (user) is asked now and not on record"),
        (req(system="x"), req(system="y"), "the system prompt"),
        (req(tools=(SPEC,)), req(), "the tools: without a"),
        (req(), req(tools=(SPEC,)), "the tools: with a"),
        (
            req(tools=(SPEC,)),
            req(tools=(ToolSpec("a", "A.", {"type": "string"}),)),
            "tool 'a', its parameters",
        ),
        (
            req(settings=Settings(temperature=0.5)),
            req(settings=Settings(max_tokens=3)),
            "the settings: max_tokens, temperature",
        ),
        (
            req(Message("user", "a", "nudge")),
            req(Message("user", "a")),
            "messages[0] (user): its kind",
        ),
    ],
)
def test_where_requests_differ(old: Request, new: Request, where: str):
    found = first_difference(old, new)
    assert found is not None and found.where == where
    assert first_difference(old, old) is None


def test_a_long_diff_is_cut():
    one = req(Message("user", "\n".join(f"a{n}" for n in range(5000))))
    two = req(Message("user", "\n".join(f"b{n}" for n in range(5000))))
    found = first_difference(one, two)
    assert found is not None and len(found.diff) == 81 and "lines more" in found.diff[-1]
