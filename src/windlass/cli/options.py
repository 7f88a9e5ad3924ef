"""The flags of commands that run an agent.

Flags that give an option of an agent come from the option groups (`options/flags.py`); the others are here.
"""

from __future__ import annotations

import functools
import shlex
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeVar, cast

import click

from windlass.cli.main import debug_option
from windlass.json_types import JsonObject
from windlass.options.flags import FLAGS, CommandFlag

if TYPE_CHECKING:
    from windlass.loop.resume_input import AnswerScope

F = TypeVar("F", bound=Callable[..., Any])

_OF_TOOLS: Final = ("tool_preset", "mcp_servers", "sandbox")


class CommandOptions(NamedTuple):
    """The options of a command that runs an agent, as they were typed."""

    options: JsonObject
    """Options of the agent and of its run by name: those alone that were given."""
    system: str | None = None
    resume: str | None = None
    ask: tuple[str, ...] = ()
    allow: tuple[str, ...] = ()
    deny: tuple[str, ...] = ()
    scope: AnswerScope = "once"  # of both
    result: tuple[str, ...] = ()

    def to_go_on(self, session_id: str, command: str = "run") -> str:
        """Build the command line that resumes this session."""
        command_line = ["windlass", command, "--resume", session_id]
        if (store := self.options.get("store")) is not None:
            command_line += ["--store", store]
        for tool in self.options.get("tools", ()):
            command_line += ["--tools", tool]
        command_line += self.tool_flags()
        for glob in self.ask:
            command_line += ["--ask", glob]
        return shlex.join(command_line)

    def tool_flags(self) -> list[str]:
        """Return the flags, as they were typed, that give tools beside `--tools`, or hold them."""
        words: list[str] = []
        for flag in FLAGS:
            if flag.option in _OF_TOOLS and flag.option in self.options:
                given = self.options[flag.option]
                for one in given if flag.repeats else (given,):
                    words += [flag.names[0], str(one)]
        return words


for_option = click.option(
    "--for",
    "scope",
    type=click.Choice(["once", "session"]),
    default="once",
    show_default=True,
    help="How long it holds: for this call, or for its targets in this session (flow control).",
)
# What is no option of an agent: its system prompt, and what the command does.
_OWN_FLAGS = (
    click.option(
        "--system", "-s", metavar="TEXT|@FILE", help="The system prompt, or a file of it."
    ),
    click.option(
        "--ask",
        metavar="GLOB",
        multiple=True,
        help="Park the run before these tools, until `windlass approvals approve`. May be repeated.",
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
    for_option,
    click.option(
        "--result",
        metavar="CALL=VALUE",
        multiple=True,
        help="With a parked run: what this call returned.",
    ),
)
_RESUME = click.option(
    "--resume",
    metavar="ID",
    help="Go on with a session that was killed, cancelled or parked; or the file of a snapshot.",
)
store_option = click.option("--store", metavar="URL|FILE", help="Where sessions are kept.")
id_argument = click.argument("id")
json_option = click.option("--json", "as_json", is_flag=True, help="JSON for machines.")


def agent_options(*, begins: bool = True) -> Callable[[F], F]:
    """Give a command the flags of agents, gathered into one `CommandOptions`.

    Without `begins` it has no flags that are about the beginning of a session.
    """
    flags = [flag for flag in FLAGS if begins or not flag.begins]
    decorators = [*map(_build_option, flags), *([_RESUME] if begins else []), *_OWN_FLAGS]

    def decorate(command: F) -> F:
        @functools.wraps(command)
        def run_command(**given: Any) -> Any:
            options = _collect_options(given, flags)
            own = {name: given.pop(name) for name in CommandOptions._fields if name in given}
            if own["scope"] != "once" and not own["allow"] and not own["deny"]:
                raise click.UsageError("--for goes with --allow or --deny")
            return command(chosen=CommandOptions(options, **own), **given)

        wrapped: Any = debug_option(run_command)
        for decorator in reversed(decorators):
            wrapped = decorator(wrapped)
        return cast(F, wrapped)

    return decorate


def _build_option(flag: CommandFlag) -> Callable[[Any], Any]:
    kind: click.IntRange | click.FloatRange | click.Choice[str] | None = None
    if flag.type == "int":
        kind = click.IntRange(_as_whole(flag.low), _as_whole(flag.high))
        kind.name = "whole number"  # for the error: "'zero' is not a valid whole number"
    elif flag.type == "float":
        kind = click.FloatRange(flag.low, flag.high)
    elif flag.type == "choice":
        kind = click.Choice(flag.choices)
    return click.option(
        *flag.names,
        _parameter(flag),
        type=kind,
        metavar=flag.metavar,
        is_flag=flag.type == "switch",
        multiple=flag.repeats,
        help=flag.words if flag.default is None else f"{flag.words}  [default: {flag.default}]",
    )


def _parameter(flag: CommandFlag) -> str:
    return flag.names[0].lstrip("-").replace("-", "_")


def _as_whole(limit: float | None) -> int | None:
    return None if limit is None else int(limit)


def _collect_options(given: JsonObject, flags: Iterable[CommandFlag]) -> JsonObject:
    """Take the values of flags out of what click has parsed, under the names of their options."""
    options: JsonObject = {}
    for flag in flags:
        value = given.pop(_parameter(flag))
        if value is None or value is False or value == ():
            continue
        if flag.type == "switch":
            value = flag.value
        if flag.key is None:
            options[flag.option] = value
        else:
            options.setdefault(flag.option, {})[flag.key] = value
    return options
