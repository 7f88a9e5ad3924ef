"""What stands around tool calls: consent, limits, dry runs, retries, sinks, functions of one's own."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

import windlass as w
from tests.stories.world import add, broken, kept, note, results
from windlass.events import ToolDecided, ToolIntended
from windlass.testing import call, run_virtual, scripted


@w.tool(kind="read", side_effect_level="read_only")
async def look(path: str) -> str:
    """Look at a file."""
    return f"contents of {path}"


@w.tool(kind="edit")
async def write(path: str) -> str:
    """Write a file."""
    return f"wrote {path}"


class Angry:
    """Compares itself with nothing."""

    def __eq__(self, other: object) -> bool:
        raise RuntimeError("no equality")

    __hash__ = object.__hash__


def decisions(out: Any) -> list[tuple[str, str, str]]:
    return [(e.tool, e.action, e.rule) for e in out.entries if type(e) is ToolDecided]


async def both(**options: Any) -> Any:
    """A run that looks and writes in one turn."""
    model = scripted([call("look", path="a"), call("write", path="b")], "ok")
    out = await w.agent_loop("go", model=model, tools=[look, write], **options)
    assert out.status == "done", out.error
    await kept(out, model)
    return out


# --------------------------------------------------------------------------- consent


async def test_consent_decides_each_call_and_is_on_record():
    seen: list[Any] = []

    def consent(asked: Any) -> bool:
        seen.append((asked.name, asked.arguments, asked.kind, asked["effect"]))
        return asked.kind == "read"

    out = await both(consent=consent)
    assert seen == [
        ("look", {"path": "a"}, "read", "read_only"),
        ("write", {"path": "b"}, "edit", "plain"),
    ]
    assert results(out)["look"] == ("ok", "contents of a")
    assert results(out)["write"] == ("denied", "Denied: write was not consented to.")
    assert decisions(out) == [("look", "allow", "Consent"), ("write", "deny", "Consent")]


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        (False, "Denied: write was not consented to."),
        ({"allow": False, "reason": "too late"}, "Denied: too late"),
        ({"reason": "no"}, "Denied: no"),
        (w.Deny("because"), "Denied: because"),
        (None, "consent answers True, False"),
        (Angry(), "consent answers True, False"),
        ("yes", "consent answers True, False"),
        (1, "consent answers True, False"),
        ({"allow": "yes"}, "consent answers True, False"),
        ({"allow": True, "alow": True}, "consent answers True, False"),
    ],
)
async def test_all_that_is_not_clearly_a_yes_is_a_no(answer: Any, words: str):
    out = await both(consent=lambda asked: True if asked.name == "look" else answer)
    outcome, said = results(out)["write"]
    assert outcome == "denied" and words in said


@pytest.mark.parametrize("answer", [True, {"allow": True}, w.Allow()])
async def test_a_yes_in_any_form(answer: Any):
    out = await both(consent=lambda asked: answer)
    assert {outcome for outcome, _ in results(out).values()} == {"ok"}


async def test_consent_may_be_async_and_one_that_raises_refuses():
    async def consent(asked: Any) -> bool:
        await asyncio.sleep(0)
        if asked.name == "write":
            raise RuntimeError("the bridge is down")
        return True

    out = await both(consent=consent)
    assert results(out)["look"][0] == "ok"
    assert results(out)["write"] == ("denied", "Denied: consent failed: the bridge is down")


async def test_consent_cannot_change_what_runs():
    def consent(asked: Any) -> bool:
        asked.arguments["path"] = "/etc/passwd"
        return True

    assert results(await both(consent=consent))["look"] == ("ok", "contents of a")


async def test_an_ask_parks_the_run_until_a_person_decides():
    asked: list[str] = []

    def consent(about: Any) -> Any:
        asked.append(about.name)
        return {"allow": "ask", "reason": "Ann must say"} if about.name == "write" else True

    model = scripted([call("look", path="a"), call("write", path="b")], "ok")
    agent = w.Agent(model, tools=[look, write], consent=consent)
    out = await agent.run("go", session_id="s")
    assert (out.status, out.stop_reason) == ("suspended", "Ann must say")
    [waiting] = [one for one in out.pending if one.name == "write"]
    out = await agent.resume("s", decisions={waiting.id: w.Allow(by="Ann")})
    assert out.status == "done" and results(out)["write"] == ("ok", "wrote b")
    assert asked == ["look", "write"]  # nobody is asked twice
    assert decisions(out)[-1] == ("write", "allow", "Consent:Ann")
    await kept(out, model)


async def test_a_person_may_say_no():
    model = scripted(call("write", path="b"), "ok")
    agent = w.Agent(model, tools=[write], consent=lambda about: "ask")
    out = await agent.run("go", session_id="s")
    out = await agent.resume("s", decisions={out.pending[0].id: w.Deny("never")})
    assert results(out)["write"] == ("denied", "Denied: never")
    await kept(out, model)


async def test_the_answer_to_somebody_elses_ask_is_not_taken_for_an_answer_to_consent():
    class Approval(w.Policy[None]):
        async def before_tool(self, run: w.Run, call: w.ToolCall) -> w.Suspend:
            return w.Suspend("approve?")

    asked: list[str] = []

    def consent(about: Any) -> bool:
        asked.append(about.name)
        return True

    model = scripted(call("write", path="b"), "ok")
    agent = w.Agent(model, tools=[write], consent=consent, policies=[Approval()])
    out = await agent.run("go", session_id="s")
    out = await agent.resume("s", decisions={out.pending[0].id: True})
    assert out.status == "done" and asked == ["write", "write"]


# --------------------------------------------------------------------------- a limit on calls


async def test_calls_above_the_limit_are_answered_and_not_run():
    model = scripted(*[call("add", a=n, b=1) for n in range(4)], "ok")
    out = await w.agent_loop("go", model=model, tools=[add], rate_limit={"max_calls": 2})
    assert [record.outcome for record in out.tool_calls] == ["ok", "ok", "denied", "denied"]
    assert "this run may make 2 tool calls" in out.tool_calls[2].result
    assert decisions(out)[2:] == [("add", "deny", "RateLimit")] * 2
    await kept(out, model)


async def test_a_limit_has_words_of_its_own_and_holds_inside_a_batch():
    model = scripted([call("add", a=n, b=1) for n in range(3)], "ok")
    limit = {"max_calls": 1, "message": "alert-loop cap"}
    out = await w.Agent(model, tools=[add], rate_limit=limit).run("go")
    assert [record.outcome for record in out.tool_calls] == ["ok", "denied", "denied"]
    assert out.tool_calls[1].result == "alert-loop cap"


async def test_what_others_refuse_does_not_count_and_a_park_counts_nothing_twice():
    model = scripted(
        call("write", path="a"), call("write", path="b"), call("write", path="c"), "ok"
    )

    def consent(about: Any) -> Any:
        return {"a": False, "b": "ask", "c": True}[about.arguments["path"]]

    agent = w.Agent(model, tools=[write], consent=consent, rate_limit={"max_calls": 2})
    out = await agent.run("go", session_id="s")
    out = await agent.resume("s", decisions={out.pending[0].id: True})
    assert [record.outcome for record in out.tool_calls] == ["denied", "ok", "ok"]


async def test_each_run_has_a_limit_of_its_own():
    agent = w.Agent(scripted(then=call("add", a=1, b=1)), tools=[add], rate_limit={"max_calls": 1})
    for _ in range(2):
        out = await agent.run("go", max_turns=2, session_id="s")
        assert [record.outcome for record in out.tool_calls] == ["ok", "denied"]


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


def flaky(fails: int, **options: Any) -> tuple[w.Tool, list[int]]:
    """A tool that fails some times; the list has the attempts it saw."""
    attempts: list[int] = []

    @w.tool(name="flaky", **options)
    async def flaky_tool(ctx: w.ToolContext[None]) -> str:
        """Works sometimes."""
        attempts.append(ctx.attempt)
        if len(attempts) <= fails:
            raise OSError("try later")
        return "worked"

    return flaky_tool, attempts


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
                "go", model=scripted(call("slow"), "ok"), tools=[slow], tool_retries=2,
                tool_backoff_ms=0,
            )  # fmt: skip
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
    from tests.stories.world import written
    from windlass.agents.runtime import current_store

    entries = list(await current_store().read("s"))
    first = entries.index(whole[0])
    await written(current_store(), "k", entries[: first + cut])
    attempts.clear()
    out = await w.Agent(scripted("ok"), tools=[tool], tool_retries=2, tool_backoff_ms=0).resume("k")
    assert out.status == "done" and attempts == [3]


# --------------------------------------------------------------------------- functions of one's own


async def test_a_function_of_a_call_runs_it_looks_at_it_or_answers_in_its_place():
    seen: list[Any] = []

    async def caller(asked: Any, next: Any) -> Any:
        seen.append((asked.name, asked.id, asked.attempt))
        if asked.name == "write":
            return {"instead": True}
        result = await next(asked)
        return w.ToolResult(content=result.text.upper())

    out = await both(tool_caller=caller)
    assert [name for name, _, _ in seen] == ["look", "write"]
    assert results(out) == {"look": ("ok", "CONTENTS OF A"), "write": ("ok", '{"instead":true}')}


async def test_a_function_may_ask_the_default_caller():
    async def caller(asked: Any) -> Any:
        return await w.default_tool_caller()(asked)

    assert results(await both(tool_caller=caller))["write"] == ("ok", "wrote b")
    assert results(await both(tool_caller=lambda asked, next: next(asked)))["look"][0] == "ok"


async def test_what_a_tool_caller_raises_is_an_error_result():
    async def caller(asked: Any) -> Any:
        raise LookupError("no line")

    out = await both(tool_caller=caller)
    assert results(out)["look"] == ("error", "LookupError: no line")


async def test_a_tool_caller_runs_a_call_as_it_was_decided():
    async def caller(asked: Any, next: Any) -> Any:
        return await next({**asked, "arguments": {"path": "/etc/passwd"}})

    out = await both(tool_caller=caller)
    outcome, words = results(out)["look"]
    assert outcome == "error" and "as it was decided" in words

    async def sly(asked: Any, next: Any) -> Any:
        asked.arguments["path"] = "/etc/passwd"
        return await next(asked)

    assert results(await both(tool_caller=sly))["look"][0] == "error"


async def test_cancelling_passes_through_a_tool_caller():
    started = asyncio.Event()

    @w.tool
    async def wait() -> str:
        """Wait."""
        started.set()
        await asyncio.sleep(3600)
        return "never"

    async def caller(asked: Any, next: Any) -> Any:
        return await next(asked)

    abort = w.Abort()
    run = asyncio.ensure_future(
        w.agent_loop(
            "go", model=scripted(call("wait"), "x"), tools=[wait], tool_caller=caller, abort=abort
        )
    )
    await started.wait()
    abort.abort("enough")
    out = await run
    assert (out.status, results(out)["wait"][0]) == ("cancelled", "interrupted")


async def test_layers_are_composed_from_the_outside_in():
    order: list[str] = []

    def layer(name: str) -> Any:
        def make(next: Any) -> Any:
            async def caller(asked: Any) -> Any:
                order.append(f"{name} in")
                result = await next(asked)
                order.append(f"{name} out")
                return result

            return caller

        return make

    caller = w.compose([layer("a"), w.with_consent(lambda asked: True), layer("b")])(
        w.default_tool_caller()
    )
    model = scripted(call("add", a=1, b=2), "ok")
    out = await w.agent_loop("go", model=model, tools=[add], tool_caller=caller)
    assert results(out)["add"] == ("ok", "3")
    assert order == ["a in", "b in", "b out", "a out"]
    assert decisions(out) == [("add", "allow", "Consent")]
    await kept(out, model)


async def test_a_layer_alone_is_a_caller_and_functions_alone_compose_too():
    denied = await both(tool_caller=w.with_consent(lambda asked: asked.kind == "read"))
    assert results(denied)["write"][0] == "denied"

    def shout(next: Any) -> Any:
        async def caller(asked: Any) -> Any:
            return (await next(asked)).text.upper()

        return caller

    for given in (w.compose([shout]), w.compose([shout])(w.default_tool_caller())):
        assert results(await both(tool_caller=given))["look"] == ("ok", "CONTENTS OF A")


async def test_a_dry_run_stands_around_a_function_and_a_retry_inside_it():
    ran: list[str] = []

    async def caller(asked: Any, next: Any) -> Any:
        ran.append(asked.name)
        return await next(asked)

    out = await both(tool_caller=caller, dry_run=True)
    assert ran == ["look"] and results(out)["write"][1].startswith("Dry run")
    tool, attempts = flaky(1)
    ran.clear()
    model = scripted(call("flaky"), "ok")
    out = await w.agent_loop(
        "go", model=model, tools=[tool], tool_caller=caller, tool_retries=1, tool_backoff_ms=0
    )
    assert (ran, attempts, results(out)["flaky"][0]) == (["flaky"], [1, 2], "ok")


async def test_consent_as_an_option_and_in_the_caller_must_both_agree():
    caller = w.with_consent(lambda asked: asked.name != "write")(w.default_tool_caller())
    out = await both(consent=lambda asked: asked.name != "look", tool_caller=caller)
    assert [record.outcome for record in out.tool_calls] == ["denied", "denied"]
    assert decisions(out) == [("look", "deny", "Consent"), ("write", "deny", "Consent2")]


async def test_consent_hidden_in_a_function_is_not_skipped():
    inner = w.with_consent(lambda asked: True)(w.default_tool_caller())

    async def caller(asked: Any) -> Any:
        return await inner(asked)

    out = await both(tool_caller=caller)
    outcome, words = results(out)["write"]
    assert outcome == "error" and "compose([…, with_consent(…)])" in words


async def test_a_tool_caller_outside_a_run_says_so():
    with pytest.raises(w.ConfigError, match="inside a run"):
        await w.default_tool_caller()({"name": "x", "arguments": {}})


@pytest.mark.parametrize(
    "make",
    [
        lambda: w.compose([w.with_consent(print), w.with_retry()]),
        lambda: w.compose([w.with_retry()])(w.default_tool_caller()),
        lambda: w.with_retry()(w.default_tool_caller()),
        lambda: w.with_consent(print)(w.default_llm_caller()),
        lambda: w.compose([lambda next: None])(w.default_tool_caller()),
        lambda: w.compose([w.default_tool_caller()]),
        lambda: w.with_consent("yes"),
        lambda: w.with_audit_sink(None),
        lambda: w.with_rate_limit(max_calls=-1),
        lambda: w.with_rate_limit(max_calls=True),
        lambda: w.with_rate_limit({"max_call": 3}),
        lambda: w.with_rate_limit(3),
        lambda: w.with_rate_limit(message=" "),
        lambda: w.with_dry_run(tools="write"),
        lambda: w.with_dry_run(tools=[3]),
        lambda: w.with_dry_run(answer=3),
        lambda: w.with_dry_run({"tool": []}),
    ],
)
def test_what_cannot_be_composed_is_refused(make: Any):
    with pytest.raises(w.ConfigError):
        make()


@pytest.mark.parametrize(
    ("option", "value"),
    [
        ("tool_caller", 3), ("tool_caller", w.default_llm_caller()), ("tool_caller", w.with_retry()),
        ("tool_caller", int), ("consent", True), ("rate_limit", 50), ("rate_limit", True),
        ("rate_limit", {"max_calls": "many"}), ("rate_limit", {"maxcalls": 1}), ("dry_run", "yes"),
        ("dry_run", {"tool": ["x"]}), ("audit_sink", 3), ("telemetry", 3), ("handoff_sink", "x"),
        ("tool_retries", -1), ("tool_retries", 1.5), ("tool_retries", True), ("tool_backoff_ms", -1),
        ("tool_backoff_ms", "1s"), ("prefetch_next_turn", 1),
    ],
)  # fmt: skip
async def test_an_impossible_value_is_refused_before_any_call(option: str, value: Any):
    model = scripted("never")
    with pytest.raises(w.ConfigError, match=option):
        await w.agent_loop("go", None, {"model": model, option: value})
    with pytest.raises(w.ConfigError, match=option):
        w.Agent(model, **{option: value})
    assert not model.requests


# --------------------------------------------------------------------------- who watches


async def test_an_audit_sink_has_a_receipt_for_every_call():
    receipts: list[dict[str, Any]] = []
    model = scripted([call("look", path="a"), call("write", path="b"), call("nope")], "ok")
    agent = w.Agent(
        model, tools=[look, write], audit_sink=receipts.append,
        consent=lambda asked: asked.kind == "read",
    )  # fmt: skip
    out = await agent.run("go", session_id="s", caller=w.Caller("ann"))
    by_tool = {record["tool"]: record for record in receipts}
    assert set(by_tool) == {"look", "write", "nope"} and len(receipts) == 3
    first = by_tool["look"]
    assert first["event"] == "tool_call" and first["session_id"] == "s"
    assert (first["arguments"], first["action"], first["rule"], first["attempt"]) == (
        {"path": "a"}, "allow", "Consent", 1,
    )  # fmt: skip
    assert (first["caller"], first["outcome"], first["ok"], first["result"]) == (
        "ann", "ok", True, "contents of a",
    )  # fmt: skip
    assert first["digest"] and first["iteration"] == 1 and first["run_id"] == out._run.run_id
    assert (by_tool["write"]["action"], by_tool["write"]["outcome"]) == ("deny", "denied")
    assert by_tool["nope"]["outcome"] == "unknown_tool"


async def test_a_receipt_is_whole_after_a_resume_and_holds_no_secrets():
    receipts: list[dict[str, Any]] = []
    async with w.Runtime(store="memory:", environ={}, secrets=("hunter22",)):
        model = scripted(call("write", path="hunter22"), "ok")
        agent = w.Agent(
            model, tools=[write], consent=lambda asked: "ask", audit_sink=receipts.append
        )
        out = await agent.run("go", session_id="s")
        assert not receipts
        await agent.resume("s", decisions={out.pending[0].id: True})
    [record] = receipts
    assert (record["action"], record["rule"]) == ("allow", "Consent:approved")
    assert "hunter22" not in str(record) and record["arguments"]


async def test_telemetry_tells_names_and_times_but_no_words():
    told: list[dict[str, Any]] = []
    await both(telemetry=told.append)
    assert [(one["event"], one["tool"]) for one in told] == [
        ("tool_call_started", "look"), ("tool_call_finished", "look"),
        ("tool_call_started", "write"), ("tool_call_finished", "write"),
    ]  # fmt: skip
    assert told[1]["outcome"] == "ok" and told[1]["duration_ms"] >= 0
    assert "contents" not in str(told) and "arguments" not in told[0]


async def test_whoever_is_told_of_a_call_cannot_change_it():
    def spoil(record: dict[str, Any]) -> None:
        (record.get("arguments") or {})["path"] = "spoiled"
        for waiting in record.get("pending", ()):
            waiting["arguments"]["path"] = "spoiled"

    def spoil_turn(turn: Any) -> None:
        for one in turn.dispatch or ():
            one["arguments"]["path"] = "spoiled"

    model = scripted([call("look", path="a"), call("write", path="b")], "ok", "fine")
    agent = w.Agent(
        model, tools=[look, write], audit_sink=spoil, handoff_sink=spoil, telemetry=spoil,
        post_turn_callback=spoil_turn, consent=lambda asked: asked.name == "look" or "ask",
    )  # fmt: skip
    out = await agent.run("go", session_id="s")
    waiting = [one.id for one in out.pending if one.name == "write"]
    out = await agent.resume("s", decisions={waiting[0]: True})
    assert "spoiled" not in str(model.requests) and "spoiled" not in str(list(out.entries))
    await kept(out, model)


async def test_a_handoff_sink_hears_of_work_that_is_left_to_others():
    told: list[dict[str, Any]] = []
    agent = w.Agent(
        scripted(call("write", path="b"), "ok"), tools=[write], consent=lambda asked: "ask",
        handoff_sink=told.append,
    )  # fmt: skip
    out = await agent.run("go", session_id="s")
    [record] = told
    assert (record["event"], record["status"], record["reason"]) == (
        "handoff", "suspended", "may write run?",
    )  # fmt: skip
    assert record["pending"] == [
        {"id": out.pending[0].id, "name": "write", "arguments": {"path": "b"}}
    ]
    await agent.resume("s", decisions={out.pending[0].id: True})
    assert len(told) == 1  # it ended as done
    await w.agent_loop("go", model=scripted(then="talk"), loop_until_done=True, max_nudges=0,
                       handoff_sink=told.append)  # fmt: skip
    assert (told[-1]["status"], told[-1]["text"], told[-1]["pending"]) == ("stuck", "talk", [])


async def test_a_tool_of_the_kind_handoff_is_told():
    @w.tool(kind="handoff")
    async def page(who: str) -> str:
        """Page somebody."""
        return f"paged {who}"

    told: list[dict[str, Any]] = []
    model = scripted(call("page", who="Ann"), "ok")
    await w.agent_loop("go", model=model, tools=[page], handoff_sink=told.append)
    [record] = told
    assert (record["event"], record["tool"], record["arguments"], record["result"]) == (
        "handoff", "page", {"who": "Ann"}, "paged Ann",
    )  # fmt: skip


async def test_a_sink_that_fails_harms_nobody(caplog: pytest.LogCaptureFixture):
    def sink(record: Any) -> None:
        raise RuntimeError("full")

    async def slow(record: Any) -> None:
        raise RuntimeError("full")

    for broken_sink in (sink, slow):
        out = await both(audit_sink=broken_sink, telemetry=broken_sink, handoff_sink=broken_sink)
        assert out.status == "done"
    assert "the run goes on" in caplog.text


async def test_the_layers_of_a_caller_watch_as_the_options_do():
    told: dict[str, list[Any]] = {"a": [], "t": [], "h": []}
    caller = w.compose(
        [
            w.with_audit_sink(told["a"].append),
            w.with_telemetry(told["t"].append),
            w.with_handoff_sink(told["h"].append),
            w.with_rate_limit(max_calls=1),
            w.with_dry_run(tools=["look"]),
        ]
    )(w.default_tool_caller())
    model = scripted([call("look", path="a"), call("write", path="b")], "ok")
    out = await w.agent_loop(
        "go", model=model, tools=[look, write], tool_caller=caller, max_iterations=1
    )
    assert [record.outcome for record in out.tool_calls] == ["ok", "denied"]
    assert out.tool_calls[0].result.startswith("Dry run")
    assert len(told["a"]) == 2 and len(told["t"]) == 3 and len(told["h"]) == 1


def audited(**options: Any) -> tuple[list[float], list[float]]:
    """When the model was asked, and when receipts were handed over, with a slow sink."""
    asked: list[float] = []
    handed: list[float] = []

    async def main() -> Any:
        clock = asyncio.get_running_loop().time
        start = clock()

        async def sink(record: Any) -> None:
            await asyncio.sleep(10)
            handed.append(clock() - start)

        def reply(request: w.Request) -> Any:
            asked.append(clock() - start)
            return call("add", a=1, b=1) if len(asked) < 3 else "ok"

        out = await w.agent_loop(
            "go", model=scripted(then=reply), tools=[add], audit_sink=sink, **options
        )
        assert out.status == "done"

    run_virtual(main())
    return [round(t) for t in asked], [round(t) for t in handed]


def test_the_next_turn_waits_for_the_receipts_of_the_last():
    assert audited() == ([0, 10, 20], [10, 20])


def test_with_prefetch_the_next_turn_begins_at_once_and_the_run_waits_at_its_end():
    assert audited(prefetch_next_turn=True) == ([0, 0, 0], [10, 20])


def test_a_cancel_does_not_wait_for_a_slow_sink():
    async def main() -> Any:
        async def sink(record: Any) -> None:
            await asyncio.sleep(3600)

        abort = w.Abort()
        asyncio.get_running_loop().call_later(1, abort.abort, "enough")
        out = await w.agent_loop(
            "go", model=scripted(then=call("add", a=1, b=1)), tools=[add], audit_sink=sink,
            abort=abort,
        )  # fmt: skip
        return out, asyncio.get_running_loop().time()

    out, at = run_virtual(main())
    assert (out.status, out.llm.iterations) == ("cancelled", 1) and at < 1_000 + 2


async def test_middleware_reaches_tools_that_a_search_finds():
    @w.tool(defer_loading=True)
    async def rare(path: str) -> str:
        """Rare tool for paths."""
        return f"rare {path}"

    told: list[Any] = []
    model = scripted(
        call("__windlass_tool_search", query="rare paths"), call("rare", path="x"), "ok"
    )
    out = await w.agent_loop(
        "go", model=model, tools=[add, rare], tool_search="bm25", dry_run={"tools": ["rare"]},
        audit_sink=told.append,
    )  # fmt: skip
    assert results(out)["rare"][1].startswith("Dry run"), results(out)
    assert [one["tool"] for one in told] == ["__windlass_tool_search", "rare"]


async def test_tools_stay_what_they_were_to_the_model():
    plain, wrapped = scripted("x"), scripted("x")
    await w.agent_loop("go", model=plain, tools=[add, note, broken])
    await w.agent_loop(
        "go", model=wrapped, tools=[add, note, broken], tool_retries=2, dry_run=True,
        tool_caller=lambda asked, next: next(asked), consent=lambda asked: True,
    )  # fmt: skip
    assert plain.requests[0].frame == wrapped.requests[0].frame


# --------------------------------------------------------------------------- all of it at once


class Busy(w.Model):
    """Looks, charges and reports in every turn; answers by how many turns it has had."""

    provider, name = "pure", "pure"

    async def respond(self, request: w.Request, emit: Any) -> w.Response:
        turn = sum(message.role == "assistant" for message in request.messages)
        usage = w.Usage(10, 5)
        if turn >= 4:
            return w.Response(w.Message("assistant", "all done"), usage)
        calls = (
            w.ToolCall(f"l{turn}", "look", {"path": str(turn)}),
            w.ToolCall(f"c{turn}", "charge", {"n": turn}),
            w.ToolCall(f"p{turn}", "agent_progress", {"message": f"turn {turn}"}),
        )
        return w.Response(w.Message("assistant", calls), usage, "tool_use")


async def test_all_of_it_goes_on_from_every_entry():
    from tests.stories.world import written
    from windlass.agents.runtime import current_store
    from windlass.loop.replay import requests_of

    def agent(width: int, receipts: list[Any]) -> w.Agent[Any, Any]:
        @w.tool(keyed=True)
        async def charge(ctx: w.ToolContext[None], n: int) -> str:
            """Charge a card; the first attempt always fails."""
            if ctx.attempt == 1:
                raise OSError("try later")
            return f"charged {n}"

        return w.Agent(
            Busy(), tools=[look, charge], consent=lambda asked: True, rate_limit={"max_calls": 8},
            tool_retries=2, tool_backoff_ms=0, audit_sink=receipts.append, progress_tool=True,
            tool_caller=lambda asked, next: next(asked), max_concurrent_tools=width,
        )  # fmt: skip

    store = current_store()
    for width in (1, 4):
        receipts: list[Any] = []
        name = f"whole-{width}"
        whole = await agent(width, receipts).run("go", session_id=name)
        assert [r.outcome for r in whole.tool_calls].count("denied") == 4 and len(receipts) == 12
        entries = list(await store.read(name))
        wanted = [(list(r.messages), r.frame) for r in requests_of(entries)]
        first = next(at for at, e in enumerate(entries) if type(e).__name__ == "IterationStart")
        for cut in range(first + 1, len(entries) - 1):
            await written(store, f"{name}-{cut}", entries[:cut])
            out = await agent(width, []).resume(f"{name}-{cut}")
            assert out.status == "done", (cut, out.error)
            again = requests_of(await store.read(f"{name}-{cut}"))
            assert [(list(r.messages), r.frame) for r in again] == wanted, entries[cut - 1]
            await kept(out)


async def test_runs_at_the_same_time_do_not_see_each_others_calls():
    async def caller(asked: Any, next: Any) -> Any:
        await asyncio.sleep(0)
        result = await next(asked)
        await asyncio.sleep(0)
        return f"{asked.arguments['a']}: {result.text}"

    def agent(n: int) -> Any:
        calls = [call("add", a=n, b=k) for k in range(5)]
        return w.Agent(scripted(calls, "ok"), tools=[add], tool_caller=caller).run("go")

    outs = await asyncio.gather(*[agent(n) for n in range(20)])
    for n, out in enumerate(outs):
        assert [record.result for record in out.tool_calls] == [f"{n}: {n + k}" for k in range(5)]


def test_calls_side_by_side_are_tried_again_each_for_itself():
    began: list[tuple[str, int, float]] = []

    @w.tool(side_effect_level="read_only")
    async def fetch(ctx: w.ToolContext[None], name: str, fails: int) -> str:
        """Fetch."""
        began.append((name, ctx.attempt, asyncio.get_running_loop().time() - 1000))
        await asyncio.sleep(0.1)
        if ctx.attempt <= fails:
            raise OSError("busy")
        return name

    async def main() -> Any:
        asked = [call("fetch", name="a", fails=2), call("fetch", name="b", fails=0),
                 call("fetch", name="c", fails=1)]  # fmt: skip
        model = scripted(asked, "ok")
        out = await w.Agent(model, tools=[fetch], tool_retries=2, eager_tools=False).run("go")
        await kept(out, model)
        return out

    out = run_virtual(main())
    assert [record.result for record in out.tool_calls] == ["a", "b", "c"]
    assert [(n, k, round(t, 1)) for n, k, t in began] == [
        ("a", 1, 0.0), ("b", 1, 0.0), ("c", 1, 0.0), ("a", 2, 1.1), ("c", 2, 1.1), ("a", 3, 3.2),
    ]  # fmt: skip
    attempts = [(e.call_id, e.attempt) for e in out.entries if type(e) is ToolIntended]
    assert sorted(a for _, a in attempts) == [1, 1, 1, 2, 2, 3]


@pytest.mark.parametrize("answer", [True, False, "ask"])
async def test_consent_is_asked_once_about_a_read_that_starts_while_the_model_writes(answer: Any):
    asked: list[str] = []

    def consent(about: Any) -> Any:
        asked.append(about.id)
        return answer

    model = scripted([call("look", path="a"), call("look", path="b")], "ok", stream=True)
    agent = w.Agent(model, tools=[look], consent=consent)
    out = await agent.run("go", session_id="s")
    if answer == "ask":
        assert out.status == "suspended" and len(out.pending) == 2
        out = await agent.resume("s", decisions={one.id: True for one in out.pending})
    assert out.status == "done" and len(asked) == len(set(asked)) == 2
    wanted = "denied" if answer is False else "ok"
    assert [record.outcome for record in out.tool_calls] == [wanted, wanted]
    await kept(out, model)
