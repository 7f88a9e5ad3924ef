"""A simulated user: who answers in a person's place, within limits, on the record of the run."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import msgspec

from windlass.errors import ConfigError, safe_repr
from windlass.events import ToolCallAudit
from windlass.json_types import as_given
from windlass.loop.run import Run
from windlass.options.checks import number
from windlass.policies.simulated_user import NOTE, UserDecision, read_decisions

_QUESTION_MARKS = "?？؟"
_AFTER_MARK = " \t\r\n\"'”’»)]*_`"


class Question(msgspec.Struct, frozen=True):
    """What the agent asks: its words, the choices it offers, and the call or turn it asks in."""

    text: str
    options: tuple[str, ...] = ()
    place: str = ""
    call_id: str = ""  # empty: it was asked in plain text


class SimulatedUser:
    """The base class of simulated users: `scripted_user(…)` and `agentic_user(…)` return one.

    One user may serve many runs at once. What it has said is read from the session, so a run that
    was killed goes on with the same answers.
    """

    def __init__(self, name: object, max_replies: object) -> None:
        if not isinstance(name, str) or not name.strip():
            raise ConfigError(f"the name of a simulated user is a text, not {safe_repr(name)}")
        self.name = name
        self.max_replies: int = number(0, whole=True)("max_replies", max_replies)

    def is_addressed(self, text: str) -> bool:
        """Check whether the user would answer this reply of the agent."""
        return is_question(text)

    async def decide(
        self, run: Run, question: Question, earlier: Sequence[UserDecision]
    ) -> UserDecision:
        """Decide what to answer, after these decisions."""
        raise NotImplementedError

    async def answer(self, run: Run, question: Question) -> UserDecision:
        """Answer a question once, within the limits, and put the decision on record."""
        # Questions of one reply are asked side by side; the limits count them one by one.
        lock: asyncio.Lock = run.cache.setdefault((SimulatedUser, self.name), asyncio.Lock())
        async with lock:
            earlier = read_decisions(run.entries, self.name)
            for decision in earlier:
                if decision.place == question.place:
                    return decision  # it was made before a crash
            if sum([one.kind == "reply" for one in earlier]) >= self.max_replies:
                decision = UserDecision(kind="budget_exhausted", reason="max_replies")
            else:
                decision = await self.decide(run, question, earlier)
            decision = msgspec.structs.replace(
                decision, user=self.name, place=question.place, question=question.text
            )
            run.note(NOTE, msgspec.to_builtins(decision))
        run.emit(ToolCallAudit(question.call_id, "ask_user", decision.as_audit()))
        return decision


def is_question(text: str) -> bool:
    """Check whether a text ends in a question mark, also behind a quote or a bracket."""
    return text.rstrip(_AFTER_MARK)[-1:] in tuple(_QUESTION_MARKS)


def check_user(user: object) -> SimulatedUser:
    """Return the simulated user, or raise `ConfigError`."""
    if not isinstance(as_given(user), SimulatedUser):
        raise ConfigError(
            f"a simulated user is what scripted_user or agentic_user returns, not {safe_repr(user)}"
        )
    assert isinstance(user, SimulatedUser)
    return user
