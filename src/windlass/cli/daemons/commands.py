"""`windlass daemon trigger|status|stop`: commands for daemons of any process."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click
import msgspec

from windlass.cli import text as words
from windlass.cli.console import out
from windlass.cli.main import debug_option
from windlass.cli.options import json_option, store_option
from windlass.cli.store_location import at_place, find_place
from windlass.daemons.control import daemon_snapshot, daemon_stop, daemon_trigger
from windlass.daemons.handle import PREFIX
from windlass.errors import NoSuchSession
from windlass.json_types import JsonObject, is_object

if TYPE_CHECKING:
    from windlass.cli.store_location import Place
    from windlass.daemons.control import DaemonSnapshot
    from windlass.store.base import Store


name_argument = click.argument("name")


@click.command()
@name_argument
@click.option("--kind", default="event", show_default=True, help="What kind of event it is.")
@click.option("--path", metavar="FILE", help="The file that it is about.")
@click.option("--data", metavar="JSON", help="More of the event: a JSON object.")
@store_option
@debug_option
def trigger(name: str, kind: str, path: str | None, data: str | None, store: str | None) -> None:
    """Give the daemon NAME an event: it is stored, and handled when the daemon is idle."""
    event = {**_read_data(data), "kind": kind, **({} if path is None else {"path": path})}

    async def post(home: Store) -> int:
        return await daemon_trigger(name, event, store=home)

    number = at_place(_existing(store, name), post, writes=True)
    click.echo(f"event {number}")


@click.command()
@click.argument("name", required=False)
@store_option
@json_option
@debug_option
def status(name: str | None, store: str | None, as_json: bool) -> None:
    """Show the daemon NAME, or all of them: what they do, and how many events wait."""
    place = find_place(store)
    if name is not None:
        place = _existing(store, name)
    found = at_place(place, lambda home: _describe(home, name)) if place.exists else []
    if as_json:
        shown = [msgspec.to_builtins(one) for one in found]
        out().json(shown if name is None else shown[0])
        return
    if not found:
        click.echo("there are no daemons here", err=True)
        return
    rows = [
        (
            words.one_line(one.name),
            one.status,
            str(one.pending_event_count),
            "-" if one.in_flight is None else str(one.in_flight["number"]),
            str(one.last_event),
        )
        for one in found
    ]
    out().table(("DAEMON", "STATUS", "WAITING", "AT WORK", "LAST EVENT"), rows, ())


@click.command()
@name_argument
@click.option(
    "--timeout",
    type=click.FloatRange(0),
    default=30.0,
    show_default=True,
    metavar="SECONDS",
    help="How long its turn may take to end.",
)
@store_option
@debug_option
def stop(name: str, timeout: float, store: str | None) -> None:
    """Stop the daemon NAME at the end of its turn; its events stay."""

    async def end(home: Store) -> DaemonSnapshot:
        return await daemon_stop(name, timeout=timeout, store=home)

    snap = at_place(_existing(store, name), end, writes=True)
    waiting = words.count(snap.pending_event_count, "event")
    click.echo(f"stopped {words.one_line(snap.name)}; {waiting} waiting")


async def _describe(home: Store, name: str | None) -> list[DaemonSnapshot]:
    if name is not None:
        return [await daemon_snapshot(name, store=home)]
    ids = [info.id for info in await home.sessions() if info.id.startswith(PREFIX)]
    return [await daemon_snapshot(one.removeprefix(PREFIX), store=home) for one in ids]


def _existing(store: str | None, name: str) -> Place:
    place = find_place(store)
    if not place.exists:
        raise NoSuchSession(f"there is no daemon {name!r}: nothing is kept in {place.shown}")
    return place


def _read_data(data: str | None) -> JsonObject:
    if data is None:
        return {}
    try:
        found: object = msgspec.json.decode(data)
    except msgspec.DecodeError as error:
        raise click.UsageError(f"--data is a JSON object: {error}") from None
    if not is_object(found):
        raise click.UsageError("--data is a JSON object")
    return found
