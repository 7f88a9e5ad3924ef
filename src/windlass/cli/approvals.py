"""`windlass approvals`: calls that wait for a yes or a no, in all sessions."""

from __future__ import annotations

import asyncio
import getpass
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, TypeVar

import click
import msgspec

from windlass import seams
from windlass.access.caller import Caller
from windlass.cli import text as words
from windlass.cli.console import out
from windlass.cli.main import debug_option
from windlass.cli.options import for_option, json_option, store_option
from windlass.cli.store_location import find_place, match
from windlass.json_types import JsonObject, is_object
from windlass.sessions.approvals import answer, find_approval
from windlass.sessions.approvals import approvals as list_approvals
from windlass.store.memory import MemoryStore

if TYPE_CHECKING:
    from windlass.loop.resume_input import AnswerScope
    from windlass.sessions.approvals import PendingApproval
    from windlass.store.base import Store

T = TypeVar("T")

ids_argument = click.argument("ids", nargs=-1, metavar="ID…")
all_option = click.option("--all", "everything", is_flag=True, help="All that wait.")
session_option = click.option("--session", metavar="ID", help="Those of one session.")
by_option = click.option("--by", metavar="NAME", help="Who answers; your user name if not given.")


@click.command("list")
@store_option
@session_option
@json_option
@debug_option
def list_(store: str | None, session: str | None, as_json: bool) -> None:
    """List what waits for an answer."""
    found = _with_store(store, lambda home: _waiting(home, session))
    if as_json:
        out().json(msgspec.to_builtins(found))
        return
    if not found:
        click.echo("nothing waits for an answer", err=True)
        return
    room = max(20, out().width - 66)
    rows = [
        (
            one.id[:12],
            words.one_line(one.session_id),
            words.one_line(one.caller, 40),
            _state(one),
            words.one_line(words.shown_call(one.tool, one.arguments), room),
        )
        for one in found
    ]
    out().table(("APPROVAL", "SESSION", "CALLER", "STATE", "CALL"), rows, ())
    for one in found:
        if one.details:
            click.echo(f"\n{one.id[:12]}")
            _print_details(one)
        elif one.diff:
            click.echo(f"\n{one.id[:12]}")
        for line, tone in words.colour_diff(one.diff, 20):
            out().line((f"  {line}", tone))


@click.command()
@click.argument("id")
@store_option
@json_option
@debug_option
def show(id: str, store: str | None, as_json: bool) -> None:
    """Show one call that waits: its arguments whole, the rule that asks, and why."""

    async def look(home: Store) -> PendingApproval:
        return find_approval(id, await list_approvals(home))

    one = _with_store(store, look)
    if as_json:
        out().json(msgspec.to_builtins(one))
        return
    why = (one.receipt or {}).get("rationale") or one.reason or ""
    rule = (one.receipt or {}).get("rule") or one.rule
    for label, value in (
        ("approval", one.id),
        ("session", one.session_id),
        ("agent", one.agent or "-"),
        ("caller", one.caller),
        ("tool", one.tool),
        ("rule", str(rule)),
        ("why", str(why)),
        ("state", _state(one)),
        ("answered by", one.answered_by or "-"),
    ):
        click.echo(f"{label:13}{words.one_line(value, 2000)}")  # one line per call
    _print_details(one)
    click.echo(words.json_text(one.arguments))
    for line, tone in words.colour_diff(one.diff):
        out().line((line, tone))


@click.command()
@ids_argument
@all_option
@session_option
@for_option
@click.option("--content", metavar="JSON", help="What an MCP server asks for.")
@by_option
@store_option
@debug_option
def approve(
    ids: tuple[str, ...],
    everything: bool,
    session: str | None,
    scope: AnswerScope,
    content: str | None,
    by: str | None,
    store: str | None,
) -> None:
    """Approve calls: each may run as it is; with --for session, others on its targets too."""
    chosen, name = _select_ids(store, ids, everything, session), _person(by)
    filled = None if content is None else _read_content(content)

    async def say_yes(home: Store) -> None:
        await answer(chosen, True, name=name, scope=scope, content=filled, store=home)

    _with_store(store, say_yes, writes=True)
    click.echo(f"approved {len(chosen)}; `windlass sessions resume` goes on")


@click.command()
@ids_argument
@click.option("--reason", metavar="WORDS", help="What the model is told.")
@all_option
@session_option
@for_option
@by_option
@store_option
@debug_option
def deny(
    ids: tuple[str, ...],
    reason: str | None,
    everything: bool,
    session: str | None,
    scope: AnswerScope,
    by: str | None,
    store: str | None,
) -> None:
    """Deny calls: they do not run, and the model is told; with --for session, never again."""
    chosen, name = _select_ids(store, ids, everything, session), _person(by)

    async def say_no(home: Store) -> None:
        await answer(chosen, False, name=name, reason=reason, scope=scope, store=home)

    _with_store(store, say_no, writes=True)
    click.echo(f"denied {len(chosen)}; `windlass sessions resume` goes on")


def _read_content(given: str) -> JsonObject:
    try:
        found: object = msgspec.json.decode(given)
    except msgspec.DecodeError as error:
        raise click.UsageError(f"--content is a JSON object: {error}") from None
    if not is_object(found):
        raise click.UsageError("--content is a JSON object")
    return found


def _print_details(one: PendingApproval) -> None:
    """Print what flow control says of each value, and where untrusted content came from."""
    for line in one.details:
        click.echo(f"  {words.one_line(line, 400)}")


def _select_ids(
    store: str | None, ids: tuple[str, ...], everything: bool, session: str | None
) -> list[str]:
    """Return the chosen ids; all of a session, or of all sessions, only if asked for."""
    if ids and (everything or session):
        raise click.UsageError("give ids, or --all, or --session: one of them")
    if ids:
        return list(ids)
    if not everything and session is None:
        raise click.UsageError("which? Give an id, or --session ID, or --all")
    found = _with_store(store, lambda home: _waiting(home, session))
    open_ones = [one.id for one in found if one.answered is None and not one.expired]
    if not open_ones:
        raise click.UsageError("nothing waits for an answer there")
    return open_ones


async def _waiting(home: Store, session: str | None) -> list[PendingApproval]:

    return await list_approvals(home, None if session is None else await match(home, session))


def _with_store(
    store: str | None, look: Callable[[Store], Awaitable[T]], *, writes: bool = False
) -> T:
    async def in_store() -> T:
        place = find_place(store)
        home = place.open(read_only=not writes) if place.exists else MemoryStore()
        try:
            return await look(home)
        finally:
            await home.aclose()

    return asyncio.run(in_store())


def _state(one: PendingApproval) -> str:
    if one.answered is not None:
        return {"allow": "approved", "deny": "denied"}.get(one.answered, one.answered)
    if one.expired:
        return "expired"
    if one.expires_at is None:
        return "waits"
    return f"waits ({words.duration(one.expires_at - seams.now())} left)"


def _person(by: str | None) -> str:
    """Return the recorded name of who answers at this machine."""
    return str(Caller(by or user_name()))


def user_name() -> str:
    """Return the name of the user at this machine."""
    try:
        return getpass.getuser()
    except (OSError, KeyError):
        return "operator"
