"""The work of `windlass chat`: a conversation with an agent, in one session that outlives it."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Callable, Sequence
from typing import Any

import click

from windlass import seams
from windlass.cli import text as words
from windlass.cli.chat.approval import ApprovalDesk
from windlass.cli.chat.markdown import MarkdownTerminal
from windlass.cli.chat.prompt import MessagePrompt
from windlass.cli.console import err
from windlass.cli.options import CommandOptions
from windlass.cli.session_run import Work, leave
from windlass.cli.views import Terminal, view_for
from windlass.errors import nearest
from windlass.events import Replied
from windlass.sessions import undo as session_undo
from windlass.sessions.api import agent_session_reset
from windlass.sessions.effects import UndoStep
from windlass.toolbox.names import BUILTIN_NAMES

_HELP = {
    "/help": "this list",
    "/session": "the session's id, and how to come back to it",
    "/cost": "what the session has used so far",
    "/tools": "the tools of the agent, and what each may do",
    "/undo": "take back the last change; /undo all takes back every one",
    "/reset": "forget what was said; the record stays",
    "/exit": "leave (so does Ctrl-D)",
}


def talk(chosen: CommandOptions) -> None:
    """Talk with an agent until the operator leaves; exit with the code of the last turn."""
    ctx = click.get_current_context()
    view = view_for(as_json=False, stream=False, quiet=False)
    if type(view) is Terminal:
        view = MarkdownTerminal()
    work = Work(chosen, view)
    with asyncio.Runner() as runner:
        try:
            runner.run(work.open())
            code = _Chat(work, runner).go()
        finally:
            runner.run(work.close())
        if work.stuck:
            leave(code)
    ctx.exit(code)


class _Chat:
    """The conversation: a line, a turn, a line, a turn."""

    def __init__(self, work: Work, runner: asyncio.Runner) -> None:
        self.work, self.runner, self.paper = work, runner, err()
        self.interactive = sys.stdin.isatty()
        self.prompt = MessagePrompt() if self.interactive else None
        self.desk = ApprovalDesk(work.store, work.session_id, self.paper)
        self.code = 0
        self.spoken = False

    def go(self) -> int:
        """Run until the user leaves; return the exit code of the last turn."""
        self.greet()
        if self.work.unfinished:
            self.paper.line(("going on with what was interrupted", "dim"))
            self.turn(None, resume=True)
        while (line := self.ask()) is not None:
            line = line.strip()
            if line.startswith("//"):
                self.turn(line[1:])
            elif line.startswith("/") and "\n" not in line:
                if not self.obey(line):
                    break
            elif line:
                self.turn(line)
        self.farewell()
        return 0 if self.interactive else self.code

    def greet(self) -> None:
        if self.interactive:
            self.paper.line(("/help lists commands, Ctrl-D leaves", "dim"))

    def ask(self) -> str | None:
        """Read the next message; None at the end."""
        while True:
            try:
                if self.prompt is not None:
                    return self.prompt.read()
                line = sys.stdin.readline()
                return line if line else None
            except EOFError:
                print()
                return None
            except KeyboardInterrupt:
                if not self.interactive:
                    raise
                print()
                self.paper.line(("nothing is running; Ctrl-D or /exit leaves", "dim"))

    def turn(self, text: str | None, *, resume: bool = False) -> None:
        started = seams.monotonic()
        result = self.runner.run(self.work.turn(text, resume=resume))
        while result.status == "suspended" and self.answer_questions():
            result = self.runner.run(self.work.go_on())
        self.spoken = True
        self.code = self.work.exit_code(result)
        self.work.report(result, seams.monotonic() - started, "chat")

    def answer_questions(self) -> bool:
        """Ask about the calls that wait; return whether all of them have an answer."""
        if self.prompt is None:
            return False
        waiting = self.runner.run(self.desk.waiting())
        for one in waiting:
            if (given := self.desk.ask(one, self.prompt)) is None:
                return False
            self.runner.run(self.desk.record(one, given))
        return bool(waiting)

    def obey(self, line: str) -> bool:
        """Run a slash command; False when it was the last."""
        name = line.split()[0].lower()
        commands: dict[str, Callable[[], None]] = {
            "/help": self.help,
            "/session": self.session,
            "/cost": lambda: self.runner.run(self.cost()),
            "/reset": lambda: self.runner.run(self.reset()),
            "/tools": self.tools,
            "/undo": lambda: self.runner.run(self.undo(line.split()[1:])),
        }
        if name in ("/exit", "/quit"):
            return False
        if name in commands:
            commands[name]()
        else:
            hint = nearest(name, _HELP) or "; /help lists what there is"
            self.paper.line(f"no command {name!r}{hint}")
        return True

    def help(self) -> None:
        for name, what in _HELP.items():
            self.paper.line((f"  {name:<10}", "bold"), what)

    def tools(self) -> None:
        """List the tools of the agent."""
        for tool in self.work.tools.values():
            level = str(tool.annotations.get("side_effect_level") or tool.effect)
            what = words.one_line(tool.spec.description, 90)
            self.paper.line((f"  {words.one_line(tool.name):<22}", "bold"), f"{level:<16} {what}")
        if not self.work.tools:
            self.paper.line("the agent has no tools; give some with --tools")

    async def undo(self, asked: Sequence[str]) -> None:
        """Take back the newest change that can be taken back, or all of them."""
        if asked not in ([], ["all"]):
            self.paper.line("/undo takes back the last change, /undo all every one")
            return
        steps = [] if self.work.fresh else await self._undo_steps(None)
        open_ones = [one for one in steps if one.undone_by is None and one.why is None]
        if not open_ones:
            self.paper.line("there is nothing to take back")
        for one in open_ones if asked else open_ones[:1]:
            for done in await self._undo_steps(one.call_id):
                call = words.shown_call(done.tool, done.arguments, 80)
                good = done.outcome == "ok"
                told = words.one_line(done.detail or done.why or done.what or "", 200)
                self.paper.line(
                    ("  undone  " if good else "  not undone  ", "green" if good else "red"),
                    f"{call}  ",
                    (told, "dim"),
                )
                if not good:
                    return  # what came before it rests on it

    async def _undo_steps(self, call_id: str | None) -> list[UndoStep]:
        """Undo one call, or list all effects of the session without one."""
        # Built-in tools by name: they are built for the workspace of the session.
        known = [name if name in BUILTIN_NAMES else tool for name, tool in self.work.tools.items()]
        session_id, store = self.work.session_id, self.work.store
        if call_id is None:
            return await session_undo.undoable(session_id, tools=known, store=store)
        return await session_undo.undo(
            session_id, call_id, tools=known, name="the operator", store=store
        )

    def session(self) -> None:
        self.paper.line(self.work.session_id)
        if self.spoken or not self.work.fresh:
            self.paper.line(("come back with: ", "dim"), self.command())

    def command(self) -> str:
        return self.work.chosen.to_go_on(self.work.session_id, "chat")

    async def cost(self) -> None:
        entries: list[Any] = []
        if not self.work.fresh:
            entries = list(await self.work.store.read(self.work.session_id))
        replies = [entry for entry in entries if isinstance(entry, Replied)]
        usage = sum(reply.usage.total_tokens for reply in replies)
        cost = sum(reply.cost_usd for reply in replies)
        facts = (words.count(len(replies), "model call"), words.tokens(usage), words.money(cost))
        self.paper.line(" · ".join(facts))

    async def reset(self) -> None:
        if not self.work.fresh:
            await agent_session_reset(self.work.session_id, store=self.work.store)
        self.paper.line("what was said is forgotten; the record stays")

    def farewell(self) -> None:
        if self.work.place.url != "memory:" and not self.work.fresh:
            self.paper.line(("go on with: ", "dim"), (self.command(), "bold"))
