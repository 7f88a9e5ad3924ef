"""What a run is made of: model, tools, policies and limits; and how values are put on the record."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from hashlib import blake2b
from typing import TYPE_CHECKING, Any, Final, cast

import msgspec

from windlass.errors import ConfigError, Corrupt
from windlass.events import Framed
from windlass.json_types import JsonObject
from windlass.loop.ledger import NO_LIMITS, REPLY_TOKENS, Budget
from windlass.loop.policy import Moments, Policy, moments_of
from windlass.messages import ToolSpec
from windlass.models.base import Frame, Model, Settings
from windlass.tools.render import to_text
from windlass.tools.tool import Tool, Validation

if TYPE_CHECKING:
    from windlass.events import JournalEntry
    from windlass.loop.run import Run
    from windlass.loop.sinks import Watcher

RESUME_ATTEMPTS = 5
MAX_CALLS_PER_REPLY = 128
BUDGET = "budget"  # in a run's metadata: the limits that it was given


#: Where a run finds the MCP servers that were held for it before it began, in its cache.
HELD_SERVERS: Final = "held_servers"


class Plan(msgspec.Struct, eq=False, kw_only=True):
    """The plan of a run: assembled once by `create_plan`, shared by many runs."""

    model: Model
    door: str
    name: str | None
    role: str | None
    metadata: JsonObject | None
    policies: tuple[Policy[Any], ...]
    moments: Moments
    deliberates: bool
    limits: Budget
    tools: Mapping[str, Tool]
    frame: Frame
    framed: Framed
    digest: str
    concurrency: int
    eager: bool
    tool_timeout: float | None
    validation: Validation
    reply_tokens: int
    resume_attempts: int | None
    """Deaths in a row without a new reply or result, after which a run is not taken up again."""
    max_calls_per_reply: int
    """The calls of a reply after these are not run."""
    denied: frozenset[str]
    """Tools that nobody may bring into a run."""
    watchers: tuple[Callable[[Run], Watcher], ...]
    """Make those who watch each run."""
    withheld: frozenset[str] = frozenset()
    """Tools whose calls are denied, not unknown."""
    workspace: object = None
    """The options of the folder and the sandbox of its tools."""
    connect: Callable[[Any], Awaitable[Plan]] | None = None
    """Completes the plan once servers have said which tools they have; mostly there is none."""
    servers: tuple[Any, ...] = ()
    """Those that `connect` holds for the run."""
    inherited: tuple[Policy[Any], ...] = ()
    """Those of its policies that are of a parent."""
    relocate: Callable[[Plan, Sequence[JournalEntry]], Plan] | None = None
    """Returns the plan for the workspace of a session; None for agents that use none."""

    def of(self, model: Model) -> Plan:
        """Return the same plan for another model."""
        return msgspec.structs.replace(self, model=model)

    def follow(self, entries: Sequence[JournalEntry]) -> Plan:
        """Return the plan for the workspace of a session; the same where it uses none."""
        return self if self.relocate is None else self.relocate(self, entries)

    def under(self, parent: Run) -> Plan:
        """Return the plan for a run that `parent` hands work to: what binds that one binds it."""
        above = [
            held
            for policy in parent.plan.policies
            if (held := policy.for_child(parent)) is not None
        ]
        return self.below(above) if above else self

    def beside(self, policy: Policy[Any]) -> Plan:
        """Return the same plan with one more policy, after its own."""
        other = self.of(self.model)
        other.policies = (*self.policies, policy)
        other.moments = moments_of(other.policies)
        other.deliberates = other.moments.deliberates
        return other

    def below(self, policies: Sequence[Policy[Any]]) -> Plan:
        """Return the same plan with these policies of a parent before its own."""
        other = self.of(self.model)
        other.inherited = (*policies, *self.inherited)
        other.policies = (*policies, *self.policies)
        other.moments = moments_of(other.policies)
        other.deliberates = other.moments.deliberates
        return other


def create_plan(
    model: Model,
    *,
    door: str = "agent",
    name: str | None = None,
    system: str | None = None,
    tools: Sequence[Tool] = (),
    settings: Settings | None = None,
    policies: Sequence[Policy[Any]] = (),
    limits: Budget = NO_LIMITS,
    concurrency: int = 1,
    eager: bool = True,
    tool_timeout: float | None = 120.0,
    validation: Validation = "strict",
    metadata: JsonObject | None = None,
    offered: tuple[ToolSpec, ...] | None = None,  # None: all of them, as they are
    role: str | None = None,
    resume_attempts: int | None = RESUME_ATTEMPTS,
    denied: frozenset[str] = frozenset(),
    watchers: Sequence[Callable[[Run], Watcher]] = (),
    max_calls_per_reply: int = MAX_CALLS_PER_REPLY,
) -> Plan:
    """Build the plan of a run: `create_plan(model, system="Be brief.", tools=[add])`."""
    settings = settings or _SETTINGS
    offer = _offer(system, tuple(tools), settings, offered)
    policies = tuple(policies)
    moments = moments_of(policies)
    return Plan(
        model=model,
        door=door,
        name=name,
        role=role,
        metadata=metadata,
        policies=policies,
        moments=moments,
        deliberates=moments.deliberates,
        limits=limits,
        tools=offer.tools,
        frame=offer.frame,
        framed=offer.framed,
        digest=offer.framed.digest,
        concurrency=concurrency,
        eager=eager and offer.reads,
        tool_timeout=tool_timeout,
        validation=validation,
        reply_tokens=settings.max_tokens or REPLY_TOKENS,
        resume_attempts=resume_attempts,
        max_calls_per_reply=max_calls_per_reply,
        denied=denied,
        watchers=tuple(watchers),
    )


class _Offer(msgspec.Struct, frozen=True):
    """The offer to a model, in the forms that a run needs."""

    tools: Mapping[str, Tool]
    reads: bool  # some of them only read
    frame: Frame
    framed: Framed


_SETTINGS = Settings()
_offers: dict[tuple[str | None, tuple[int, ...], int, int], _Offer] = {}


def _offer(
    system: str | None,
    tools: tuple[Tool, ...],
    settings: Settings,
    specs: tuple[ToolSpec, ...] | None,
) -> _Offer:
    """Build the offer of these parts; cached, as agents are often built with the same."""
    key = (system, tuple(map(id, tools)), id(settings), id(specs))
    known = _offers.get(key)  # it holds the parts, so that their ids stay theirs
    if known is None:
        if specs is None:
            specs = tuple([tool.spec for tool in tools])
        frame = Frame(system, specs, settings)
        reads = any([tool.effect == "read_only" for tool in tools])
        if len(_offers) >= 256:
            _offers.clear()
        by_name = {tool.name: tool for tool in tools}
        known = _offers[key] = _Offer(by_name, reads, frame, frame_entry(frame))
    return known


# --------------------------------------------------------------------------- values on record


def frame_entry(frame: Frame, why: str = "start") -> Framed:
    """Build the entry that puts a frame on the record."""
    tools = tuple([cast("JsonObject", msgspec.to_builtins(tool)) for tool in frame.tools])
    settings = cast("JsonObject", msgspec.to_builtins(frame.settings))
    return Framed(digest_of((frame.system, tools, settings)), frame.system, tools, settings, why)


def frame_of(entry: Framed) -> Frame:
    """Read the frame that an entry put on the record."""
    try:
        return Frame(
            entry.system,
            tuple(msgspec.convert(tool, ToolSpec) for tool in entry.tools),
            msgspec.convert(entry.settings, Settings),
        )
    except msgspec.ValidationError as error:
        raise Corrupt(f"frame {entry.digest!r} on record is none: {error}") from error


def to_plain(value: Any, what: str) -> Any:
    """Return the value as plain data; refuse what no journal can hold."""
    check_storable(value, what)
    return msgspec.to_builtins(value)


def as_journaled(value: Any, what: str) -> Any:
    """Copy the value as a journal gives it back; refuse what no journal can hold."""
    check_storable(value, what)
    return msgspec.json.decode(_encode(value))


def check_storable(value: Any, what: str) -> None:
    """Refuse what no journal can hold."""
    try:
        _encode(value)
    except (TypeError, ValueError, OverflowError, RecursionError) as error:
        raise ConfigError(
            f"{what} is kept in the journal and must be plain data: {error}"
        ) from error


def digest_of(value: object) -> str:
    """Compute a short digest of anything that JSON can hold."""
    try:
        data = _encode(value)
    except (ValueError, TypeError, RecursionError):  # what no JSON can hold has a text all the same
        data = to_text(value).encode()
    state = _blank()  # a copy is made in half the time of a new one
    state.update(data)
    return state.hexdigest()


_blank = blake2b(digest_size=16).copy
_encode = msgspec.json.Encoder(order="deterministic").encode
