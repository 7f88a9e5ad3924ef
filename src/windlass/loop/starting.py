"""How a drive begins, and how a run goes on under another plan."""

from __future__ import annotations

from windlass.loop.plan import Plan
from windlass.loop.policy import misplaced
from windlass.loop.run import Run
from windlass.tools.base import Tool


async def start(run: Run) -> None:
    """Let the policies begin; the tools they bring join the others."""
    brought: list[Tool] = []
    plan = run.plan
    for begin in run.moments.start:
        tools = await begin(run)
        if run.plan is not plan:
            return  # a policy has put another plan in its place, whose policies have begun
        for tool in tools or ():
            if not isinstance(tool, Tool):
                raise misplaced(begin, tool, "a list of tools or None")
            if tool.name not in run.plan.denied:
                brought.append(tool)
    if brought:
        run.tools = {**run.tools, **{tool.name: tool for tool in brought}}
        frame = run.frame
        specs = (*frame.tools, *(tool.spec for tool in brought))
        run.reframe(type(frame)(frame.system, specs, frame.settings), "policy tools")


async def adopt(run: Run, plan: Plan, why: str) -> None:
    """Go on under another plan from the next moment on. What policies remember they keep by name."""
    if plan.limits != run.plan.limits:  # else those stay that the run goes on with
        run.ledger.limits = plan.limits
    run.plan, run.model, run.moments = plan, plan.model, plan.moments
    run.tools = plan.tools
    run.measure()
    run.reframe(plan.frame, why)
    if run.moments.start:
        await start(run)
