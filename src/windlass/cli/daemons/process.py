"""`windlass daemon start|resume`: a daemon in the foreground, until it is stopped or ends."""

from __future__ import annotations

import asyncio
import functools
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar, cast

import click

from windlass.cli.console import out
from windlass.cli.imports import load_tools, read_system
from windlass.cli.options import CommandOptions, agent_options, json_option
from windlass.cli.redaction import secrets_here
from windlass.cli.session_run import hear_signals, leave
from windlass.cli.store_location import find_place
from windlass.cli.views import Redacting, View, view_for
from windlass.config.loader import load
from windlass.daemons.control import daemon_snapshot, daemon_stop
from windlass.daemons.start import daemon_resume, daemon_spawn
from windlass.engine.environment import Environment
from windlass.errors import ConfigError
from windlass.json_types import JsonObject

if TYPE_CHECKING:
    from windlass.daemons.control import DaemonSnapshot
    from windlass.daemons.handle import DaemonHandle

F = TypeVar("F", bound=Callable[..., Any])
_GOOD = ("stopped", "done", "idle")
_PATIENCE = 30.0  # seconds that a turn may take to end when the process is told to stop


quiet_option = click.option("--quiet", "-q", is_flag=True, help="The answers alone.")

#: The options of a daemon by the names of their flags.
_FLAGS: dict[str, Callable[[Any], Any]] = {
    "wake_interval_ms": click.option(
        "--wake-interval-ms", type=click.IntRange(1), metavar="N", help="Wake up so often."
    ),
    "watch_paths": click.option(
        "--watch",
        "watch_paths",
        multiple=True,
        metavar="FILE",
        help="Wake up when this file changes. May be repeated.",
    ),
    "persist_path": click.option(
        "--persist", "persist_path", metavar="FILE", help="Write snapshots to this file."
    ),
    "event_queue_capacity": click.option(
        "--capacity",
        "event_queue_capacity",
        type=click.IntRange(1),
        metavar="N",
        help="Events that may wait.  [default: 1024]",
    ),
    "idle_watchdog_attempts": click.option(
        "--watchdog",
        "idle_watchdog_attempts",
        type=click.IntRange(0),
        metavar="N",
        help="End after so many waits without a reason to wake up.",
    ),
    "consolidate_on_idle": click.option(
        "--consolidate",
        "consolidate_on_idle",
        is_flag=True,
        help="Compact the conversation when the daemon becomes idle.",
    ),
}


def daemon_options(command: F) -> F:
    """Give a command the flags of daemons, as one argument `given`."""

    @functools.wraps(command)
    def run_command(**typed: Any) -> Any:
        found = {name: typed.pop(name) for name in _FLAGS}
        given = {
            name: value
            for name, value in found.items()
            if value is not None and value is not False and value != ()
        }
        return command(given=given, **typed)

    wrapped: Any = run_command
    for option in reversed(_FLAGS.values()):
        wrapped = option(wrapped)
    return cast(F, wrapped)


@click.command()
@click.argument("name")
@click.argument("task", required=False)
@agent_options(begins=False)
@daemon_options
@json_option
@quiet_option
def start(
    name: str,
    task: str | None,
    chosen: CommandOptions,
    given: JsonObject,
    as_json: bool,
    quiet: bool,
) -> None:
    """Start the daemon NAME with a TASK, and stay until it is stopped.

    It waits for `windlass daemon trigger NAME`. Ctrl-C, SIGTERM and `windlass daemon stop NAME` stop it
    at the end of its turn; `windlass daemon resume NAME` goes on.
    """
    run_daemon(name, chosen, given, task=task, as_json=as_json, quiet=quiet)


@click.command()
@click.argument("name", metavar="NAME|FILE")
@agent_options(begins=False)
@daemon_options
@json_option
@quiet_option
def resume(
    name: str, chosen: CommandOptions, given: JsonObject, as_json: bool, quiet: bool
) -> None:
    """Go on with the daemon NAME, or with that of a snapshot FILE, and stay until it is stopped.

    Its options are those that it was started with, unless others are given; tools must be named again.
    """
    run_daemon(name, chosen, given, resumes=True, as_json=as_json, quiet=quiet)


def run_daemon(
    name: str,
    chosen: CommandOptions,
    given: JsonObject,
    *,
    task: str | None = None,
    resumes: bool = False,
    as_json: bool = False,
    quiet: bool = False,
) -> None:
    """Run a daemon until it ends, and exit with 0 if it was stopped or is done."""
    address: str | None = chosen.options.get("store")
    place = find_place(address)
    place.prepare()
    view = view_for(as_json=as_json, stream=as_json, quiet=quiet)

    async def run() -> DaemonSnapshot:
        home = place.open()
        environment = Environment(home, secrets=load().secrets())
        redacting = Redacting(view, lambda: environment.redactor or secrets_here())
        options = {**_read_options(chosen), **given, "store": home, "on_event": redacting}
        try:
            async with environment:
                if resumes:
                    handle = await daemon_resume(name, options)
                else:
                    handle = await daemon_spawn({**options, "name": name, "task": task})
                return await _stay(handle, view, redacting)
        finally:
            await home.aclose()

    snap = asyncio.run(run())
    if as_json:
        out().json({"kind": "daemon", "status": snap.status, "pending": snap.pending_event_count})
    else:
        click.echo(f"daemon {snap.name}: {snap.status}", err=True)
    click.get_current_context().exit(0 if snap.status in _GOOD else 1)


def _read_options(chosen: CommandOptions) -> JsonObject:
    """Return the options of the loop that the flags give."""
    if chosen.allow or chosen.deny or chosen.result:
        raise ConfigError("--allow, --deny and --result are for `windlass sessions resume`")
    options = {**chosen.options}
    if "tools" in options:
        options["tools"] = load_tools(options["tools"])
    if "max_turns" in options:
        options["max_iterations"] = options.pop("max_turns")
    if (system := read_system(chosen.system)) is not None:
        options["system"] = system
    if chosen.ask:
        options["approval_policy"] = {"rules": [{"ask": list(chosen.ask)}]}
    return options


async def _stay(handle: DaemonHandle, view: View, redacting: Redacting) -> DaemonSnapshot:
    """Wait for the end of the daemon; stop it when the process is told to end."""
    stopping: set[asyncio.Task[DaemonSnapshot]] = set()

    def stop() -> None:
        if stopping:
            leave(130)
        stopping.add(asyncio.create_task(daemon_stop(handle, timeout=_PATIENCE)))

    view.begin()
    try:
        view.note(f"daemon {handle.name} runs: windlass daemon trigger {handle.name}")
        with hear_signals(lambda _: stop()):
            await handle.result()
            for task in list(stopping):
                await task
        return await daemon_snapshot(handle)
    finally:
        redacting.flush()
        view.end()
