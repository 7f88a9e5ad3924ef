"""Users that a model plays: each answer is a run of its own, under the books of the agent's run."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

import msgspec

from windlass.agents.agent import Agent
from windlass.agents.subagent import run_child
from windlass.engine.results import AgentResult
from windlass.errors import ConfigError, safe_repr
from windlass.events import Replied, ToolResulted
from windlass.identifiers import child_session_id
from windlass.json_types import as_given
from windlass.loop.policy import Policy
from windlass.loop.run import Run
from windlass.loop.turn import Turn
from windlass.loop.verdict import KeepGoing, Stop
from windlass.messages import Message
from windlass.options.checks import number
from windlass.policies.simulated_user import UserDecision
from windlass.simulated_users.conversation import list_statements
from windlass.simulated_users.script import read_options
from windlass.simulated_users.user import Question, SimulatedUser
from windlass.tools.tool import Tool, ToolContext

if TYPE_CHECKING:
    from windlass.models.base import Model
    from windlass.tools.source import ToolLike

END: Final = "end_conversation"
SYSTEM: Final = """You play the user of an AI agent, in a test of that agent. You are not an assistant.

Your goal: {goal}

{instructions}

Write the user's next message and nothing else: short, in the user's own words. Tell only what the \
agent asks for. Say that you do not know what you were not told here. When your goal is reached, \
when it cannot be reached, or when the agent asks for nothing more, call {end} instead."""
NUDGE: Final = "Write the user's next message, or call {end}."


class PlayerOptions(msgspec.Struct, frozen=True):
    """The options of a user that a model plays."""

    max_replies: object = 20
    max_llm_calls: object = 40
    max_iterations: object = 5
    max_nudges: object = 1
    name: object = "user"


def agentic_user(
    goal: str,
    instructions: str | None = None,
    tools: Sequence[ToolLike] | Iterable[Tool] | None = None,
    model: str | Model | None = None,
    options: Mapping[str, Any] | None = None,
    /,
    **more: Any,
) -> SimulatedUser:
    """Build a simulated user that a model plays.

    ```python
    user = w.agentic_user("Get order A-1 refunded.", "You are in a hurry.", None, "ollama:qwen3", max_replies=4)
    ```
    It ends the conversation with a tool of its own. What its model spends counts in the run of the
    agent. Options: `max_replies` (20), `max_llm_calls` (40, over all replies), `max_iterations` (5,
    for one reply), `max_nudges` (1, for an empty reply), `name`.
    """
    chosen = read_options(options, more, PlayerOptions, "agentic_user")
    return AgenticUser(goal, instructions, tools, model, chosen)


class AgenticUser(SimulatedUser):
    """A simulated user that a model plays."""

    def __init__(
        self,
        goal: str,
        instructions: str | None,
        tools: Sequence[ToolLike] | Iterable[Tool] | None,
        model: str | Model | None,
        options: PlayerOptions,
    ) -> None:
        super().__init__(options.name, options.max_replies)
        if not isinstance(as_given(goal), str) or not goal.strip():
            raise ConfigError(
                f"the goal of a user is a text that is not blank, not {safe_repr(goal)}"
            )
        if instructions is not None and not isinstance(as_given(instructions), str):
            raise ConfigError(f"instructions are a text, not {safe_repr(instructions)}")
        self.max_llm_calls: int = number(0, whole=True)("max_llm_calls", options.max_llm_calls)
        self.max_iterations: int = number(1, whole=True)("max_iterations", options.max_iterations)
        nudges = number(0, whole=True)("max_nudges", options.max_nudges)
        system = SYSTEM.format(goal=goal, instructions=instructions or "", end=END)
        self.agent: Agent[Any, str] = Agent(
            model,
            system=system,
            tools=[*(tools or ()), _build_end_tool()],
            name=self.name,
            policies=[UserTurn(nudges)],
        )

    def is_addressed(self, text: str) -> bool:
        """Let the model decide: it answers, or ends the conversation."""
        return True

    async def decide(
        self, run: Run, question: Question, earlier: Sequence[UserDecision]
    ) -> UserDecision:
        left = self.max_llm_calls - sum([decision.llm_calls for decision in earlier])
        if left <= 0:
            return UserDecision(kind="budget_exhausted", reason="max_llm_calls")
        agent = self.agent.with_(max_turns=min(self.max_iterations, left))
        place = question.place
        ctx = ToolContext[Any](
            run.deps, run.caller, run.session_id, run.run_id, place, "ask_user", run
        )
        child_id = child_session_id(run.session_id, f"{place}.0")
        result = await run_child(agent, _write_prompt(run, question), ctx, child_id)
        return _read_result(result)


class _Nudges(msgspec.Struct, frozen=True):
    count: int = 0


class UserTurn(Policy[_Nudges]):
    """A policy that ends the user's part of a conversation, and nudges a user who says nothing."""

    memory = _Nudges

    def __init__(self, max_nudges: int) -> None:
        self.max_nudges = max_nudges

    async def after_turn(self, run: Run, turn: Turn) -> Stop | KeepGoing | None:
        for call in turn.calls:
            if call.name == END and turn.results[call.id].outcome == "ok":
                return Stop("done", END)
        nudges: _Nudges = run.recall(self)
        if turn.calls or turn.text.strip() or nudges.count >= self.max_nudges:
            return None
        run.remember(self, _Nudges(nudges.count + 1))
        run.say(NUDGE.format(end=END), "nudge")
        return KeepGoing("nudge")


def _build_end_tool() -> Tool:
    reasons = ["done", "gave_up", "out_of_scope", "transferred"]
    parameters = {
        "type": "object",
        "properties": {"reason": {"type": "string", "enum": reasons}},
        "required": ["reason"],
        "additionalProperties": False,
    }
    return Tool(
        END,
        "End the conversation with the agent, and say why.",
        parameters,
        _end,
        side_effect_level="none",
    )


async def _end(arguments: dict[str, Any]) -> str:
    return arguments["reason"]


def _write_prompt(run: Run, question: Question) -> str:
    """Write the conversation as the user knows it, and what the agent asks now."""
    messages: Sequence[Message] = run.messages
    said = [
        f"{'Agent' if one.speaker == 'agent' else 'You'}: {one.text}"
        for one in list_statements(messages)
    ]
    if said and said[-1] == f"Agent: {question.text}":
        said.pop()
    parts = ["The conversation so far:", *said, "", f"The agent says now: {question.text}"]
    if question.options:
        parts.append("It offers: " + ", ".join(question.options))
    return "\n".join(parts)


def _read_result(result: AgentResult[str]) -> UserDecision:
    """Read what the model decided for the user."""
    calls = sum([type(entry) is Replied for entry in result.entries])
    text = result.final_text.strip()
    if result.status == "budget_exhausted":
        return UserDecision(kind="budget_exhausted", reason=result.stop_reason, llm_calls=calls)
    if result.status != "done":
        about = (result.error or {}).get("message")
        words = f"the user's run ended as {result.status} ({result.stop_reason})"
        return UserDecision(kind="failed", reason=str(about or words), llm_calls=calls)
    if result.stop_reason == END:
        said = [e for e in result.entries if type(e) is ToolResulted and e.tool == END]
        reason = said[-1].result.text if said else END
        return UserDecision(kind="stop", reason=reason, text=text, llm_calls=calls)
    if not text:
        return UserDecision(kind="stop", reason="silent", llm_calls=calls)
    return UserDecision(kind="reply", text=text, llm_calls=calls)
