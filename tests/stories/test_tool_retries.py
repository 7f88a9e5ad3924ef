"""Calls that are rehearsed, and calls that are tried again."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

import windlass as w
from tests.stories.helpers import kept, results
from tests.stories.tool_helpers import both, flaky, write
from windlass.events import ToolIntended
from windlass.testing import call, run_virtual, scripted

# --------------------------------------------------------------------------- dry runs


async def test_a_dry_run_runs_what_only_looks_and_rehearses_the_rest():
    out = await both(dry_run=True)
    assert results(out)["look"] == ("ok", "contents of a")
    outcome, words = results(out)["write"]
    assert outcome == "ok" and words == 'Dry run: write was not run. Arguments: {"path":"b"}'
    effects = {e.tool: e.effect for e in out.entries if type(e) is ToolIntended}
    assert effects["write"] == "read_only"  # a rehearsal may be held again


async def test_a_dry_run_of_some_tools_with_words_of_its_own():
    def answer(about: Any) -> str:
        return f"{about.name} of {about.arguments['path']}"

    out = await both(dry_run={"tools": ["look"], "answer": answer})
    assert results(out)["look"] == ("ok", "look of a")
    assert results(out)["write"] == ("ok", "wrote b")
    assert results(await both(dry_run={"answer": "done"}))["write"] == ("ok", "done")


async def test_a_dry_run_answers_in_the_hosts_place():
    deploy = w.Tool("deploy", "Deploy.", {"service": {"type": "string"}})
    model = scripted(call("deploy", service="x"), "ok")
    out = await w.agent_loop("go", model=model, tools=[deploy], dry_run=True)
    assert (out.status, results(out)["deploy"][0]) == ("done", "ok")


async def test_a_dry_runs_answer_that_raises_is_an_error_result():
    def answer(about: Any) -> str:
        raise KeyError("nothing")

    out = await both(dry_run={"answer": answer})
    assert results(out)["write"] == ("error", "KeyError: 'nothing'")


# --------------------------------------------------------------------------- retries


def retried(tool: w.Tool, **options: Any) -> tuple[Any, list[float]]:
    """A run of one call in virtual time, and when its attempts began."""

    async def main() -> Any:
        model = scripted(call(tool.name), "ok")
        out = await w.agent_loop("go", model=model, tools=[tool], **options)
        await kept(out, model)
        return out

    out = run_virtual(main())
    return out, [e.attempt for e in out.entries if type(e) is ToolIntended]


@pytest.mark.parametrize("kind", [{}, {"keyed": True}, {"side_effect_level": "read_only"}], ids=str)
def test_a_tool_that_failed_is_tried_again(kind: Any):
    tool, attempts = flaky(2, **kind)
    out, intended = retried(tool, tool_retries=2, eager_tools=False)
    assert results(out)["flaky"] == ("ok", "worked")
    assert attempts == intended == [1, 2, 3]


def test_no_more_often_than_it_may():
    tool, attempts = flaky(9)
    out, _ = retried(tool, tool_retries=2)
    assert results(out)["flaky"] == ("error", "OSError: try later") and attempts == [1, 2, 3]
    tool, attempts = flaky(9)
    retried(tool)
    assert attempts == [1]


def test_the_pauses_double_up_to_the_fifth():
    times: list[float] = []

    @w.tool(name="flaky")
    async def flaky_tool() -> str:
        """Never works."""
        times.append(asyncio.get_running_loop().time())
        raise OSError("no")

    retried(flaky_tool, tool_retries=7, tool_backoff_ms=10, tool_timeout=0.02)
    pauses = [round((b - a) * 1000) for a, b in zip(times, times[1:], strict=False)]
    assert pauses == [10, 20, 40, 80, 160, 160, 160]
    times.clear()
    retried(flaky_tool, tool_retries=1)
    assert round(times[1] - times[0], 3) == 1.0


@pytest.mark.parametrize(
    ("raised", "outcome"), [(w.Retry("amount must be positive"), "retry"), (None, "invalid")]
)
def test_what_the_model_must_mend_is_not_tried_again(raised: Any, outcome: str):
    attempts: list[int] = []

    @w.tool(name="flaky")
    async def picky(n: int = 0) -> str:
        """Picky."""
        attempts.append(n)
        raise raised

    async def main() -> Any:
        asked = call("flaky") if raised else call("flaky", n="many")
        return await w.agent_loop("go", model=scripted(asked, "ok"), tools=[picky], tool_retries=3)

    out = run_virtual(main())
    assert results(out)["flaky"][0] == outcome and len(attempts) == (1 if raised else 0)


async def test_refused_and_unknown_calls_are_not_tried_again():
    asked: list[str] = []

    def consent(about: Any) -> bool:
        asked.append(about.name)
        return False

    model = scripted([call("write", path="a"), call("nope")], "ok")
    out = await w.agent_loop("go", model=model, tools=[write], consent=consent, tool_retries=3)
    assert asked == ["write"]
    assert [record.outcome for record in out.tool_calls] == ["denied", "unknown_tool"]


@pytest.mark.parametrize(
    ("kind", "times"),
    [({}, 1), ({"keyed": True}, 3), ({"side_effect_level": "read_only"}, 3)],
    ids=["plain", "keyed", "read_only"],
)
def test_a_time_out_leaves_the_outcome_unknown(kind: Any, times: int):
    started: list[int] = []

    @w.tool(name="slow", timeout=5, **kind)
    async def slow() -> str:
        """Slow."""
        started.append(1)
        await asyncio.sleep(60)
        return "late"

    out, _ = retried(slow, tool_retries=2)
    assert results(out)["slow"][0] == "timeout" and len(started) == times


def test_a_blocking_tool_that_timed_out_may_still_be_at_work():
    import threading

    gate = threading.Event()
    started: list[int] = []

    @w.tool(name="slow", timeout=0.01, side_effect_level="read_only")
    def slow() -> str:
        """Slow."""
        started.append(1)
        gate.wait(5)
        return "late"

    async def main() -> Any:
        try:
            out = await w.agent_loop(
                "go",
                model=scripted(call("slow"), "ok"),
                tools=[slow],
                tool_retries=2,
                tool_backoff_ms=0,
            )
        finally:
            gate.set()
        return out

    out = asyncio.run(main())
    assert results(out)["slow"][0] == "timeout" and len(started) == 1


def test_a_tool_that_says_it_is_not_idempotent_is_not_tried_again():
    tool, attempts = flaky(9, annotations={"idempotent": False})
    retried(tool, tool_retries=3)
    assert attempts == [1]


def test_a_transaction_that_failed_is_tried_again_and_one_that_committed_is_not():
    bodies: list[str] = []

    @w.tool(name="book", transactional=True)
    async def book(ctx: w.ToolContext[None], late: bool = False) -> str:
        """Book."""

        def body(tx: Any) -> str:
            bodies.append("late" if late else "early")
            if not late and len(bodies) < 2:
                raise OSError("locked")
            return "booked"

        answer = await ctx.commit(body)
        if late:
            raise OSError("after the commit")
        return answer

    async def main(**arguments: Any) -> Any:
        model = scripted(call("book", **arguments), "ok")
        out = await w.agent_loop("go", model=model, tools=[book], tool_retries=2)
        await kept(out, model)
        return out

    out = run_virtual(main())
    assert results(out)["book"] == ("ok", "booked") and bodies == ["early", "early"]
    assert [e.attempt for e in out.entries if type(e) is ToolIntended] == [2]
    bodies.clear()
    out = run_virtual(main(late=True))
    assert results(out)["book"] == ("ok", "booked") and bodies == ["late"]


def test_a_cancel_ends_the_pause():
    tool, attempts = flaky(9)

    async def main() -> Any:
        abort = w.Abort()
        asyncio.get_running_loop().call_later(0.5, abort.abort, "enough")
        return await w.agent_loop(
            "go", model=scripted(call("flaky"), "x"), tools=[tool], tool_retries=5, abort=abort
        )

    out = run_virtual(main())
    assert (out.status, out.stop_reason, attempts) == ("cancelled", "enough", [1])


async def test_attempts_before_a_crash_count():
    tool, attempts = flaky(9, keyed=True)
    model = scripted(call("flaky"), "ok")
    agent = w.Agent(model, tools=[tool], tool_retries=2, tool_backoff_ms=0)
    out = await agent.run("go", session_id="s")
    whole = list(out.entries)
    cut = next(at for at, e in enumerate(whole) if type(e) is ToolIntended and e.attempt == 2) + 1
    from tests.stories.helpers import written
    from windlass.engine.environment import current_store

    entries = list(await current_store().read("s"))
    first = entries.index(whole[0])
    await written(current_store(), "k", entries[: first + cut])
    attempts.clear()
    out = await w.Agent(scripted("ok"), tools=[tool], tool_retries=2, tool_backoff_ms=0).resume("k")
    assert out.status == "done" and attempts == [3]
