"""From the options of context to policies, in their order, with the reason for each place."""

from __future__ import annotations

from typing import Any

from windlass.agents.context import (
    CHECKS,
    reminders,
    scratchpad,
    shaping,
    skills,
    strategy,
    surface,
)
from windlass.agents.context.about import About
from windlass.agents.context.compaction import compacting, usual
from windlass.loop.policy import Policy


def contexting(about: About) -> list[Policy[Any]]:
    """Everything that shapes what the model sees."""
    if CHECKS.keys().isdisjoint(about.options):
        return [*usual(about.bound), *surface.usual(about)]
    chosen = scratchpad.policies(about)
    chosen += skills.policies(about)
    # before whoever shapes a request: these change what all others see
    if strategies := strategy.policies(about):
        chosen += strategies  # whoever names one wants it in place of compaction
    elif (compaction := compacting(about.options, about.bound)) is not None:
        chosen.append(compaction)
    # after skills, for it narrows what they leave; after what cuts the view: it goes along with that
    chosen += surface.narrowing(about)
    chosen += surface.prompting(about)  # it writes down which tools are left
    chosen += shaping.policies(about)
    chosen += reminders.policies(about)
    return chosen
