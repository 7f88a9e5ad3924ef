"""When the work counts as done, and what happens when the model only writes text.

Three modes. With native tools a reply without calls is the end. Where tools are written as text,
and where there are none, the model signals the end with a sentinel. Until then text-only turns are nudged,
and too many of them in a row mean that the run is stuck. Some tools may end the run by working, and
some must have worked before it counts as done.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Annotated, Any, cast

import msgspec

from windlass.errors import ConfigError, safe_repr
from windlass.events import LoopStuck
from windlass.loop.policy import Policy
from windlass.loop.run import Run
from windlass.loop.turn import Turn
from windlass.loop.verdict import Finish, KeepGoing, Outcome, Stop, Verdict
from windlass.options.checks import boolean, number, optional, text, texts, words
from windlass.options.group import Alias, Option, OptionGroup, OptionStruct, Values, struct
from windlass.options.prompts import Prompts, Words, choose_prompt, override, text_of, words_of
from windlass.policies.build import BuildContext, Mode, Policies
from windlass.policies.daemon.options import DaemonOptions
from windlass.policies.facts import missing, tally

SENTINEL = "##DONE##"
_OPEN, _CLOSE = "<done>", "</done>"

NUDGES: dict[str, str] = {
    "native": (
        "You have not finished. Call a tool to go on, or give your final answer if the task is done."
    ),
    "text": (
        "You have not finished. Go on with a <tool_call>, or write <done>{sentinel}</done> if the "
        "task is done."
    ),
    "none": "You have not finished. Go on, or write {sentinel} if the task is done.",
}

CURT_NUDGES: dict[str, str] = {
    "native": "You have not finished. Call a tool to go on.",
    "text": "You have not finished. Go on with a <tool_call>.",
    "none": "You have not finished. Go on.",
}

ACT = "Words alone do not count here: call a tool."
_OR_SAY = " Or write {sentinel} if the task is done."

CONTRACTS: dict[str, str] = {
    "native": "When the whole task is done, say so and write {sentinel} in your reply.",
    "text": "When the whole task is done, write <done>{sentinel}</done> in your reply.",
    "none": "When the whole task is done, write {sentinel} in your reply.",
}


KEEP_WORKING = "Keep working until the task is complete."
KEEP_CALLING = (
    "Keep working until the task is complete: call tools as long as something is left to do. A reply "
    "without a tool call is taken as your final answer."
)


class TurnPolicy(OptionStruct, frozen=True, kw_only=True):
    """Rules for a turn: `TurnPolicy(require_action_or_yield=True, max_prose_chars=400)`."""

    require_action_or_yield: Annotated[bool, Option(boolean)] = False
    """Whether text alone does not end a run that has tools and called none."""
    allow_done_sentinel: Annotated[bool, Option(boolean)] = True
    """Whether nudges mention the sentinel."""
    max_prose_chars: Annotated[int | None, Option(optional(number(1, whole=True)))] = None
    """Characters of text after which the model is told to be brief."""


def _check_sentinel(name: str, value: Any) -> str | None:
    if value is not None and (not isinstance(value, str) or not value.strip()):
        raise ConfigError(f"{name} is None or a text that is not empty, not {safe_repr(value)}")
    return None if value is None else words(name, value)


def _check_required(name: str, value: Any) -> tuple[tuple[str, ...], ...]:
    """Check the required tools: all of the list, and any one of a nested list."""
    if isinstance(value, str) or not isinstance(value, (list, tuple)):
        raise ConfigError(f"{name} is a list of tools' names, not {safe_repr(value)}")
    groups: list[tuple[str, ...]] = []
    for each in cast("Sequence[Any]", value):
        group = (text(name, each),) if isinstance(each, str) else texts(name, each)
        if not group:
            raise ConfigError(f"{name} holds an empty group, which nothing can satisfy")
        groups.append(group)
    return tuple(groups)


class CompletionOptions(OptionGroup, frozen=True, kw_only=True):
    """Loop until done: nudges and the done sentinel."""

    loop_until_done: Annotated[
        bool,
        Option(boolean, aliases=(Alias("persistent", frozenset({"loop"}), deprecated=True),)),
    ] = False
    """Whether turns without tool calls are nudged until the work is done."""
    done_sentinel: Annotated[
        str | None | msgspec.UnsetType, Option(_check_sentinel, accepts="str | None")
    ] = msgspec.UNSET
    """The word with which the model ends the run; None: no word."""
    max_nudges: Annotated[int, Option(number(0, whole=True))] = 8
    """Nudges in a row after which the run is stuck."""
    nudge: Annotated[str | None, Option(text, choice="nudge")] = None
    """The text that the model reads after a turn without tool calls."""
    turn_policy: Annotated[
        TurnPolicy | None,
        Option(struct(TurnPolicy, flag=False), accepts="dict[str, Any] | TurnPolicy | None"),
    ] = None
    """Rules for a turn."""
    stop_after_successful_tools: Annotated[
        tuple[str, ...] | None,
        Option(optional(texts), accepts="Sequence[str] | None", in_file=False),
    ] = None
    """Tools that end the run when they succeed."""
    require_successful_tools: Annotated[
        tuple[tuple[str, ...], ...] | None,
        Option(
            optional(_check_required), accepts="Sequence[str | Sequence[str]] | None", in_file=False
        ),
    ] = None
    """Tools that must succeed before the run is done; of a nested list any one."""

    @property
    def required_tools(self) -> tuple[tuple[str, ...], ...]:
        """The tools that must have worked."""
        return self.require_successful_tools or ()

    @property
    def awaited_tools(self) -> frozenset[str]:
        """Names of all tools that the end of a run waits for."""
        names = {name for group in self.required_tools for name in group}
        return frozenset({*names, *(self.stop_after_successful_tools or ())})


def choose_sentinel(values: Values, mode: Mode) -> str | None:
    """Choose the sentinel that ends a run, or None."""
    options = CompletionOptions.read(values)
    if options.done_sentinel is not msgspec.UNSET:
        return options.done_sentinel
    return SENTINEL if options.loop_until_done and mode != "native" else None


def loop_contract(values: Values, prompts: Prompts, mode: Mode, sentinel: str | None) -> Words:
    """Return the instructions to keep working, where that is asked for, and how to end a run."""
    keeps = CompletionOptions.read(values).loop_until_done
    if sentinel is None:
        given = override(prompts, "agent.loop_contract")
        if given is not None and isinstance(given.source, str) and "{sentinel}" in given.source:
            raise ConfigError(
                "prompts['agent.loop_contract'] names {sentinel}, and this run ends without one: "
                "give done_sentinel, or leave {sentinel} out"
            )
        return words_of(prompts, "agent.loop_contract", KEEP_CALLING) if keeps else ""
    end = CONTRACTS[mode].format(sentinel=sentinel)
    default = f"{KEEP_WORKING} {end}" if keeps else end
    return words_of(prompts, "agent.loop_contract", default, sentinel=sentinel)


def add_contract(
    values: Values, system: str | None, prompts: Prompts, mode: Mode, sentinel: str | None
) -> str | None:
    """Add the instructions of `loop_contract`, unless a function writes them later."""
    contract = loop_contract(values, prompts, mode, sentinel)
    if not isinstance(contract, str) or not contract:  # `frame_prompts.py` has it written
        return system
    return f"{system}\n\n{contract}" if system else contract


def build(ctx: BuildContext) -> Policies:
    """Build the policy, unless the rule of the kernel is the whole of it."""
    options, sentinel = CompletionOptions.read(ctx.values), ctx.sentinel
    until_done, shape = options.loop_until_done, options.turn_policy
    stop_after, required = options.stop_after_successful_tools, options.required_tools
    if not (until_done or sentinel is not None or required or stop_after or shape is not None):
        return ()
    ctx.check_tool_names("stop_after_successful_tools", stop_after or ())
    for group in required:
        ctx.check_tool_names("require_successful_tools", group)
    said, nudge = sentinel or SENTINEL, options.nudge
    words: Words | None = nudge
    if override(ctx.prompts, "agent.nudge") is not None:
        offers = NUDGES[ctx.mode].format(sentinel=said)
        words = choose_prompt(ctx.prompts, "agent.nudge", nudge, "nudge", offers, sentinel=said)
    act: Words | None = None
    if override(ctx.prompts, "agent.action_required") is not None:
        act = words_of(ctx.prompts, "agent.action_required", ACT, sentinel=said)
    policy = Completion(
        ctx.mode,
        loop_until_done=until_done,
        sentinel=sentinel,
        max_nudges=options.max_nudges,
        nudge=words,
        act=act,
        stop_after=frozenset(stop_after or ()),
        required=required,
        shape=shape,
        is_daemon=DaemonOptions.read(ctx.values).daemon,
    )
    return (policy,)


class Completion(Policy[None]):
    """A policy that finishes on the sentinel or naturally, nudges, and gives up at last."""

    def __init__(
        self,
        mode: Mode,
        *,
        loop_until_done: bool,
        sentinel: str | None,
        max_nudges: int = 8,
        nudge: Words | None = None,
        act: Words | None = None,
        stop_after: frozenset[str] = frozenset(),
        required: tuple[tuple[str, ...], ...] = (),
        shape: TurnPolicy | None = None,
        is_daemon: bool = False,
    ) -> None:
        self.mode: Mode = mode
        self.nudges_text = loop_until_done and not is_daemon  # a daemon becomes idle instead
        self.loop_until_done, self.sentinel = loop_until_done, sentinel
        self.max_nudges = max_nudges
        self.stop_after, self.required = stop_after, required
        self.shape = shape = shape or TurnPolicy()
        offers = NUDGES if shape.allow_done_sentinel else CURT_NUDGES
        self.nudge = nudge or offers[mode].format(sentinel=sentinel or SENTINEL)
        yields = sentinel is not None and shape.allow_done_sentinel
        way_out = f"<done>{sentinel}</done>" if mode == "text" else sentinel
        self.act = act or nudge or (ACT + _OR_SAY.format(sentinel=way_out) if yields else ACT)

    async def after_turn(self, run: Run, turn: Turn) -> Verdict | None:
        if self.sentinel is not None and says_done(turn.text, self.sentinel, self.mode):
            return Finish("sentinel")
        if turn.calls:
            worked = self.stop_after and not self.stop_after.isdisjoint(tally(run).worked)
            return Finish("natural") if worked else None
        if self._must_act(run):
            return KeepGoing("no action")
        if self.loop_until_done and self.mode == "native" and self.sentinel is None:
            if turn.text.strip():
                return Finish("natural")
        if self.required and not missing(self.required, run):
            return Finish("required_tools_satisfied")
        return KeepGoing("not done") if self.nudges_text else Finish("natural")

    async def before_turn(self, run: Run) -> Stop | None:
        turn, counted = run.turn, tally(run)
        if turn is None:
            return None
        talked = counted.talked
        must_act = talked > 0 and self._must_act(run)
        nudges = self.nudges_text or must_act
        if nudges and talked > self.max_nudges:
            if not counted.stuck:
                run.note(LoopStuck(talked - 1))
            return Stop("stuck", "max_nudges")
        if nudges and talked and run.messages[-1].role == "assistant":
            # only if no message followed the model's reply
            text = await text_of(self.act if must_act else self.nudge)
            run.say(text + self._too_long(turn), "nudge")
        elif turn.calls and "brief" not in counted.heard and (brief := self._too_long(turn)):
            run.say(brief.strip(), "brief")
        return None

    async def before_finish(self, run: Run, turn: Turn, finish: Finish) -> KeepGoing | None:
        lacking = missing(self.required, run) if self.required else None
        if not lacking:
            return None
        if "required_tools" not in tally(run).heard:
            run.say(
                f"These tools must have worked before you are done: {', '.join(lacking)}.",
                "required_tools",
            )
        return KeepGoing("required_tools")

    async def end(self, run: Run, outcome: Outcome) -> Outcome:
        lacking = missing(self.required, run) if self.required else None
        if not lacking or outcome.error is not None or outcome.status in _AS_IT_IS:
            return outcome
        fields = {**outcome.fields, "missing_required_tools": lacking}
        return msgspec.structs.replace(
            outcome, status="failed", stop_reason="missing_required_tools", fields=fields
        )

    def _must_act(self, run: Run) -> bool:
        """Check whether an action is required and no tool has been called yet."""
        if not self.shape.require_action_or_yield or self.mode == "none":
            return False
        counted = tally(run)
        return not (counted.successful or counted.rejected)

    def _too_long(self, turn: Turn) -> str:
        most = self.shape.max_prose_chars
        if most is None or len(visible(turn.text, self.sentinel)) <= most:
            return ""
        return f" Keep what you write under {most} characters."


_AS_IT_IS = frozenset({"provider_error", "suspended", "cancelled", "cancelling"})


def says_done(text: str, sentinel: str, mode: Mode) -> bool:
    """Check whether the reply carries the sentinel; in text mode it stands in a done block."""
    if mode == "text":
        return any(sentinel in text[start:end] for start, end in _done_blocks(text))
    return sentinel in text


def visible(text: str, sentinel: str | None) -> str:
    """Remove the sentinel from the reply, for people."""
    if sentinel is None or sentinel not in text:
        return text
    kept: list[str] = []
    place = 0
    for start, end in _done_blocks(text):
        if sentinel in text[start:end]:
            kept.append(text[place : start - len(_OPEN)])
            place = end + len(_CLOSE)
    kept.append(text[place:])
    return "".join(kept).replace(sentinel, "").strip()


def _done_blocks(text: str) -> Iterator[tuple[int, int]]:
    """Yield the start and end of each done block's content, in one pass."""
    place = 0
    while (opened := text.find(_OPEN, place)) >= 0:
        start = opened + len(_OPEN)
        end = text.find(_CLOSE, start)
        if end < 0:
            return
        yield start, end
        place = end + len(_CLOSE)
