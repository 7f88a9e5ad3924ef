"""A conversation that is handed over: the desk routes it, billing answers, the session stays one.

    python examples/handoffs.py

The rules of the desk hold for billing as well, and billing's own on top: both refuse what they refuse.
The next message of the user goes to billing, which hands the conversation back when it is done.
"""

from __future__ import annotations

import asyncio

import windlass as w
from windlass.testing import call, scripted


@w.tool(keyed=True)
async def refund(order: str) -> str:
    """Refund an order."""
    return f"{order} is refunded"


@w.tool
async def close_account(user: str) -> str:
    """Close an account."""
    return f"{user} is gone"


def build_desk() -> w.Agent[object, str]:
    """The desk, and billing behind it."""
    billing = w.Agent(
        scripted(
            call("close_account", user="ann"),
            call("refund", order="A-1"),
            "Your money for A-1 is on its way.",
            call("transfer_to_desk", reason="nothing left to pay"),
        ),
        name="billing",
        system="You handle refunds.",
        description="Handles refunds.",
        tools=[refund, close_account],
    )
    return w.Agent(
        scripted(call("transfer_to_billing", reason="a refund"), "Goodbye."),
        name="desk",
        system="You route requests.",
        handoffs=[billing],
        permissions={"deny": ["close_account"]},
    )


async def main() -> None:
    desk = build_desk()
    async with w.Runtime(store="memory:"):
        out = await desk.run("I want my money back for A-1.", session_id="ann")
        for record in out.tool_calls:
            print(f"{record.name}: {record.outcome}")
        print(f"{out.active_agent}: {out.output}")
        out = await desk.run("Thank you, bye.", session_id="ann")
        print(f"{out.active_agent}: {out.output}")


if __name__ == "__main__":
    asyncio.run(main())
