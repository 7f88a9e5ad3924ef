"""`windlass triggers`: list, add, remove and fire triggers."""

from __future__ import annotations

import datetime
import json
from typing import TYPE_CHECKING

import click
import msgspec

from windlass import seams
from windlass.cli import text as words
from windlass.cli.console import err, out
from windlass.cli.main import debug_option
from windlass.cli.options import json_option, store_option
from windlass.cli.store_location import at_place, find_place
from windlass.errors import ConfigError
from windlass.triggers.api import Trigger, trigger_list, trigger_register, trigger_remove
from windlass.triggers.fire import fire_due

if TYPE_CHECKING:
    from windlass.store.base import Store


@click.command("list")
@store_option
@json_option
@debug_option
def list_(store: str | None, as_json: bool) -> None:
    """List the triggers, and what parked sessions wait for."""
    place = find_place(store)
    found: list[Trigger] = []
    if place.exists:
        found = at_place(place, lambda home: trigger_list(store=home))
    if as_json:
        out().json([msgspec.to_builtins(trigger) for trigger in found])
        return
    if not found:
        err().line(f"no triggers in {place.shown}")
        return
    rows = [
        (
            words.clean(trigger.id),
            words.clean(str(trigger.spec.get("kind"))),
            "" if trigger.due is None else _when(trigger.due),
            f"{trigger.fired:,}",
            words.one_line(json.dumps(trigger.action), 60),
        )
        for trigger in found
    ]
    out().table(("TRIGGER", "KIND", "DUE", "FIRED", "ACTION"), rows, ("FIRED",))


@click.command()
@click.argument("spec")
@click.argument("action")
@click.option("--id", metavar="ID", help="Its id; by default a new one.")
@store_option
@debug_option
def add(spec: str, action: str, id: str | None, store: str | None) -> None:
    """Register a trigger: SPEC and ACTION are JSON.

    \b
    windlass triggers add '{"kind": "timer", "every": "1h"}' '{"kind": "wake", "session": "s1"}'
    """
    given, wanted = _parse("SPEC", spec), _parse("ACTION", action)

    async def register(home: Store) -> str:
        return await trigger_register(given, wanted, id=id, store=home)

    click.echo(at_place(find_place(store), register, writes=True))


@click.command()
@click.argument("ids", nargs=-1, required=True, metavar="ID...")
@store_option
@debug_option
def remove(ids: tuple[str, ...], store: str | None) -> None:
    """Remove triggers."""

    async def remove_all(home: Store) -> list[str]:
        return [one for one in ids if not await trigger_remove(one, store=home)]

    missing = at_place(find_place(store), remove_all, writes=True)
    if missing:
        raise ConfigError(f"there is no trigger {', '.join(map(repr, missing))}")


@click.command()
@store_option
@debug_option
def fire(store: str | None) -> None:
    """Fire what is due now, as a worker process does all the time."""
    again = at_place(find_place(store), lambda home: fire_due(home), writes=True)
    click.echo("nothing waits for a time" if again is None else f"next: {_when(again)}", err=True)


def _parse(name: str, given: str) -> dict[str, object]:
    try:
        return msgspec.json.decode(given, type=dict[str, object])
    except msgspec.DecodeError as error:
        raise click.UsageError(f"{name} is an object in JSON: {error}") from None


def _when(at: float) -> str:
    local = datetime.datetime.fromtimestamp(at).astimezone()
    late = seams.now() - at
    return f"{local:%Y-%m-%d %H:%M:%S}" + (" (due)" if late >= 0 else "")
