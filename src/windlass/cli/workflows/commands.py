"""`windlass workflow`: run, resume and draw the workflows of a program."""

from __future__ import annotations

from collections.abc import Sequence

import click

from windlass.cli.main import debug_option
from windlass.cli.options import json_option, store_option
from windlass.cli.store_location import match, on_session
from windlass.cli.workflows.picture import follow_flow, read_progress, show_flow, write_picture
from windlass.cli.workflows.program import load_flow, on_store, show_result
from windlass.json_types import JsonObject
from windlass.loop.resume_input import Allow, Deny
from windlass.store.base import Store
from windlass.workflows.result import WorkflowResult
from windlass.workflows.steps import WorkflowStep

_object = click.argument("object", metavar="MODULE:OBJECT")
_model = click.option("--model", metavar="NAME", help="The model of nodes that name none.")
_provider = click.option("--provider", metavar="NAME", help="The provider of nodes that name none.")


@click.command()
@_object
@click.argument("task")
@store_option
@click.option("--session", metavar="ID", help="The session; one that was killed goes on.")
@click.option("--max-steps", type=click.IntRange(1), metavar="N", help="The most steps.")
@_model
@_provider
@json_option
@debug_option
def run(
    object: str,
    task: str,
    store: str | None,
    session: str | None,
    max_steps: int | None,
    model: str | None,
    provider: str | None,
    as_json: bool,
) -> None:
    """Run the workflow MODULE:OBJECT on TASK: a graph, its description, or an @workflow function."""
    flow = load_flow(object)
    given = {"session_id": session, "max_steps": max_steps, "model": model, "provider": provider}
    options: JsonObject = {name: value for name, value in given.items() if value is not None}

    async def work(home: Store) -> WorkflowResult:
        return await flow.run(task, **options)

    show_result(on_store(store, work), object, store, as_json)


@click.command()
@_object
@click.argument("session")
@store_option
@click.option("--allow", metavar="CALL", multiple=True, help="This call may run.")
@click.option("--deny", metavar="CALL[=REASON]", multiple=True, help="This call may not run.")
@_model
@_provider
@json_option
@debug_option
def resume(
    object: str,
    session: str,
    store: str | None,
    allow: tuple[str, ...],
    deny: tuple[str, ...],
    model: str | None,
    provider: str | None,
    as_json: bool,
) -> None:
    """Go on with a run of MODULE:OBJECT in SESSION that was killed or parked."""
    flow = load_flow(object)
    given = {"model": model, "provider": provider}
    options: JsonObject = {name: value for name, value in given.items() if value is not None}
    decisions: dict[str, Allow | Deny | bool] = {call: Allow() for call in allow}
    for one in deny:
        call, _, reason = one.partition("=")
        decisions[call] = Deny(reason) if reason else Deny()

    async def work(home: Store) -> WorkflowResult:
        key = await match(home, session)
        return await flow.resume(key, decisions=decisions or None, **options)

    show_result(on_store(store, work), object, store, as_json)


@click.command()
@_object
@click.option("--session", metavar="ID", help="Show how far this run came.")
@store_option
@click.option(
    "--format",
    type=click.Choice(["text", "mermaid", "html"]),
    default="text",
    show_default=True,
    help="The form of the picture.",
)
@click.option("--output", "-o", metavar="FILE", help="Write the picture to this file.")
@click.option(
    "--follow",
    "-f",
    is_flag=True,
    help="With --session: draw it again as it grows, until the run ends or parks.",
)
@debug_option
def draw(
    object: str,
    session: str | None,
    store: str | None,
    format: str,
    output: str | None,
    follow: bool,
) -> None:
    """Draw the workflow MODULE:OBJECT; with --session, how far it came."""
    flow = load_flow(object)
    if follow:
        if session is None:
            raise click.UsageError("--follow draws a run again and again: give its --session")
        if format != "text" and output is None:
            raise click.UsageError(f"--follow with --format {format}: give a file with --output")
        follow_flow(flow, session, store, format, output)
        return
    steps: Sequence[WorkflowStep] = ()
    if session is not None:
        steps = on_session(store, session, read_progress).steps
    text = show_flow(flow, steps, format)
    if output is None:
        click.echo(text)
    else:
        write_picture(output, text)
