"""The options of commands that run an agent, as they are typed."""

from __future__ import annotations

import functools
import shlex
from collections.abc import Callable
from typing import Any, NamedTuple, TypeVar, cast

import click

from windlass.cli.main import debug_option

F = TypeVar("F", bound=Callable[..., Any])


class RunOptions(NamedTuple):
    """The options of a command that runs an agent, as they were typed."""

    model: str | None = None
    provider: str | None = None
    system: str | None = None
    tools: tuple[str, ...] = ()
    max_turns: int | None = None
    max_cost: float | None = None
    max_tokens_total: int | None = None
    timeout: float | None = None
    store: str | None = None
    session: str | None = None
    resume: str | None = None
    allow: tuple[str, ...] = ()
    deny: tuple[str, ...] = ()
    result: tuple[str, ...] = ()
    ask: tuple[str, ...] = ()
    preview: bool = False
    plan: str | None = None
    take_over: bool = False
    on_pending: str = "keep"

    def to_go_on(self, session_id: str, command: str = "run") -> str:
        """What to type to go on with this session; its model and system prompt it knows itself."""
        words = ["windlass", command, "--resume", session_id]
        if self.store is not None:
            words += ["--store", self.store]
        for tool in self.tools:
            words += ["--tools", tool]
        for glob in self.ask:
            words += ["--ask", glob]
        return shlex.join(words)


_AGENT_OPTIONS = (
    click.option(
        "--model",
        "-m",
        metavar="PROVIDER:NAME",
        help="The model, as anthropic:claude-sonnet-4-5. `windlass models` lists some.",
    ),
    click.option(
        "--provider", "-p", metavar="NAME", help="Whose default model; `mock` needs no key."
    ),
    click.option(
        "--system", "-s", metavar="TEXT|@FILE", help="The system prompt, or a file of it."
    ),
    click.option(
        "--tools",
        "-t",
        metavar="MODULE:FUNCTION",
        multiple=True,
        help="A function the model may call; also from this folder. May be repeated.",
    ),
    click.option(
        "--ask",
        metavar="GLOB",
        multiple=True,
        help="Park the run before these tools, until `windlass approvals approve`. May be repeated.",
    ),
    click.option(
        "--max-turns", type=click.IntRange(min=1), metavar="N", help="Model calls per run."
    ),
    click.option(
        "--max-cost", type=click.FloatRange(min=0), metavar="USD", help="Dollars per run."
    ),
    click.option(
        "--max-tokens-total",
        type=click.IntRange(min=1),
        metavar="N",
        help="Tokens per run, input and output.",
    ),
    click.option(
        "--timeout",
        type=click.FloatRange(min=0, min_open=True),
        metavar="SECONDS",
        help="Seconds per run.",
    ),
    click.option(
        "--store",
        metavar="URL|FILE",
        help="Where sessions are kept; default: .windlass/sessions.db of the project.",
    ),
)
_SESSION_OPTIONS = (
    click.option("--session", metavar="ID", help="Start or continue the session of this name."),
    click.option(
        "--resume", metavar="ID", help="Go on with a session that was killed, cancelled or parked."
    ),
    click.option(
        "--on-pending",
        type=click.Choice(["keep", "discard"]),
        default="keep",
        help="With a parked session: take no task (keep), or go on without the calls that wait.",
    ),
    click.option(
        "--preview",
        is_flag=True,
        help="Only look: effects go into a plan (`windlass plan show`) and do not happen.",
    ),
    click.option(
        "--plan",
        metavar="ID",
        help="Do what the approved plan of this session says; anything else parks the run.",
    ),
)
_ANSWER_OPTIONS = (
    click.option(
        "--take-over",
        is_flag=True,
        help="Go on also where another process is at work on the session; its run ends.",
    ),
    click.option(
        "--allow", metavar="CALL", multiple=True, help="With a parked run: this call may run."
    ),
    click.option(
        "--deny",
        metavar="CALL[=REASON]",
        multiple=True,
        help="With a parked run: this call may not run.",
    ),
    click.option(
        "--result",
        metavar="CALL=VALUE",
        multiple=True,
        help="With a parked run: what this call returned.",
    ),
)
json_option = click.option("--json", "as_json", is_flag=True, help="JSON for machines.")


def agent_options(*, session: bool = True, answers: bool = True) -> Callable[[F], F]:
    """Give a command the common options, gathered into one `RunOptions`."""
    options: list[Callable[[Any], Any]] = [*_AGENT_OPTIONS]
    options += _SESSION_OPTIONS if session else ()
    options += _ANSWER_OPTIONS if answers else ()

    def decorate(command: F) -> F:
        @functools.wraps(command)
        def run_command(**given: Any) -> Any:
            mine = {name: given.pop(name) for name in RunOptions._fields if name in given}
            return command(chosen=RunOptions(**mine), **given)

        wrapped: Any = debug_option(run_command)
        for option in reversed(options):
            wrapped = option(wrapped)
        return cast(F, wrapped)

    return decorate
