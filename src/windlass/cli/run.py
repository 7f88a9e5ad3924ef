"""`windlass run`: one task, watched while it is worked on."""

from __future__ import annotations

import sys

import click

from windlass.cli.options import RunOptions, agent_options, json_option


@click.command()
@click.argument("task", required=False)
@agent_options()
@json_option
@click.option("--stream", is_flag=True, help="With --json: every event as a line of JSON.")
@click.option("--quiet", "-q", is_flag=True, help="The answer alone.")
def run(task: str | None, chosen: RunOptions, as_json: bool, stream: bool, quiet: bool) -> None:
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
    work_on(task or None, chosen, as_json=as_json, stream=stream, quiet=quiet)


def work_on(
    task: str | None,
    chosen: RunOptions,
    *,
    as_json: bool,
    stream: bool = False,
    quiet: bool = False,
) -> None:
    """Run the task and exit with the code that says how it ended."""
    import asyncio

    from windlass import seams
    from windlass.cli.console import out
    from windlass.cli.session_run import Work, leave
    from windlass.cli.views import JsonLines, view_for

    ctx = click.get_current_context()
    view = view_for(as_json=as_json, stream=stream, quiet=quiet)
    work = Work(chosen, view)
    started = seams.monotonic()
    with asyncio.Runner() as runner:
        try:
            runner.run(work.open())
            result = runner.run(work.turn(task, resume=chosen.resume is not None))
            if isinstance(view, JsonLines):
                view.write({"kind": "result", **work.document(result)})
            elif as_json:
                out().json(work.document(result))
            else:
                work.report(result, seams.monotonic() - started)
            code = work.exit_code(result)
        finally:
            runner.run(work.close())
        if work.stuck:
            click.echo("windlass: a tool did not stop in time and was left behind", err=True)
            leave(code)
    ctx.exit(code)
