"""An agent that runs for a command: its store, its session, and its cancellation.

`Work` lives on one event loop; `run` gives it one task, `chat` many.
"""

from __future__ import annotations

import asyncio
import os
import shlex
import signal
import sys
from collections.abc import Callable, Generator, Mapping
from contextlib import AbstractContextManager, contextmanager
from typing import TYPE_CHECKING, Any

import click
import msgspec

from windlass import seams
from windlass.cli import text as words
from windlass.cli.agent import Before, answers_of, before, make_agent
from windlass.cli.console import out, stop_writing
from windlass.cli.options import CommandOptions
from windlass.cli.redaction import secrets_here
from windlass.cli.store_location import find_place, match
from windlass.cli.text import clean, colour_diff, one_line
from windlass.cli.views import JsonLines, Redacting, View, view_for
from windlass.config.loader import load
from windlass.engine.environment import Environment
from windlass.engine.open_questions import find_waiting_root
from windlass.engine.run_options import RunOptions
from windlass.errors import ConfigError, NoSuchSession, OutputMissing
from windlass.events import Event
from windlass.json_types import JsonObject, as_list
from windlass.loop.abort import Abort
from windlass.options.index import OF_A_RUN
from windlass.sessions.api import agent_session_open
from windlass.sessions.snapshot import load_snapshot
from windlass.workflows.host import find_workflow

if TYPE_CHECKING:
    from windlass.agents.agent import Agent
    from windlass.engine.results import AgentResult
    from windlass.redaction.redactor import Redactor
    from windlass.store.base import Store
    from windlass.tools.tool import Tool

GOOD = ("done", "idle")
CANCELLED = ("cancelled", "cancelling")
GO_ON = "Continue."
SIGPIPE = 13  # Windows has no name for it


class Work:
    """One session, and the agent that works on it."""

    def __init__(self, chosen: CommandOptions, view: View) -> None:
        self.chosen: CommandOptions = chosen
        self.view = view
        store: str | None = chosen.options.get("store")
        self.place = find_place(store)
        self.store = self.place.open()
        self.redactor = secrets_here()
        self.runtime = Environment(self.store, secrets=load().secrets())
        self.session_id = ""
        self.past: Before | None = None  # how the session was run before
        self.fresh = False  # it is not there yet
        self.signal: int | None = None  # what stopped the last run
        self._agent: Agent[Any, str] | None = None
        self._answers: tuple[Mapping[str, Any], Mapping[str, Any]] = ({}, {})

    async def open(self) -> None:
        """Find the session and build the agent."""
        await self.runtime.__aenter__()
        chosen, run = self.chosen, RunOptions.read(self.chosen.options)
        hint: list[str] = []
        if chosen.resume is not None:
            if run.session_id is not None:
                raise ConfigError("--session and --resume name the same thing: give one of them")
            if chosen.resume.endswith(".json"):
                wanted = await load_snapshot(chosen.resume, store=self.store)
                chosen = self.chosen = chosen._replace(resume=wanted)
            elif not self.place.exists:
                raise NoSuchSession(f"no session {chosen.resume!r}: nothing is kept in {self.kept}")
            self.session_id = await match(self.store, str(chosen.resume))
            await _refuse_workflow(self.store, self.session_id, chosen)
            self.past = before(await self.store.read(self.session_id))
            info = await self.store.info(self.session_id)
            for path in as_list(info.metadata.get("tools")):
                hint += ["--tools", str(path)]
            hint += [str(word) for word in as_list(info.metadata.get("tool_flags"))]
            if self.past is None:
                raise NoSuchSession(f"session {self.session_id!r} has never run; use --session")
        elif run.session_id is not None:
            self.session_id = _check_session_id(run.session_id)
            try:
                entries = await self.store.read(self.session_id) if self.place.exists else []
                self.past = before(entries)
                self.fresh = not entries
            except NoSuchSession:
                self.fresh = True
        else:
            self.session_id, self.fresh = seams.new_id("session"), True
        self._answers = answers_of(chosen)
        if "plan" in chosen.options and self.place.exists:
            plan = await match(self.store, chosen.options["plan"])
            self.chosen = chosen = chosen._replace(options={**chosen.options, "plan": plan})
        self._agent = make_agent(chosen, self.past, hint)

    async def close(self) -> None:
        """Close everything."""
        await self.runtime.__aexit__()
        await self.store.aclose()

    @property
    def agent_options(self) -> Mapping[str, Any]:
        """The checked options of the agent."""
        return {} if self._agent is None else self._agent.options

    async def list_tools(self) -> list[Tool]:
        """List the tools of the agent, with those of its MCP servers."""
        if self._agent is None:
            return []
        plan = await self._agent.plan_for(None, None, None if self.fresh else self.session_id)
        if plan.connect is not None:
            plan = await plan.connect(self.runtime)
        return list(plan.tools.values())

    @property
    def kept(self) -> str:
        """Where sessions are kept, as a person would write it."""
        return os.path.relpath(self.place.file) if self.place.file else self.place.shown

    @property
    def stuck(self) -> bool:
        """Whether a tool's thread has outlived its run; waiting for it could take for ever."""
        return bool(self.runtime.lingering)

    @property
    def unfinished(self) -> bool:
        """Whether there is a run to resume, killed or parked."""
        return self.past is not None and self.past.unfinished

    async def go_on(self) -> AgentResult[str]:
        """Resume the run that is parked, with the answers that are on record."""
        self._answers = ({}, {})  # those of the command line were for what it found
        return await self.turn(None, parked=True)

    async def turn(
        self, task: str | None, *, resume: bool = False, parked: bool = False
    ) -> AgentResult[str]:
        """Run a task on the session, or resume what stopped there."""
        agent = self._agent
        assert agent is not None
        if self.fresh:
            self.place.prepare()
            tools, flags = self.chosen.options.get("tools"), self.chosen.tool_flags()
            metadata: JsonObject = {} if tools is None else {"tools": list(tools)}
            if flags:
                metadata["tool_flags"] = flags
            await agent_session_open(self.session_id, metadata=metadata or None, store=self.store)
            self.fresh = False
        redacting = Redacting(self.view, self._current_redactor)
        self.signal = None
        brake = Abort()

        def sink(event: Event) -> None:
            try:
                redacting(event)
            except BrokenPipeError:  # as in any pipe: the reader has gone, so the run stops
                stop_writing()
                self._on_signal(SIGPIPE)
                brake.abort("nobody reads the output any more")

        self.view.begin()
        try:
            with _abort_on_signals(brake, self._on_signal):
                run = RunOptions.read(self.chosen.options)
                unfinished = resume and self.unfinished and run.on_pending != "discard"
                if parked or unfinished:
                    return await self._resume(agent, task, brake, sink)
                options = {k: v for k, v in self.chosen.options.items() if k in OF_A_RUN}
                options |= {"session_id": self.session_id, "store": self.store}
                return await agent.run(task or GO_ON, **options, abort=brake, on_event=sink)
        finally:
            self.past = self.past._replace(unfinished=False) if self.past else None
            redacting.flush()
            self.view.end()

    async def _resume(
        self, agent: Agent[Any, str], task: str | None, brake: Abort, sink: Any
    ) -> AgentResult[str]:
        if task is not None:  # taken once the stopped run has ended
            await self.store.post(self.session_id, "follow_up", self.runtime.redact(task))
        decisions, results = self._answers
        return await agent.resume(
            self.session_id,
            store=self.store,
            abort=brake,
            on_event=sink,
            decisions=decisions,
            results=results,
            take_over=RunOptions.read(self.chosen.options).take_over,
        )

    def _on_signal(self, number: int) -> None:
        self.signal = number

    def _current_redactor(self) -> Redactor | None:
        return self.runtime.redactor or self.redactor

    # ----------------------------------------------------------------- output at the end

    def report(self, result: AgentResult[str], seconds: float, command: str = "run") -> None:
        """Print the last lines of a run: how it ended, what it cost, how to resume."""
        note, status = self.view.note, result.status
        facts = [
            words.count(result.turns, "turn"),
            words.tokens(result.usage.total_tokens),
            words.money(result.cost_usd),
            words.duration(seconds),
        ]
        if command == "run":
            facts.append(self.session_id)
        if (plan := result.plan) is not None:
            effects = words.count(len(plan.effects), "effect")
            note(
                f"{effects} planned: ",
                (f"windlass plan show {self.session_id}", "bold"),
                always=True,
            )
        if status in GOOD:
            shown = [(status, "green"), (" · ", "dim")] if command == "run" else []
            note(*shown, (" · ".join(facts), "dim"))
            return
        tone = "yellow" if status in CANCELLED else "red"
        why = "" if self.signal is not None and status in CANCELLED else _why(result)
        note((status, tone), why, (f" · {' · '.join(facts)}", "dim"), always=True)
        for call in result.pending:
            asked = words.shown_call(call.name, call.arguments, 80)
            note(f"  waits: {call.id}  {asked}  ({one_line(call.reason, 60)})", always=True)
            for line in call.details:
                note(f"    {one_line(line, 200)}", always=True)
            for line, tone in colour_diff(call.diff, 40):
                note((f"    {line}", tone), always=True)
        if command == "run" and self.place.url != "memory:":
            note("go on with: ", (self.chosen.to_go_on(self.session_id), "bold"), always=True)

    def document(self, result: AgentResult[str]) -> JsonObject:
        """Describe the result for machines."""
        ended = result.status in GOOD
        return {
            "status": result.status,
            "stop_reason": result.stop_reason,
            "output": _output(result),
            "final_text": result.final_text,
            "error": result.error,
            "session_id": result.session_id,
            "run_id": result.run_id,
            "turns": result.turns,
            "usage": msgspec.to_builtins(result.usage),
            "cost_usd": result.cost_usd,
            "tool_calls": msgspec.to_builtins(result.tool_calls),
            "pending": msgspec.to_builtins(result.pending),
            "plan": None if result.plan is None else msgspec.to_builtins(result.plan),
            "resume": None if ended else self.chosen.to_go_on(result.session_id),
        }

    def exit_code(self, result: AgentResult[str]) -> int:
        """Return 0 for done, 128 + n for a signal (130 for Ctrl-C), 1 for any other end."""
        if self.signal is not None and result.status in CANCELLED:
            return 128 + self.signal
        return 0 if result.status in GOOD else 1


def _output(result: AgentResult[str]) -> str | None:
    """Return the answer, None where there is none; `error` and `status` say why."""
    try:
        return result.output
    except OutputMissing:
        return None


def _why(result: AgentResult[str]) -> str:
    if result.error is not None:
        return f": {one_line(str(result.error.get('message')), 300)}"
    return f" ({clean(result.stop_reason)})" if result.stop_reason else ""


async def _refuse_workflow(store: Store, session_id: str, chosen: CommandOptions) -> None:
    """Refuse a run of a workflow, and a node that one waits for: its program goes on with it."""
    root = await find_waiting_root(store, session_id)
    workflow = find_workflow(await store.read(root))
    if workflow is None:
        return
    place = chosen.options.get("store")
    go_on = shlex.join(["windlass", "workflow", "resume", "MODULE:OBJECT", root])
    go_on += "" if place is None else f" --store {shlex.quote(place)}"
    what = "a run" if root == session_id else "a node"
    raise ConfigError(f"session {session_id!r} is {what} of the workflow {workflow!r}: {go_on}")


def _check_session_id(session_id: str) -> str:
    if not session_id or session_id != session_id.strip() or clean(session_id) != session_id:
        raise ConfigError(f"--session {session_id!r}: an id is a plain name")
    return session_id


@contextmanager
def hear_signals(hear: Callable[[int], object]) -> Generator[None]:
    """Call the function with the number of a SIGINT or SIGTERM, which then ends nothing itself."""
    loop = asyncio.get_running_loop()
    taken: list[int] = []
    for number in (signal.SIGINT, signal.SIGTERM):
        try:
            loop.add_signal_handler(number, hear, int(number))
            taken.append(number)
        except (NotImplementedError, RuntimeError, ValueError):
            pass  # no signals here (Windows, a thread): Ctrl-C cancels the task instead
    try:
        yield
    finally:
        for number in taken:
            loop.remove_signal_handler(number)


def _abort_on_signals(brake: Abort, stopped: Callable[[int], None]) -> AbstractContextManager[None]:
    """Abort the run on Ctrl-C or SIGTERM, on the record; exit on the second one."""

    def pull(number: int) -> None:
        if brake.aborted:
            leave(128 + number)
        stopped(number)
        brake.abort("cancelled by the user" if number == signal.SIGINT else "terminated")

    return hear_signals(pull)


def leave(code: int) -> None:
    """End the program now, whatever its threads are doing; what was recorded stays."""
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except OSError:
            pass
    os._exit(code)


def work_on(
    task: str | None,
    chosen: CommandOptions,
    *,
    as_json: bool,
    stream: bool = False,
    quiet: bool = False,
) -> None:
    """Run the task and exit with the code of its end."""
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
