"""`windlass sessions wake`: fire what is due, and go on with what was woken."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import click

from windlass.cli import text as words
from windlass.cli.options import CommandOptions, agent_options
from windlass.cli.run import run_task
from windlass.cli.store_location import at_place, find_place
from windlass.cli.workflows.program import load_flow, on_store, show_result
from windlass.engine.open_questions import find_waiting_root
from windlass.errors import ConfigError
from windlass.json_types import JsonObject
from windlass.store.base import Store
from windlass.triggers.fire import fire_due
from windlass.workflows.execute import WorkflowGraph
from windlass.workflows.host import find_workflow
from windlass.workflows.result import WorkflowResult


@click.command()
@agent_options(begins=False)
@click.option("--dry-run", is_flag=True, help="Only say which.")
@click.option(
    "--workflow",
    "paths",
    metavar="MODULE:OBJECT",
    multiple=True,
    help="A workflow whose runs may go on; can be given several times.",
)
def wake(chosen: CommandOptions, dry_run: bool, paths: tuple[str, ...]) -> None:
    """Fire what is due, and go on with the parked sessions that were woken.

    A node of a workflow goes on with its workflow, whose program is named with --workflow; a sub-agent
    with the agent that waits for it.
    """
    flows = {flow.name: (path, flow) for path in paths if (flow := load_flow(path, "--workflow"))}
    store: str | None = chosen.options.get("store")
    place = find_place(store)
    found = at_place(place, find_woken, writes=True) if place.exists else {}
    if not found:
        click.echo("no parked session is due", err=True)
    left: list[str] = []
    for session_id, workflow in found.items():
        click.echo(words.clean(session_id))
        if dry_run:
            continue
        if workflow is not None and workflow not in flows:
            left.append(f"{session_id} is a run of the workflow {workflow!r}")
            continue
        try:
            if workflow is None:
                run_task(None, chosen._replace(resume=session_id), as_json=False)
            else:
                _go_on(session_id, *flows[workflow], chosen.options)
        except (SystemExit, click.exceptions.Exit):  # how one ended is no matter of the next
            continue
    if left:
        raise ConfigError(f"{'; '.join(left)}: name its program with --workflow MODULE:OBJECT")


async def find_woken(home: Store) -> dict[str, str | None]:
    """Fire what is due; return the sessions that go on with what was woken, and their workflows."""
    await fire_due(home)
    found: dict[str, str | None] = {}
    for info in await home.sessions():
        if info.state != "parked":
            continue
        if not any([item.kind == "resume" for item in await home.inbox(info.id)]):
            continue
        root = await find_waiting_root(home, info.id)
        if root not in found:
            found[root] = find_workflow(await home.read(root))
    return found


def _go_on(session_id: str, path: str, flow: Any, options: Mapping[str, Any]) -> None:
    """Go on with a run of a workflow; the model of the command line is that of nodes without one."""
    given: JsonObject = {}
    if isinstance(flow, WorkflowGraph):
        given = {name: options[name] for name in ("model", "provider") if name in options}

    async def work(home: Store) -> WorkflowResult:
        return await flow.resume(session_id, **given)

    store = options.get("store")
    show_result(on_store(store, work), path, store)
