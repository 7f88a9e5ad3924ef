"""Done is what can be shown: checks that the runtime runs itself, and a judge who must agree.

    python examples/judged.py

A check gives None, or what is wrong: the model hears it and goes on. A run whose checks never pass ends
as `unverified`, never as `done`.
"""

from __future__ import annotations

import asyncio

import windlass as w
from windlass.testing import call, scripted

FILES = {"sum.py": "def add(a, b): return a - b"}


@w.tool
def write(path: str, text: str) -> str:
    """Write a file."""
    FILES[path] = text
    return "written"


def tests_pass() -> str | None:
    return None if "a + b" in FILES["sum.py"] else "add(1, 2) is -1, not 3"


async def main() -> None:
    model = scripted(
        "I have fixed it.",
        call("write", path="sum.py", text="def add(a, b): return a + b"),
        "Now it is fixed.",
    )
    judge = scripted('{"verdict": "done", "reasoning": "add adds", "next_step": ""}')
    agent = w.Agent(
        model, tools=[write], verify_completion=[tests_pass], done_judge={"model": judge}
    )
    out = await agent.run("Fix add in sum.py.")
    for check in out.checks:
        print(f"turn {check['iteration']}: {check['name']}:", check.get("detail") or "ok")
    print(f"{out.status}: {out.output} (the judge was asked {out.done_judge['invocations']} time)")


if __name__ == "__main__":
    asyncio.run(main())
