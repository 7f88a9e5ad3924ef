"""Decisions of a simulated user on the record of a run, and what they do to the run."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, Literal, TypeAlias

import msgspec

from windlass.events import JournalEntry, Noted
from windlass.json_types import JsonObject, is_object
from windlass.loop.policy import Policy
from windlass.loop.run import Run
from windlass.loop.turn import Turn
from windlass.loop.verdict import Stop
from windlass.policies.build import BuildContext, Policies

NOTE: Final = "simulated_user"  # the name of the record in the journal
MARK: Final = "simulated_user"  # the annotation of a tool that asks a simulated user
Kind: TypeAlias = Literal["opening", "reply", "stop", "failed", "budget_exhausted"]


class UserDecision(msgspec.Struct, frozen=True, kw_only=True):
    """A decision of a simulated user: a reply, or why there is none."""

    kind: Kind
    text: str = ""
    reason: str | None = None
    entry: int | None = None  # of a script
    llm_calls: int = 0
    user: str = ""
    place: str = ""  # the call or the turn that it answers
    question: str = ""

    @property
    def event_type(self) -> str:
        """The `event_type` of its audit event: `simulated_user_reply`, …"""
        return f"simulated_user_{self.kind}"

    def as_audit(self) -> JsonObject:
        """Return it as the audit of a `tool_call_audit` event."""
        return {"event_type": self.event_type, **msgspec.to_builtins(self)}


def read_decisions(entries: Sequence[JournalEntry], user: str | None = None) -> list[UserDecision]:
    """Read the decisions among the entries of a journal, of one simulated user or of all."""
    found: list[UserDecision] = []
    for entry in entries:
        if type(entry) is Noted and entry.name == NOTE and is_object(entry.data):
            decision = msgspec.convert(entry.data, UserDecision)
            if user is None or decision.user == user:
                found.append(decision)
    return found


def to_verdict(decision: UserDecision) -> Stop | None:
    """Return how the decision ends the run; None for a reply."""
    reason = decision.event_type
    match decision.kind:
        case "reply" | "opening":
            return None
        case "stop":
            return Stop("done", reason)
        case "failed":
            words = decision.reason or "the simulated user failed"
            return Stop("failed", reason, {"category": "generic", "kind": reason, "message": words})
        case "budget_exhausted":
            return Stop("budget_exhausted", reason)


def build(ctx: BuildContext) -> Policies:
    """Build the policy that ends a run when its simulated user does."""
    return (SimulatedUserEnd(),)


class SimulatedUserEnd(Policy[None]):
    """A policy that ends the run after a call that the simulated user did not answer."""

    async def after_turn(self, run: Run, turn: Turn) -> Stop | None:
        asked = {call.id for call in turn.calls if _asks_user(run, call.name)}
        if not asked:
            return None
        for decision in read_decisions(run.entries):
            if decision.place in asked and (stop := to_verdict(decision)) is not None:
                return stop
        return None


class Opening(Policy[None]):
    """A policy that puts on record that the user began with the first entry of its script."""

    def __init__(self, user: str) -> None:
        self.user = user

    async def start(self, run: Run) -> None:
        place = f"{run.run_id}.opening"
        if all([decision.place != place for decision in read_decisions(run.entries)]):
            decision = UserDecision(kind="opening", entry=0, user=self.user, place=place)
            run.note(NOTE, msgspec.to_builtins(decision))


def _asks_user(run: Run, name: str) -> bool:
    tool = run.plan.tools.get(name)
    return tool is not None and MARK in tool.annotations
