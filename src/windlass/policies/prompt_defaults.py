"""Every prompt of ours by its id: its words, and the values that it may name."""

from __future__ import annotations

from typing import Final, NamedTuple

from windlass.models.wrappers.text_tools import CONTRACT
from windlass.policies.closing_answer import WORDS as CLOSING
from windlass.policies.compaction.summary_prompt import RULES, TASK
from windlass.policies.completion import ACT, CONTRACTS, NUDGES
from windlass.policies.judges.gates import SYSTEM as JUDGE
from windlass.policies.judges.step import SYSTEM as STEP_JUDGE
from windlass.policies.native_tools import WORDS as FALLBACK
from windlass.policies.quoted_calls import WORDS as QUOTED
from windlass.policies.scratchpad.render import SYSTEM as SCRATCHPAD
from windlass.policies.tool_narrowing import LINE


class Prompt(NamedTuple):
    """A prompt of ours: its text, the values it may name in braces, and those that it must."""

    default: str
    values: tuple[str, ...] = ()
    needs: tuple[str, ...] = ()


#: Another area adds its own here, asks `words_of` for it, and adds the name to `PromptOverrides` (`options/prompts.py`).
PROMPTS: Final[dict[str, Prompt]] = {
    "agent.loop_contract": Prompt(CONTRACTS["native"], ("sentinel",), ("sentinel",)),
    "agent.tool_contract_text": Prompt(CONTRACT, ("tools",), ("tools",)),
    "agent.completion_judge_system": Prompt(JUDGE),
    "agent.done_judge_system": Prompt(JUDGE),
    "agent.step_judge_system": Prompt(STEP_JUDGE),
    "agent.nudge": Prompt(NUDGES["native"], ("sentinel",)),
    "agent.action_required": Prompt(ACT, ("sentinel",)),
    "agent.native_tool_fallback": Prompt(FALLBACK),
    "agent.quoted_tool_call": Prompt(QUOTED),
    "agent.continue": Prompt("Continue."),
    "agent.closing_answer": Prompt(CLOSING),
    "agent.compaction_system": Prompt(TASK),
    "agent.compaction_instructions": Prompt(RULES),
    "agent.scratchpad_system": Prompt(SCRATCHPAD),
    "agent.hidden_tools": Prompt(LINE, ("tools",), ("tools",)),
}
