"""The options that decide what the model sees: each area declares its own beside its assembly."""

from __future__ import annotations

from windlass.policies import tool_surface
from windlass.policies.compaction import options as compaction_options
from windlass.policies.context_strategy import options as context_strategy_options
from windlass.policies.projection import options as projection_options
from windlass.policies.reminders import options as reminders_options
from windlass.policies.scratchpad import options as scratchpad_options
from windlass.policies.skills import options as skills_options


class ContextOptions(
    compaction_options.CompactionOptions,
    projection_options.ShapingOptions,
    scratchpad_options.ScratchpadOptions,
    skills_options.SkillOptions,
    tool_surface.SurfaceOptions,
    reminders_options.ReminderOptions,
    context_strategy_options.StrategyOptions,
    total=False,
):
    """What decides what the model sees."""


CHECKS = {
    **compaction_options.CHECKS,
    **projection_options.CHECKS,
    **scratchpad_options.CHECKS,
    **skills_options.CHECKS,
    **tool_surface.CHECKS,
    **reminders_options.CHECKS,
    **context_strategy_options.CHECKS,
}
