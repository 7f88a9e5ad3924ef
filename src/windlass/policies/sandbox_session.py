"""The end of a run's sandbox: what its commands left running ends with the run."""

from __future__ import annotations

from windlass.loop.policy import Policy
from windlass.loop.run import Run
from windlass.loop.verdict import Outcome
from windlass.policies.build import BuildContext, Policies
from windlass.toolbox.sandbox.session import close_session


def build(ctx: BuildContext) -> Policies:
    """Build the policy for a run whose tools or checks run commands."""
    return (SandboxSessionEnd(),)


class SandboxSessionEnd(Policy[None]):
    """A policy that kills the commands of a run when it ends, and removes their folders."""

    @property
    def name(self) -> str:
        return "sandbox_session"

    async def end(self, run: Run, outcome: Outcome) -> Outcome:
        await close_session(run)
        return outcome
