"""Skills join and leave a run: matched with the last message, recorded, with hooks.

A match of the skills is an entry with the skills to be active; they change step by step, each stored
before its hook runs. So a run that is resumed after a crash repeats no match and no hook: it takes the
steps that are not recorded.
"""

from __future__ import annotations

import asyncio
import functools
import inspect
import logging
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, ClassVar, Final, cast

import msgspec

from windlass.errors import ConfigError, TestBroken, error_text, nearest
from windlass.events import (
    IterationStart,
    JournalEntry,
    RunStarted,
    Said,
    SkillActivated,
    SkillDeactivated,
    SkillMatched,
    SkillScopeTools,
)
from windlass.events.policy import SkillScore
from windlass.loop.facts import Facts, Take
from windlass.loop.plan import digest_of
from windlass.loop.policy import Policy
from windlass.loop.run import Run
from windlass.messages import Message, ToolCall, ToolResult
from windlass.models.base import Frame, Request
from windlass.policies.build import BuildContext, Policies
from windlass.policies.skills.files import NAMES, file_tool
from windlass.policies.skills.match import Matcher, MatcherFailed
from windlass.policies.skills.options import SkillOptions
from windlass.policies.skills.scope import Surface, with_skills
from windlass.policies.skills.skill import Hook, Skill, SkillMatch, SkillRegistry
from windlass.tools.tool import Tool

log = logging.getLogger("windlass")
_KEY: Final = "skills"
_RECORDED: Final = 20  # candidates and files of a pass that go on record
_INVOKED: Final = "invoked by name"


class Active(msgspec.Struct, frozen=True):
    """The active skills, in the order in which they were activated."""

    skills: tuple[SkillScore, ...] = ()


class Standing:
    """The state of the skills in one run."""

    __slots__ = ("active", "frames", "hidden", "number", "policy", "ranked", "seen", "skills")

    def __init__(self, policy: Skills, active: tuple[SkillScore, ...]) -> None:
        self.policy = policy
        self.number = 0  # of the turn that was matched last; 0: none was, since the drive began
        self.seen: Frame | None = None  # the frame that `frames` were made from
        self.frames: dict[tuple[str, ...], Frame] = {}
        self.ranked: tuple[str, list[SkillScore]] | None = None  # for the prompt matched last
        self.take(active)

    def take(self, active: tuple[SkillScore, ...]) -> None:
        """Set the active skills."""
        registry = self.policy.registry
        self.active = active
        found = [registry.get(one.name) for one in active]
        self.skills = tuple([skill for skill in found if skill is not None])
        self.hidden = self.policy.surface.hidden_by(self.skills)

    @property
    def names(self) -> tuple[str, ...]:
        return tuple([skill.name for skill in self.skills])

    def with_skills(self, run: Run, frame: Frame) -> Frame:
        """Apply the active skills to a frame; return the same object while nothing changes."""
        if frame is not self.seen:
            self.seen, self.frames = frame, {}
        names = self.names
        made = self.frames.get(names)
        if made is None:
            tool = run.tools.get(self.policy.reader.name) if self.policy.reader else None
            made = with_skills(frame, self.skills, self.hidden, None if tool is None else tool.spec)
            self.frames[names] = made
        return made


class LastWord(Facts):
    """The last message to the model; the kernel's own "Continue." does not count."""

    def __init__(self) -> None:
        self.text: str | None = None

    def takes(self) -> Mapping[type, Take]:
        return {Said: self._read_message}

    def _read_message(self, entry: Said) -> None:
        if _speaks(entry.message):
            self.text = entry.message.text


def _speaks(message: Message) -> bool:
    return message.role == "user" and message.kind != "continue"


class Skills(Policy[Active]):
    """A policy that chooses skills as a run begins or before every turn."""

    memory = Active
    keeps = "session"
    brief: ClassVar[bool] = True

    def __init__(
        self,
        registry: SkillRegistry,
        match: SkillMatch | None = None,
        working_files: Sequence[str] = (),
        tools: Sequence[Tool] = (),
    ) -> None:
        self.registry, self.match = registry, match or SkillMatch()
        self.matcher = Matcher(registry, self.match, working_files)
        self.surface = Surface(tools)
        self.reader = self._reader()

    def _reader(self) -> Tool | None:
        """Return the tool that reads the files of skills."""
        return None

    @property
    def name(self) -> str:
        return _KEY

    @functools.cached_property
    def digest(self) -> str:
        """A fingerprint of all that a pass depends on but the prompt."""
        known = [
            (one.name, one.description, one.when_to_use, one.paths, one.disable_model_invocation)
            for one in self.registry
        ]
        how = (self.match.strategy, self.match.top_n, self.match.sticky, self.match.invoke)
        return digest_of((known, how, self.matcher.working_files))[:16]

    async def before_model(self, run: Run, request: Request) -> Request:
        """Match skills where that is due, and add the active ones to the frame."""
        state = self.standing(run)
        if state.number != run.number and (state.number == 0 or not self.match.sticky):
            await self._pass(run, state)
        frame = state.with_skills(run, request.frame)
        if frame is request.frame:
            return request
        return Request(request.messages, frame, request.tail)

    def standing(self, run: Run) -> Standing:
        """Return the state of this run's skills; a session continues with those it had."""
        state: Standing | None = run.cache.get(_KEY)
        if state is None or state.policy is not self:
            memory: Active = run.recall(self)
            state = run.cache[_KEY] = Standing(self, memory.skills)
        return state

    # ----------------------------------------------------------------- a pass

    async def _pass(self, run: Run, state: Standing) -> None:
        matched = self._on_record(run)
        if matched is not None:
            target = matched.chosen
        elif self.match.sticky and state.skills and self._invoked_are_in(state):
            target = tuple([one for one in state.active if one.name in self.registry])
        else:
            matched = await self._match_skills(run, state)
            run.note(matched)
            target = matched.chosen
        await self._move(run, state, target)
        state.number = run.number

    def _on_record(self, run: Run) -> SkillMatched | None:
        """Return the recorded match of this turn, or of this run where one is enough."""
        for entry in _of_this_run(run):
            if type(entry) is SkillMatched and entry.registry == self.digest:
                return entry
            if type(entry) is IterationStart and not self.match.sticky:
                return None
        return None

    def _invoked_are_in(self, state: Standing) -> bool:
        return set(self.match.invoke) <= set(state.names)

    async def _match_skills(self, run: Run, state: Standing) -> SkillMatched:
        match, warning, strategy = self.match, None, "metadata"
        ranked: list[SkillScore] | None = None
        prompt = _prompt(run)
        if match.strategy != "metadata":
            strategy = match.strategy
            run.flush()  # it may take its time: what is known is handed on before
            try:
                ranked, warning = await self.matcher.call_matcher(prompt, state.names)
            except MatcherFailed as error:
                strategy, warning = (
                    "metadata",
                    f"the matcher failed, and words were matched: {error}",
                )
                log.warning("skills: %s", warning)
        if ranked is None:
            if state.ranked is None or state.ranked[0] != prompt:
                state.ranked = (prompt, self.matcher.rank_skills(prompt))
            ranked = state.ranked[1]
        invoked = [SkillScore(name, 0.0, _INVOKED) for name in match.invoke]
        free = [one for one in ranked if one.name not in match.invoke][: match.top_n]
        if match.sticky and state.skills:  # what a session has, it keeps
            free = [one for one in state.active if one.name in self.registry]
            free = [one for one in free if one.name not in match.invoke]
        first = not any(type(entry) is SkillMatched for entry in _of_this_run(run))
        return SkillMatched(
            run.session_id,
            run.iteration,
            strategy,
            tuple(ranked[:_RECORDED]),
            (*invoked, *free),
            not first,
            self.matcher.working_files[:_RECORDED],
            warning or None,
            self.registry.problems[:_RECORDED] if first else (),
            self.digest,
        )

    # ----------------------------------------------------------------- from here to there

    async def _move(self, run: Run, state: Standing, target: tuple[SkillScore, ...]) -> None:
        """Deactivate the skills that are not wanted, then activate the others, one by one."""
        wanted = {one.name for one in target}
        for one in state.active:
            if one.name not in wanted:
                await self._off(run, state, one)
        for one in target:
            if all(one.name != other.name for other in state.active):
                skill = self.registry.get(one.name)
                if skill is not None:
                    await self._on(run, state, one, skill)

    async def _off(self, run: Run, state: Standing, one: SkillScore) -> None:
        event = SkillDeactivated(run.session_id, one.name, run.iteration)
        run.note(event)
        state.take(tuple([other for other in state.active if other.name != one.name]))
        run.remember(self, Active(state.active))
        skill = self.registry.get(one.name)
        if skill is not None and skill.on_deactivate is not None:
            await self._hook(run, skill.on_deactivate, event, "on_deactivate")

    async def _on(self, run: Run, state: Standing, one: SkillScore, skill: Skill) -> None:
        event = SkillActivated(
            run.session_id,
            skill.name,
            run.iteration,
            one.score,
            one.reason,
            skill.description,
            skill.allowed_tools,
            skill.mcp,
        )
        run.note(event)
        state.take((*state.active, one))
        if skill.allowed_tools:
            left = tuple(t.name for t in self.surface.tools if t.name not in state.hidden)
            gone = tuple(t.name for t in self.surface.tools if t.name in state.hidden)
            run.note(SkillScopeTools(run.session_id, skill.name, skill.allowed_tools, left, gone))
        run.remember(self, Active(state.active))
        if skill.on_activate is not None:
            await self._hook(run, skill.on_activate, event, "on_activate")

    async def _hook(
        self, run: Run, hook: Hook, event: SkillActivated | SkillDeactivated, which: str
    ) -> None:
        """Run a hook at most once: its step is stored before. A failure ends no run."""
        await run.store_record()
        try:
            answer = hook(event) if _takes_one(hook) else hook()
            if inspect.isawaitable(answer):
                await answer
            return
        except asyncio.CancelledError as error:
            task = asyncio.current_task()
            if task is None or task.cancelling():
                raise
            failed: BaseException = error
        except TestBroken:
            raise
        except Exception as error:
            failed = error
        message = error_text(failed) or type(failed).__name__
        log.warning("skill %r: %s failed: %s", event.name, which, message)
        run.note("skill_hook_failed", {"name": event.name, "hook": which, "error": message})


class GatedSkills(Skills):
    """Skills with tools or files of their own: calls are checked before they run."""

    decides = True

    def _reader(self) -> Tool | None:
        free = [name for name in NAMES if name not in self.surface.names]
        if not free or not any(skill.files for skill in self.registry):
            return None
        return file_tool(self.registry, free[0])

    async def start(self, run: Run) -> None:
        """Register the tool that reads files; it is offered when a skill with files is active."""
        tool = self.reader
        if tool is not None and tool.name not in run.plan.denied and _calls_tools(run):
            run.tools = {**run.tools, tool.name: tool}

    def passes(self, run: Run, call: ToolCall) -> bool:
        if self.reader is not None and call.name == self.reader.name:
            return False
        return call.name not in self.standing(run).hidden

    async def before_tool(self, run: Run, call: ToolCall) -> ToolResult | None:
        """Refuse a call outside the active skills' tools."""
        state = self.standing(run)
        if call.name in state.hidden:
            left = sorted(self.surface.names - state.hidden)
            rest = f"; there is {', '.join(left[:40])}" if left else ""
            text = f"Denied: {call.name} is not a tool of the active skill {_all(state)}{rest}."
            return ToolResult(call.id, text, True, call.name, "denied")
        if self.reader is not None and call.name == self.reader.name:
            asked = call.arguments.get("skill")
            having = [skill.name for skill in state.skills if skill.files]
            if asked not in having:
                active = ", ".join(map(repr, having)) or "none"
                text = f"Denied: no active skill {str(asked)[:80]!r} has files; those that do: {active}."
                return ToolResult(call.id, text, True, call.name, "denied")
        return None


def _all(state: Standing) -> str:
    return " or ".join(map(repr, state.names))


def _calls_tools(run: Run) -> bool:
    """Check whether the model can be offered one more tool."""
    settings = run.frame.settings
    if settings.tool_choice == "none" or not (run.tools or run.model.native_tools):
        return False
    return settings.schema is None or run.model.capabilities.schema_beside_tools


def _prompt(run: Run) -> str:
    """Return the last message to the model."""
    text = run.facts(LastWord).text
    if text is not None:
        return text
    return next((m.text for m in reversed(run.messages) if _speaks(m)), "")


def _of_this_run(run: Run) -> Iterator[JournalEntry]:
    """Yield the entries of this run, the newest first."""
    for entry in reversed(run.entries):
        if type(entry) is RunStarted:
            return
        yield entry


def _takes_one(hook: Hook) -> bool:
    """Check whether a hook takes the event as its argument."""
    try:
        inspect.signature(cast("Any", hook)).bind(None)
    except (TypeError, ValueError):
        return False
    return True


# --------------------------------------------------------------------------- from options


def build(ctx: BuildContext) -> Policies:
    """Build the policy of the skills that the options name."""
    options = SkillOptions.read(ctx.values)
    registry = options.skills
    if registry is None:
        for name in ("skill_match", "working_files"):
            if getattr(options, name) and "skills" not in ctx.values:
                raise ConfigError(f"{name} is about skills, and there are none: give skills too")
        return ()
    match = options.skill_match or SkillMatch()
    for name in match.invoke:
        _check_invoked(registry, name)
    own = {tool.name for tool in ctx.given_tools}
    tools = [tool for tool in ctx.tools if tool.name in own]
    gated = any(skill.allowed_tools or skill.files for skill in registry)
    kind = GatedSkills if gated else Skills
    return (kind(registry, match, options.working_files, tools),)


def _check_invoked(registry: SkillRegistry, name: str) -> None:
    skill = registry.get(name)
    if skill is None:
        raise ConfigError(
            f"skill_match.invoke names {name!r}, which is no skill{nearest(name, registry.names)}"
        )
    if not skill.user_invocable:
        raise ConfigError(f"skill {name!r} is not user-invocable: it cannot be invoked by name")
