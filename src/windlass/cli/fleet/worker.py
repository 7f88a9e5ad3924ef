"""`windlass worker`: a process that drives submitted runs, until it is told to end."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Sequence
from typing import Any, cast

import click

from windlass.agents.agent import Agent
from windlass.cli.console import err
from windlass.cli.imports import import_object
from windlass.cli.main import debug_option
from windlass.cli.options import store_option
from windlass.cli.session_run import hear_signals
from windlass.cli.store_location import find_place
from windlass.errors import ConfigError, safe_repr
from windlass.fleet.request import name_agent
from windlass.fleet.worker import GRACE_SECONDS, SLOTS, Worker
from windlass.json_types import is_sequence
from windlass.runtime.runtime import Runtime
from windlass.store.base import Store


@click.command()
@click.argument("targets", metavar="MODULE:OBJECT…", nargs=-1, required=True)
@click.option(
    "--concurrency",
    type=click.IntRange(1, 10_000),
    default=SLOTS,
    show_default=True,
    help="How many runs at once.",
)
@click.option("--queue", "queues", multiple=True, metavar="NAME", help="Serve this queue too.")
@click.option(
    "--grace",
    type=click.FloatRange(0, 3600),
    default=GRACE_SECONDS,
    show_default=True,
    metavar="SECONDS",
    help="How long running turns may take when the worker is told to end.",
)
@store_option
@debug_option
def worker(
    targets: tuple[str, ...],
    concurrency: int,
    queues: tuple[str, ...],
    grace: float,
    store: str | None,
) -> None:
    """Drive submitted runs of these agents: each object is an Agent, or a list of them.

    SIGTERM and Ctrl-C end it: running turns end, and the runs are handed over to other workers.

    \b
      windlass worker shop:refunds shop:support --store postgresql://…
    """
    agents = _load_agents(targets)
    names = ", ".join(name_agent(agent) for agent in agents)
    place = find_place(store)
    ended = asyncio.run(_serve(place.open(), agents, concurrency, queues, grace, names))
    if not ended:
        # What did not park is taken up elsewhere where its journal ends. Waiting for its tools, or
        # cancelling them, could take for ever or end the session.
        os._exit(0)


async def _serve(
    store: Store,
    agents: Sequence[Agent[Any, Any]],
    slots: int,
    queues: Sequence[str],
    grace: float,
    names: str,
) -> bool:
    told = asyncio.Event()
    with hear_signals(lambda _: told.set()):
        async with Runtime(store=store) as runtime:
            return await _serve_until(
                told,
                runtime.build_worker(*agents, slots=slots, queues=tuple(queues)),
                grace,
                f"{names} ({slots} at once)",
            )


async def _serve_until(told: asyncio.Event, worker: Worker, grace: float, what: str) -> bool:
    """Serve until told to end; False if some runs did not park in time."""
    loop = asyncio.get_running_loop()
    serving, waiting = loop.create_task(worker.serve()), loop.create_task(told.wait())
    err().line(f"serving {what}; end it with Ctrl-C or SIGTERM")
    await asyncio.wait({serving, waiting}, return_when=asyncio.FIRST_COMPLETED)
    waiting.cancel()
    err().line("ending: running turns are finished, and the runs handed over")
    if not await worker.stop(grace):
        err().line("some runs did not park in time; they are taken up elsewhere")
        return False
    await serving
    return True


def _load_agents(targets: Sequence[str]) -> list[Agent[Any, Any]]:
    found: list[Agent[Any, Any]] = []
    for target in targets:
        thing: object = import_object(target, "worker")
        for one in thing if is_sequence(thing) else [thing]:
            if not isinstance(one, Agent):
                raise ConfigError(f"{target} is an Agent or a list of them, not {safe_repr(one)}")
            found.append(cast("Agent[Any, Any]", one))
    known: set[str] = set()
    for agent in found:
        if (name := name_agent(agent)) in known:
            raise ConfigError(f"two agents are named {name!r}; give one another name or version")
        known.add(name)
    if not found:
        raise ConfigError("a worker needs an agent to serve")
    return found
