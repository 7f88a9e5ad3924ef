"""What editors and a REPL see of the public API: types, completion, signatures, names."""

from __future__ import annotations

import inspect
import json
import pydoc
import re
import subprocess
import sys
from functools import cached_property
from pathlib import Path
from typing import Any, get_args

import jedi
import pytest

import windlass as w
from windlass import foreign_names
from windlass.agents.agent_turn import IterationSummary, JudgeSummary
from windlass.engine.results import RunResult
from windlass.events import Event
from windlass.loop.state import PendingCall
from windlass.observe.result_records import LLMMetrics, ToolSummary
from windlass.options.index import ALIASES, GROUPS, NAMES
from windlass.options.parse import SUPERSEDED

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
RIGHT, WRONG = HERE / "right_uses.py", HERE / "misuses.py"
HOME: dict[str, str] = vars(w)["_HOME"]


# --------------------------------------------------------------------------- pyright


def test_typing_pyright_reports_every_misuse_and_no_right_use():
    command = [sys.executable, "-m", "pyright", "-p", str(HERE), "--outputjson"]
    command += ["--pythonpath", sys.executable]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, cwd=ROOT)
    reported: dict[tuple[str, int], str] = {}
    for one in json.loads(done.stdout)["generalDiagnostics"]:
        place = (Path(one["file"]).name, one["range"]["start"]["line"] + 1)
        reported.setdefault(place, f"{one.get('rule')}: {one['message']}")
    wrong: dict[tuple[str, int], str] = {}
    for number, line in enumerate(WRONG.read_text("utf-8").splitlines(), 1):
        if found := re.search(r"# (report\w+)$", line):
            wrong[WRONG.name, number] = found[1]
    assert len(wrong) >= 30
    assert {place: text for place, text in reported.items() if place not in wrong} == {}
    rules = {place: reported.get(place, "nothing").partition(":")[0] for place in wrong}
    assert rules == wrong


# --------------------------------------------------------------------------- jedi


def complete(code: str) -> set[str]:
    """What jedi offers at the end of a file."""
    lines = code.splitlines()
    found = jedi.Script(code).complete(len(lines), len(lines[-1]))
    return {one.name for one in found}


@pytest.mark.parametrize(
    ("code", "names"),
    [
        ('w.Agent("m", max_', {"max_turns=", "max_tokens=", "max_concurrent_tools="}),
        ('w.Agent("m", tool', {"tools=", "tool_format=", "tool_timeout="}),
        ('w.Agent("m").run("go", ses', {"session_id="}),
        ('w.Agent("m").run_sync("go", on_', {"on_event=", "on_tool_call=", "on_warning="}),
        ('w.Agent("m").stream("go", temp', {"temperature="}),
        ('w.Agent("m").resume("s", take', {"take_over="}),
        ('w.Agent("m").with_(allowed', {"allowed_tools="}),
        ('w.agent_loop("go", loop_', {"loop_until_done=", "loop_detection="}),
        ('w.agent_turn("go", jud', {"judge="}),
        ('w.llm_call("go", resp', {"response_format="}),
        ('w.llm_stream("go", max_t', {"max_tokens="}),
        ("w.Runtime(sto", {"store="}),
        ('w.Runtime().models.generate("go", max_c', {"max_cost_usd="}),
        ('w.Agent("m").run_sync("go").out', {"output"}),
        ('w.Agent("m").run_sync("go").usage.total', {"total_tokens"}),
        ("w.Bud", {"Budget", "BudgetExceeded"}),
        ("w.audit.Audit", {"AuditEntry", "AuditReport"}),
    ],
)
def test_typing_jedi_completes_options_and_results(code: str, names: set[str]):
    assert names <= complete(f"import windlass as w\n{code}")


def test_typing_completion_in_a_repl_offers_options_and_the_names_of_every_day():
    here = [{"w": w, "agent": w.Agent("mock")}]
    offered = {one.name for one in jedi.Interpreter("w.Agent('m', max_tu", here).complete()}
    assert "max_turns=" in offered
    offered = {one.name for one in jedi.Interpreter("agent.run('go', sess", here).complete()}
    assert "session_id=" in offered
    assert {"Agent", "tool", "llm_call"} <= set(dir(w)) == set(w.__all__)


# --------------------------------------------------------------------------- signatures and help


@pytest.mark.parametrize(
    ("function", "door"),
    [
        (w.Agent, "agent"),
        (w.Agent.with_, "agent"),
        (w.Agent.run, "run"),
        (w.Agent.run_sync, "run"),
        (w.Agent.stream, "run"),
        (w.agent_loop, "loop"),
        (w.agent_turn, "loop"),
        (w.llm_call, "call"),
        (w.llm_stream, "call"),
        (w.llm_completion, "completion"),
    ],
)
def test_typing_signature_lists_every_option_with_its_type(function: Any, door: Any):
    parameters = inspect.signature(function).parameters
    assert NAMES[door] <= set(parameters)
    assert all(
        one.annotation is not one.empty for name, one in parameters.items() if name != "self"
    )
    assert not any(one.kind is one.VAR_KEYWORD for one in parameters.values())


def test_typing_help_lists_options_and_a_signature_can_be_bound_and_changed():
    text = pydoc.plain(pydoc.render_doc(w.Agent))
    assert "max_turns: int | None = None" in text and "temperature: float | None" in text
    signature = inspect.signature(w.agent_loop)
    assert signature.bind("go", max_iterations=3).arguments == {"prompt": "go", "max_iterations": 3}
    with pytest.raises(TypeError, match="max_iteration"):
        signature.bind("go", max_iteration=3)
    assert "LoopResult" in str(signature) and signature.replace(parameters=[]).parameters == {}
    assert "max_iterations" in inspect.signature(w.sync.agent_loop).parameters
    assert inspect.iscoroutinefunction(w.agent_loop)


# --------------------------------------------------------------------------- results


RESULTS = (
    *(w.AgentResult, w.LoopResult, w.TurnResult, w.LLMResult, w.Chunk, w.GenerateResult),
    *(w.GenerateChunk, w.ToolCallRecord, w.ToolTraceEntry, w.Usage, w.StreamEvent, w.Message),
    *(w.Text, w.Thinking, w.ToolCall, w.ToolResult, w.TraceEvent, w.AuditEntry, w.AuditReport),
    *(w.PendingApproval, PendingCall, LLMMetrics, ToolSummary, IterationSummary, JudgeSummary),
    *(RunResult, *get_args(Event)),
)


@pytest.mark.parametrize("kind", RESULTS, ids=lambda kind: kind.__name__)
def test_typing_result_has_no_attribute_of_any_type(kind: type):
    untyped: list[str] = []
    for base in kind.__mro__:
        if not base.__module__.startswith("windlass"):
            continue
        hints = dict(inspect.get_annotations(base))
        for name, value in vars(base).items():
            getter = value.fget if isinstance(value, property) else None
            getter = value.func if isinstance(value, cached_property) else getter
            if getter is not None:
                hints[name] = getter.__annotations__.get("return", "Any")
        for name, hint in hints.items():
            text = hint if isinstance(hint, str) else getattr(hint, "__forward_arg__", repr(hint))
            members = {part.strip() for part in str(text).split("|")}
            if not name.startswith("_") and members & {"Any", "typing.Any"}:
                untyped.append(f"{base.__name__}.{name}: {text}")
    assert untyped == []


# --------------------------------------------------------------------------- names


def test_typing_names_of_every_day_are_few_and_all_names_stay_importable():
    assert len(w.__all__) <= 75 and len(HOME) > 200
    assert set(w.__all__) <= {*HOME, *vars(w)["_MODULES"]}
    for name, home in HOME.items():
        namespace: dict[str, object] = {}
        exec(f"from windlass import {name}", namespace)
        assert namespace[name] is getattr(sys.modules[f"windlass.{home}"], name)


def test_typing_every_name_is_found_in_a_topic_or_is_one_of_every_day():
    topics = [*vars(w)["_TOPICS"], *vars(w)["_MODULES"]]
    found = {name for topic in topics for name in vars(getattr(w, topic))}
    for topic in topics:
        found |= set(getattr(getattr(w, topic), "__all__", ()))
    assert set(HOME) <= found | set(w.__all__)


def test_typing_stub_and_topics_are_up_to_date():
    command = [sys.executable, str(ROOT / "scripts" / "make_stub.py"), "--check"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, f"{done.stdout}{done.stderr}"


# --------------------------------------------------------------------------- names of other frameworks


def test_foreign_names_are_never_ours():
    ours = {*GROUPS, *ALIASES, *SUPERSEDED, *(name for door in NAMES.values() for name in door)}
    assert not ours & set(foreign_names.OPTIONS)
    assert not {*HOME, *vars(w)["_MODULES"]} & set(foreign_names.NAMES)
    assert not set(dir(w.Agent)) & set(foreign_names.AGENT)
    assert not set(dir(w.AgentResult)) & set(foreign_names.RESULTS)


@pytest.mark.parametrize("name", sorted(foreign_names.OPTIONS))
def test_foreign_option_is_answered_with_ours(name: str):
    given: dict[str, Any] = {name: 1}
    with pytest.raises(w.ConfigError) as caught:
        w.Agent("mock", **given)
    text = str(caught.value)
    assert "did you mean" not in text
    assert re.search(r"; use '(\w+)'|; .*\b\w+=…|; .*_retries", text), text
    if told := re.search(r"; use '(\w+)'", text):
        assert told[1] in inspect.signature(w.Agent).parameters


@pytest.mark.parametrize("name", sorted(foreign_names.NAMES))
def test_foreign_name_of_the_package_is_answered_with_ours(name: str):
    with pytest.raises(ImportError, match=rf"windlass has no name '{name}'; use '") as caught:
        exec(f"from windlass import {name}")
    told = re.search(r"; use '(\w+)'", str(caught.value))
    assert told is not None and hasattr(w, told[1])
    with pytest.raises(AttributeError, match=rf"'{name}'; use '{told[1]}'"):
        getattr(w, name)
    assert not hasattr(w, name)


@pytest.mark.parametrize("table", ["agent", "results"])
def test_foreign_attribute_is_answered_with_ours(table: str):
    agent = w.Agent("mock")
    w.llm_mock({"text": "hello"})
    owner = agent if table == "agent" else agent.run_sync("hi")
    for name in foreign_names.TABLES[table]:
        with pytest.raises(
            AttributeError, match=rf"has no '{name}'; (use '|.*as Agent\()"
        ) as caught:
            getattr(owner, name)
        if told := re.search(r"; use '(\w+)", str(caught.value)):
            assert hasattr(owner, told[1]), str(caught.value)
