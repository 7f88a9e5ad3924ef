"""Every prompt of ours by its id: its words, and the values that it may name."""

from __future__ import annotations

from typing import Final, NamedTuple

from windlass.models.wrappers.text_tools import CONTRACT
from windlass.policies.closing import WORDS as CLOSING
from windlass.policies.compaction.instructions import RULES, TASK
from windlass.policies.completion import ACT, CONTRACTS, NUDGES
from windlass.policies.fallback import WORDS as FALLBACK
from windlass.policies.gates import SYSTEM as JUDGE
from windlass.policies.narrowing import LINE
from windlass.policies.quoted_calls import WORDS as QUOTED
from windlass.policies.scratchpad.writing import SYSTEM as SCRATCHPAD
from windlass.policies.step_judge import SYSTEM as STEP_JUDGE


class Prompt(NamedTuple):
    """A prompt of ours: its text, the values it may name in braces, and those that it must."""

    default: str
    values: tuple[str, ...] = ()
    needs: tuple[str, ...] = ()


#: Another area adds its own here, asks `words_of` for it, and adds the name to `PromptOverrides` (`prompts.py`).
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
