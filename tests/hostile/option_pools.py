"""For every option, values that are right and values that are not."""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path
from typing import Any, Literal

import windlass as w
from tests.hostile.pool_derivation import (
    HALF,
    HUGE,
    JUNK,
    NO_DICT,
    NO_FUNCTION,
    NO_LIST,
    NO_TEXT,
    NO_WHOLE,
    Angry,
    Pool,
    cycle,
    derive_pool,
    keys,
)
from windlass.loop.abort import Abort
from windlass.loop.policy import Policy
from windlass.options.index import ALIASES, NAMES, OF_A_RUN
from windlass.options.parse import find_option
from windlass.policies.daemon.options import NAMES as DAEMON_NAMES
from windlass.testing import scripted


class Plain(Policy[None]):
    """A policy that does nothing."""


class Named(Policy[None]):
    """Another of a chosen name."""

    name = "Plain"  # pyright: ignore[reportAssignmentType]


async def add(a: int, b: int = 2) -> int:
    """Add."""
    return a + b


def look(what: str) -> str:
    """Look."""
    return what


NAMELESS: w.Agent[Any, Any] = w.Agent(scripted("x"))
HELPER: w.Agent[Any, Any] = NAMELESS.with_(name="helper")

CALL: dict[str, Pool] = {
    "stop": (["x", ["x", "y"], ("x",), None], ["", [""], [1], [HALF], 5, *NO_LIST]),
    "tool_choice": (
        ["auto", "none", "required", {"name": "add"}, None],
        ["any", "", {"name": 5}, {"nam": "add"}, {}, {"name": "add", "x": 1}, HALF, 5, True, *JUNK],
    ),
    "tool_search": (
        [
            True,
            False,
            "bm25",
            "regex",
            {},
            {"mode": "client", "budget_tokens": 5},
            w.ToolSearch(),
            None,
        ],
        [
            0,
            1,
            "",
            "bm52",
            "host",
            HALF,
            {"mod": "auto"},
            {"mode": 5},
            {"mode": HALF},
            {"name": ""},
            {"always_loaded": "x"},
            {"always_loaded": [5]},
            {"always_loaded": cycle()},
            {"name": HALF},
            {"always_loaded": ["nobody"]},
            {"budget_tokens": math.nan},
            {"budget_tokens": 1.5},
            {"search": Angry()},
            {"strategy": "host"},
            {"strategy": Angry()},
            *JUNK,
        ],
    ),
    "thinking": (
        [True, False, {"budget_tokens": 1024}, None],
        [
            1,
            "yes",
            {"budget_tokens": object()},
            {1: 2},
            {"budget_tokens": math.nan},
            cycle(),
            *JUNK,
        ],
    ),
    "messages": (
        [["hi"], [w.Message("user", "hi")], [{"role": "user", "content": "hi"}], None],
        [
            [],
            5,
            [5],
            [{"role": "robot", "content": "x"}],
            [{"role": "user", "content": 5}],
            [{"role": "user", "content": [{"type": "nonsense"}]}],
            [{"role": "user", "content": HUGE}],
            [w.Message("robot", "x")],
            b"hi",
            [b"hi"],
            object(),
            Angry(),
            [Angry()],
            cycle(),
            [{"role": ["user"], "content": "x"}],
            [{}],
            {"x": 1},
            [w.Message("user", (5,))],
            [w.Message("assistant", (w.ToolCall("c", "add", {}),))],
            [w.Message("tool", (w.ToolResult("nobody", "x"),))],
        ],
    ),
    "tools": (
        [
            [],
            [add],
            (add, look),
            [w.tool(add)],
            [f"{__name__}:add"],
            w.tool_registry([add]),
            None,
            [{"name": "t", "description": "d", "handler": lambda args: 1}],
        ],
        [
            5,
            "x",
            "a:b",
            add,
            [5],
            [None],
            ["no_such_module_xyz:f"],
            [f"{__name__}:nothing"],
            [":"],
            ["a:"],
            [":a"],
            [""],
            [f"{__name__}:HUGE"],
            [f"{__name__}:HUGE.x.y"],
            ["x" * 10_000],
            [HALF],
            [f"{HALF}:f"],
            [add, add],
            [add, w.tool(name="add")(look)],
            [int],
            [lambda x: x],
            [{"name": "x y"}],
            [{"nam": "x"}],
            [{}],
            [{"name": 5}],
            [{"name": "t", "parameters": 5}],
            [{1: 2}],
            [".:f"],
            ["..a:f"],
            ["a..b:f"],
            ["tests.hostile.broken_module:f"],
            b"x",
            [b"x"],
            object(),
            [Angry()],
            Angry(),
            cycle(),
            {"add": add},
            [{"name": "t", "parameters": {"type": "strng"}}],
        ],
    ),
}

_PATHS: list[Any] = [5, [5], [HALF], {"a": 1}, True, *JUNK[:4]]
_PAD: dict[str, Any] = {"goals": [{"text": "a roof"}], "facts": [], "open_items": ["x"], "refs": []}
_SKILL: dict[str, Any] = {"name": "ship", "description": "ship a release", "prompt": "Slowly."}


CONTEXT: dict[str, Pool] = {
    "compaction": (
        [
            True,
            False,
            "hybrid",
            "truncate",
            "none",
            {},
            {"strategy": "summarize_all", "keep_last_n": 2},
            {"policy": {"mode": "mine", "preserve": ["x"]}},
            {"compaction_policy": {"author": "host"}},
            w.Compaction(strategy="truncate"),
            None,
        ],
        [
            "",
            "hybird",
            "custom",
            *NO_DICT,
            *keys(
                {"strategy": "none"},
                {
                    "strategy": ["x", 5],
                    "keep_last_n": NO_WHOLE,
                    "policy": [
                        5,
                        "x",
                        {"mod": 1},
                        {"mode": 5},
                        {"preserve": "x"},
                        {"preserve": [5]},
                        {"drop": [HALF]},
                        {"extend_default_instructions": 1},
                        {"scope": ""},
                    ],
                },
            ),
            {"policy": {}, "compaction_policy": {}},
        ],
    ),
    "auto_compact": (
        [True, False, {"keep_last_n": 3}, {"strategy": "truncate"}, None],
        ["", "x", *NO_DICT, {"keep_last_n": -1}],
    ),
    "compact_strategy": (
        ["hybrid", "truncate", "summarize_middle", "summarize_all", "none", None],
        ["", "Hybrid", "custom", 5, True, HALF, *JUNK],
    ),
    "compact_callback": ([lambda archived, reminders, policy: "short", None], NO_FUNCTION),
    "transcript_projection": (
        [
            "clean_tool_repair",
            "reachability_gc",
            {"policy": "squash_failed_calls", "keep_last": 3},
            {"policy": "summary_prefix", "summary": "So far."},
            {"policy": "custom", "project": lambda m, c: m},
            w.TranscriptProjection(policy="clean_tool_repair"),
            None,
        ],
        [
            "",
            "squash",
            "custom",
            True,
            False,
            {},
            {"keep_last": 3},
            {"policy": "custom"},
            {"policy": "summary_prefix", "roots": ["x"]},
            *NO_DICT,
            *keys(
                {"keep_last": 1},
                {
                    "keep_last": NO_WHOLE,
                    "window_turns": [0, *NO_WHOLE],
                    "roots": NO_LIST,
                    "min_chars": NO_WHOLE,
                },
                {"policy": "reachability_gc"},
            ),
        ],
    ),
    "context_callback": ([lambda ctx: None, lambda ctx: ctx.messages, None], NO_FUNCTION),
    "context_filter": ([lambda ctx: {"messages": ctx.visible_messages}, None], NO_FUNCTION),
    "message_decorator": (
        [lambda message, context: None, lambda message, context: message, None],
        NO_FUNCTION,
    ),
    "scratchpad": (
        [
            True,
            False,
            {},
            {"enabled": False},
            {"initial": _PAD},
            {"reorganize_every": 0, "recite": False},
            {"reorganizer": {"provider": "mock"}},
            w.Scratchpad(),
            None,
        ],
        [
            *NO_DICT,
            *keys(
                {"recite": True},
                {
                    "enabled": [1, "x"],
                    "recite": [1],
                    "reorganize_every": NO_WHOLE,
                    "max_recent_messages": [1_001, -1],
                    "schema_retries": [11, -1],
                    "initial": [
                        5,
                        "x",
                        {"goal": []},
                        {"goals": 5},
                        {"facts": [{"text": "x"}]},
                        {"goals": ["x" * 20_000]},
                        cycle(),
                    ],
                    "reorganizer": [5, "x", {"modl": "x"}, {"model": 5}, {"provider": "nobody"}],
                },
            ),
        ],
    ),
    "skills": (
        [
            [],
            _SKILL,
            [_SKILL],
            (_SKILL, {"name": "b"}),
            w.skill_registry(_SKILL),
            w.skill_define("c"),
            None,
        ],
        [
            5,
            True,
            "",
            HALF,
            "a\0b",
            {},
            [{}],
            [5],
            [None],
            {"name": ""},
            {"name": 5},
            {"name": "a/b"},
            {"name": "x", "prmpt": "x"},
            [_SKILL, _SKILL],
            {"name": "x", "paths": [5]},
            {"name": "x", "paths": ["[" * 5000]},
            {"name": "x", "allowed_tools": ["a:b"]},
            {"name": "x", "on_activate": 5},
            {"name": "x", "metadata": 5},
            {"name": HALF},
            cycle(),
            Angry(),
            object(),
            b"x",
        ],
    ),
    "tool_surface_narrowing": (
        [
            True,
            False,
            {},
            {"window_turns": 2, "mode": "aggressive"},
            {"hard_keep": ["add"]},
            {"unknown_tool_policy": "prune"},
            w.ToolSurfaceNarrowing(),
            None,
        ],
        [
            *NO_DICT,
            {"prune_classes": ["read_only"], "keep_classes": ["read_only"]},
            *keys(
                {"mode": "safe"},
                {
                    "enabled": [1],
                    "window_turns": [0, *NO_WHOLE],
                    "mode": ["", "bold", 5],
                    "hard_keep": ["add", [5], [HALF]],
                    "prune_classes": [["reading"], "read_only", [5]],
                    "keep_classes": [["x"]],
                    "unknown_tool_policy": ["x", 5, True],
                },
            ),
        ],
    ),
    "prompts": (
        [
            {},
            {"agent.compaction_system": {"text": "Be short."}},
            {"agent.nudge": lambda values: "Go on."},
            {"agent.continue": __file__},
            None,
        ],
        [
            *NO_DICT,
            {"agent.nudge": 5},
            {"agent.nudge": {}},
            {"agent.nudge": {"text": ""}},
            {"agent.nudge": {"text": "a", "path": "b"}},
            {"agent.nudge": {"txt": "a"}},
            {"agent.nudge": "/no/such/file"},
            {"agent.nudge": "a\0b"},
            {"agent.nudge": {"text": HALF}},
            {"agent.nugde": {"text": "a"}},
            {"agent.hidden_tools": {"text": "no place"}},
            {"agent.nudge": None},
            {"agent.nudge": {"path": 5}},
        ],
    ),
    "prompt_overrides": (
        [{"agent.closing_answer": {"text": "End."}}, None],
        [*NO_DICT, {"x": {"text": "a"}}],
    ),
    "on_session_start": (
        [
            None,
            "Be brief.",
            w.system_reminder("x", ttl=2),
            ["a", {"text": "b", "ttl": 1, "propagate": "all"}],
            lambda start: None,
            lambda start: ["x"],
            [],
        ],
        [
            5,
            True,
            "",
            HALF,
            {},
            {"txt": "x"},
            {"text": 5},
            {"text": "x", "ttl": 0},
            {"text": "x", "ttl": True},
            {"text": "x", "propagate": "some"},
            [5],
            [None],
            [[]],
            {1: 2},
            b"x",
            object(),
            Angry(),
            cycle(),
        ],
    ),
    "context_strategy": (
        [
            {"type": "sliding-window", "max_turns": 3},
            {"type": "sliding-window", "max_turns": 0},
            {"type": "summarize", "max_tokens": 500},
            {"type": "custom", "compress": lambda messages, tokens: messages},
            w.SlidingWindow(max_turns=2),
            None,
        ],
        [
            True,
            False,
            *NO_DICT,
            {},
            {"type": "window"},
            {"type": "sliding-window"},
            {"type": "summarize", "max_turns": 3},
            {"max_turns": 3},
            {"type": "summarize", "max_tokens": 0},
            {"type": "summarize", "max_tokens": True},
            {"type": "custom", "compress": 5},
            {"type": "custom"},
            {"type": "summarize", "max_tokens": 5, "summary_model": 5},
            {"type": "sliding-window", "max_turns": 1.5},
            {"type": Angry()},
            {"type": "summarize", "max_tokens": 5, "summary_model": "nobody-knows"},
        ],
    ),
}
#: These are about skills, and need some beside them.
OF_SKILLS: dict[str, Pool] = {
    "skill_match": (
        [
            {},
            {"top_n": 2, "sticky": False},
            {"strategy": "host", "matcher": lambda query: []},
            {"invoke": "ship"},
            w.SkillMatch(),
        ],
        [
            True,
            *NO_DICT,
            {"strategy": "host"},
            {"matcher": lambda query: []},
            {"strategy": "words"},
            {"invoke": ["nobody"]},
            *keys({"top_n": 2}, {"top_n": [0, *NO_WHOLE], "sticky": [1], "invoke": [[5]]}),
        ],
    ),
    "working_files": ([["a.py", "b/c.md"], "a.py", []], _PATHS),
}
AUTHORITY: dict[str, Pool] = {
    "tool_preset": (
        [None, "readonly", "readwrite"],
        ["", "read", "READONLY", 5, True, [], {}, ["readonly"], b"full", object()],
    ),
    "workspace": ([None, ".", Path(".")], ["", "/no/such/folder", 5, True, [], {}, b".", object()]),
    "mounts": (
        [None, {}, {".": "read"}, {".": "extend"}, ["."], [".:extend"]],
        [5, ".", True, {".": "write"}, {".": None}, {5: "read"}, {"": "read"}, [5], [""], object()],
    ),
    "sandbox": (
        ["workspace", "none", None, {}, {"level": "none", "network": True}, w.Sandbox(memory=None)],
        ["", "strict", 5, True, [], {"level": "x"}, {"netwrok": 1}, {"memory": 1}, object()],
    ),
    "mcp_servers": (
        [None, {}, []],
        [
            5,
            True,
            "no such/mcp.json",
            [5],
            {"a": 5},
            {"a": {}},
            {"a": {"command": ""}},
            {"a": {"command": "x", "url": "http://y"}},
            {"a": {"url": "ftp://y"}},
            {"a": {"comand": "x"}},
            {"a__b": {"command": "x"}},
            {"a": {"command": "x", "trust": "much"}},
            [{"command": "x"}],
            object(),
        ],
    ),
    "fetch": (
        [None, {}, {"hosts": ["*.example"], "timeout": 5}, w.Fetch(private=("localhost",))],
        [5, True, "all", [], {"host": []}, {"timeout": 0}, {"max_bytes": 0}, object()],
    ),
    "policy": (
        [{}, {"tools": ["ad*"]}, {"side_effect_level": "read_only"}, w.Ceiling(tools=("x",)), None],
        [
            True,
            False,
            *NO_DICT,
            *keys(
                {"tools": ["x"]},
                {"tools": ["x", [5], [HALF]], "side_effect_level": ["", "low", 5, True]},
            ),
        ],
    ),
    "permissions": (
        [
            {},
            {"allow": ["add", "l*"]},
            {"deny": "*"},
            {"deny": {"add": {"arg_key": "a", "patterns": "1*"}}},
            {"allow": {"add": lambda a: True}},
            {"on_escalation": lambda asked: True},
            w.Permissions(deny=()),
            None,
        ],
        [
            True,
            False,
            *NO_DICT,
            {"allow": 5},
            {"allow": [5]},
            {"allow": {5: "x"}},
            {"deny": {"add": 5}},
            {"deny": {"add": {"arg": "a"}}},
            {"deny": {"add": {"arg_key": 5}}},
            {"deny": {"add": []}},
            {"on_escalation": 5},
            {"alow": []},
            {"allow": [""]},
            {"deny": [Angry()]},
            {"deny": cycle()},
            {"deny": {"add": cycle()}},
        ],
    ),
    "approval_policy": (
        [
            {},
            {"rules": [{"ask": "delete_*"}, {"deny": {"kind": "edit"}}]},
            {"guards": False},
            {"expires_in": 60},
            {"workspace": "."},
            {"request_permission": lambda asked: None},
            w.ApprovalPolicy(),
            None,
        ],
        [
            True,
            False,
            *NO_DICT,
            {"rules": 5},
            {"rules": [5]},
            {"rules": [{}]},
            {"rules": [{"ask": "a", "deny": "b"}]},
            {"rules": [{"asks": "a"}]},
            {"rules": [{"ask": {"tol": "x"}}]},
            {"rules": [{"ask": {"tool": 5}}]},
            {"rules": [{"ask": {"repeat_count": "x"}}]},
            {"rules": cycle()},
            {"rules": {"ask": "x"}},
            {"expires_in": 0},
            {"expires_in": -1},
            {"expires_in": math.nan},
            {"expires_in": "x"},
            {"workspace": 5},
            {"workspace": ""},
            {"external_roots": ["relative"]},
            {"external_roots": 5},
            {"request_permission": 5},
            {"guards": 1},
            {"rule": []},
        ],
    ),
    "taint": (
        [
            True,
            False,
            {},
            {"mode": "refuse"},
            {"trust_prompt": True, "unlabelled": "harmless"},
            {"roles": {"x": {"to": "target"}}, "results": {"x": "secret"}},
            w.Taint(),
            None,
        ],
        [
            *NO_DICT,
            *keys(
                {"mode": "ask"},
                {"mode": ["", "warn", 5], "trust_prompt": [1, "x"], "unlabelled": ["x", 5]},
            ),
        ],
    ),
    "plan": ([None], ["", " ", 5, True, {}, [], b"x", object(), Angry()]),
}

OF_RUNS: dict[str, Pool] = {
    "session_id": (["one", "two", None], NO_TEXT),
    "store": (
        ["memory:", None],
        [
            "",
            "nowhere",
            "sqlite://x",
            "sqlite:///",
            "mem:",
            5,
            True,
            1.5,
            HALF,
            object(),
            Angry(),
            [],
            {},
            b"x",
            "sqlite:///a\0b.db",
            "mysql://x",
        ],
    ),
    "on_event": (
        [print_nothing := lambda event: None, None],
        [5, "f", [], {}, b"x", object(), Angry()],
    ),
    "abort": ([Abort(), None], [5, "x", object(), Angry(), [], True]),
    "caller": (
        [w.Caller("ann", roles=("x",)), None],
        [5, "ann", object(), Angry(), {"user": "x"}, w.Caller(HALF)],
    ),
    "done_sentinel": (["##END##", "{x}", "%s", None], ["", "  ", 5, True, HALF, *JUNK]),
    "nudge": (["go on", "{sentinel}"], [*NO_TEXT, None]),
    "budget": (
        [{"usd": 1.0}, {"tokens": 1000, "seconds": 5}, w.Budget(usd=1), {}, None],
        [
            5,
            "x",
            {"usd": -1},
            {"usd": math.nan},
            {"usd": "x"},
            {"usd": True},
            {"tokens": 1.5},
            {"euro": 1},
            {"seconds": math.inf},
            {"tokens": HUGE},
            {1: 2},
            {"usd": HUGE},
            {"iterations": -1},
            {"tokens": True},
            {"usd": math.inf},
            Angry(),
            object(),
            [("usd", 1)],
            {"usd": Angry()},
            {"iterations": [1]},
        ],
    ),
    "llm_options": (
        [{}, {"temperature": 1.0}, {"max_tokens": 5}, None],
        [
            5,
            "x",
            {"temprature": 1},
            {"temperature": 3},
            {"max_tokens": "x"},
            {1: 2},
            {"model": "x"},
            Angry(),
            {"seed": math.nan},
            [("seed", 1)],
            {"stop": [5]},
            {"top_p": Angry()},
            {HALF: 1},
            {("a",): 1},
        ],
    ),
    "policies": (
        [[], [Plain()], (Plain(),)],
        [
            5,
            "x",
            [5],
            [Plain],
            [None],
            [Plain(), Named()],
            Plain(),
            None,
            [object()],
            [Angry()],
            {Plain()},
            cycle(),
        ],
    ),
    "tool_caller": (
        [lambda asked, next: next(asked), w.default_tool_caller(), w.with_dry_run(), None],
        [5, "f", [], {}, b"x", object(), Angry(), type, w.with_retry(), w.default_llm_caller()],
    ),
    "consent": ([lambda asked: True, lambda asked: Angry(), None], NO_FUNCTION),
    "rate_limit": (
        [{}, {"max_calls": 0}, {"max_calls": 3, "message": "no"}, None],
        [
            5,
            True,
            "x",
            {"max_calls": -1},
            {"max_calls": math.nan},
            {"max_calls": True},
            {"max": 1},
            {"max_calls": HUGE},
            {"message": ""},
            {"message": 5},
            {1: 2},
            [("max_calls", 1)],
            Angry(),
        ],
    ),
    "dry_run": (
        [
            True,
            False,
            "plan",
            {},
            {"tools": ["add"]},
            {"answer": "x"},
            {"answer": lambda asked: Angry()},
            None,
        ],
        [
            5,
            "x",
            {"tools": "add"},
            {"tools": [5]},
            {"tools": cycle()},
            {"tool": []},
            {"answer": 5},
            {"answer": Angry()},
            {1: 2},
            Angry(),
        ],
    ),
    "audit_sink": ([lambda record: None, lambda record: 1 / 0, None], NO_FUNCTION),
    "telemetry": ([lambda record: Angry(), None], NO_FUNCTION),
    "handoff_sink": ([lambda record: None, None], NO_FUNCTION),
    "progress_tool": (
        [True, False, {}, {"name": "tell"}, {"system_prompt_nudge": None}, w.ProgressTool(), None],
        [
            5,
            "x",
            {"name": ""},
            {"name": "a b"},
            {"name": HALF},
            {"nam": "x"},
            {"description": 5},
            {"system_prompt_nudge": 5},
            {"system_prompt_nudge": HALF},
            {1: 2},
            Angry(),
            [1],
        ],
    ),
    "post_turn_callback": ([lambda turn: None, lambda turn: "more", None], NO_FUNCTION),
    "llm_transcript_dir": ([None], ["", 5, True, HALF, "a\0b", "/dev/null/x", *JUNK]),
}
_NAMES: list[Any] = ["add", 5, [5], [""], [HALF], {"add": 1}, True, b"add", *JUNK]
OF_AGENTS: dict[str, Pool] = {
    "allowed_tools": ([["add", "look"], ("add", "no such"), None], _NAMES),
    "disallowed_tools": ([[], ["no such"], ("ad",), None], _NAMES),
    "output": (
        [str, None, Literal["fine"], {"type": "string"}],
        [5, "int", HALF, True, [int], *JUNK],
    ),
    "deps_type": (
        [None, object],
        [5, "Db", HALF, True, [int], Angry(), object(), print, {"a": int}],
    ),
    "deps": ([None, 5, Angry(), object()], []),
}
OF_MODELS: dict[str, Pool] = {
    # a name goes with a model's name, and the tests give a Model
    "provider": ([None], ["mock", "nobody", *NO_TEXT]),
    "model_tier": ([None], ["small", "tiny", *NO_TEXT]),
    "model": ([None], ["", "  ", "nobody", *NO_TEXT]),
    "api_key": ([None], ["sk-x", w.Secret("sk-x"), *NO_TEXT]),
    "base_url": ([None], ["https://h/v1", "h", *NO_TEXT]),
    "headers": ([None], [{"x": "y"}, {"a b": "y"}, {"x": "a\nb"}, {"x": 5}, {5: "x"}, *NO_TEXT]),
    "llm_caller": (
        [w.default_llm_caller(), None],
        [5, "f", [], {}, b"x", object(), Angry(), type, w.Model, scripted("x")],
    ),
    "reasoning_policy": (["auto", "off", "low", False], ["", "on", 5, HALF, None, 1.5, *JUNK]),
    "response_format": (["text", None], ["", "xml", "JSON", 5, True, HALF, *JUNK]),
    "schema": ([None, str], [5, "int", HALF, True, [int], object(), Angry()]),
    "transcript": ([None], [5, "x", HALF, [], [1], True, 1.5, b"x", object(), Angry()]),
}
OF_ENDINGS: dict[str, Pool] = {
    # they come in this order
    "loop_detect_warn": ([0, 1, 2], [*NO_WHOLE, None, 10_000]),
    "loop_detect_block": ([3], [*NO_WHOLE, None, 0, 10_000]),
    "loop_detect_skip": ([4, 10_000], [*NO_WHOLE, None, 0, 1]),
    "verify_completion": (
        [lambda *_: True, [lambda *_: True], None],
        [5, "", " ", [], [5], [print, 5], [""], {}, True, b"x", object(), Angry(), cycle()],
    ),
    "agents": (
        [[], (), [HELPER], [HELPER.with_(name="other"), HELPER]],
        [5, "x", {}, HELPER, [5], [HELPER, HELPER], [NAMELESS], [add], [None], *NO_LIST],
    ),
    "handoffs": (
        [[], (), [HELPER], [w.Handoff(HELPER, "Helps.")]],
        [5, "x", {}, HELPER, [5], [HELPER, HELPER], [NAMELESS], [add], [w.Handoff(5)], *NO_LIST],
    ),
    "input_guardrails": (
        [[lambda _text: None], lambda _text: None, []],
        [5, "f", [5], [print, 5], {}, True, b"x", [int], [lambda: None], object()],
    ),
    "output_guardrails": (
        [[lambda _text: None], lambda _text: None, []],
        [5, "f", [5], [print, 5], {}, True, b"x", [int], [lambda: None], object()],
    ),
    "stop_after_successful_tools": (
        [["add"], ("add",), None],
        ["add", 5, True, {"add": 1}, [5], [""], [HALF], [["add"]], b"x", object(), Angry()],
    ),
    "require_successful_tools": (
        [["add"], [["add"]], ("add",), None],
        ["add", 5, True, {"add": 1}, [5], [[]], [""], [HALF], [[5]], b"x", object(), Angry()],
    ),
    "iteration_budget": (
        ["fixed", "adaptive", {}, {"max": 4, "initial": 2}, w.IterationBudget(), None],
        [
            "",
            "adaptiv",
            True,
            False,
            *[value for value in NO_DICT if not isinstance(value, str)],
            {"initial": 5, "max": 2},
            {"mode": "adaptive", "extend_by": 0},
            *keys(
                {"mode": "fixed"},
                {"mode": ["x", 5], "initial": [0, *NO_WHOLE], "max": [0, *NO_WHOLE]},
            ),
        ],
    ),
}
_NO_PATH: list[Any] = ["", " ", "a\0b", 5, True, b"x", object(), Angry(), {}, 1.5]
OF_DAEMONS: dict[str, Pool] = {
    "persist_path": (["daemon.json", Path("daemon.json"), None], [*_NO_PATH, ["x"]]),
    "resume_path": (["daemon.json", None], [*_NO_PATH, ["x"]]),
    "watch_paths": (["a", Path("a"), ["a", Path("b")], [], None], [*_NO_PATH, [5], [""], [None]]),
}
#: The values of options whose check does not say what it takes, by name; all others are derived.
OWN: dict[str, Pool] = {
    **CALL,
    **CONTEXT,
    **OF_SKILLS,
    **AUTHORITY,
    **OF_RUNS,
    **OF_AGENTS,
    **OF_MODELS,
    **OF_ENDINGS,
    **OF_DAEMONS,
}
_OF_A_DAEMON = "it needs daemon=True beside it: `test_daemons`"
#: Options that the sets of a door leave out, and why.
LEFT_OUT: dict[str, str] = {
    "model": "every set has one; `MODELS` has the wrong ones",
    "skill_match": "it needs skills beside it: `OF_SKILLS`",
    "working_files": "it needs skills beside it: `OF_SKILLS`",
    **dict.fromkeys(DAEMON_NAMES, _OF_A_DAEMON),
}


def pool_of(name: str) -> Pool | None:
    """Right and wrong values of an option; None: somebody has to write them."""
    own = ALIASES.get(name, name)
    if name in OWN or own in OWN:
        return OWN.get(name) or OWN[own]
    return derive_pool(find_option(own).check)


def pools_at(door: Literal["loop", "agent", "run", "call"]) -> dict[str, Pool]:
    """The values of every option that a door takes."""
    taken = [name for name in sorted(NAMES[door]) if ALIASES.get(name, name) not in LEFT_OUT]
    known = {name: pool for name in taken if (pool := pool_of(name)) is not None}
    if door == "run":  # None is what the agent says, where it says something
        for name in OF_A_RUN & known.keys():
            known[name] = known[name][0], [one for one in known[name][1] if one is not None]
    if door == "call":  # more need a schema beside them
        known["schema_retries"] = [0], known["schema_retries"][1]
    return known


SYSTEMS: Pool = (["be brief", "", "{x} %s", None], [5, b"x", HALF, object(), Angry(), ["x"], True])
PROMPTS: Pool = (
    [
        "hi",
        "",
        HALF,
        "a\0b\x1b[2J",
        w.Message("user", "hi"),
        {"role": "user", "content": "hi"},
        ["a", "b"],
        w.Image(url="https://x.invalid/a.png"),
        [w.Text("a"), w.Text("b")],
    ],
    [
        5,
        None,
        b"hi",
        object(),
        Angry(),
        [],
        {},
        [5],
        cycle(),
        {"role": "robot", "content": "x"},
        True,
        1.5,
        w.Message("robot", "x"),
        w.Message("user", (5,)),
        [[[]]],
        {"role": "user", "content": object()},
        {"role": "user", "content": [{"type": "text"}]},
        {"role": "user", "content": [{"type": "text", "text": 5}]},
        w.Text(5),
        w.Message("assistant", (w.ToolCall("c", "add", {}),)),
        {"role": None, "content": "x"},
        {"content": "x", "rolle": "user"},
    ],
)
MODELS: Pool = (
    ["mock", "mock:any"],
    [
        5,
        "",
        "no-such-model-at-all",
        "nobody:claude",
        b"mock",
        object(),
        Angry(),
        ["mock"],
        True,
        HALF,
        {"name": "mock"},
        scripted,
        w.Model,
        ":",
        "x" * 10_000,
        "mock\0",
    ],
)


def near(name: str, pick: Callable[[int], int]) -> str:
    """Return the name with one mistake in it."""
    at = pick(len(name))
    match pick(4):
        case 0:
            return name[:at] + name[at + 1 :] or "x"
        case 1:
            return name[:at] + name[at] + name[at:]
        case 2:
            return name[:at] + "z" + name[at + 1 :]
        case _:
            return name[:at] + name[at : at + 2][::-1] + name[at + 2 :]
