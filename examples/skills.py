"""Know-how that joins when it is called for: a folder of skills, one of them with a file.

    python examples/skills.py

Only the skill that fits is in the prompt; with sticky=False it leaves when the talk turns to something else.
"""

from __future__ import annotations

import asyncio
import tempfile
from pathlib import Path
from typing import Any

import windlass as w
from windlass.testing import call, scripted

INVOICES = """\
---
name: invoices
description: Write invoices. Use when: the user wants to bill a customer
allowed-tools: send
---
Look up the customer's terms in terms.md first.
"""
LETTERS = """\
---
name: letters
description: Write friendly letters to customers
---
Begin with "Dear".
"""


@w.tool
def send(to: str, text: str) -> str:
    """Send something to a customer."""
    return f"sent to {to}"


@w.tool
def delete(customer: str) -> str:
    """Forget a customer."""
    return "gone"


def skills_in(folder: Path) -> w.SkillRegistry:
    for name, text in (("invoices", INVOICES), ("letters", LETTERS)):
        (folder / name).mkdir()
        (folder / name / "SKILL.md").write_text(text)
    (folder / "invoices" / "terms.md").write_text("Ann pays within 14 days.")
    return w.skill_registry(folder)


def then_a_letter(turn: Any) -> str | None:
    return "Now write her a friendly letter." if turn.iteration == 1 else None


async def main() -> None:
    model = scripted(
        call("read_skill_file", skill="invoices", path="terms.md"),
        call("send", to="Ann", text="12 EUR, within 14 days"),
        "Dear Ann, …",
    )
    with tempfile.TemporaryDirectory() as folder:
        agent = w.Agent(
            model,
            tools=[send, delete],
            skills=skills_in(Path(folder)),
            skill_match={"sticky": False},
            post_turn_callback=then_a_letter,
        )
        out = await agent.run("Bill Ann: she wants an invoice over 12 EUR.")
    for request in model.requests:
        skill = (request.system or "").partition('"')[2].partition('"')[0]
        print(f"{skill}: {', '.join(tool.name for tool in request.tools)}")
    for entry in out.entries:
        if isinstance(entry, w.SkillActivated):
            print(f"turn {entry.iteration + 1}: {entry.name} on ({entry.reason})")
    print(out.tool_calls[0].result)


if __name__ == "__main__":
    asyncio.run(main())
