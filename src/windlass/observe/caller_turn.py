"""The policy that tells an LLM caller its turn."""

from __future__ import annotations

from windlass.callers.contract import TurnTold
from windlass.policies.build import BuildContext, Policies


def build(_ctx: BuildContext) -> Policies:
    """Build the policy that records the turn for an LLM caller; it decides nothing."""
    return (TurnTold(),)
