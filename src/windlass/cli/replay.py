"""`windlass replay`: a journal run again, up to the first request that differs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import click

from windlass.cli import text as words
from windlass.cli.console import out
from windlass.cli.imports import build_tools, read_system
from windlass.cli.main import debug_option
from windlass.cli.options import json_option, store_option
from windlass.cli.store_location import on_session
from windlass.cli.text import clean, one_line
from windlass.engine.environment import Environment
from windlass.json_types import JsonObject
from windlass.replay.replay import entry_number, recorded_runs, replay_run

if TYPE_CHECKING:
    from windlass.cli.console import ConsoleOutput
    from windlass.events import JournalEntry
    from windlass.replay.diff import Difference
    from windlass.replay.replay import RecordedRun, ReplayReport
    from windlass.store.base import Store


@click.command()
@click.argument("session")
@store_option
@click.option(
    "--from",
    "first",
    type=int,
    metavar="ENTRY",
    help="Begin at the turn that holds this journal entry.",
)
@click.option(
    "--tools",
    "-t",
    metavar="MODULE:FUNCTION",
    multiple=True,
    help="The tools as they are now, in place of those on record.",
)
@click.option("--system", "-s", metavar="TEXT|@FILE", help="A system prompt to try in its place.")
@click.option(
    "--agent",
    metavar="MODULE:NAME",
    help="The Agent itself, or a dict of options for agent_loop: its policies decide anew.",
)
@click.option(
    "--model",
    "-m",
    metavar="PROVIDER:NAME",
    help="Send the recorded requests to this model instead, and compare its replies.",
)
@click.option(
    "--max-usd",
    type=click.FloatRange(min=0),
    default=0.25,
    show_default=True,
    metavar="USD",
    help="With --model: what that may cost.",
)
@json_option
@debug_option
def replay(
    session: str,
    store: str | None,
    first: int | None,
    tools: tuple[str, ...],
    system: str | None,
    agent: str | None,
    model: str | None,
    max_usd: float,
    as_json: bool,
) -> None:
    """Run SESSION again from its journal and stop at the first request that differs.

    Replies and tool results are those on record: no model is asked, no tool runs, nothing costs
    anything. Without the program that made it, what its policies said and decided is taken from
    the record too; --agent lets them decide anew.

    \b
    Exit codes:
      0    every request is as it was
      1    one is not: it is shown as a diff
      2    not understood: usage or configuration

    With --model the recorded requests go to another model and its replies are shown beside those
    on record. That is a comparison and no test: the exit code is 0 unless it could not be made.
    """
    _check(agent, model, tools, system)

    async def work(home: Store, session_id: str) -> int:
        entries = await home.read(session_id)
        if model is not None:
            # Loads all that calls a model, which a replay does not need.
            from windlass.cli.compare import compare

            return await compare(session_id, entries, model, first, max_usd, as_json=as_json)
        return await _replay(session_id, entries, first, tools, system, agent, as_json=as_json)

    click.get_current_context().exit(on_session(store, session, work))


def _check(
    agent: str | None, model: str | None, tools: tuple[str, ...], system: str | None
) -> None:
    if agent is not None and (tools or system is not None):
        raise click.UsageError("--agent brings its own tools and system prompt: leave those out")
    if model is not None and (agent is not None or tools or system is not None):
        raise click.UsageError(
            "--model sends what is on record: leave out --agent, --tools, --system"
        )


async def _replay(
    session_id: str,
    entries: Sequence[JournalEntry],
    first: int | None,
    tools: tuple[str, ...],
    system: str | None,
    agent: str | None,
    *,
    as_json: bool,
) -> int:
    start = 0 if first is None else entry_number(entries, first)
    runs = [run for run in recorded_runs(entries) if run.stop > start]
    plan = None
    if agent is not None:
        # Loads all that builds an agent.
        from windlass.cli.agent import load_plan

        plan = load_plan(agent)
    own = build_tools(tools) if tools else None
    done: list[ReplayReport] = []
    async with Environment(store="memory:") as runtime:
        for run in runs:
            done.append(
                await replay_run(
                    session_id,
                    entries,
                    run,
                    runtime,
                    first=start,
                    plan=plan,
                    tools=own,
                    system=read_system(system),
                )
            )
            if done[-1].difference is not None:
                break
    if as_json:
        out().json(_document(session_id, done))
    else:
        _report(out(), session_id, done)
    return 1 if any(one.difference for one in done) else 0


# --------------------------------------------------------------------------- telling


def _report(paper: ConsoleOutput, session_id: str, done: Sequence[ReplayReport]) -> None:
    if not done:
        paper.line("nothing to replay: ", words.clean(session_id), " has never run")
        return
    for one in done:
        paper.line((_head(one.run), "bold"))
        told = [words.count(one.requests, "request") + " as on record"]
        told.append(words.count(one.results, "tool result") + " played back")
        if one.left_out:
            told.append(f"{words.count(one.left_out, 'call')} by policies not made again")
        if one.cut:
            told.append("the record ends before the run does")
        paper.line(f"  {', '.join(told)}")
        if one.difference is not None:
            _show(paper, one.difference)
    last = done[-1]
    requests = sum(one.requests for one in done)
    if last.difference is None:
        many = words.count(len(done), "run")
        paper.line(("identical", "green"), f": {words.count(requests, 'request')} in {many}")
    else:
        again = f"windlass trace {words.clean(session_id)} --run {last.run.number}"
        paper.line((f"{again} draws the run", "dim"))


def _head(run: RecordedRun) -> str:
    begun = run.begun
    who = f"{begun.name}, " if begun.name else ""
    return clean(f"run {run.number}: {who}{begun.provider}:{begun.model}, by {begun.door}")


def _show(paper: ConsoleOutput, found: Difference) -> None:
    place = f"request {found.request}"
    if found.turn:
        place += f", turn {found.turn}"
    paper.line("")
    paper.line((f"{place}, journal entry {found.entry}", "bold"), " differs:")
    paper.line(("  " + one_line(found.where, 300), "yellow"))
    for line in found.diff:
        style = {"+": "green", "-": "red", "@": "cyan"}.get(line[:1], "")
        paper.line(("  " + clean(line)[:2000], style))
    paper.line("")


def _document(session_id: str, done: Sequence[ReplayReport]) -> JsonObject:
    return {
        "session_id": session_id,
        "identical": all(one.difference is None for one in done),
        "requests": sum(one.requests for one in done),
        "runs": [
            {
                "run": one.run.number,
                "run_id": one.run.begun.run_id,
                "requests": one.requests,
                "tool_results": one.results,
                "left_out": one.left_out,
                "status": one.status,
                "record_ends": one.cut,
                "difference": None
                if one.difference is None
                else {
                    "entry": one.difference.entry,
                    "turn": one.difference.turn,
                    "request": one.difference.request,
                    "where": one.difference.where,
                    "recorded": one.difference.before,
                    "now": one.difference.after,
                },
            }
            for one in done
        ],
    }
