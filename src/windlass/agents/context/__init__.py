"""The options that decide what the model sees: each area declares its own beside its assembly."""

from __future__ import annotations

from windlass.agents.context import (
    compaction,
    reminders,
    scratchpad,
    shaping,
    skills,
    strategy,
    surface,
)


class ContextOptions(
    compaction.CompactionOptions,
    shaping.ShapingOptions,
    scratchpad.ScratchpadOptions,
    skills.SkillOptions,
    surface.SurfaceOptions,
    reminders.ReminderOptions,
    strategy.StrategyOptions,
    total=False,
):
    """What decides what the model sees."""


CHECKS = {
    **compaction.CHECKS,
    **shaping.CHECKS,
    **scratchpad.CHECKS,
    **skills.CHECKS,
    **surface.CHECKS,
    **reminders.CHECKS,
    **strategy.CHECKS,
}
