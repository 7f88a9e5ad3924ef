"""Unused tools leave the model's sight: hidden for a while, never forbidden.

Between turns, all at once, and on record. A hidden tool is named in the system prompt and can be
called; a call brings it back. Where a provider's cache makes the frame cheap, tools leave only when
the cache is lost anyway, and only if that pays.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Annotated, Any, ClassVar, Final, Literal, cast

import msgspec

from windlass.errors import ConfigError
from windlass.events import Framed, Replied, Reshaped, SkillNarrowed, ToolSearchResulted
from windlass.loop.facts import Facts, Take
from windlass.loop.policy import Policy
from windlass.loop.run import Run
from windlass.messages import ToolSpec
from windlass.models.base import Frame, Request
from windlass.options.checks import boolean, no_key, number, one_of, optional, texts
from windlass.options.group import Option, OptionGroup, OptionStruct, struct
from windlass.options.prompts import Words, text_of, words_of
from windlass.policies.build import BuildContext, Policies
from windlass.policies.completion import CompletionOptions
from windlass.policies.resumption import NAME as AWAIT_RESUMPTION
from windlass.tools.kinds import CLASSES, PINNED, tool_class
from windlass.tools.tool import Tool

NAME: Final = "tool_surface_narrowing"
DEFAULT_WINDOW: Final = 5  # turns
LINE: Final = "Not listed now, for want of use, and still callable by name: {tools}."
#: What a lost cache costs in turns of reading: written at 1.25 of the price, read at 0.1 of it.
_MISS: Final = 11.5


def _check_classes(name: str, value: Any) -> tuple[str, ...]:
    given = texts(name, value)
    for one in given:
        if one not in CLASSES:
            raise no_key(name, one, CLASSES)
    return given


class ToolSurfaceNarrowing(OptionStruct, frozen=True, kw_only=True):
    """Which unused tools are hidden: `ToolSurfaceNarrowing(hard_keep=["grep"])`.

    `safe`: those that only read. `aggressive`: any. `prune_classes` and `keep_classes` choose
    classes of tools, `unknown_tool_policy` decides about tools without level and kind.
    """

    enabled: Annotated[bool, Option(boolean)] = True
    """Whether unused tools are hidden."""
    window_turns: Annotated[int, Option(number(1, whole=True))] = DEFAULT_WINDOW
    """Turns without use after which a tool may be hidden."""
    mode: Annotated[Literal["safe", "aggressive"], Option(one_of("safe", "aggressive"))] = "safe"
    """Which tools may be hidden: those that only read, or any."""
    hard_keep: Annotated[tuple[str, ...], Option(texts)] = ()
    """Names of tools that stay."""
    prune_classes: Annotated[tuple[str, ...] | None, Option(optional(_check_classes))] = None
    """Classes whose tools may be hidden."""
    keep_classes: Annotated[tuple[str, ...] | None, Option(optional(_check_classes))] = None
    """Classes whose tools stay."""
    unknown_tool_policy: Annotated[
        Literal["keep", "prune"] | None, Option(optional(one_of("keep", "prune")))
    ] = None
    """What happens to tools without level and kind."""

    def prunes(self) -> frozenset[str]:
        """Return the classes of tools that may be hidden."""
        usual = ("read_only",) if self.mode == "safe" else CLASSES
        prune = set(usual if self.prune_classes is None else self.prune_classes)
        prune -= set(self.keep_classes or ())
        if self.unknown_tool_policy == "prune":
            prune.add("unknown")
        elif self.unknown_tool_policy == "keep":
            prune.discard("unknown")
        return frozenset(prune)


_check_struct = struct(ToolSurfaceNarrowing)


def _check_narrowing(name: str, value: Any) -> ToolSurfaceNarrowing | None:
    if value is False:
        value = {"enabled": False}
    wanted: ToolSurfaceNarrowing | None = _check_struct(name, value)
    if wanted is None:
        return None
    both = set(wanted.prune_classes or ()) & set(wanted.keep_classes or ())
    if both:
        raise ConfigError(f"{name}: {min(both)} cannot be pruned and kept: give it to one of them")
    unknown = wanted.unknown_tool_policy
    if unknown is not None:
        other = wanted.keep_classes if unknown == "prune" else wanted.prune_classes
        if "unknown" in (other or ()):
            raise ConfigError(f"{name}: unknown_tool_policy and the classes say different things")
    return wanted


class NarrowingOptions(OptionGroup, frozen=True, kw_only=True):
    """Unused tools that are hidden from the model."""

    tool_surface_narrowing: Annotated[
        ToolSurfaceNarrowing | None,
        Option(_check_narrowing, accepts="bool | dict[str, Any] | ToolSurfaceNarrowing | None"),
    ] = None
    """Hide unused tools; on by default in `agent_loop`, off elsewhere."""


class Narrowed(msgspec.Struct, frozen=True):
    """The hidden tools, since which turn, and the text that names them."""

    hidden: tuple[str, ...] = ()
    at: int = 0
    line: str = ""


class Surface(Facts):
    """The turn in which each tool was last called, found or added; and what was sent last."""

    def __init__(self) -> None:
        self.turns = 0
        self.last: dict[str, int] = {}
        self.frames: dict[str, list[str]] = {}  # tools of each, by digest
        self.sent: str | None = None  # the frame of the last request
        self.warm = False  # it was read from a cache, or written into one
        self.cut = False  # the view has changed since

    def takes(self) -> Mapping[type, Take]:
        """Return the function for each kind of entry that is read."""
        return {
            Replied: self._reply,
            Framed: self._frame,
            ToolSearchResulted: self._read_search,
            Reshaped: self._read_reshape,
        }

    def _reply(self, entry: Replied) -> None:
        if entry.purpose is None:
            self.turns += 1
            self.sent, self.cut = entry.frame, False
            self.warm = bool(entry.usage.cache_read_tokens or entry.usage.cache_write_tokens)
            for call in entry.message.tool_calls:
                self.last[call.name] = self.turns

    def _frame(self, entry: Framed) -> None:
        self.frames[entry.digest] = names = [tool["name"] for tool in entry.tools]
        for name in names:
            self.last.setdefault(name, self.turns)

    def _read_search(self, entry: ToolSearchResulted) -> None:
        self.last.update(dict.fromkeys(entry.tool_names, self.turns))

    def _read_reshape(self, entry: Reshaped) -> None:
        self.cut = True

    def last_shown_tools(self, run: Run) -> list[str] | None:
        """Return the tools that the model was shown last; None if unknown."""
        if self.sent is not None and self.sent not in self.frames:  # put on record by a run before
            for entry in run.entries[: run.first_entry]:
                if type(entry) is Framed:
                    self.frames.setdefault(entry.digest, [tool["name"] for tool in entry.tools])
            self.frames.setdefault(self.sent, [])
        return self.frames.get(self.sent or "") or None


class _NarrowingCache:
    """Cached results of the last checks, valid while the frame stays the same."""

    __slots__ = ("candidates", "due", "frame", "given", "narrowed", "place", "shown", "tools")

    def __init__(self) -> None:
        self.place = -1  # entries on record
        self.due = 0  # no tool can be unused for long enough before this turn
        self.given: Frame | None = None  # that had these candidates
        self.tools: Mapping[str, Tool] | None = None
        self.candidates: tuple[ToolSpec, ...] = ()
        self.frame: Frame | None = None  # that became this one without the hidden tools
        self.shown: Frame | None = None
        self.narrowed: Narrowed | None = None


class Narrowing(Policy[Narrowed]):
    """A policy that hides tools not used in the last turns, where their class allows it."""

    memory = Narrowed
    brief: ClassVar[bool] = True

    def __init__(
        self,
        wanted: ToolSurfaceNarrowing | None = None,
        keep: frozenset[str] = frozenset(),
        words: Words = LINE,
    ) -> None:
        self.wanted = wanted = wanted or ToolSurfaceNarrowing()
        self.window, self.prunes = wanted.window_turns, wanted.prunes()
        self.required, self.words = keep, words

    @property
    def name(self) -> str:
        return NAME

    def may_leave(self, tool: Tool) -> bool:
        """Check whether a tool is of a class that may be hidden, and not pinned."""
        if tool.name in self.required or tool.name in self.wanted.hard_keep:
            return False
        return not tool.annotations.get(PINNED) and tool_class(tool) in self.prunes

    async def before_model(self, run: Run, request: Request) -> Request:
        """Remove the hidden tools from the request; check at intervals which those are."""
        memory: Narrowed | None = run.memory.get(NAME)
        if memory is None and run.iteration < self.window:
            return request
        looked: _NarrowingCache | None = run.cache.get(self)
        if looked is None:
            looked = run.cache[self] = _NarrowingCache()
        if looked.place != len(run.entries):
            other = looked.given is not request.frame  # with tools that may be long due
            if other or run.iteration >= looked.due or (memory and _uses_hidden_tool(run, memory)):
                memory = await self._look(run, request, memory or Narrowed(), looked)
            looked.place = len(run.entries)
        if memory is None or not memory.hidden:
            return request
        if looked.frame is not request.frame or looked.narrowed is not memory:
            looked.frame, looked.narrowed = request.frame, memory
            looked.shown = _without(request.frame, memory)
        if looked.shown is None:
            return request
        return Request(request.messages, looked.shown, request.tail)

    # ----------------------------------------------------------------- which leave, which return

    async def _look(
        self, run: Run, request: Request, memory: Narrowed, looked: _NarrowingCache
    ) -> Narrowed | None:
        used = run.facts(Surface)
        back = tuple([name for name in memory.hidden if used.last.get(name, 0) > memory.at])
        hidden = tuple([name for name in memory.hidden if name not in back])
        stale = self._stale(run, request.frame, hidden, used, looked)
        if stale and not back and not self._now(run, request.frame, hidden, stale, used):
            stale = []  # the cache is warm: they wait for a cut
        if not stale and not back:
            return memory if NAME in run.memory else None
        hidden = (*hidden, *[spec.name for spec in stale])
        line = await self._render_notice(hidden) if hidden else ""
        narrowed = Narrowed(hidden, used.turns, line)
        run.note(self._entry(run, request.frame, narrowed, stale, back, used))
        run.remember(self, narrowed)
        return narrowed

    def _stale(
        self,
        run: Run,
        frame: Frame,
        hidden: tuple[str, ...],
        used: Surface,
        looked: _NarrowingCache,
    ) -> list[ToolSpec]:
        """Return the tools not used within the window; at least one tool stays."""
        demanded, gone = _forced_tool(frame), frozenset(hidden)
        stale: list[ToolSpec] = []
        due = used.turns + self.window
        for spec in self._candidates(run, frame, looked):
            if spec.name in gone or spec.name == demanded:
                continue
            # in no frame so far: it is being added just now
            last = used.last.get(spec.name, used.turns) + self.window
            if last <= used.turns:
                stale.append(spec)
            due = min(due, last)
        looked.due = due
        if len(stale) + len(gone.intersection(_names(frame))) >= len(list(_names(frame))) and stale:
            latest = max(stale, key=lambda spec: used.last.get(spec.name, 0))
            stale.remove(latest)
        return stale

    def _candidates(self, run: Run, frame: Frame, looked: _NarrowingCache) -> tuple[ToolSpec, ...]:
        """Return the tools of a frame that may be hidden; those without a handler may not."""
        if looked.given is not frame or looked.tools is not run.tools:
            looked.given, looked.tools = frame, run.tools
            found = [(spec, run.tools.get(spec.name)) for spec in frame.tools]
            looked.candidates = tuple(
                [
                    spec
                    for spec, tool in found
                    if tool is not None and not spec.defer_loading and self.may_leave(tool)
                ]
            )
        return looked.candidates

    def _now(
        self, run: Run, frame: Frame, hidden: tuple[str, ...], stale: list[ToolSpec], used: Surface
    ) -> bool:
        """Check whether hiding costs nothing, or less than it saves in a run twice as long."""
        warm = used.warm
        if warm:
            shown = used.last_shown_tools(run)
            left = [spec.name for spec in frame.tools if spec.name not in hidden]
            if shown is not None and shown != left:
                warm = False  # other tools than before: what was cached of the frame is lost anyway
            elif not used.cut:
                return False
        saved = sum([_size(spec) for spec in stale])
        line = LINE if callable(self.words) else self.words
        if not hidden and saved <= len(line) + sum([len(spec.name) + 2 for spec in stale]):
            return False  # to name them takes as much as to describe them
        sizes = [_size(spec) for spec in frame.tools if spec.name != AWAIT_RESUMPTION]
        rest = len(frame.system or "") + sum(sizes) - saved
        return not warm or rest * _MISS <= saved * run.iteration

    async def _render_notice(self, hidden: tuple[str, ...]) -> str:
        words = await text_of(self.words)
        return words.replace("{tools}", ", ".join(hidden))

    # ----------------------------------------------------------------- on the record

    def _entry(
        self,
        run: Run,
        frame: Frame,
        narrowed: Narrowed,
        stale: list[ToolSpec],
        back: tuple[str, ...],
        used: Surface,
    ) -> SkillNarrowed:
        kept = [name for name in _names(frame) if name not in narrowed.hidden]
        about: dict[str, Any] = msgspec.to_builtins(self.wanted)
        about["hard_keep"] = list(self.wanted.hard_keep)
        about["prune_classes"] = sorted(self.prunes)
        about["keep_classes"] = sorted(set(CLASSES) - self.prunes)
        about["unknown_tool_policy"] = "prune" if "unknown" in self.prunes else "keep"
        removed = [spec.name for spec in stale]
        return SkillNarrowed(
            run.iteration,
            tuple(removed),
            tuple(kept),
            "unused" if removed else "used_again",
            about,
            tuple([_detail(run, name, used) for name in removed]),
            tuple([_detail(run, name, used, self._why(run, frame, name, used)) for name in kept]),
            back,
        )

    def _why(self, run: Run, frame: Frame, name: str, used: Surface) -> str:
        """Return why a tool stays."""
        tool = run.tools.get(name)
        if name in self.wanted.hard_keep:
            return "hard_keep"
        if name in self.required:
            return "required"
        if tool is None or name == _forced_tool(frame) or not self.may_leave(tool):
            classed = tool is not None and tool_class(tool) not in self.prunes
            return "class" if classed else "needed"
        return "used" if used.last.get(name, 0) + self.window > used.turns else "last"


def _detail(run: Run, name: str, used: Surface, why: str | None = None) -> dict[str, Any]:
    tool = run.tools.get(name)
    detail: dict[str, Any] = {
        "name": name,
        "class": "unknown" if tool is None else tool_class(tool),
        "last_used": used.last.get(name, 0),
    }
    return detail if why is None else {**detail, "why": why}


def _without(frame: Frame, narrowed: Narrowed) -> Frame | None:
    """Replace the hidden tools by a line of the system prompt; None if the frame has none."""
    demanded = _forced_tool(frame)
    gone = frozenset(narrowed.hidden) - {demanded}
    tools = tuple([spec for spec in frame.tools if spec.name not in gone])
    if len(tools) == len(frame.tools) or not tools:
        return None
    system = f"{frame.system}\n\n{narrowed.line}" if frame.system else narrowed.line
    return Frame(system, tools, frame.settings)


def _forced_tool(frame: Frame) -> str | None:
    """Return the one tool that the model must call, if any."""
    choice: Any = frame.settings.tool_choice
    if isinstance(choice, Mapping):
        name = cast("Mapping[str, Any]", choice).get("name")
        return name if isinstance(name, str) else None
    return choice if isinstance(choice, str) else None


def _uses_hidden_tool(run: Run, memory: Narrowed) -> bool:
    """Check whether a hidden tool has been called, or found, since it was hidden."""
    last = run.facts(Surface).last
    return any([last.get(name, 0) > memory.at for name in memory.hidden])


def _names(frame: Frame) -> Iterator[str]:
    """Return the names of the tools, without the one that every loop offers."""
    return (spec.name for spec in frame.tools if spec.name != AWAIT_RESUMPTION)


def _size(spec: ToolSpec) -> int:
    return len(msgspec.json.encode(spec))


# --------------------------------------------------------------------------- from options

_DEFAULT = Narrowing()  # frozen: shared by all with default options


def build(ctx: BuildContext) -> Policies:
    """Build the policy that hides unused tools, where it has something to do."""
    wanted = NarrowingOptions.read(ctx.values).tool_surface_narrowing
    if wanted is not None:
        ctx.check_tool_names("tool_surface_narrowing.hard_keep", wanted.hard_keep)
    if wanted is None and ctx.door != "agent_loop":
        return ()  # an Agent and generate offer what they were given, unless asked
    window = DEFAULT_WINDOW if wanted is None else wanted.window_turns
    if (wanted is not None and not wanted.enabled) or (
        ctx.max_turns is not None and ctx.max_turns <= window
    ):
        return ()
    more_may_come = wanted is not None and bool(ctx.user_policies)  # these may bring tools
    if len(ctx.tools) < 2 and not more_may_come:
        return ()  # one tool at least stays
    keep = CompletionOptions.read(ctx.values).awaited_tools
    words = words_of(ctx.prompts, "agent.hidden_tools", LINE)
    is_default = wanted is None and not keep and words is LINE
    policy = _DEFAULT if is_default else Narrowing(wanted, keep, words)
    return (policy,) if more_may_come or any(map(policy.may_leave, ctx.tools)) else ()
