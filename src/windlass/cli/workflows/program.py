"""Workflows of a program for commands: import one, work on its store, show its result."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any

import click

from windlass.cli.console import err, out
from windlass.cli.imports import import_object
from windlass.cli.redaction import secrets_here
from windlass.cli.store_location import find_place
from windlass.cli.text import clean, one_line
from windlass.config.loader import load
from windlass.engine.environment import Environment
from windlass.errors import ConfigError
from windlass.json_types import is_object
from windlass.workflows.execute import WorkflowGraph, workflow_graph
from windlass.workflows.functions import Workflow
from windlass.workflows.result import WorkflowResult


def load_flow(path: str, option: str = "MODULE:OBJECT") -> WorkflowGraph | Workflow:
    """Import a workflow of a program: a graph, its description, or a function."""
    found = import_object(path, option)
    if isinstance(found, Workflow):
        return found
    if isinstance(found, WorkflowGraph) or is_object(found):
        return workflow_graph(found)
    raise ConfigError(f"{path} is no workflow: give a graph, or a function with @workflow")


def on_store(store: str | None, work: Any) -> Any:
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


def show_result(
    result: WorkflowResult, object: str, store: str | None, as_json: bool = False
) -> None:
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
