"""For every option, values that are right and values that are not."""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction
from typing import Any, Literal

import windlass as w
from windlass.loop.abort import Abort
from windlass.loop.policy import Policy
from windlass.testing import scripted

HUGE = 10**400
HALF = "half a \ud83d character"


class Angry:
    """An object that answers every question with an error."""

    def __repr__(self) -> str:
        raise RuntimeError("no repr")

    __str__ = __repr__

    def __bool__(self) -> bool:
        raise RuntimeError("no truth")

    def __eq__(self, other: object) -> bool:
        raise RuntimeError("no equality")

    __hash__ = object.__hash__


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


def cycle() -> list[Any]:
    """Build a list that holds itself."""
    ring: list[Any] = []
    ring.append(ring)
    return ring


JUNK: list[Any] = [
    b"bytes",
    object(),
    Angry(),
    cycle(),
    {1: 2},
    [None],
    ...,
    Fraction(1, 3),
    1j,
    type,
    print,
    frozenset({1}),
    memoryview(b"x"),
    [[[[[]]]]],
    {"a": {"b": [Angry()]}},
    NotImplemented,
]
_NO_NUMBER: list[Any] = ["5", "", math.nan, True, False, "x" * 5000, *JUNK]
_NO_WHOLE: list[Any] = [*_NO_NUMBER, 1.5, math.inf, -math.inf, -1, -HUGE, 2**63, HUGE]
_NO_FLAG: list[Any] = [None, 0, 1, "true", "", math.nan, *JUNK]
_NO_TEXT: list[Any] = ["", 5, 1.5, True, HALF, *JUNK]
_NO_LIST: list[Any] = ["", 5, True, HALF, b"x", object(), Angry(), {"a": 1}, cycle()]

_NO_FUNCTION: list[Any] = [5, "f", [], {}, b"x", object(), Angry(), True]

Pool = tuple[list[Any], list[Any]]


def whole(low: int, none: bool = True) -> Pool:
    """Build the pool of a whole number from `low` on."""
    below = [0] if low > 0 else []
    bad = [*_NO_WHOLE, *below] if none else [*_NO_WHOLE, *below, None]
    return [low, low + 1, 10_000, *([None] if none else [])], bad


def number(low: float, high: float) -> Pool:
    """Build the pool of a number in a range."""
    bad = [*_NO_NUMBER, math.inf, -math.inf, low - 1, high + 1, HUGE, -HUGE]
    return [low, high, (low + high) / 2, None], bad


SECONDS: Pool = ([0.5, 30, 120.0, None], [*_NO_NUMBER, math.inf, -1, -math.inf, HUGE])
FLAG: Pool = ([True, False], _NO_FLAG)
TEXT: Pool = (["one", "zwei ß", "x" * 1000], [*_NO_TEXT, None])
NAME: Pool = (["one", "two", None], _NO_TEXT)

CALL: dict[str, Pool] = {
    "max_tokens": whole(1),
    "temperature": number(0, 2),
    "top_p": number(0, 1),
    "top_k": whole(1),
    "stop": (["x", ["x", "y"], ("x",), None], ["", [""], [1], [HALF], 5, *_NO_LIST]),
    "seed": ([0, -5, 2**62, None], [*_NO_NUMBER, 1.5, math.inf, HUGE, -HUGE]),
    "frequency_penalty": number(-2, 2),
    "presence_penalty": number(-2, 2),
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
    "stream": FLAG,
    "timeout": SECONDS,
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

#: What is no dict of settings, and no flag either.
_NO_DICT: list[Any] = [
    5,
    1.5,
    math.nan,
    "x",
    HALF,
    {1: 2},
    {HALF: 1},
    {"": 1},
    [("a", 1)],
    *JUNK[:4],
]
_NO_WORDS: list[Any] = [5, [], [""], [HALF], [5], {"a": 1}, *JUNK[:4]]
_PATHS: list[Any] = [5, [5], [HALF], {"a": 1}, True, *JUNK[:4]]
_PAD: dict[str, Any] = {"goals": [{"text": "a roof"}], "facts": [], "open_items": ["x"], "refs": []}
_SKILL: dict[str, Any] = {"name": "ship", "description": "ship a release", "prompt": "Slowly."}


def keys(
    right: dict[str, Any], wrong: dict[str, list[Any]], beside: dict[str, Any] | None = None
) -> list[Any]:
    """Build dicts with each wrong value of each key, and with an unknown key."""
    beside = beside or {}
    bad = [{**beside, key: value} for key, values in wrong.items() for value in values]
    return [*bad, *[{**beside, f"{key}_": value} for key, value in right.items()]]


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
            *_NO_DICT,
            *keys(
                {"strategy": "none"},
                {
                    "strategy": ["x", 5],
                    "keep_last_n": _NO_WHOLE,
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
        ["", "x", *_NO_DICT, {"keep_last_n": -1}],
    ),
    "compact_strategy": (
        ["hybrid", "truncate", "summarize_middle", "summarize_all", "none", None],
        ["", "Hybrid", "custom", 5, True, HALF, *JUNK],
    ),
    "compact_threshold": whole(1),
    "compact_keep_first": whole(0, none=False),
    "compact_keep_last": whole(0),
    "compact_callback": ([lambda archived, reminders, policy: "short", None], _NO_FUNCTION),
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
            *_NO_DICT,
            *keys(
                {"keep_last": 1},
                {
                    "keep_last": _NO_WHOLE,
                    "window_turns": [0, *_NO_WHOLE],
                    "roots": _NO_LIST,
                    "min_chars": _NO_WHOLE,
                },
                {"policy": "reachability_gc"},
            ),
        ],
    ),
    "context_callback": ([lambda ctx: None, lambda ctx: ctx.messages, None], _NO_FUNCTION),
    "context_filter": ([lambda ctx: {"messages": ctx.visible_messages}, None], _NO_FUNCTION),
    "message_decorator": (
        [lambda message, context: None, lambda message, context: message, None],
        _NO_FUNCTION,
    ),
    "timestamp_messages": FLAG,
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
            *_NO_DICT,
            *keys(
                {"recite": True},
                {
                    "enabled": [1, "x"],
                    "recite": [1],
                    "reorganize_every": _NO_WHOLE,
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
            *_NO_DICT,
            {"prune_classes": ["read_only"], "keep_classes": ["read_only"]},
            *keys(
                {"mode": "safe"},
                {
                    "enabled": [1],
                    "window_turns": [0, *_NO_WHOLE],
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
            *_NO_DICT,
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
        [*_NO_DICT, {"x": {"text": "a"}}],
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
            *_NO_DICT,
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
            *_NO_DICT,
            {"strategy": "host"},
            {"matcher": lambda query: []},
            {"strategy": "words"},
            {"invoke": ["nobody"]},
            *keys({"top_n": 2}, {"top_n": [0, *_NO_WHOLE], "sticky": [1], "invoke": [[5]]}),
        ],
    ),
    "working_files": ([["a.py", "b/c.md"], "a.py", []], _PATHS),
}
AUTHORITY: dict[str, Pool] = {
    "policy": (
        [{}, {"tools": ["ad*"]}, {"side_effect_level": "read_only"}, w.Ceiling(tools=("x",)), None],
        [
            True,
            False,
            *_NO_DICT,
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
            *_NO_DICT,
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
            *_NO_DICT,
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
            w.Taint(),
            None,
        ],
        [
            *_NO_DICT,
            *keys(
                {"mode": "ask"},
                {"mode": ["", "warn", 5], "trust_prompt": [1, "x"], "unlabelled": ["x", 5]},
            ),
        ],
    ),
    "plan": ([None], ["", " ", 5, True, {}, [], b"x", object(), Angry()]),
}

LOOP: dict[str, Pool] = {
    **CALL,
    **CONTEXT,
    **AUTHORITY,
    "tool_format": (["native", "text", None], ["xml", "", "Native", 5, True, HALF, *JUNK]),
    "session_id": NAME,
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
    "loop_until_done": FLAG,
    "done_sentinel": (["##END##", "{x}", "%s", None], ["", "  ", 5, True, HALF, *JUNK]),
    "max_iterations": whole(1, none=False),
    "max_nudges": whole(0, none=False),
    "nudge": (["go on", "{sentinel}"], [*_NO_TEXT, None]),
    "max_concurrent_tools": whole(1, none=False),
    "max_calls_per_reply": whole(1, none=False),
    "token_budget": whole(1),
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
    "closing_answer": FLAG,
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
    "eager_tools": FLAG,
    "tool_timeout": SECONDS,
    "tool_result_max_bytes": whole(200, none=False),
    "tool_arg_validation": (
        ["strict", "lenient", "none"],
        ["Strict", "", None, 5, True, HALF, *JUNK],
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
    "name": NAME,
    "run_id": NAME,
    "profile": (["researcher", "completer", None], ["", "verifer", 5, True, HALF, *JUNK]),
    "schema_retries": ([0, 3, 100], [*_NO_WHOLE, 101, None]),
    "tool_retries": ([0, 2, 100], [*_NO_WHOLE, 101, None]),
    "tool_backoff_ms": ([0, 0.5, 1000], [*_NO_NUMBER, None, -1, math.inf, HUGE]),
    "tool_caller": (
        [lambda asked, next: next(asked), w.default_tool_caller(), w.with_dry_run(), None],
        [5, "f", [], {}, b"x", object(), Angry(), type, w.with_retry(), w.default_llm_caller()],
    ),
    "consent": ([lambda asked: True, lambda asked: Angry(), None], _NO_FUNCTION),
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
    "audit_sink": ([lambda record: None, lambda record: 1 / 0, None], _NO_FUNCTION),
    "telemetry": ([lambda record: Angry(), None], _NO_FUNCTION),
    "handoff_sink": ([lambda record: None, None], _NO_FUNCTION),
    "prefetch_next_turn": FLAG,
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
    "post_turn_callback": ([lambda turn: None, lambda turn: "more", None], _NO_FUNCTION),
    "llm_transcript_dir": ([None], ["", 5, True, HALF, "a\0b", "/dev/null/x", *JUNK]),
}
_OTHERS = {"max_iterations": "max_turns", "token_budget": "max_token_budget"}
_ONE_RUN = ("messages", "run_id")
AGENT: dict[str, Pool] = {
    _OTHERS.get(name, name): pool for name, pool in LOOP.items() if name not in _ONE_RUN
}
AGENT["token_budget"] = LOOP["token_budget"]
_NAMES: list[Any] = ["add", 5, [5], [""], [HALF], {"add": 1}, True, b"add", *JUNK]
AGENT |= {
    "role": NAME,
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
}

RUN: dict[str, Pool] = {
    "deps": ([None, 5, Angry(), object()], []),
    "session_id": NAME,
    "caller": LOOP["caller"],
    "abort": LOOP["abort"],
    "timeout": SECONDS,
    "run_id": NAME,
    "store": LOOP["store"],
    "on_event": LOOP["on_event"],
    "on_tool_call": LOOP["on_event"],
    "on_tool_result": LOOP["on_event"],
    "on_message": LOOP["on_event"],
    "on_warning": LOOP["on_event"],
    "on_trace": LOOP["on_event"],
    "task_id": NAME,
    "trace_agent": NAME,
    "max_turns": LOOP["max_iterations"],
    "temperature": LOOP["temperature"],
    "tools": LOOP["tools"],
}

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
