"""Option sets for every door: a right set runs, a wrong one is a `ConfigError` before any model call."""

from __future__ import annotations

import random
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

import pytest

import windlass as w
from tests import option_areas
from tests.hostile import option_pools as pools
from tests.hostile.helpers import (
    Tally,
    readable,
    shown,
    watchdog,
)
from tests.hostile.pool_derivation import derive_pool
from tests.sizes import pick_size
from windlass.engine import environment as runtimes
from windlass.errors import BadRequest, ConfigError
from windlass.options.checks import anything
from windlass.options.index import ALIASES, CHOICES, GROUPS
from windlass.options.parse import find_option
from windlass.runtime.runtime import Runtime
from windlass.testing import ScriptedModel, scripted

#: CI tries a part of the sets; `make prove-options` all.

pytestmark = [
    pytest.mark.filterwarnings("ignore:persistent is now:DeprecationWarning"),
    pytest.mark.filterwarnings("ignore:.* is deprecated; use :DeprecationWarning"),
]
Door = Callable[[Any, Any, Any, dict[str, Any]], Awaitable[Any]]


async def _loop(model: Any, prompt: Any, system: Any, options: dict[str, Any]) -> Any:
    return await w.agent_loop(prompt, system, {"model": model, **options})


async def _agent(model: Any, prompt: Any, system: Any, options: dict[str, Any]) -> Any:
    return await w.Agent(model, system=system, **options).run(prompt)


async def _run(model: Any, prompt: Any, system: Any, options: dict[str, Any]) -> Any:
    return await w.Agent(model, tools=[pools.look]).run(prompt, system=system, **options)


async def _stream(model: Any, prompt: Any, system: Any, options: dict[str, Any]) -> Any:
    async with w.Agent(model, tools=[pools.look]).stream(prompt, system=system, **options) as run:
        return await run.result()


async def _call(model: Any, prompt: Any, system: Any, options: dict[str, Any]) -> Any:
    return await w.llm_call(prompt, system, {"model": model, **options})


DOORS: dict[str, tuple[Door, Mapping[str, pools.Pool]]] = {
    "agent_loop": (_loop, pools.pools_at("loop")),
    "Agent": (_agent, pools.pools_at("agent")),
    "Agent.run": (_run, pools.pools_at("run")),
    "Agent.stream": (_stream, pools.pools_at("run")),
    "llm_call": (_call, pools.pools_at("call")),
}
CONTRADICTIONS: dict[str, list[dict[str, Any]]] = {
    "agent_loop": [
        {"token_budget": 5, "budget": {"tokens": 5}},
        {"provider": "mock"},
        {"persistent": True, "loop_until_done": True},
        {"tool_choice": "required", "tools": []},
        {"tool_choice": {"name": "ad"}, "tools": [pools.add]},
        {"policies": [pools.Plain(), pools.Plain()]},
        {"system": "two"},
    ],
    "Agent": [
        {"token_budget": 5, "budget": {"tokens": 5}},
        {"token_budget": 5, "max_token_budget": 5},
        {"provider": "mock"},
        {"tool_choice": {"name": "x"}},
        {"tool_choice": {"name": "add"}, "tools": [pools.add], "disallowed_tools": ["add"]},
        {"tool_choice": {"name": "add"}, "tools": [pools.add], "output": int},
        {"deps_type": int},
        {"max_iterations": 5},
        {"messages": ["hi"]},
        {"run_id": "one"},
    ],
    "Agent.run": [{"provider": "mock"}, {"budget": {"tokens": 5}, "token_budget": 5}],
    "Agent.stream": [{"provider": "mock"}, {"budget": {"tokens": 5}, "token_budget": 5}],
    "llm_call": [{"provider": "mock"}, {"tool_choice": "required", "tools": ()}, {"system": "two"}],
}
#: Of these one at a time: two say different things, or one says that the other is not wanted.
ALONE: tuple[frozenset[str], ...] = tuple(
    frozenset(name for name in all_names if CHOICES.get(ALIASES.get(name, name)) == choice)
    for all_names in [frozenset(CHOICES) | frozenset(ALIASES)]
    for choice in sorted(set(CHOICES.values()))
)
STATUSES = {"done", "stuck", "budget_exhausted", "suspended"}
#: How a run may also end with these: the model agrees with no judge, and calls no tool.
ENDS = {
    "daemon": "idle",
    "done_judge": "verify_exhausted",
    "max_verify_attempts": "verify_exhausted",
    "verify_completion_judge": "verify_capped",
    "require_successful_tools": "failed",
    "schema": "failed",
    "response_format": "failed",
    "schema_retries": "failed",
}
#: Options with names of tools.
NAMING_TOOLS = (
    "tool_choice",
    "require_successful_tools",
    "stop_after_successful_tools",
    "stall_diagnostics",
    "tool_surface_narrowing",
)


#: Options that give a run tools.
BRINGERS = (
    "await_resumption",
    "policies",
    "progress_tool",
    "subagent_tools",
    "subagents",
    "tool_preset",
)


class Case:
    """An option set, and whether it is right."""

    def __init__(self, rng: random.Random, door: str, known: Mapping[str, pools.Pool]) -> None:
        self.model: Any = scripted(then="fine")
        self.prompt: Any = rng.choice(pools.PROMPTS[0])
        self.system: Any = rng.choice(pools.SYSTEMS[0])
        names = rng.sample(sorted(known), rng.randrange(5))
        self.options: dict[str, Any] = {name: rng.choice(known[name][0]) for name in names}
        self._agree(rng, known)
        self.mistake: str | None = None
        self.meant: str | None = None  # what the mistake was nearest to
        if known and rng.random() < 0.7:
            self._spoil(rng, door, known)
        if self.mistake == "deps_type":
            self.options.pop("deps", None)  # it may be just of that type

    def _agree(self, rng: random.Random, known: Mapping[str, pools.Pool]) -> None:
        """Values that are right one by one may still contradict each other."""
        options = self.options
        if any(options.get(name) is not None for name in NAMING_TOOLS):
            options["tools"] = [pools.add]
        alike = (
            ("token_budget", "budget"),
            ("max_token_budget", "budget"),
            ("token_budget", "max_token_budget"),
            ("persistent", "loop_until_done"),
            ("subagent_tools", "subagents"),
            ("schema", "output"),
            ("response_format", "output"),
            ("transcript", "messages"),
        )
        for both in alike:
            if all(name in options for name in both):
                del options[both[0]]
        if isinstance(options.get("tool_choice"), dict):
            for name in ("output", "schema", "response_format"):
                options.pop(name, None)
        if options.get("schema") is not None and options.get("response_format") == "text":
            del options["response_format"]
        for group in ALONE:
            given = [name for name in options if name in group]
            for name in given[1:]:
                del options[name]
        if options.get("loop_until_done"):
            options["max_nudges"] = rng.choice([0, 1, 2])

    def _spoil(self, rng: random.Random, door: str, known: Mapping[str, pools.Pool]) -> None:
        kind = rng.choice(
            ["value"] * 6 + ["name", "odd", "near", "prompt", "system", "model", "both"]
        )
        wrong = [name for name in sorted(known) if known[name][1]]
        if kind == "value":
            name = rng.choice(wrong)
            self.options[name] = rng.choice(known[name][1])
            self.mistake = name
        elif kind == "name":
            self.mistake = rng.choice(
                ["iterations", "abort_signal", "x" * 5000, "", "ünknown", "__class__"]
            )
            self.options[self.mistake] = 1
        elif kind == "odd" and door in ("agent_loop", "llm_call"):
            odd: Any = rng.choice([5, None, b"x", ("a",), 1.5, True, frozenset()])
            self.options[odd] = 1
            self.mistake = "no name"
        elif kind == "prompt" and self.options.get("messages") is None:
            self.prompt, self.mistake = rng.choice(pools.PROMPTS[1]), "prompt"
            if not self.options.keys().isdisjoint({"session_id"}):
                del self.options["session_id"]  # a known session may go on without another word
        elif kind == "system" and door != "Agent":
            self.system, self.mistake = rng.choice(pools.SYSTEMS[1]), "system"
        elif kind == "model" and door in ("agent_loop", "llm_call"):
            self.model, self.mistake = rng.choice(pools.MODELS[1]), "model"
        elif kind == "both":
            both = rng.choice(CONTRADICTIONS[door])
            for bringer in BRINGERS:  # with a tool of theirs it may be none
                self.options.pop(bringer, None)
            self.options |= both
            if "system" in both:
                self.system = "one"
            self.mistake = " and ".join(both)
        else:
            meant = rng.choice([name for name in sorted(known) if len(name) > 5])
            name = pools.near(meant, rng.randrange)
            if name not in known:
                self.options[name] = 1
                self.mistake, self.meant = name, meant

    def __repr__(self) -> str:
        parts = {str(k): shown(v)[:80] for k, v in self.options.items()}
        return f"<{self.mistake}: {shown(self.prompt)}, {shown(self.system)}, {parts}>"


async def attempt(door: Door, case: Case, met: Tally) -> None:
    try:
        with watchdog(case):
            result = await door(case.model, case.prompt, case.system, case.options)
    except (ConfigError, BadRequest) as error:
        assert case.mistake is not None, f"refused {case!r}: {error}"
        assert len(str(error)) < 2000 and str(error), case
        # a misspelling may be a name of another framework, which is answered with ours
        assert case.meant is None or "did you mean" in str(error) or "; use '" in str(error), error
        if isinstance(case.model, ScriptedModel):
            assert not case.model.requests, f"asked before it looked: {case!r}"
        met.invalid(error)
        return
    except BaseException as error:
        raise AssertionError(f"{type(error).__name__} for {case!r}") from error
    assert case.mistake is None, f"accepted {case!r}"
    if isinstance(result, w.LLMResult):
        assert result.text == "fine"
        met.valid("reply")
        return
    ends = STATUSES | {ENDS[name] for name in case.options if name in ENDS}
    assert result.status in ends, f"{result.status} {result.error} for {case!r}"
    await readable(result._run.store, result.session_id)
    met.valid(result.status)


async def sweep(name: str, count: int, seed: int) -> None:
    door, known = DOORS[name]
    met = Tally(f"options of {name}")
    rng = random.Random(f"{name} {seed}")
    for _ in range(count):
        fresh = Runtime(store="memory:", environ={})
        runtimes._default = fresh
        await attempt(door, Case(rng, name, known), met)
        held = [s for s in fresh.memory._sessions.values() if s.held]
        assert not held, f"sessions left locked: {held}"
        await fresh.aclose()
    met.report(count)


@pytest.mark.parametrize("name", DOORS)
async def test_option_sets(name: str) -> None:
    await sweep(name, 500, seed=1)


@pytest.mark.deep
@pytest.mark.parametrize("name", DOORS)
async def test_many_option_sets(name: str) -> None:
    for seed in range(2, pick_size(5, 12, proof="OPTIONS")):
        await sweep(name, 1000, seed)


@pytest.mark.parametrize("name", DOORS)
async def test_every_wrong_value_on_its_own(name: str) -> None:
    door, known = DOORS[name]
    met = Tally(f"single options of {name}")
    for option, (right, wrong) in known.items():
        for value, mistake in [(v, None) for v in right] + [(v, option) for v in wrong]:
            case = Case(random.Random(0), name, {})
            case.prompt, case.system, case.mistake = "hi", None, mistake
            case.options = {"tools": [pools.add], option: value}
            if option == "loop_until_done":
                case.options["max_nudges"] = 1
            runtimes._default = Runtime(store="memory:", environ={})
            await attempt(door, case, met)
    met.report()


@pytest.mark.parametrize("name", ["agent_loop", "Agent"])
async def test_every_wrong_value_about_skills(name: str) -> None:
    met = Tally(f"skills of {name}")
    for option, (right, wrong) in pools.OF_SKILLS.items():
        for value, mistake in [(v, None) for v in right] + [(v, option) for v in wrong]:
            case = Case(random.Random(0), name, {})
            case.prompt, case.system, case.mistake = "hi", None, mistake
            case.options = {"skills": pools.CONTEXT["skills"][0][1], option: value}
            await attempt(DOORS[name][0], case, met)
    met.report()


def test_every_option_of_context_and_authority_has_its_pool() -> None:
    assert set(pools.OWN) >= option_areas.AUTHORITY
    for name in option_areas.CONTEXT | option_areas.AUTHORITY | {"dry_run"}:
        pool = pools.pool_of(name)
        assert pool is not None
        assert pool[0] and len(pool[1]) > 5


def missing_pool(name: str) -> str | None:
    """What to write for an option that has no usable right and wrong values."""
    pool, check = pools.pool_of(name), find_option(ALIASES.get(name, name)).check
    example = f'"{name}": ([True, None], [5, "x", *JUNK])'
    where = f"add it to OWN in tests/hostile/option_pools.py, such as {example}"
    if pool is None:
        said = getattr(check, "__name__", type(check).__name__)
        return f"the option {name} is checked by {said}, which does not say what it takes: {where}"
    right, wrong = pool
    if not right or (check is not anything and len(wrong) <= 5):
        return f"the option {name} has {len(right)} right and {len(wrong)} wrong values: {where}"
    return None


@pytest.mark.parametrize("name", sorted({*GROUPS, *ALIASES}))
def test_every_option_has_its_pool(name: str) -> None:
    problem = missing_pool(name)
    assert problem is None, problem


@pytest.mark.parametrize("name", sorted(set(pools.OWN)))
def test_every_pool_is_that_of_an_option(name: str) -> None:
    assert name in GROUPS or name in ALIASES, f"there is no option {name}: take its pool out of OWN"


def test_a_new_option_without_values_is_told_what_to_write(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(pools.OWN, "skills")
    assert "add it to OWN in tests/hostile/option_pools.py" in str(missing_pool("skills"))
    monkeypatch.setitem(pools.OWN, "skills", ([], []))
    assert "0 right and 0 wrong values" in str(missing_pool("skills"))


@pytest.mark.parametrize("name", sorted(GROUPS))
def test_a_derived_pool_agrees_with_its_check(name: str) -> None:
    """What the check takes alone; the sets below try the same through the doors."""
    check = find_option(name).check
    right, wrong = derive_pool(check) or ([], [])
    for value in right:
        check(name, value)
    for value in wrong:
        with pytest.raises(ConfigError):
            check(name, value)


@pytest.mark.parametrize("name", DOORS)
async def test_prompts_systems_and_models(name: str) -> None:
    door, _ = DOORS[name]
    met = Tally(f"prompts, systems and models of {name}")
    for right, values in ((True, pools.PROMPTS[0]), (False, pools.PROMPTS[1])):
        for value in values:
            case = Case(random.Random(0), name, {})
            case.prompt, case.system, case.mistake = value, None, None if right else "prompt"
            await attempt(door, case, met)
    for value in pools.SYSTEMS[1]:
        case = Case(random.Random(0), name, {})
        case.prompt, case.system, case.mistake = "hi", value, "system"
        await attempt(door, case, met)
    for value in pools.MODELS[1]:
        case = Case(random.Random(0), name, {})
        case.prompt, case.system, case.model, case.mistake = "hi", None, value, "model"
        await attempt(door, case, met)
    met.report()


@pytest.mark.parametrize("options", [5, "x", [1], object(), pools.Angry()])
@pytest.mark.parametrize("function", [w.agent_loop, w.llm_call])
async def test_options_that_are_no_dict(function: Any, options: Any) -> None:
    with pytest.raises(ConfigError, match="dict"):
        await function("hi", None, options)


@pytest.mark.parametrize(
    "answers",
    [
        {"decisions": 5},
        {"decisions": {"c": 5}},
        {"decisions": {5: True}},
        {"results": 5},
        {"results": [1]},
        {"results": {5: 1}},
        {"session_id": 5},
        {"session_id": pools.Angry()},
        {"timeout": "x"},
        {"store": 5},
        {"decisions": {"nobody": True}},
        {"results": {"nobody": 1}},
        {"caller": "ann"},
        {"abort": 5},
    ],
)
async def test_resuming_with_wrong_answers(answers: dict[str, Any]) -> None:
    wait = w.Tool("wait", "Wait for the host.", {"n": "integer"})
    model = scripted(w.ToolCall("c", "wait", {"n": 1}), "done")
    agent = w.Agent(model, tools=[wait])
    out = await agent.run("go", session_id="s")
    assert out.status == "suspended"
    before = len(await out._run.store.read("s"))
    with pytest.raises(ConfigError):
        await agent.resume(**{"session_id": "s", **answers})
    assert len(model.requests) == 1
    assert len(await out._run.store.read("s")) == before, "a refused resume leaves no trace"
    assert (await agent.resume("s", results={"c": 1})).status == "done"
