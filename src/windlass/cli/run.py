"""`windlass run`, `chat` and `sessions resume`: commands that import their work when called."""

from __future__ import annotations

import sys

import click

from windlass.cli.options import CommandOptions, agent_options, id_argument, json_option


@click.command()
@click.argument("task", required=False)
@agent_options()
@json_option
@click.option("--stream", is_flag=True, help="With --json: every event as a line of JSON.")
@click.option("--quiet", "-q", is_flag=True, help="The answer alone.")
def run(task: str | None, chosen: CommandOptions, as_json: bool, stream: bool, quiet: bool) -> None:
    """Run an agent on TASK and watch it work. A task of "-" is read from standard input.

    The answer goes to standard output, progress to standard error. Ctrl-C cancels the run and says
    how to go on.

    \b
    Exit codes:
      0    done
      1    ended otherwise: a limit, an error, parked
      2    not understood: usage or configuration
      130  cancelled with Ctrl-C
    """
    if task is None and chosen.resume is None:
        raise click.UsageError('a TASK is missing: windlass run "…"')
    if stream and not as_json:
        raise click.UsageError("--stream goes with --json; without it everything streams anyway")
    if task == "-":
        task = sys.stdin.read().strip()
    if task is not None and not task.strip() and chosen.resume is None:
        raise click.UsageError("the TASK is empty")
    run_task(task or None, chosen, as_json=as_json, stream=stream, quiet=quiet)


@click.command()
@agent_options()
def chat(chosen: CommandOptions) -> None:
    """Talk with an agent, turn by turn.

    Ctrl-C stops the turn that is running, not the chat. Ctrl-D leaves; the session stays, and
    `windlass chat --resume ID` goes on with it. Lines that begin with a slash are commands: /help
    lists them, // sends a line that really begins with one. Lines that are pasted together are one
    message. A call that needs approval is asked about in place: yes, no or always.
    """
    from windlass.cli.chat.command import talk

    talk(chosen)


@click.command()
@id_argument
@click.argument("task", required=False)
@agent_options(begins=False)
@json_option
def resume(id: str, task: str | None, chosen: CommandOptions, as_json: bool) -> None:
    """Go on with a session that was killed, cancelled or parked; the same as run --resume ID."""
    run_task(task, chosen._replace(resume=id), as_json=as_json)


def run_task(
    task: str | None,
    chosen: CommandOptions,
    *,
    as_json: bool,
    stream: bool = False,
    quiet: bool = False,
) -> None:
    """Run a task, or go on with a session, and end the process with its exit code."""
    # Loads all that runs an agent: not for a help text.
    from windlass.cli.session_run import work_on

    work_on(task, chosen, as_json=as_json, stream=stream, quiet=quiet)
