"""`windlass worker`: a process that drives submitted runs, until it is told to end."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Sequence
from typing import cast

import click
import msgspec

from windlass.agents.agent import Agent
from windlass.cli.console import err
from windlass.cli.imports import import_object
from windlass.cli.main import debug_option
from windlass.cli.options import store_option
from windlass.cli.session_run import hear_signals
from windlass.cli.store_location import find_place
from windlass.errors import ConfigError, safe_repr
from windlass.fleet.limits import FleetLimits, check_limits
from windlass.fleet.request import FleetAgent, name_agent
from windlass.fleet.worker import GRACE_SECONDS, SLOTS, Worker
from windlass.fleet.workers import LEASE_SECONDS
from windlass.json_types import is_sequence
from windlass.runtime.runtime import Runtime
from windlass.workflows.execute import WorkflowGraph
from windlass.workflows.functions import Workflow


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
@click.option(
    "--fleet",
    "engine",
    metavar="ENGINE",
    default="local",
    show_default=True,
    help="local, procrastinate, pgqueuer, or one that a package offers.",
)
@click.option(
    "--lease",
    type=click.FloatRange(1, 3600),
    default=LEASE_SECONDS,
    show_default=True,
    metavar="SECONDS",
    help="A worker that is silent for so long is taken for lost.",
)
@click.option(
    "--limits",
    metavar="JSON",
    help="Limits over all workers, as Runtime.serve takes them.",
)
@store_option
@debug_option
def worker(
    targets: tuple[str, ...],
    concurrency: int,
    queues: tuple[str, ...],
    grace: float,
    engine: str,
    lease: float,
    limits: str | None,
    store: str | None,
) -> None:
    """Drive submitted runs of these agents: each object is an Agent, a workflow, or a list of them.

    SIGTERM and Ctrl-C end it: running turns end, and the runs are handed over to other workers.

    \b
      windlass worker shop:refunds shop:support --store postgresql://… --fleet procrastinate
    """
    if engine != "local" and grace >= lease:
        # A queue's heartbeat may end with the drain: what parks late would be taken over before.
        raise ConfigError(f"--grace {grace:g} must be less than --lease {lease:g}")
    agents, checked = _load_agents(targets), _read_limits(limits)

    def build(runtime: Runtime) -> Worker:
        return runtime.build_worker(
            *agents, slots=concurrency, queues=queues, lease=lease, limits=checked
        )

    names = ", ".join(name_agent(agent) for agent in agents)
    runtime = Runtime(store=find_place(store).open(), fleet=engine)
    ended = asyncio.run(_serve(runtime, build, grace, f"{names} ({concurrency} at once)"))
    if not ended:
        # What did not park is taken up elsewhere where its journal ends. Waiting for its tools, or
        # cancelling them, could take for ever or end the session.
        os._exit(0)


def _read_limits(text: str | None) -> FleetLimits:
    """Read limits from JSON."""
    try:
        return check_limits(None if text is None else msgspec.json.decode(text))
    except msgspec.DecodeError as error:
        raise ConfigError(
            f"""--limits is JSON such as '{{"tenants": {{"*": 5}}}}', not {safe_repr(text)}: {error}"""
        ) from error


async def _serve(
    runtime: Runtime, build: Callable[[Runtime], Worker], grace: float, what: str
) -> bool:
    told = asyncio.Event()
    with hear_signals(lambda _: told.set()):
        async with runtime:
            return await _serve_until(told, build(runtime), grace, what)


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


def _load_agents(targets: Sequence[str]) -> list[FleetAgent]:
    found: list[FleetAgent] = []
    for target in targets:
        thing: object = import_object(target, "worker")
        for one in thing if is_sequence(thing) else [thing]:
            if not isinstance(one, Agent | WorkflowGraph | Workflow):
                raise ConfigError(
                    f"{target} is an Agent, a workflow or a list of them, not {safe_repr(one)}"
                )
            found.append(cast("FleetAgent", one))
    known: set[str] = set()
    for agent in found:
        if (name := name_agent(agent)) in known:
            raise ConfigError(f"two agents are named {name!r}; give one another name or version")
        known.add(name)
    if not found:
        raise ConfigError("a worker needs an agent to serve")
    return found
