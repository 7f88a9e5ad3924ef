"""`windlass workflow`: run, resume and draw the workflows of a program."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any

import click

from windlass.cli.console import err, out
from windlass.cli.imports import import_object
from windlass.cli.main import debug_option
from windlass.cli.options import json_option, store_option
from windlass.cli.redaction import secrets_here
from windlass.cli.store_location import find_place, match
from windlass.cli.text import clean, one_line
from windlass.config.loader import load
from windlass.engine.environment import Environment
from windlass.errors import ConfigError, NoSuchSession
from windlass.json_types import JsonObject, is_object
from windlass.loop.resume_input import Allow, Deny
from windlass.store.base import Store
from windlass.workflows.execute import WorkflowGraph, workflow_graph
from windlass.workflows.functions import Workflow
from windlass.workflows.result import WorkflowResult
from windlass.workflows.steps import read_steps
from windlass.workflows.task import draw_flow

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
    flow = _load(object)
    given = {"session_id": session, "max_steps": max_steps, "model": model, "provider": provider}
    options: JsonObject = {name: value for name, value in given.items() if value is not None}

    async def work(home: Store) -> WorkflowResult:
        return await flow.run(task, **options)

    _show(_on_store(store, work), object, store, as_json)


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
    flow = _load(object)
    given = {"model": model, "provider": provider}
    options: JsonObject = {name: value for name, value in given.items() if value is not None}
    decisions: dict[str, Allow | Deny | bool] = {call: Allow() for call in allow}
    for one in deny:
        call, _, reason = one.partition("=")
        decisions[call] = Deny(reason) if reason else Deny()

    async def work(home: Store) -> WorkflowResult:
        key = await match(home, session)
        return await flow.resume(key, decisions=decisions or None, **options)

    _show(_on_store(store, work), object, store, as_json)


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
@debug_option
def draw(object: str, session: str | None, store: str | None, format: str) -> None:
    """Draw the workflow MODULE:OBJECT; with --session, how far it came."""
    flow = _load(object)
    steps: list[Any] = []
    if session is not None:
        wanted = session
        if not find_place(store).exists:
            raise NoSuchSession(f"no session {wanted!r}: nothing is kept there")

        async def work(home: Store) -> list[Any]:
            return list(read_steps(await home.read(await match(home, wanted))))

        steps = _on_store(store, work)
    click.echo(secrets_here().text(draw_flow(flow, steps, format)))


def _load(path: str) -> WorkflowGraph | Workflow:
    found = import_object(path, "MODULE:OBJECT")
    if isinstance(found, Workflow):
        return found
    if isinstance(found, WorkflowGraph) or is_object(found):
        return workflow_graph(found)
    raise ConfigError(f"{path} is no workflow: give a graph, or a function with @workflow")


def _on_store(store: str | None, work: Any) -> Any:
    """Open the store and an environment on it, and do the work there."""
    place = find_place(store)
    place.prepare()

    async def inside() -> Any:
        home = place.open()
        try:
            environment = Environment(home, secrets=load().secrets())
            await environment.__aenter__()
            try:
                doing: Coroutine[Any, Any, Any] = work(home)
                return await doing
            finally:
                await environment.__aexit__()
        finally:
            await home.aclose()

    return asyncio.run(inside())


def _show(result: WorkflowResult, object: str, store: str | None, as_json: bool) -> None:
    """Print the output, and what is left to do; exit with 1 where it is not done."""
    redactor = secrets_here()
    if as_json:
        out().json(redactor.value(result.to_dict()))
    else:
        for step in result.steps:
            shown = step.text if step.status != "failed" else (step.error or {}).get("message")
            line = f"{step.name}: {step.verdict or step.status}: {shown or ''}"
            err().line((one_line(redactor.text(line), 160), "dim"))
        if result.status == "done":
            click.echo(clean(redactor.text(result.final_text)))
        else:
            why = (result.error or {}).get("message") or result.stop_reason
            click.echo(redactor.text(f"{result.status}: {why}"), err=True)
        for call in result.pending:
            words = f"{call.path[0]} waits: {call.id} {call.name} {call.arguments}"
            click.echo(one_line(redactor.text(words), 200), err=True)
        if result.status == "suspended":
            where = f" --store {store}" if store else ""
            go_on = f"windlass workflow resume {object} {result.session_id}{where}"
            click.echo(f"{go_on} --allow CALL", err=True)
    if result.status != "done":
        raise click.exceptions.Exit(1)
