"""A support desk that is tested with simulated users instead of people.

    python examples/support_desk.py

With `WINDLASS_MODEL=anthropic:claude-sonnet-4-5` (and a key) real models play the desk and the user.
"""

from __future__ import annotations

import asyncio
import os
from typing import Any

import windlass as w
from windlass.testing import call, converse, scripted

REAL = os.environ.get("WINDLASS_MODEL")


@w.tool(keyed=True)
async def refund(order: str) -> str:
    """Pay an order back."""
    return f"{order} is refunded"


def desk(*replies: Any, **options: Any) -> w.Agent[Any, str]:
    """Build the agent at the desk."""
    model = REAL or scripted(*replies)
    return w.Agent(model, system="You refund orders.", tools=[refund], **options)


async def main() -> None:
    replies = ("Which order?", call("refund", order="A-1"), "A-1 is refunded.")

    # A script: the same words in every run.
    user = w.scripted_user(
        [
            "I want my money back.",
            {"match": "*which order*", "reply": "A-1."},
            {"match": "*refunded*", "action": "stop", "reason": "complete"},
        ]
    )
    talk = await converse(desk(*replies), user)
    talk.assert_said("*refunded*")
    print(talk)

    # A model plays the user, and what it costs counts in the run.
    model = REAL or scripted("A-1.", call("end_conversation", reason="done"))
    played = w.agentic_user("Get order A-1 refunded.", "You are in a hurry.", None, model)
    talk = await converse(desk(*replies), played, "I want my money back.")
    print(f"played by a model: {talk.status}, {talk.statements[-1].text}")

    # A user who asks back for ever is stopped by its own limit.
    endless = w.scripted_user([{"match": "*", "reply": "Why?"}], max_replies=3)
    talk = await converse(desk(*["Because?"] * 10), endless, "Why?")
    said = [audit for audit in talk.audits if audit["event_type"] == "simulated_user_reply"]
    print(f"asks for ever: {talk.status} after {len(said)} replies")


if __name__ == "__main__":
    asyncio.run(main())
