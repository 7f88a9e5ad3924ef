"""Tools that nobody uses leave the model's sight: hidden, never forbidden, on record."""

from __future__ import annotations

import json
from typing import Any

import pytest

import windlass as w
from tests.stories.helpers import (
    add,
    kept,
    note,
    own_tools,
    written,
)
from tests.stories.wire_fakes import servers
from windlass.engine.environment import current_store
from windlass.events import Replied, SkillNarrowed
from windlass.loop.requests import requests_of
from windlass.testing import call, scripted
from windlass.testing.providers import Reply, conversation
from windlass.tools.kinds import tool_class
from windlass.usage import Usage

CACHED = Usage(1_000, 5, cache_read_tokens=900)


def tool(name: str, **options: Any) -> Any:
    async def handler(args: dict[str, Any]) -> str:
        return f"{name} worked"

    return w.Tool(name, f"Does what {name} does.", {}, handler, **options)


look = tool("look", side_effect_level="read_only", kind="read")
grep = tool("grep", side_effect_level="none", kind="search")
edit = tool("edit", side_effect_level="workspace_write", kind="edit")
plain = tool("plain")


def adds(times: int) -> list[Any]:
    return [call("add", a=1, b=n) for n in range(times)]


def offered(model: Any) -> list[list[str]]:
    return [[spec.name for spec in own_tools(request)] for request in model.requests]


def narrowed(out: Any) -> list[SkillNarrowed]:
    return [entry for entry in out.entries if type(entry) is SkillNarrowed]


async def test_a_tool_that_only_reads_and_is_not_used_leaves_after_the_window():
    model = scripted(*adds(7), "done")
    tools = [add, look, edit, plain]
    out = await w.agent_loop("go", "Sys.", model=model, tools=tools, tool_surface_narrowing=True)
    names = [each.name for each in tools]
    without = ["add", "edit", "plain"]
    assert offered(model) == [names] * 5 + [without] * 3
    assert model.requests[4].system == "Sys."
    line = "Sys.\n\nNot listed now, for want of use, and still callable by name: look."
    assert model.requests[5].system == line
    [entry] = narrowed(out)
    assert (entry.iteration, entry.reason) == (5, "unused")
    assert (entry.removed_tools, entry.remaining_tools) == (("look",), tuple(without))
    assert entry.removed == ({"name": "look", "class": "read_only", "last_used": 0},)
    assert [(one["name"], one["class"], one["why"]) for one in entry.kept] == [
        ("add", "read_only", "used"),
        ("edit", "mutating", "class"),
        ("plain", "unknown", "class"),
    ]
    assert entry.policy["window_turns"] == 5 and entry.policy["mode"] == "safe"
    assert entry.policy["prune_classes"] == ["read_only"]
    assert "skill_narrow" in [event["kind"] for event in out.trace["events"]]
    await kept(out, model)


async def test_a_hidden_tool_still_runs_and_a_call_brings_it_back():
    model = scripted(*adds(6), call("look"), *adds(6), "done")
    out = await w.agent_loop("go", model=model, tools=[add, look], tool_surface_narrowing=True)
    assert [record.outcome for record in out.tool_calls] == ["ok"] * 13
    shown = [len(names) for names in offered(model)]
    assert shown == [2] * 5 + [1] * 2 + [2] * 5 + [1] * 2
    first, back, again = narrowed(out)
    assert (back.reason, back.returned_tools, back.removed_tools) == ("used_again", ("look",), ())
    assert first.removed_tools == again.removed_tools == ("look",)
    assert again.removed[0]["last_used"] == 7
    await kept(out, model)


async def test_frames_stay_the_same_objects_between_turns():
    model = scripted(*adds(9), "done")
    await w.agent_loop("go", model=model, tools=[add, look], tool_surface_narrowing=True)
    frames = [request.frame for request in model.requests]
    assert len({id(frame) for frame in frames[5:]}) == 1


# --------------------------------------------------------------------------- where it is on


def bound(model: Any) -> Any:
    model.context_window = 200_000
    return model


async def test_it_is_on_by_itself_in_agent_loop_and_for_an_agent_that_asks():
    for make in (bound, lambda model: model):
        out = await w.agent_loop("go", model=make(scripted(*adds(6), "x")), tools=[add, look])
        assert narrowed(out)
        out = await w.Agent(make(scripted(*adds(6), "x")), tools=[add, look]).run("go")
        assert not narrowed(out)
        agent = w.Agent(
            make(scripted(*adds(6), "x")), tools=[add, look], tool_surface_narrowing=True
        )
        assert narrowed(await agent.run("go"))


@pytest.mark.parametrize("off", [False, {"enabled": False}])
async def test_it_can_be_turned_off(off: Any):
    model = bound(scripted(*adds(7), "done"))
    out = await w.agent_loop("go", model=model, tools=[add, look], tool_surface_narrowing=off)
    assert narrowed(out) == [] and set(map(len, offered(model))) == {2}


@pytest.mark.parametrize(
    ("tools", "options"),
    [
        ([note, edit], {}),  # nothing that may leave
        ([add], {}),  # one tool stays
        ([add, look], {"max_turns": 5}),  # over before the window is
        ([add, look], {"max_turns": 5, "tool_surface_narrowing": True}),
        ([add, look], {"iteration_budget": {"mode": "adaptive", "initial": 2, "max": 5}}),
        ([add, look], {"require_successful_tools": ["add", ["look", "add"]]}),
        ([add, note], {"stop_after_successful_tools": ["add"]}),
    ],
)
def test_a_run_that_has_no_use_for_it_does_not_have_it(tools: Any, options: Any):
    def policies(**more: Any) -> list[str]:
        asked = {"tool_surface_narrowing": True, **more}
        agent = w.Agent(bound(scripted("x")), tools=tools, **asked)
        return [policy.name for policy in agent.plan.policies]

    assert "tool_surface_narrowing" not in policies(**options)
    if tools == [add, look]:
        assert "tool_surface_narrowing" in policies(max_turns=6)
        budget = {"mode": "adaptive", "initial": 2, "max": 6}
        assert "tool_surface_narrowing" in policies(iteration_budget=budget)


# --------------------------------------------------------------------------- its keys


async def shown_after(times: int, tools: list[Any], narrowing: Any, **options: Any) -> list[str]:
    """The tools that are left after so many turns of adding."""
    model = scripted(*adds(times), "done")
    out = await w.agent_loop(
        "go", model=model, tools=tools, tool_surface_narrowing=narrowing, **options
    )
    assert out.status == "done"
    await kept(out, model)
    return offered(model)[-1]


@pytest.mark.parametrize("turns", [1, 2, 7])
async def test_the_window(turns: int):
    for narrowing in ({"window_turns": turns}, w.ToolSurfaceNarrowing(window_turns=turns)):
        assert await shown_after(turns - 1, [add, look], narrowing) == ["add", "look"]
        assert await shown_after(turns, [add, look], narrowing) == ["add"]


async def test_aggressive_is_by_use_alone():
    tools = [add, look, edit, plain]
    assert await shown_after(6, tools, {"mode": "aggressive"}) == ["add"]
    assert await shown_after(6, tools, {"mode": "safe"}) == ["add", "edit", "plain"]


async def test_tools_that_must_stay():
    tools = [add, look, grep, plain]
    keep = {"mode": "aggressive", "hard_keep": ["grep"]}
    assert await shown_after(6, tools, keep) == ["add", "grep"]


@pytest.mark.parametrize(
    ("narrowing", "left"),
    [
        ({"prune_classes": ["mutating"]}, "add look plain"),
        ({"prune_classes": ["mutating", "read_only"]}, "add plain"),
        ({"prune_classes": []}, "add look edit plain"),
        ({"keep_classes": ["read_only"]}, "add look edit plain"),
        ({"mode": "aggressive", "keep_classes": ["mutating"]}, "add edit"),
        ({"unknown_tool_policy": "prune"}, "add edit"),
        ({"mode": "aggressive", "unknown_tool_policy": "keep"}, "add plain"),
        ({"prune_classes": ["unknown"]}, "add look edit"),
    ],
)
async def test_classes_that_leave_and_classes_that_stay(narrowing: Any, left: str):
    assert await shown_after(6, [add, look, edit, plain], narrowing) == left.split()


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({"side_effect_level": "none"}, "read_only"),
        ({"side_effect_level": "read_only", "kind": "search"}, "read_only"),
        ({"kind": "search"}, "read_only"),
        ({"side_effect_level": "none", "kind": "edit"}, "mutating"),
        ({"side_effect_level": "workspace_write"}, "mutating"),
        ({"side_effect_level": "process_exec", "kind": "read"}, "mutating"),
        ({"side_effect_level": "network", "kind": "search"}, "mutating"),
        ({"kind": "execute"}, "mutating"),
        ({"keyed": True}, "mutating"),
        ({"transactional": True}, "mutating"),
        ({}, "unknown"),
        ({"kind": "poetry"}, "unknown"),
        ({"kind": "approval"}, "approval"),
        ({"kind": "result_polling", "side_effect_level": "none"}, "result_polling"),
        ({"annotations": {"tool_class": "session_control"}, "kind": "read"}, "session_control"),
        ({"annotations": {"tool_class": ["x"]}}, "unknown"),
    ],
)
def test_the_class_of_a_tool(options: Any, expected: str):
    assert tool_class(tool("x", **options)) == expected


@pytest.mark.parametrize("kind", ["approval", "session_control", "progress", "result_polling"])
async def test_classes_that_stay_by_themselves(kind: str):
    wait = tool("wait", side_effect_level="none", kind=kind)
    assert await shown_after(6, [add, look, wait], True) == ["add", "wait"]


# --------------------------------------------------------------------------- what never leaves


async def test_one_tool_at_least_stays():
    model = scripted(*["hm"] * 8, "hm ##DONE##")
    out = await w.agent_loop(
        "go",
        model=model,
        tools=[look, grep],
        tool_surface_narrowing={"mode": "aggressive"},
        loop_until_done=True,
        done_sentinel="##DONE##",
        max_nudges=20,
    )
    assert out.status == "done" and offered(model)[-1] == ["look"]
    model = scripted(call("grep"), *["hm"] * 8, "hm ##DONE##")
    await w.agent_loop(
        "go",
        model=model,
        tools=[look, grep],
        tool_surface_narrowing=True,
        loop_until_done=True,
        done_sentinel="##DONE##",
        max_nudges=20,
    )
    assert offered(model)[-1] == ["grep"]  # the one that was used last


async def test_what_others_wait_for_stays():
    tools = [add, look, grep]
    model = scripted(*adds(6), call("look"), "done")
    await w.agent_loop(
        "go",
        model=model,
        tools=tools,
        tool_surface_narrowing=True,
        require_successful_tools=[["look"]],
    )
    assert offered(model)[-1] == ["add", "look"]
    left = await shown_after(6, tools, True, stop_after_successful_tools=["grep"])
    assert left == ["add", "grep"]


async def test_the_tool_that_is_demanded_stays():
    choice = {"name": "look"}
    model = scripted(*adds(7), "done")
    await w.agent_loop(
        "go",
        model=model,
        tools=[add, look, grep],
        tool_choice=choice,
        tool_surface_narrowing=True,
        max_iterations=8,
    )
    assert offered(model)[-1] == ["add", "look"]


async def test_a_tool_that_is_demanded_later_is_shown_again():
    def demand(turn: Any) -> Any:
        if turn.iteration == 6:
            return {"llm_options": {"tool_choice": {"name": "look"}}}
        return None

    model = scripted(*adds(7), call("look"), "done")
    await w.agent_loop(
        "go",
        model=model,
        tools=[add, look, grep],
        tool_surface_narrowing=True,
        post_turn_callback=demand,
    )
    assert offered(model)[6] == ["add"] and "look" in offered(model)[7]


async def test_tools_of_the_runtime_stay():
    model = scripted(*adds(7), "done")
    hidden = tool("rare", defer_loading=True, side_effect_level="none")
    await w.agent_loop(
        "go",
        model=model,
        tools=[add, look, hidden],
        progress_tool=True,
        tool_search={"variant": "bm25"},
        tool_surface_narrowing={"mode": "aggressive"},
    )
    left = offered(model)[-1]
    assert "agent_progress" in left and any("search" in name for name in left)
    assert "look" not in left


async def test_a_tool_that_came_late_has_its_whole_window():
    rare = tool("rare", defer_loading=True, side_effect_level="none")
    model = scripted(*adds(4), call("__windlass_tool_search", query="rare"), *adds(6), "done")
    await w.agent_loop(
        "go",
        model=model,
        tools=[add, look, rare],
        tool_search={"mode": "client"},
        tool_surface_narrowing=True,
    )
    shown = ["rare" in names for names in offered(model)]
    assert shown == [False] * 5 + [True] * 5 + [False] * 2


async def test_a_policy_brings_a_tool_that_may_leave_too():
    class Brings(w.Policy):
        async def start(self, run):
            return [look]

    model = scripted(*adds(7), "done")
    await w.agent_loop(
        "go", model=model, tools=[add], policies=[Brings()], tool_surface_narrowing=True
    )
    assert offered(model)[0] == ["add", "look"] and offered(model)[-1] == ["add"]


# --------------------------------------------------------------------------- caches


async def test_a_warm_cache_is_not_broken_for_it():
    model = scripted(*adds(20), "done", usage=CACHED)
    out = await w.agent_loop("go", model=model, tools=[add, look], tool_surface_narrowing=True)
    assert set(map(len, offered(model))) == {2} and narrowed(out) == []


async def test_it_goes_along_with_a_cut_of_the_view():
    class Cut(w.Policy):
        async def before_turn(self, run):
            if run.iteration == 9:
                run.reshape((1, 5), [], "cut")

    wide = w.Tool("wide", "Wide. " * 300, {}, lambda args: "x", side_effect_level="none")
    for other, leaves in ((wide, True), (look, False)):
        model = scripted(*adds(14), "done", usage=CACHED)
        out = await w.agent_loop(
            "go",
            "You do sums. " * 40,
            model=model,
            tools=[add, other],
            policies=[Cut()],
            tool_surface_narrowing=True,
        )
        left = [len(names) for names in offered(model)]
        assert left == ([2] * 9 + [1] * 6 if leaves else [2] * 15)  # else it would not pay
        await kept(out, model)


async def test_it_goes_along_with_a_compaction_in_the_very_same_request():
    model = scripted(*adds(24), "done", usage=CACHED)
    out = await w.agent_loop(
        "go",
        model=model,
        tools=[add, look],
        tool_surface_narrowing=True,
        compaction="truncate",
        compact_threshold=60,
        compact_keep_last=4,
    )
    names = offered(model)
    at = next(n for n, each in enumerate(names) if "recall" in each and n >= 5)
    assert names[at - 1] == ["add", "look"] or "look" not in names[at - 1]
    changes = [n for n in range(1, len(names)) if names[n] != names[n - 1]]
    assert len(changes) <= 2 and narrowed(out)
    await kept(out, model)


async def test_it_goes_along_with_tools_that_come():
    rare = tool("rare", defer_loading=True, side_effect_level="none")
    model = scripted(
        *adds(9), call("__windlass_tool_search", query="rare"), *adds(2), "done", usage=CACHED
    )
    await w.agent_loop(
        "go",
        model=model,
        tools=[add, look, rare],
        tool_search={"mode": "client"},
        tool_surface_narrowing=True,
    )
    names = offered(model)
    assert all("look" in each for each in names[:10])
    assert all("look" not in each and "rare" in each for each in names[10:])


# --------------------------------------------------------------------------- going on


async def test_a_run_goes_on_with_the_same_surface_wherever_it_was_killed():
    script = [*adds(6), call("look"), *adds(2), "done"]
    tools = [add, look, grep]
    whole = scripted(*script)
    narrowing = {"window_turns": 3}
    agent = w.Agent(whole, tools=tools, tool_surface_narrowing=narrowing, max_turns=20)
    await agent.run("go", session_id="s")
    store = current_store()
    entries = list(await store.read("s"))
    for cut in range(3, len(entries) - 1):
        replies = sum(type(e) is Replied for e in entries[:cut])
        await written(store, f"cut-{cut}", entries[:cut])
        model = scripted(*script[replies:])
        out = await agent.with_(model=model).resume(f"cut-{cut}")
        assert out.status == "done"
        rebuilt = requests_of(await store.read(f"cut-{cut}"))
        assert [r.frame for r in rebuilt] == [r.frame for r in whole.requests], cut


async def test_a_run_with_a_warm_cache_goes_on_with_the_same_surface_too():
    script = [*adds(12), "done"]
    whole = scripted(*script, usage=CACHED)
    options: dict[str, Any] = {
        "tools": [add, look],
        "tool_surface_narrowing": True,
        "max_turns": 20,
        "compaction": "truncate",
        "compact_threshold": 60,
        "compact_keep_last": 4,
    }
    out = await w.Agent(whole, **options).run("go", session_id="s")
    [entry] = narrowed(out)
    store = current_store()
    entries = list(await store.read("s"))
    at = entries.index(entry)
    rows = [row.first for row in await store.rows("s") if at - 20 < row.first < at + 12]
    assert len(rows) > 6  # what one moment did is stored wholly or not at all
    for cut in rows:
        replies = sum(type(e) is Replied for e in entries[:cut])
        await written(store, f"cut-{cut}", entries[:cut])
        model = scripted(*script[replies:], usage=CACHED)
        again = await w.Agent(model, **options).resume(f"cut-{cut}")
        assert again.status == "done"
        rebuilt = requests_of(await store.read(f"cut-{cut}"))
        assert [r.frame for r in rebuilt] == [r.frame for r in whole.requests], cut


async def test_a_new_run_on_the_session_sees_all_tools_again():
    model = scripted(*adds(6), "done", "again")
    agent = w.Agent(model, tools=[add, look], tool_surface_narrowing=True)
    await agent.run("go", session_id="s")
    await agent.run("more", session_id="s")
    assert len(offered(model)[-2]) == 1 and len(offered(model)[-1]) == 2


async def test_tools_that_are_written_as_text_are_narrowed_too():
    lines = [
        f'<tool_call>{{"name": "add", "arguments": {{"a": 1, "b": {n}}}}}</tool_call>'
        for n in range(6)
    ]
    again = '<tool_call>{"name": "look", "arguments": {}}</tool_call>'
    model = scripted(*lines, again, "done", native_tools=False)
    out = await w.agent_loop("go", model=model, tools=[add, look], tool_surface_narrowing=True)
    described = ['"look"' in (request.system or "") for request in model.requests]
    assert described == [True] * 5 + [False] * 2 + [True]
    assert [record.outcome for record in out.tool_calls] == ["ok"] * 7


# --------------------------------------------------------------------------- attacks


@pytest.mark.parametrize(
    ("value", "words"),
    [
        (3, "tool_surface_narrowing"),
        ("safe", "tool_surface_narrowing"),
        ({"windw_turns": 3}, "window_turns"),
        ({"window_turns": 0}, "window_turns"),
        ({"window_turns": True}, "window_turns"),
        ({"mode": "agressive"}, "'aggressive'"),
        ({"hard_keep": "grep"}, "hard_keep"),
        ({"prune_classes": ["readonly"]}, "'read_only'"),
        ({"keep_classes": ["x"]}, "keep_classes"),
        ({"enabled": 1}, "enabled"),
        ({"unknown_tool_policy": "drop"}, "unknown_tool_policy"),
        ({"prune_classes": ["mutating"], "keep_classes": ["mutating"]}, "mutating"),
        ({"prune_classes": ["unknown"], "unknown_tool_policy": "keep"}, "unknown_tool_policy"),
        ({"keep_classes": ["unknown"], "unknown_tool_policy": "prune"}, "unknown_tool_policy"),
    ],
)
async def test_an_impossible_value_is_refused(value: Any, words: str):
    model = scripted("never")
    with pytest.raises(w.ConfigError, match=words):
        await w.agent_loop("go", model=model, tools=[add], tool_surface_narrowing=value)
    assert not model.requests


async def test_none_is_the_default():
    model = scripted(*adds(7), "done")
    out = await w.agent_loop("go", model=model, tools=[add, look], tool_surface_narrowing=None)
    assert narrowed(out)
    agent = w.Agent(scripted(*adds(7), "done"), tools=[add, look], tool_surface_narrowing=None)
    assert narrowed(await agent.run("go")) == []


# --------------------------------------------------------------------------- on every wire


@pytest.mark.usefixtures("reachable")
@pytest.mark.parametrize("wire", list(servers(None)))
async def test_every_provider_takes_a_history_with_calls_of_a_hidden_tool(wire: str):
    """And a reminder at the end of each request."""
    used = [Reply(tool_calls=[("edit", {})]) for _ in range(6)]
    looks = Reply(tool_calls=[("look", {})])
    script = conversation(looks, *used, looks, "done")

    def answer(body: dict[str, Any], headers: Any) -> Reply:
        if "messages" in body:  # without what a wire puts between a result and a user's words
            heard = [m for m in body["messages"] if m.get("content") != "OK."]
            body = {**body, "messages": heard}
        return script(body, headers)

    server, make = servers(answer)[wire]
    async with server:
        agent = w.Agent(
            make(server.url),
            tools=[look, edit],
            max_tokens=4000,
            tool_surface_narrowing=True,
            on_session_start=w.system_reminder("Be brief."),
        )
        out = await agent.run("go")
    assert not server.refused, server.refused[0].message
    assert out.status == "done" and len(out.tool_calls) == 8
    requests = requests_of(out.entries)
    shown = ["look" in [spec.name for spec in request.frame.tools] for request in requests]
    assert shown == [True] * 6 + [False] * 2 + [True]
    for asked, described in zip(server.requests, shown, strict=True):
        body = json.dumps(asked.json)
        assert body.count("Be brief.") == 1 and ("Does what look does" in body) is described
    await kept(out)
