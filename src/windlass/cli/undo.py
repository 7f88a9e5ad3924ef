"""`windlass undo`: the effects of a session, and their undo."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING

import click
import msgspec

from windlass.cli import text as words
from windlass.cli.approvals import by_option, user_name
from windlass.cli.console import out
from windlass.cli.imports import import_object, load_tools
from windlass.cli.main import debug_option
from windlass.cli.options import id_argument, json_option, store_option
from windlass.cli.store_location import on_session
from windlass.config.loader import load
from windlass.engine.environment import Environment
from windlass.json_types import JsonObject
from windlass.resources.row import is_resource
from windlass.sessions import undo as session_undo
from windlass.toolbox.names import BUILTIN_NAMES

if TYPE_CHECKING:
    from windlass.sessions.effects import UndoStep
    from windlass.store.base import Store


@click.command()
@id_argument
@click.option(
    "--call", "-c", "calls", metavar="CALL", multiple=True, help="Only this call. May be repeated."
)
@click.option(
    "--tools",
    "-t",
    metavar="MODULE:NAME",
    multiple=True,
    help="The session's tools and resources again: they know how to undo. May be repeated.",
)
@click.option("--dry-run", is_flag=True, help="Say what would be undone, and undo nothing.")
@click.option("--yes", "-y", is_flag=True, help="Do not ask.")
@click.option("--force", is_flag=True, help="Also if the session has not ended.")
@by_option
@store_option
@json_option
@debug_option
def undo(
    id: str,
    calls: tuple[str, ...],
    tools: tuple[str, ...],
    dry_run: bool,
    yes: bool,
    force: bool,
    by: str | None,
    store: str | None,
    as_json: bool,
) -> None:
    """Undo what the session ID did, the newest first, in the name of its caller.

    A tool says how with `undo=`; rows of resources go back to what the audit log says they were. What
    cannot be undone is listed with the reason.

    \b
    Exit codes:
      0  undone, or there was nothing to undo
      1  some of it could not be undone
    """
    chosen = _work(store, id, tools, calls)
    able = [step for step in chosen if step.why is None]
    if not dry_run and able and not yes:
        if not sys.stdin.isatty():
            raise click.UsageError("nobody is there to ask: add --yes, or --dry-run to look")
        _show(chosen, err=True)
        click.confirm(f"undo {len(able)} of these?", abort=True, err=True)
    if not dry_run and able:
        ids = [step.call_id for step in able]
        done = _work(store, id, tools, ids, (by or user_name(), force))
        ended = {step.call_id: step for step in done}
        chosen = [ended.get(step.call_id, step) for step in chosen]
    if as_json:
        out().json([_document(step) for step in chosen])
    elif chosen:
        _show(chosen)
    else:
        click.echo("this session had no effects", err=True)
    missed = [step for step in chosen if step.outcome != "ok" and step.undone_by is None]
    if missed and not dry_run:
        click.get_current_context().exit(1)


def _work(
    store: str | None,
    id: str,
    tools: tuple[str, ...],
    calls: Sequence[str],
    undone: tuple[str, bool] | None = None,
) -> list[UndoStep]:
    """List the effects of a session, or undo them.

    `undone` is who undoes, and whether that is forced.
    """
    named = [path for path in tools if path in BUILTIN_NAMES]
    things = {path: import_object(path, "--tools") for path in tools if path not in named}
    rows = [thing for thing in things.values() if is_resource(thing)]
    others = [path for path, thing in things.items() if not is_resource(thing)]
    known = load_tools([*others, *named])

    async def work(home: Store, session_id: str) -> list[UndoStep]:
        async with Environment(home, secrets=load().secrets()) as scope:
            for row in rows:
                scope.resources.add(row)
            if undone is None:
                return await session_undo.undoable(session_id, calls or None, tools=known)
            by, force = undone
            return await session_undo.undo(session_id, calls, tools=known, name=by, force=force)

    return on_session(store, id, work, writes=True)  # to look, a resource makes its tables


def _show(steps: list[UndoStep], *, err: bool = False) -> None:
    for step in steps:
        asked = words.shown_call(step.tool, step.arguments, 100)
        click.echo(f"{words.one_line(step.call_id)}  {words.one_line(asked)}", err=err)
        click.echo(f"  {words.one_line(_state(step), 300)}", err=err)


def _state(step: UndoStep) -> str:
    if step.undone_by is not None:
        return f"undone by {step.undone_by}" + (f": {step.detail}" if step.detail else "")
    if step.why is not None:
        return f"cannot be undone: {step.why}"
    tried = f" (tried: {step.outcome}, {step.detail})" if step.outcome is not None else ""
    return f"undo: {step.what}{tried}"


def _document(step: UndoStep) -> JsonObject:
    told: JsonObject = msgspec.to_builtins(step)
    told["result"] = None if step.result is None else step.result.text
    return told
