"""Every command of the command line with arguments as a user would type them in a project."""

from __future__ import annotations

import shlex
from collections.abc import Iterator
from typing import Final, NamedTuple

import click

from windlass.cli.main import cli

MODEL: Final = "anthropic:claude-sonnet-4-5"
# Files that the user names, in the project: they may be made there, and not through what is there.
OUTPUTS: Final = ("export.jsonl", "trace.html", "cassette.jsonl", "seals.jsonl")


class Line(NamedTuple):
    """One command as it is typed: `Line("sessions list --json")`."""

    text: str
    stdin: str = ""
    few: bool = False  # one of those that are run every time

    @property
    def words(self) -> list[str]:
        return shlex.split(self.text)


# In this order: the first ones make what the others look at, the last ones take it away.
LINES: Final = (
    Line(f"run hello --session s --model {MODEL}", few=True),
    Line("run again --session s --json"),
    Line("run hello --model claude-sonnet-4-5 --quiet", few=True),
    Line("run hello --model frontier --json --stream"),
    Line("run hello --provider mock --system @AGENTS.md --session m", few=True),
    Line(f"run hello --preview --session p --model {MODEL}"),
    Line("run --resume s --debug"),
    Line("chat --session c", "hello\n/cost\n/session\n/exit\n", few=True),
    Line("fleet"),
    Line("fleet --json"),
    Line("worker nothing:agent"),
    Line("sessions list", few=True),
    Line("sessions list --json --debug"),
    Line("sessions list --store .windlass/sessions.db", few=True),
    Line("sessions show s"),
    Line("sessions export s"),
    Line("sessions export s --format jsonl -o export.jsonl", few=True),
    Line("sessions verify s"),
    Line("sessions resume s more --provider mock"),
    Line("approvals list", few=True),
    Line("approvals show x"),
    Line("approvals approve --all"),
    Line("approvals deny x --reason no"),
    Line("plan show p"),
    Line("plan approve p --yes"),
    Line("undo s --dry-run"),
    Line("undo s --yes"),
    Line("audit query"),
    Line("audit seal", few=True),
    Line("audit seal --anchor seals.jsonl", few=True),
    Line("audit verify"),
    Line("trace s"),
    Line("trace s --follow"),
    Line("trace s --html trace.html", few=True),
    Line("context s"),
    Line("replay s", few=True),
    Line("cost", few=True),
    Line("models"),
    Line("models list", few=True),
    Line("models doctor anthropic/claude-sonnet-4-5 --only reach --only plain"),
    Line("lint", few=True),
    Line("lint --session s"),
    Line("lint --transcript notes.jsonl", few=True),
    Line("trust", "n\n", few=True),
    Line("trust --list"),
    Line("trust --remove"),
    Line("config show", few=True),
    Line("config show --json --debug"),
    Line("config check", few=True),
    Line("demo"),
    Line("doctor --json", few=True),
    Line("mcp list --mcp mcp.json"),
    Line("mcp call add --mcp mcp.json"),
    Line("mcp doctor --mcp mcp.json"),
    Line("mcp serve shop:nothing"),
    Line("sessions wake"),
    Line("daemon start d hello --provider mock --watchdog 0"),
    Line("daemon status d"),
    Line("daemon trigger d"),
    Line("daemon stop d"),
    Line("daemon resume d --provider mock --watchdog 0"),
    Line("triggers list"),
    Line('triggers add {"kind":"timer","every":"5m"} {"wake":"s"}'),
    Line("triggers fire"),
    Line("triggers remove nothing"),
    Line("workflow draw nothing:graph"),
    Line("workflow run nothing:graph go"),
    Line("workflow resume nothing:graph s"),
    Line("sessions prune --older-than 30d"),
    Line("sessions prune"),
    Line("sessions delete s --yes"),
)
# Typed in some projects alone: the user asks for a change of the project's own file, or for its code.
SPECIAL: Final = {
    "settings_linked_elsewhere": (
        Line(
            "models doctor anthropic/claude-sonnet-4-5 --only plain --only tools --write", few=True
        ),
    ),
    "settings_linked_to_nothing": (
        Line(
            "models doctor anthropic/claude-sonnet-4-5 --only plain --only tools --write", few=True
        ),
    ),
    "planted_tools_module": (
        Line("run hello --provider mock --tools shop:price", few=True),
        Line("demo", few=True),
    ),
    "planted_modules": (Line("demo", few=True),),
    "planted_packages": (Line("demo", few=True),),
}


def lines_for(project: str, *, every: bool) -> Iterator[Line]:
    """Yield the lines to run; with `every` each also with --json and --debug."""
    for line in (*LINES, *SPECIAL.get(project, ())):
        if every or line.few:
            yield line
        if every:
            options = {word for param in _command(line).params for word in param.opts}
            for extra in ("--json", "--debug"):
                if extra in options and extra not in line.text and line.words[0] != "demo":
                    yield line._replace(text=f"{line.text} {extra}")


def commands() -> Iterator[str]:
    """Yield every command of the program's own table, as `sessions list`."""
    yield from _commands(cli, click.Context(cli), "")


def _commands(group: click.Group, ctx: click.Context, prefix: str) -> Iterator[str]:
    for name in group.list_commands(ctx):
        command = group.get_command(ctx, name)
        if isinstance(command, click.Group):
            if command.invoke_without_command:
                yield f"{prefix}{name}"
            yield from _commands(command, ctx, f"{prefix}{name} ")
        else:
            yield f"{prefix}{name}"


def name_of(line: Line) -> str:
    """Return the command of a line: `sessions list`."""
    found: list[str] = []
    command: click.Command | None = cli
    for word in line.words:
        if not isinstance(command, click.Group):
            break
        command = command.get_command(click.Context(command), word)
        if command is None:
            break
        found.append(word)
    return " ".join(found)


def _command(line: Line) -> click.Command:
    command: click.Command = cli
    for word in name_of(line).split():
        assert isinstance(command, click.Group)
        inner = command.get_command(click.Context(command), word)
        assert inner is not None
        command = inner
    return command
