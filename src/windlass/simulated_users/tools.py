"""How an agent reaches its simulated user: the tool `ask_user`, and a callback after each turn."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any, Final

from windlass.errors import ConfigError
from windlass.json_types import is_sequence
from windlass.loop.run import Run
from windlass.loop.verdict import KeepGoing, Verdict
from windlass.messages import ToolResult
from windlass.policies.facts import tally
from windlass.policies.post_turn import TurnCallback, TurnInfo
from windlass.policies.simulated_user import MARK, NOTE, UserDecision, to_verdict
from windlass.simulated_users.conversation import ASK
from windlass.simulated_users.user import Question, SimulatedUser, check_user
from windlass.tools.function import as_tools
from windlass.tools.tool import Tool, ToolContext

if TYPE_CHECKING:
    from windlass.tools.source import ToolLike

_PARAMETERS: Final = {
    "type": "object",
    "properties": {
        "question": {"type": "string", "description": "What you want to know."},
        "options": {
            "type": "array",
            "items": {"type": "string"},
            "description": "Answers to choose from, if there are some.",
        },
    },
    "required": ["question"],
    "additionalProperties": False,
}


def user_tools(
    answerer: SimulatedUser, tools: Sequence[ToolLike] | Iterable[Tool] | None = None
) -> list[ToolLike]:
    """Return the tools with one more, `ask_user`, which asks the simulated user.

    ```python
    agent = w.Agent(model, tools=w.user_tools(w.scripted_user(["Vitest."]), [read_file]))
    ```
    A user who stops, fails or has used up a limit ends the run.
    """
    user = check_user(answerer)
    listed: list[ToolLike] = []
    if tools is not None:
        listed = [*tools] if is_sequence(tools) else [*as_tools(tools)]

    async def ask(arguments: dict[str, Any], ctx: ToolContext[Any]) -> ToolResult:
        run = ctx.scope
        if not isinstance(run, Run):
            raise ConfigError(f"{ASK} is a tool of an agent: it needs its run")
        options = tuple(arguments.get("options") or ())
        question = Question(arguments["question"], options, ctx.call_id, ctx.call_id)
        return _to_result(await user.answer(run, question))

    # Keyed: after a crash the call runs again, and finds what the user decided.
    tool = Tool(
        ASK,
        "Ask the user a question, and wait for the answer.",
        _PARAMETERS,
        ask,
        keyed=True,
        annotations={MARK: True},
    )
    return [*listed, tool]


def _to_result(decision: UserDecision) -> ToolResult:
    if decision.kind == "reply":
        return ToolResult(content=decision.text)
    words = f"The user does not answer: {decision.reason or decision.kind}."
    return ToolResult(content=words, is_error=True, outcome="error")


def simulated_user_read_tools() -> list[str]:
    """Return the built-in tools that only read, for users who may look into the workspace.

    ```python
    user = w.agentic_user("A test for main.py.", "Look if needed.", w.simulated_user_read_tools(), model)
    ```
    """
    return ["file_read", "grep", "glob"]


def simulated_user_post_turn(answerer: SimulatedUser) -> TurnCallback:
    """Return a `post_turn_callback` that answers questions which the agent asks in plain text.

    ```python
    agent = w.Agent(model, post_turn_callback=w.simulated_user_post_turn(w.scripted_user(["Blue."])))
    ```
    A reply without calls that ends in a question mark is a question; a scripted user also answers
    what one of its entries matches, and an agentic user decides on every such reply.
    """
    return UserCallback(check_user(answerer))


class UserCallback(TurnCallback):
    """The callback of `simulated_user_post_turn`."""

    def __init__(self, user: SimulatedUser, *, hears_all: bool = False) -> None:
        self.user, self.hears_all = user, hears_all

    async def decide(self, run: Run, turn: TurnInfo) -> Verdict | None:
        text = turn.visible_text.strip()
        if turn.has_tool_calls or not text:
            return None
        if not self.hears_all and not self.user.is_addressed(text):
            return None
        limit = run.ledger.max_iterations
        if limit is not None and run.iteration >= limit:
            return KeepGoing(NOTE)  # nobody would read the answer
        place = f"{run.run_id}.{turn.iteration}"
        decision = await self.user.answer(run, Question(text, place=place))
        if (stop := to_verdict(decision)) is not None:
            return stop
        if tally(run).heard.get(NOTE) != decision.text:  # added before a crash
            run.say(decision.text, NOTE)
        return KeepGoing(NOTE)
