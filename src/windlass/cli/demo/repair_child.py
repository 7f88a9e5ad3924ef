"""A process of the coding demo: gives the agent a task, or resumes it, and kills itself when told to.

`python -m windlass.cli.demo.repair_child FOLDER MOMENT PACE TASK` writes every event as a line of JSON; without a
task it resumes.
"""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from collections.abc import Callable
from pathlib import Path

from windlass import seams
from windlass.agents.agent import Agent
from windlass.cli.demo import repository
from windlass.cli.demo.child import tell
from windlass.cli.demo.shop import ScriptedModel
from windlass.store import open_store

MOMENTS = {"in-edit": "file.before_rename", "in-bash": "bash.started", "never": ""}


def die_at(moment: str) -> Callable[[str], None]:
    """Build a watcher of points that kills the process at the moment, as a power cut would."""

    def on_point(name: str) -> None:
        if name == MOMENTS[moment]:
            os.kill(os.getpid(), getattr(signal, "SIGKILL", signal.SIGTERM))

    return on_point


async def work(folder: Path, moment: str, pace: float, task: str) -> None:
    """Run the task, or resume the run that was killed."""
    store = open_store(folder / "sessions.db", add_tables=True)
    agent: Agent[None, str] = Agent(
        ScriptedModel(pace, repository.build_script()),
        system="You mend small repositories.",
        tools=repository.name_tools(),
        workspace=folder / "repository",
        sandbox=repository.choose_level(),
        store=store,
        on_event=tell,
    )
    with seams.watch_points(die_at(moment)):
        if task:
            await agent.run(task, session_id=repository.SESSION)
        else:
            await agent.resume(repository.SESSION)
    await store.aclose()


if __name__ == "__main__":
    asyncio.run(work(Path(sys.argv[1]), sys.argv[2], float(sys.argv[3]), sys.argv[4]))
