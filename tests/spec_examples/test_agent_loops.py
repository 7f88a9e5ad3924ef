"""The examples of `harn-agent-loops.txt` in Python, with scripted models in place of providers."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

import pytest

import windlass as w
from windlass.callers import compose, default_llm_caller, with_retry
from windlass.events import ToolCallAudit
from windlass.testing import call, scripted

DONE = '{"verdict": "done", "reasoning": "all there"}'
TASK, SYSTEM = "Mend the failing test.", "You are careful."


@w.tool(side_effect_level="read_only", annotations={"kind": "read"})
async def read_file(path: str) -> str:
    """Read a file."""
    return f"text of {path}"


@w.tool
async def edit(path: str) -> str:
    """Edit a file."""
    return f"edited {path}"


@w.tool
async def release_run() -> str:
    """Run the release."""
    return "released"


@w.tool
async def deploy_service() -> str:
    """Deploy."""
    return "deployed"


async def test_agent_turn():
    result = await w.agent_turn(
        "Summarize the current project risks.",
        {
            "system": "Be concise and cite concrete evidence.",
            "model": scripted("Two risks. ##DONE##"),
            "judge": {"model": scripted(DONE)},
        },
    )
    assert result.visible_text == "Two risks."
    assert result.judge_decisions[0].verdict == "done"


async def test_agent_loop():
    result = await w.agent_loop(
        "Write a function that sorts a list, then write tests for it.",
        "You are a senior engineer.",
        {"loop_until_done": True, "model": scripted("def sort…", "Tests too. ##DONE##")},
    )
    assert "def sort" in result.text
    assert (result.status, result.llm.iterations) == ("done", 2)


async def test_scratchpad_with_another_reorganizer():
    pad = '{"goals": ["mend"], "open_items": [], "facts": [], "refs": []}'
    result = await w.agent_loop(
        TASK,
        SYSTEM,
        {
            "model": scripted("One.", "Two.", "Three. ##DONE##"),
            "loop_until_done": True,
            "scratchpad": {
                "reorganize_every": 2,
                "reorganizer": {"model": scripted(pad, then=pad)},
            },
        },
    )
    assert result.status == "done" and "scratchpad" in result.transcript


async def test_llm_caller():
    caller = compose([with_retry({"max_attempts": 4, "backoff": "exponential"})])(
        default_llm_caller()
    )
    result = await w.agent_loop(
        TASK,
        SYSTEM,
        {"model": scripted("ok ##DONE##"), "loop_until_done": True, "llm_caller": caller},
    )
    assert result.status == "done"


async def test_compaction_by_default_policy():
    result = await w.agent_loop(
        TASK,
        SYSTEM,
        {"model": scripted("ok"), "compaction": {"strategy": "hybrid", "keep_last_n": 10}},
    )
    assert result.status == "done"


async def test_compaction_with_a_policy_and_a_callback():
    seen: list[str] = []

    def compact(archived: Any, _reminders: Any, policy: Any) -> dict[str, str]:
        seen.append(policy["mode"] if isinstance(policy, dict) else policy.mode)
        return {"summary": f"resume with {seen[-1]} over {len(archived)} messages"}

    calls = [call("read_file", path=f"{at}.py") for at in range(6)]
    result = await w.agent_loop(
        TASK,
        SYSTEM,
        {
            "model": scripted(*calls, "done"),
            "tools": [read_file],
            "compact_threshold": 1,
            "compact_strategy": "custom",
            "auto_compact": {"policy": w.compact_for_bug_fix_resumption({"author": "host"})},
            "compact_callback": compact,
        },
    )
    assert result.status == "done" and set(seen) == {"bug_fix_resumption"}


async def test_iteration_budget():
    result = await w.agent_loop(
        "go",
        SYSTEM,
        {
            "model": scripted("ok"),
            "iteration_budget": {"mode": "adaptive", "initial": 4, "max": 16, "extend_by": 2},
        },
    )
    assert result.status == "done"


async def test_loop_control():
    def control(state: Any) -> Any:
        if state.budget.remaining > 1:
            return None
        if state.completion.vetoed:
            return {"action": "extend", "by": 2, "reason": "completion gate vetoed"}
        if state.turn.tool_call_count > 0 and state.progress.changed:
            return {"action": "extend", "by": 2, "reason": "recent turn made progress"}
        return None

    calls = [call("read_file", path="a")] * 3
    result = await w.agent_loop(
        "go",
        model=scripted(*calls, "done"),
        tools=[read_file],
        iteration_budget={"mode": "adaptive", "initial": 1, "max": 8},
        loop_control=control,
    )
    assert result.status == "done"


async def test_adaptive_budget_of_the_result():
    calls = [call("read_file", path="a")] * 4
    result = await w.agent_loop(
        "go",
        SYSTEM,
        {
            "model": scripted(*calls, "done"),
            "tools": [read_file],
            "iteration_budget": {"mode": "adaptive", "initial": 4, "max": 12},
        },
    )
    assert result.adaptive_budget.extensions_used == 1
    assert result.adaptive_budget.final_limit == 6
    for decision in result.adaptive_budget.decisions:
        assert (decision.action + ": " + decision.reason).startswith("extend: ")


async def test_presets():
    audit = await w.audit_agent(
        "Audit the release",
        {
            "model": scripted(call("release_run"), "Fine."),
            "tools": [release_run],
            "require_successful_tools": ["release_run"],
        },
    )
    repair = await w.repair_agent(
        "Fix the regression", {"model": scripted(call("edit", path="a"), "Fixed."), "tools": [edit]}
    )
    summary = await w.summary_agent("Summarize the audit findings.", {"model": scripted("Short.")})
    opts = w.agent_preset(
        "repair",
        {
            "tools": [edit],
            "iteration_budget": {"mode": "adaptive", "initial": 6, "max": 20},
        },
    )
    result = await w.agent_loop("go", SYSTEM, {**opts, "model": scripted("Nothing to do.")})
    assert {out.status for out in (audit, repair, summary, result)} == {"done"}


async def test_captains():
    receipts: list[Any] = []
    sweep = await w.merge_captain_agent(
        "Sweep open PRs.",
        {
            "model": scripted(call("edit", path="a"), "Swept."),
            "tools": [edit],
            "consent": lambda call: True,
            "audit_sink": receipts.append,
        },
    )
    triaged = await w.oncall_captain_agent(
        "Triage paging alerts.",
        {
            "model": scripted("Quiet."),
            "tools": [read_file],
            "rate_limit": {"max_calls": 100, "message": "alert-loop cap"},
        },
    )
    shipping = await w.release_captain_agent(
        "Cut v0.9.0.",
        {
            "model": scripted(call("release_run"), "Cut."),
            "tools": [release_run],
            "dry_run": True,
            "cheap_caller": default_llm_caller(),
            "frontier_caller": default_llm_caller(),
            "escalate_predicate": lambda call: False,
            "logging_sink": receipts.append,
        },
    )
    assert {out.status for out in (sweep, triaged, shipping)} == {"done"} and receipts


async def test_agent_budget():
    assert w.agent_budget("repair", {"max": 24})["max"] == 24
    budget = w.agent_budget("adaptive", {"initial": 2, "max": 6})
    out = await w.agent_loop("go", model=scripted("ok"), iteration_budget=budget)
    assert out.status == "done"


async def test_done_judge_cadence():
    result = await w.agent_loop(
        TASK,
        SYSTEM,
        {
            "model": scripted(then="ok ##DONE##"),
            "loop_until_done": True,
            "done_judge": {
                "model": scripted(DONE),
                "cadence": {"every": 5, "when": "always", "max_invocations": 3},
            },
        },
    )
    assert result.status == "done"


async def test_context_callback():
    def hide_old_assistant_turns(ctx: Any) -> Any:
        kept: list[Any] = []
        latest_assistant = None
        for message in ctx.visible_messages:
            if message.role == "assistant":
                latest_assistant = message
            else:
                kept.append(message)
        if latest_assistant is not None:
            kept.append(latest_assistant)
        return {"messages": kept}

    model = scripted("One.", "Two.", "Three. ##DONE##")
    result = await w.agent_loop(
        TASK,
        "You are a coding assistant.",
        {"model": model, "loop_until_done": True, "context_callback": hide_old_assistant_turns},
    )
    assert result.status == "done"
    roles = [message.role for message in model.requests[-1].messages]
    assert roles.count("assistant") == 1


async def test_post_turn_callback():
    def finalize_after_read(turn: Any) -> Any:
        if "read_file" in turn.session_successful_tools:
            return {
                "message": "You have the required file evidence. Produce the final answer now.",
                "llm_options": {"tool_choice": "none"},
            }
        return ""

    model = scripted(call("read_file", path="a"), "It says so.")
    out = await w.agent_loop(
        "go", model=model, tools=[read_file], post_turn_callback=finalize_after_read
    )
    assert out.status == "done"
    assert model.requests[-1].frame.settings.tool_choice == "none"


async def test_retry():
    model = scripted(w.Overloaded("busy"), w.Overloaded("busy"), "Done. ##DONE##")
    caller = with_retry({"max_attempts": 3, "backoff": "none", "backoff_ms": 0})(
        default_llm_caller()
    )
    result = await w.agent_loop(
        TASK,
        "You are a coding assistant.",
        {
            "model": model,
            "loop_until_done": True,
            "max_iterations": 30,
            "max_nudges": 5,
            "llm_caller": caller,
        },
    )
    assert "Done." in result.text


async def test_skill():
    ship = w.skill_define(
        "ship",
        {
            "description": "Ship a production release",
            "when_to_use": "User says ship/release/deploy",
            "paths": ["infra/**", "Dockerfile"],
            "allowed_tools": ["deploy_service"],
            "prompt": "Follow the deploy runbook. One command at a time.",
        },
    )
    model = scripted("Shipped.")
    result = await w.agent_loop(
        "Ship the new release to production",
        "You are a staff deploy engineer.",
        {
            "model": model,
            "tools": [deploy_service, edit],
            "skills": ship,
            "working_files": ["infra/terraform/cluster.tf"],
        },
    )
    assert result.status == "done"
    assert "Follow the deploy runbook." in (model.requests[0].system or "")
    offered = [tool.name for tool in model.requests[0].frame.tools]
    assert offered == ["deploy_service", "agent_await_resumption"]


@pytest.mark.parametrize("options", [{"approval_policy": {"rules": [{"deny": "edit"}]}}])
async def test_permission_denials_are_structured_results(options: Any):
    model = scripted(call("edit", path="a"), "ok")
    out = await w.agent_loop("go", model=model, tools=[edit], **options)
    assert '"error": "permission_denied"' in out.tool_calls[0].result.replace('":"', '": "')


async def test_sub_agent_run():
    model = scripted(call("read_file", path="main.py"), '{"paths": ["main.py"]}')
    paths = {"type": "array", "items": {"type": "string"}}
    result = await w.sub_agent_run(
        "Find the config entrypoints.",
        {
            "model": model,
            "tools": [read_file, edit],
            "allowed_tools": ["read_file"],
            "token_budget": 1200,
            "returns": {
                "schema": {"type": "object", "properties": {"paths": paths}, "required": ["paths"]}
            },
        },
    )
    assert result.ok and result.data["paths"] == ["main.py"]


async def test_delegated_worker():
    w.llm_mock(text="A summary.")
    worker = await w.spawn_agent(
        {
            "name": "research-pass",
            "task": "Draft a summary",
            "node": {
                "kind": "subagent",
                "mode": "llm",
                "model_policy": {"provider": "mock"},
                "output_contract": {"output_kinds": ["summary"]},
            },
        }
    )
    done = await w.wait_agent(worker)
    assert done.status == "completed"
    assert [one.text for one in done.artifacts if one.kind == "summary"] == ["A summary."]


async def test_delegated_worker_with_some_tools_only():
    w.llm_mock(tool_calls=[{"name": "edit", "arguments": {"path": "main.py", "text": "x"}}])
    w.llm_mock(text="I may not.")
    worker = await w.spawn_agent(
        {
            "task": "Read project files only",
            "tools": ["read_file"],
            "node": {
                "kind": "subagent",
                "mode": "llm",
                "model_policy": {"provider": "mock"},
                "tools": [read_file, edit],
            },
        }
    )
    done = await w.wait_agent(worker)
    assert done.text == "I may not."
    assert "permission_denied" in str(done.transcript["messages"])


async def test_interactive_chat_loop(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    monkeypatch.setattr("sys.stdin", io.StringIO("Review main.py.\n/runs\nThanks.\n"))

    def render_recent_runs(state: dict[str, Any]) -> str:
        return f"last: {state['last_text']}"

    async def on_user_input(state: dict[str, Any]) -> Any:
        line = await w.read_line()
        if not line.ok:
            return {"kind": "exit", "reason": line.status or "closed"}
        return w.agent_chat_route_input(
            line.value,
            state,
            {"/runs": lambda req: {"kind": "handled", "message": render_recent_runs(req.state)}},
        )

    result = await w.agent_chat_loop(
        {
            "session_id": "review-chat",
            "model": scripted(
                call("read_file", path="main.py"), ("Which part?", call("wait_for_user")), "Bye."
            ),
            "tools": [read_file],
            "tool_format": "native",
            "on_user_input": on_user_input,
            "on_model_turn": lambda turn, state: {
                "state": state | {"last_text": turn.visible_text}
            },
        }
    )
    assert capsys.readouterr().out == "last: Which part?\n"
    assert (result.stop_reason, result.turns, result.session_id) == ("closed", 2, "review-chat")
    assert result.state == {"last_text": "Bye."}


async def test_agentic_user_behind_ask_user(tmp_path: Path):
    answerer = w.agentic_user(
        "Provide a simple prompt to create ./index.test.ts with full edge coverage.",
        "Research the codebase only if needed. If the agent is done, stop.",
        w.simulated_user_read_tools(),
        scripted("Use Vitest."),
        {"max_replies": 4, "max_llm_calls": 8, "max_iterations": 4},
    )
    result = await w.agent_loop(
        TASK,
        SYSTEM,
        {
            "model": scripted(call("ask_user", question="Which test runner?"), "Written."),
            "tools": w.user_tools(answerer, [read_file]),
            "tool_format": "native",
            "loop_until_done": True,
            "max_iterations": 20,
            "workspace": str(tmp_path),
        },
    )
    assert (result.status, result.tools.successful) == ("done", ["ask_user"])
    assert result.visible_text == "Written."


async def test_scripted_user_behind_ask_user():
    answerer = w.scripted_user(
        [
            {"match": "*test runner*", "reply": "Use Vitest and cover empty inputs."},
            {"match": "*done*", "action": "stop", "reason": "complete"},
        ],
        {"max_replies": 2},
    )
    model = scripted(
        call("ask_user", question="Which test runner?"), call("ask_user", question="Am I done?")
    )
    events: list[Any] = []
    result = await w.agent_loop(
        TASK,
        SYSTEM,
        {
            "model": model,
            "tools": w.user_tools(answerer),
            "tool_format": "native",
            "loop_until_done": True,
            "on_event": events.append,
        },
    )
    assert (result.status, result.stop_reason) == ("done", "simulated_user_stop")
    audits = [event.audit["event_type"] for event in events if type(event) is ToolCallAudit]
    assert [one for one in audits if one.startswith("simulated")] == [
        "simulated_user_reply",
        "simulated_user_stop",
    ]


async def test_simulated_user_as_post_turn_callback():
    answerer = w.fixture_user(["Blue."])
    result = await w.agent_loop(
        TASK,
        SYSTEM,
        {
            "model": scripted("Which colour?", "And which size?"),
            "post_turn_callback": w.simulated_user_post_turn(answerer),
        },
    )
    assert (result.status, result.stop_reason) == ("done", "simulated_user_stop")


async def test_daemon_wrappers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.chdir(tmp_path)
    async with w.Runtime(store="memory:", environ={}):
        daemon = await w.daemon_spawn(
            {
                "name": "reviewer",
                "task": "Watch for trigger events and summarize the latest change.",
                "system": "You are a careful reviewer.",
                "provider": "mock",
                "persist_path": ".windlass/daemons/reviewer",
                "event_queue_capacity": 256,
            }
        )
        await w.daemon_trigger(daemon, {"kind": "file_changed", "path": "src/lib.rs"})
        snap = await w.daemon_snapshot(daemon)
        assert snap.pending_event_count == 1
        await w.daemon_stop(daemon)
        resumed = await w.daemon_resume(".windlass/daemons/reviewer")
        assert (resumed.name, resumed.session_id) == (daemon.name, daemon.session_id)
        await w.daemon_stop(resumed)
