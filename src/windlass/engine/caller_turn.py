"""The turn that a caller of models is told of."""

from __future__ import annotations

from windlass.callers.contract import TurnTold
from windlass.policies.build import BuildContext, Policies


def build(_ctx: BuildContext) -> Policies:
    """Build the policy that tells a caller which turn it is asked in; it decides nothing."""
    return (TurnTold(),)
