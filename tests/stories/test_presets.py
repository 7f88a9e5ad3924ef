"""Profiles, presets, captains and budgets: ordinary options, and what the caller says wins."""

from __future__ import annotations

from typing import Any

import pytest

import windlass as w
from tests.stories.capable_model import able
from tests.stories.helpers import add, kept, results
from windlass.engine.limit_options import PROFILES
from windlass.events import JudgeDecision, Replied, ToolDecided
from windlass.models.registry.capabilities import Capabilities
from windlass.testing import call, scripted

DONE = '{"verdict": "done", "reasoning": "fine", "next_step": ""}'


@w.tool(kind="read", side_effect_level="read_only")
async def look(path: str) -> str:
    """Look at a file."""
    return f"contents of {path}"


@w.tool(kind="edit")
async def merge(number: int) -> str:
    """Merge a pull request."""
    return f"merged {number}"


# --------------------------------------------------------------------------- profiles


@pytest.mark.parametrize(
    ("profile", "turns"),
    [("tool_using", 50), ("researcher", 30), ("verifier", 5), ("completer", 1)],
)
async def test_a_profile_says_how_many_turns(profile: str, turns: int):
    model = scripted(then=call("add", a=1, b=1))
    out = await w.agent_loop("go", model=model, tools=[add], profile=profile)
    assert (out.status, out.llm.iterations) == ("budget_exhausted", turns)
    agent = w.Agent(scripted(then=call("add", a=1, b=1)), tools=[add], profile=profile)
    assert (await agent.run("go")).turns == turns


@pytest.mark.parametrize(
    ("profile", "nudges"), [("tool_using", 8), ("researcher", 4), ("verifier", 0), ("completer", 0)]
)
async def test_a_profile_says_how_many_nudges(profile: str, nudges: int):
    out = await w.agent_loop(
        "go", model=scripted(then="talk"), loop_until_done=True, profile=profile, max_iterations=40
    )
    assert (out.status, out.llm.iterations) == ("stuck", nudges + 1)


async def test_what_is_said_explicitly_wins():
    model = scripted(then=call("add", a=1, b=1))
    for options in (
        {"max_iterations": 3},
        {"budget": {"iterations": 3}},
        {"iteration_budget": {"max": 3}},
    ):
        out = await w.agent_loop("go", model=model, tools=[add], profile="verifier", **options)
        assert out.llm.iterations == 3, options
    out = await w.Agent(model, tools=[add], profile="verifier", max_turns=2).run("go")
    assert out.turns == 2
    out = await w.Agent(model, tools=[add], profile="verifier").run("go", profile="completer")
    assert out.turns == 1


async def test_a_verifiers_judge_that_cannot_be_understood_is_asked_again():
    model = scripted("All is well.", "hm", "no idea", "what?", DONE)
    out = await w.agent_loop("go", model=model, profile="verifier", done_judge=True)
    assert (out.status, len(model.requests)) == ("done", 5)
    [decision] = [e for e in out.entries if type(e) is JudgeDecision]
    assert (decision.verdict, decision.reasoning) == ("done", "fine")
    assert sum(type(e) is Replied and e.purpose == "done_judge" for e in out.entries) == 4
    await kept(out, model)


async def test_schema_retries_alone_and_none():
    model = scripted("All is well.", "hm", "again", DONE)
    out = await w.agent_loop("go", model=model, schema_retries=1, done_judge={"max_invocations": 1})
    assert (out.status, len(model.requests)) == ("verify_capped", 4)
    model = scripted("All is well.", "hm", "again", DONE)
    out = await w.agent_loop("go", model=model, done_judge=True)
    assert (out.status, len(model.requests)) == ("done", 4)


def test_every_profile_sets_what_the_table_has():
    assert {name: tuple(values.values()) for name, values in PROFILES.items()} == {
        "tool_using": (50, 8, 0, 0),
        "researcher": (30, 4, 0, 0),
        "verifier": (5, 0, 0, 3),
        "completer": (1, 0, 0, 0),
    }


async def test_an_unknown_profile_names_the_nearest():
    with pytest.raises(w.ConfigError, match="'verifier'"):
        await w.agent_loop("go", model=scripted("x"), profile="verifer")
    with pytest.raises(w.ConfigError, match="profile"):
        w.Agent(scripted("x"), profile=3)


# --------------------------------------------------------------------------- presets


@pytest.mark.parametrize(
    ("name", "profile", "until_done", "nudges", "budget"),
    [
        ("audit", "verifier", True, 1, ("adaptive", 4, 12, 2)),
        ("repair", "tool_using", True, 2, ("adaptive", 4, 16, 2)),
        ("summary", "completer", False, 0, ("fixed", 1, 1, 0)),
        ("verify", "verifier", False, 0, ("adaptive", 1, 5, 1)),
        ("merge_captain", "tool_using", True, 3, ("adaptive", 8, 60, 4)),
        ("review_captain", "tool_using", True, 3, ("adaptive", 6, 30, 3)),
        ("oncall_captain", "tool_using", True, 3, ("adaptive", 6, 24, 3)),
        ("release_captain", "tool_using", True, 3, ("adaptive", 8, 40, 4)),
    ],
)
def test_a_preset_is_ordinary_options(
    name: str, profile: str, until_done: bool, nudges: int, budget: Any
):
    options = w.agent_preset(name)
    assert options["profile"] == profile and options["loop_until_done"] is until_done
    assert options["max_nudges"] == nudges
    numbers = w.agent_budget(options["iteration_budget"])
    assert (numbers["mode"], numbers["initial"], numbers["max"], numbers["extend_by"]) == budget
    assert options.get("tool_format") == (None if name in ("summary", "verify") else "native")
    working = name not in ("summary", "verify")
    stall = {"enabled": True, "threshold": 3} if working else None
    assert options.get("stall_diagnostics") == stall
    assert options.get("done_sentinel") is None and options.get("tool_choice") == (
        "none" if name == "summary" else None
    )
    assert options.get("done_judge") == (True if name == "verify" else None)
    w.Agent(scripted("x"), **{n: v for n, v in options.items()})  # an agent takes them too


def test_what_the_caller_says_wins_and_nobody_shares_a_preset():
    options = w.agent_preset("repair", {"max_nudges": 9, "tools": [add]})
    assert (options["max_nudges"], options["tools"]) == (9, [add])
    options["iteration_budget"]["max"] = 1
    assert w.agent_preset("repair")["iteration_budget"]["max"] == 16


@pytest.mark.parametrize("name", ["audti", "repair_agent", "", 3, None])
def test_an_unknown_preset_names_the_nearest(name: Any):
    with pytest.raises(w.ConfigError, match="there is no preset .*audit, repair"):
        w.agent_preset(name)
    with pytest.raises(w.ConfigError, match="did you mean 'audit'"):
        w.agent_preset("audti")


@pytest.mark.parametrize("overrides", [3, "x", ["max_nudges"]])
def test_overrides_are_a_dict(overrides: Any):
    with pytest.raises(w.ConfigError, match="dict"):
        w.agent_preset("audit", overrides)


async def test_an_audit_ends_with_its_last_words_with_tools_and_without():
    model = scripted(call("look", path="a"), "All is well.")
    out = await w.audit_agent("Audit.", {"model": model, "tools": [look]})
    assert (out.status, out.stop_reason, out.final_text) == ("done", "natural", "All is well.")
    out = await w.audit_agent("Audit.", model=scripted("All is well."))
    assert (out.status, out.llm.iterations) == ("done", 1)


async def test_an_audit_works_on_while_it_gets_somewhere():
    model = scripted(then=lambda request: call("look", path=str(len(request.messages))))
    out = await w.audit_agent("Audit.", model=model, tools=[look])
    assert (out.status, out.llm.iterations) == ("budget_exhausted", 12)
    assert out.adaptive_budget["extensions_used"] == 4


async def test_a_repair_that_repeats_itself_is_told():
    model = scripted(*[call("look", path="a")] * 3, "ok")
    out = await w.repair_agent("Fix.", model=model, tools=[look], system="Be careful.")
    assert out.suspected_loop and out.status == "done"
    assert model.requests[0].system.startswith("Be careful.")


async def test_a_summary_is_one_call_without_tools():
    model = scripted("In short: fine.", "never")
    out = await w.summary_agent("Sum up.", {"model": model, "tools": [look]}, max_tokens=100)
    assert (out.status, out.final_text, len(model.requests)) == ("done", "In short: fine.", 1)
    settings = model.requests[0].settings
    assert (settings.tool_choice, settings.max_tokens) == ("none", 100)


async def test_a_verify_is_judged():
    model = scripted("It is complete.", DONE)
    out = await w.verify_agent("Is it complete?", model=model)
    assert out.status == "done" and out.done_judge["invocations"] == 1


async def test_a_preset_agent_refuses_what_the_loop_refuses():
    with pytest.raises(w.ConfigError, match="'max_nudges'"):
        await w.audit_agent("go", model=scripted("x"), max_nudge=3)
    with pytest.raises(w.ConfigError, match="cheap_caller"):
        await w.repair_agent("go", model=scripted("x"), cheap_caller=scripted("y"))
    with pytest.raises(w.ConfigError, match="dict"):
        await w.audit_agent("go", "Be brief.")


def test_presets_work_without_await():
    assert w.sync.summary_agent("go", model=scripted("x")).final_text == "x"


# --------------------------------------------------------------------------- budgets


def test_a_budget_by_name_by_mode_and_by_numbers():
    assert w.agent_budget("repair", {"max": 24}) == {
        "mode": "adaptive",
        "initial": 4,
        "max": 24,
        "extend_by": 2,
    }
    assert w.agent_budget("adaptive", {"initial": 2, "max": 6})["initial"] == 2
    assert w.agent_budget("adaptive") == {
        "mode": "adaptive",
        "initial": 4,
        "max": 16,
        "extend_by": 2,
    }
    assert w.agent_budget("fixed") == {"mode": "fixed", "initial": 50, "max": 50, "extend_by": 0}
    assert w.agent_budget({"mode": "fixed", "max": 3})["initial"] == 3
    assert w.agent_budget("adaptive", {"expose_decisions": False})["expose_decisions"] is False


async def test_a_budget_is_embedded_directly():
    model = scripted(then=lambda request: call("add", a=len(request.messages), b=1))
    budget = w.agent_budget("adaptive", {"initial": 2, "max": 6})
    out = await w.agent_loop("go", model=model, tools=[add], iteration_budget=budget)
    assert (out.llm.iterations, out.adaptive_budget["final_limit"]) == (6, 6)


@pytest.mark.parametrize(
    ("kind", "overrides", "words"),
    [
        ("repare", None, "'repair'"),
        (3, None, "a budget is"),
        ("repair", 3, "dict"),
        ("repair", {"maximum": 3}, "it has mode, initial, max"),
        ("repair", {"initial": 30}, "more than max"),
        ("adaptive", {"max": 0}, "max"),
        ({"mode": "loose"}, None, "mode"),
    ],
)
def test_an_impossible_budget_is_refused(kind: Any, overrides: Any, words: str):
    with pytest.raises(w.ConfigError, match=words):
        w.agent_budget(kind, overrides)


def test_a_word_keeps_the_presets_numbers():
    def budget(name: str, mode: str) -> Any:
        return w.agent_preset(name, {"iteration_budget": mode})["iteration_budget"]

    assert budget("repair", "adaptive") == {
        "mode": "adaptive",
        "initial": 4,
        "max": 16,
        "extend_by": 2,
    }
    assert budget("summary", "adaptive") == {"mode": "adaptive", "initial": 1, "max": 1}
    assert budget("repair", "fixed") == {"mode": "fixed", "max": 16}
    given = {"mode": "adaptive", "max": 20}
    assert w.agent_preset("repair", {"iteration_budget": given})["iteration_budget"] == given


# --------------------------------------------------------------------------- captains


def sweep(*more: Any) -> Any:
    return scripted([call("look", path="a"), call("merge", number=7)], *more, "Swept.")


async def test_a_merge_captain_only_looks_unless_somebody_consents():
    out = await w.merge_captain_agent("Sweep.", model=sweep(), tools=[look, merge])
    assert results(out)["look"][0] == "ok"
    outcome, words = results(out)["merge"]
    assert outcome == "denied" and "fetch, read, search, think" in words
    assert [(e.tool, e.action, e.rule) for e in out.entries if type(e) is ToolDecided] == [
        ("look", "allow", "Consent"),
        ("merge", "deny", "Consent"),
    ]
    out = await w.merge_captain_agent(
        "Sweep.", model=sweep(), tools=[look, merge], consent=lambda asked: True
    )
    assert results(out)["merge"] == ("ok", "merged 7")


async def test_a_merge_captain_stays_careful_when_its_consent_is_none():
    options = {"model": sweep(), "tools": [look, merge], "consent": None, "progress_tool": True}
    assert results(await w.merge_captain_agent("Sweep.", options))["merge"][0] == "denied"


async def test_what_the_runtime_itself_offers_needs_no_consent():
    @w.tool(kind="read", defer_loading=True)
    async def rare(path: str) -> str:
        """Rare paths."""
        return path

    model = scripted(
        call("agent_progress", message="half"),
        call("__windlass_tool_search", query="rare paths"),
        call("rare", path="x"),
        "ok",
    )
    out = await w.merge_captain_agent(
        "Sweep.", model=model, tools=[look, rare], progress_tool=True, tool_search="bm25"
    )
    assert [record.outcome for record in out.tool_calls] == ["ok", "ok", "ok"], results(out)


async def test_an_oncall_captain_makes_fifty_calls_at_most():
    model = scripted([call("look", path=str(n)) for n in range(52)], "ok")
    out = await w.oncall_captain_agent("Triage.", model=model, tools=[look])
    assert [record.outcome for record in out.tool_calls].count("ok") == 50
    model = scripted([call("look", path=str(n)) for n in range(4)], "ok")
    limit = {"max_calls": 3, "message": "alert-loop cap"}
    out = await w.oncall_captain_agent("Triage.", model=model, tools=[look], rate_limit=limit)
    assert out.tool_calls[3].result == "alert-loop cap"


async def test_a_release_captain_may_rehearse():
    out = await w.release_captain_agent("Cut.", model=sweep(), tools=[look, merge], dry_run=True)
    assert results(out)["merge"][1].startswith("Dry run")
    out = await w.release_captain_agent("Cut.", model=sweep(), tools=[look, merge])
    assert results(out)["merge"] == ("ok", "merged 7")


async def test_a_captains_sinks():
    told: dict[str, list[Any]] = {"audit_sink": [], "telemetry": [], "handoff_sink": []}
    sinks: Any = {name: records.append for name, records in told.items()}
    out = await w.review_captain_agent("Review.", model=sweep(), tools=[look, merge], **sinks)
    assert out.status == "done"
    assert {name: len(records) for name, records in told.items()} == {
        "audit_sink": 2,
        "telemetry": 4,
        "handoff_sink": 0,
    }


async def test_a_tool_caller_replaces_every_layer():
    async def caller(asked: Any, next: Any) -> Any:
        return await next(asked)

    options: Any = {"tools": [look, merge], "tool_caller": caller}
    out = await w.merge_captain_agent("Sweep.", model=sweep(), **options)
    assert results(out)["merge"] == ("ok", "merged 7")
    assert "rate_limit" not in w.agent_preset("oncall_captain", options)
    layers = "consent", "rate_limit", "dry_run", "audit_sink", "telemetry", "handoff_sink"
    for layer in layers:
        with pytest.raises(w.ConfigError, match=f"leave {layer} out"):
            w.agent_preset("merge_captain", {**options, layer: print})


async def test_a_captain_asks_the_cheap_one_and_the_better_one_where_it_matters():
    cheap = scripted(call("look", path="a"), "never", provider="cheap", name="small")
    frontier = scripted("Cut.", provider="frontier", name="large")
    records: list[Any] = []
    out = await w.release_captain_agent(
        "Cut.",
        model=scripted("never"),
        tools=[look],
        cheap_caller=cheap,
        frontier_caller=frontier,
        escalate_predicate=lambda asked: asked.turn.iteration > 1,
        logging_sink=records.append,
    )
    assert (out.status, out.final_text) == ("done", "Cut.")
    assert (len(cheap.requests), len(frontier.requests)) == (1, 1)
    assert [(one["model"], one["ok"]) for one in records] == [("small", True), ("large", True)]


async def test_the_documents_predicate_sends_judges_to_the_better_one():
    cheap, frontier = scripted("All done."), scripted(DONE)
    out = await w.release_captain_agent(
        "Cut.",
        model=scripted("never"),
        cheap_caller=cheap,
        frontier_caller=frontier,
        escalate_predicate=lambda asked: asked.opts.get("task_kind") == "judge",
        done_judge=True,
    )
    assert out.status == "done" and (len(cheap.requests), len(frontier.requests)) == (1, 1)


async def test_a_logging_sink_alone_and_a_cheap_caller_alone():
    records: list[Any] = []
    cheap = scripted("Swept.")
    out = await w.merge_captain_agent("Sweep.", model=scripted("never"), cheap_caller=cheap)
    assert (out.final_text, len(cheap.requests)) == ("Swept.", 1)
    out = await w.merge_captain_agent("Sweep.", model=scripted("x"), logging_sink=records.append)
    assert out.status == "done" and len(records) == 1
    out = await w.merge_captain_agent(
        "Sweep.", model=scripted("x"), logging_sink=records.append, llm_caller=w.with_retry()
    )
    assert out.status == "done" and len(records) == 2


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"frontier_caller": scripted("x")}, "needs escalate_predicate"),
        ({"escalate_predicate": bool}, "needs frontier_caller"),
        ({"cheap_caller": 3}, "cheap_caller"),
        ({"frontier_caller": 3, "escalate_predicate": bool}, "frontier"),
        ({"logging_sink": 3}, "sink"),
        ({"cheap_caller": scripted("x"), "llm_caller": w.default_llm_caller()}, "give one"),
    ],
    ids=str,
)
def test_callers_that_make_no_sense_are_refused(options: Any, words: str):
    with pytest.raises(w.ConfigError, match=words):
        w.agent_preset("merge_captain", options)


# --------------------------------------------------------------------------- thinking

ADAPTIVE = Capabilities(
    known=True,
    thinking=True,
    thinking_modes=("adaptive", "disabled"),
    reasoning_effort_supported=True,
    efforts=("low", "medium"),
    lowering="claude",
)
EFFORT = Capabilities(
    known=True,
    thinking=True,
    thinking_modes=("effort",),
    lowering="effort",
    reasoning_effort_supported=True,
    efforts=("low", "medium", "high"),
)
PLAIN = Capabilities(known=True)


@pytest.mark.parametrize(
    ("name", "caps", "thinking"),
    [
        ("audit", ADAPTIVE, {"mode": "adaptive"}),
        ("verify", ADAPTIVE, {"mode": "adaptive"}),
        ("merge_captain", ADAPTIVE, {"mode": "adaptive"}),
        ("summary", ADAPTIVE, {"mode": "disabled"}),
        ("audit", EFFORT, {"mode": "effort", "effort": "medium"}),
        ("repair", EFFORT, {"mode": "effort", "effort": "medium"}),
        ("verify", EFFORT, {"mode": "effort", "effort": "low"}),
        ("oncall_captain", EFFORT, {"mode": "effort", "effort": "medium"}),
        ("summary", EFFORT, None),
        ("audit", PLAIN, None),
        ("summary", PLAIN, None),
    ],
)
def test_a_preset_thinks_as_its_model_can(name: str, caps: Capabilities, thinking: Any):
    model = able("x", caps=caps)
    assert w.agent_preset(name, {"model": model}).get("thinking") == thinking


@pytest.mark.parametrize(
    "said",
    [
        {"thinking": False},
        {"reasoning_effort": "high"},
        {"reasoning_policy": "off"},
        {"llm_options": {"thinking": True}},
    ],
)
def test_one_word_on_thinking_silences_the_preset(said: Any):
    options = w.agent_preset("audit", {"model": able("x", caps=EFFORT), **said})
    assert options.get("thinking") == said.get("thinking")


def test_a_preset_without_a_model_says_nothing_of_thinking():
    assert "thinking" not in w.agent_preset("audit")


async def test_the_thinking_reaches_the_model():
    model = able("x", caps=EFFORT)
    await w.repair_agent("go", model=model)
    assert model.requests[0].settings.thinking == {"mode": "effort", "effort": "medium"}
