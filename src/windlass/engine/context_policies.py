"""From the options of context to policies, in their order, with the reason for each place."""

from __future__ import annotations

from typing import Any

from windlass.engine.context_options import CHECKS
from windlass.loop.policy import Policy
from windlass.policies import tool_surface
from windlass.policies.build import About
from windlass.policies.compaction.options import compacting, usual
from windlass.policies.context_strategy import options as context_strategy_options
from windlass.policies.projection import options as projection_options
from windlass.policies.reminders import options as reminders_options
from windlass.policies.scratchpad import options as scratchpad_options
from windlass.policies.skills import options as skills_options


def contexting(about: About) -> list[Policy[Any]]:
    """Everything that shapes what the model sees."""
    if CHECKS.keys().isdisjoint(about.options):
        return [*usual(about.bound), *tool_surface.usual(about)]
    chosen = scratchpad_options.policies(about)
    chosen += skills_options.policies(about)
    # before whoever shapes a request: these change what all others see
    if strategies := context_strategy_options.policies(about):
        chosen += strategies  # whoever names one wants it in place of compaction
    elif (compaction := compacting(about.options, about.bound)) is not None:
        chosen.append(compaction)
    # after skills, for it narrows what they leave; after what cuts the view: it goes along with that
    chosen += tool_surface.narrowing(about)
    chosen += tool_surface.prompting(about)  # it writes down which tools are left
    chosen += projection_options.policies(about)
    chosen += reminders_options.policies(about)
    return chosen
