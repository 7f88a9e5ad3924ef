"""The command `windlass`: its subcommands, and one line of help when something goes wrong.

Exit codes: 0 done, 1 ended otherwise, 2 not understood (usage or configuration), 130 cancelled.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Any

import click

from windlass import __version__
from windlass.cli.console import stop_writing
from windlass.cli.lazy import LazyGroup
from windlass.cli.logs import on_stderr, tell_all
from windlass.cli.text import clean
from windlass.errors import ConfigError, WindlassError, nearest
from windlass.json_types import JsonObject
from windlass.models.registry.scope import reload_config

# The module of each command, and its line in the list of commands.
_COMMANDS = {
    "run": ("windlass.cli.run:run", "Run an agent on a task and watch it work."),
    "chat": ("windlass.cli.run:chat", "Talk with an agent, turn by turn, in one session."),
    "workflow": (
        "windlass.cli.groups:workflow",
        "Run, resume and draw the workflows of a program.",
    ),
    "sessions": (
        "windlass.cli.groups:sessions",
        "List, show, resume, export and remove sessions.",
    ),
    "daemon": (
        "windlass.cli.groups:daemon",
        "Start, trigger, show, stop and resume agents that wait for events.",
    ),
    "triggers": (
        "windlass.cli.groups:triggers",
        "List, add, remove and fire triggers.",
    ),
    "approvals": (
        "windlass.cli.groups:approvals",
        "List, show, approve and deny calls that wait for approval.",
    ),
    "plan": ("windlass.cli.groups:plan", "Show and approve what a preview has planned."),
    "undo": ("windlass.cli.undo:undo", "Undo what a session did, where its tools know how."),
    "audit": (
        "windlass.cli.groups:audit",
        "Query, verify and seal the record of what agents did.",
    ),
    "worker": (
        "windlass.cli.fleet.worker:worker",
        "Drive submitted runs of agents, until told to end.",
    ),
    "fleet": (
        "windlass.cli.fleet.status:fleet",
        "Show workers, queues, and what is stuck and why.",
    ),
    "trace": ("windlass.cli.trace:trace", "Draw a session: turns, bars on a time axis, costs."),
    "context": (
        "windlass.cli.context:context",
        "Show what the model saw in a turn, and what it did not.",
    ),
    "replay": ("windlass.cli.replay:replay", "Run a journal again; stop where a request differs."),
    "cost": ("windlass.cli.cost:cost", "Sum up what model calls used and cost: by day, model, …"),
    "models": (
        "windlass.cli.models:models",
        "List known models and prices; `doctor` examines one.",
    ),
    "doctor": ("windlass.cli.machine:doctor", "Say what this machine can do for the sandbox."),
    "mcp": ("windlass.cli.groups:mcp", "Use MCP servers; serve an application to MCP clients."),
    "lint": (
        "windlass.cli.lint.command:lint",
        "Find deprecated options, wrong settings, too many tools.",
    ),
    "trust": (
        "windlass.cli.trust:trust",
        "Trust a project's windlass.toml, as it is now.",
    ),
    "config": ("windlass.cli.groups:config", "Show or check the settings that apply here."),
    "demo": (
        "windlass.cli.demo.show:demo",
        "Show runs that survive SIGKILL: offline, no key.",
    ),
}
DEBUG = "windlass.debug"


class Commands(LazyGroup):
    """The command itself: its subcommands in a useful order, failures in one line."""

    table = _COMMANDS

    def invoke(self, ctx: click.Context) -> Any:
        """Run the command; an exception becomes its exit code."""
        try:
            return super().invoke(ctx)
        except (click.ClickException, click.exceptions.Exit, click.Abort):
            raise
        except (BrokenPipeError, KeyboardInterrupt):
            raise
        except Exception as error:
            debug = ctx.meta.get(DEBUG, False)
            complain(error, debug=debug)
            ctx.exit(2 if isinstance(error, ConfigError) else 1)

    def main(  # pyright: ignore[reportIncompatibleMethodOverride]
        self, args: Sequence[str] | None = None, standalone_mode: bool = True, **extra: Any
    ) -> Any:
        """Parse and run; ends in `SystemExit` unless `standalone_mode` is off."""
        _never_fail_to_print()
        extra["prog_name"] = "windlass"
        if not standalone_mode:
            return self._parse_and_run(args, extra)
        try:
            code = self._parse_and_run(args, extra)
        except click.UsageError as error:
            _usage(error)
            code = error.exit_code
        except click.ClickException as error:
            complain(error)
            code = error.exit_code
        except (KeyboardInterrupt, click.Abort):
            click.echo("windlass: cancelled", err=True)
            code = 130
        except BrokenPipeError:
            stop_writing()
            code = 141
        sys.exit(code if isinstance(code, int) else 0)

    def _parse_and_run(self, args: Sequence[str] | None, extra: JsonObject) -> Any:
        # Around parsing too: --debug changes the level of the logs as soon as it is read.
        with on_stderr():
            return super().main(args, standalone_mode=False, **extra)


def _set_debug(ctx: click.Context, _param: click.Parameter, value: bool) -> None:
    if value:
        ctx.meta[DEBUG] = True  # seen by the groups above it too
        ctx.call_on_close(tell_all())


debug_option = click.option(
    "--debug",
    is_flag=True,
    expose_value=False,
    is_eager=True,
    callback=_set_debug,
    help="Show tracebacks and logs.",
)


@click.group(cls=Commands, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, message="windlass %(version)s")
@debug_option
@click.pass_context
def cli(ctx: click.Context) -> None:
    """Run LLM agents turn by turn, with every turn bounded, judged and recorded.

    \b
      windlass demo                        see it survive a crash, offline
      windlass run "…" --provider mock     try it without a key
      windlass run "…" --model anthropic:claude-sonnet-4-5
    """
    ctx.with_resource(reload_config())


def main() -> None:
    """Run the command line."""
    cli()


# --------------------------------------------------------------------------- when things go wrong


def complain(error: BaseException, *, debug: bool = False) -> None:
    """Print `windlass: error: …` without secrets; with `debug` the traceback first."""
    # Loaded when something goes wrong: `--help` must be quick.
    from windlass.cli.redaction import secrets_here

    redactor = secrets_here()
    if debug:
        click.echo(redactor.traceback(error).rstrip(), err=True)
    if isinstance(error, click.ClickException):
        message = error.format_message()
    elif isinstance(error, (WindlassError, OSError)):
        message = str(error)
    else:
        message = f"{type(error).__name__}: {error} (--debug shows where)"
    lines = clean(redactor.text(message)).strip().splitlines() or [type(error).__name__]
    click.echo("windlass: error: " + "\n  ".join(lines), err=True)


def _usage(error: click.UsageError) -> None:
    """Print a usage error: what is wrong, and where the help is."""
    message = error.format_message().rstrip(".")
    ctx = error.ctx
    if isinstance(error, click.NoSuchOption) and ctx is not None:
        flags = [flag for one in ctx.command.get_params(ctx) for flag in one.opts if "--" in flag]
        message = f"no option {error.option_name!r}{nearest(error.option_name, flags, 'flags')}"
    where = f" (see: {ctx.command_path} --help)" if ctx is not None else ""
    if isinstance(error, click.exceptions.NoArgsIsHelpError):
        click.echo(message, err=True)
        return
    complain(click.UsageError(f"{message}{where}"))


def _never_fail_to_print() -> None:
    """Escape characters that the terminal's encoding lacks, instead of crashing."""
    for stream in (sys.stdout, sys.stderr):
        reconfigure = getattr(stream, "reconfigure", None)
        if reconfigure is not None:
            reconfigure(errors="backslashreplace")
