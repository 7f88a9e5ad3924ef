"""A conversation of an agent with a simulated user, from the first word to the last."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Unpack, cast

from windlass.agents.agent import Agent
from windlass.engine.results import AgentResult
from windlass.engine.run_options import AgentOptions
from windlass.errors import ConfigError, safe_repr
from windlass.globs import like
from windlass.json_types import JsonObject, as_given
from windlass.policies.post_turn import PostTurnOptions
from windlass.policies.simulated_user import Opening, read_decisions
from windlass.records import Record
from windlass.simulated_users.conversation import Statement, list_statements
from windlass.simulated_users.script import ScriptedUser
from windlass.simulated_users.tools import UserCallback
from windlass.simulated_users.user import SimulatedUser, check_user
from windlass.store.view import messages_of

if TYPE_CHECKING:
    from windlass.engine.keywords import RunKeywords


class Conversation(Record, frozen=True):
    """What a user and an agent said, how it ended, and what the user decided.

    `print(talk)` shows it line by line.
    """

    statements: tuple[Statement, ...]
    status: str
    stop_reason: str | None
    audits: tuple[JsonObject, ...]
    """The decisions of the user, as its audit events have them."""
    result: AgentResult[Any]

    def has_said(self, pattern: str, speaker: str = "agent") -> bool:
        """Check whether somebody said what a glob matches: `talk.has_said("*refund*")`."""
        wanted = pattern.casefold()
        return any(
            [
                one.speaker == speaker and like(wanted, one.text.casefold())
                for one in self.statements
            ]
        )

    def assert_said(self, pattern: str, speaker: str = "agent") -> None:
        """Raise `AssertionError` with the whole conversation if nobody said it."""
        if not self.has_said(pattern, speaker):
            raise AssertionError(f"the {speaker} did not say {pattern!r}:\n{self}")

    def assert_ended(self, status: str, stop_reason: str | None = None) -> None:
        """Raise `AssertionError` with the whole conversation if it did not end so."""
        if self.status != status or (stop_reason is not None and self.stop_reason != stop_reason):
            raise AssertionError(
                f"it ended as {self.status} ({self.stop_reason}), not {status} ({stop_reason}):\n{self}"
            )

    def __str__(self) -> str:
        lines = [f"{one.speaker}: {one.text}" for one in self.statements]
        return "\n".join([*lines, f"[{self.status}: {self.stop_reason}]"])


async def converse(
    agent: Agent[Any, Any],
    user: SimulatedUser,
    opening: str | None = None,
    **options: Unpack[RunKeywords],
) -> Conversation:
    """Let an agent talk with a simulated user until one of them ends it, in one run.

    ```python
    talk = await converse(agent, w.scripted_user(["Refund A-1.", "Yes."]))
    talk.assert_said("*refunded*")
    ```
    A scripted user begins with the first text of its script; `opening` is said in its place, word
    for word. The user hears every reply of the agent that has no tool call. Takes the options of
    `agent.run`.
    """
    if not isinstance(as_given(agent), Agent):
        raise ConfigError(f"converse takes an Agent, not {safe_repr(agent)}")
    user = check_user(user)
    given = dict(cast("JsonObject", options))
    if PostTurnOptions.read({**agent.options, **given}).post_turn_callback is not None:
        raise ConfigError(
            "converse is the post_turn_callback of the run: leave out that of the agent"
        )
    begins: tuple[Opening, ...] = ()
    if opening is None and isinstance(user, ScriptedUser) and user.opening is not None:
        opening = user.opening
        begins = (Opening(user.name),)
    if opening is None:
        raise ConfigError("nobody says the first word: give opening=…")
    callback = UserCallback(user, hears_all=True)
    if given.get("policies") is not None:  # the user's own policy is added to them
        agent = agent.with_(policies=given.pop("policies"))
    policies = (*AgentOptions.read(agent.options).policies, *begins)
    talking = agent.with_(post_turn_callback=callback, policies=policies)
    result: AgentResult[Any] = await talking.run(opening, **given)
    decisions = read_decisions(result.entries)
    return Conversation(
        statements=tuple(list_statements(messages_of(result.entries))),
        status=result.status,
        stop_reason=result.stop_reason,
        audits=tuple([one.as_audit() for one in decisions if one.kind != "opening"]),
        result=result,
    )
