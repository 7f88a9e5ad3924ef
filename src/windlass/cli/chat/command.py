"""The work of `windlass chat`: a conversation with an agent, in one session that outlives it."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Callable
from typing import Any

import click

from windlass import seams
from windlass.cli import text as words
from windlass.cli.chat.approval import ApprovalDesk
from windlass.cli.chat.markdown import MarkdownTerminal
from windlass.cli.chat.prompt import MessagePrompt
from windlass.cli.chat.server_prompts import ServerPrompts
from windlass.cli.console import err
from windlass.cli.options import CommandOptions
from windlass.cli.session_run import Work, leave
from windlass.cli.views import Terminal, view_for
from windlass.errors import WindlassError, nearest
from windlass.events import Replied
from windlass.sessions.api import agent_session_reset

_HELP = {
    "/help": "this list",
    "/session": "the session's id, and how to come back to it",
    "/cost": "what the session has used so far",
    "/prompts": "the prompts of MCP servers, each a command of its own",
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
        self.prompts = ServerPrompts(work.runtime, work.agent_options)
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
            "/prompts": lambda: self.runner.run(self.list_prompts()),
            "/reset": lambda: self.runner.run(self.reset()),
        }
        if name in ("/exit", "/quit"):
            return False
        if name in commands:
            commands[name]()
        else:
            try:
                message = self.runner.run(self.prompts.write(line))
            except (WindlassError, ValueError) as error:
                self.paper.line(words.clean(str(error)))
                return True
            if message is not None:
                self.turn(message)
                return True
            hint = nearest(name, _HELP) or "; /help lists what there is"
            self.paper.line(f"no command {name!r}{hint}")
        return True

    def help(self) -> None:
        for name, what in _HELP.items():
            self.paper.line((f"  {name:<10}", "bold"), what)

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

    async def list_prompts(self) -> None:
        try:
            found = await self.prompts.list()
        except WindlassError as error:
            self.paper.line(words.clean(str(error)))
            return
        for name, prompt in found.items():
            needs = " ".join([f"{one}=…" for one in prompt.arguments])
            told = words.one_line(f"{needs}  {prompt.description}", 100)
            self.paper.line((f"  {words.one_line(name, 60)} ", "bold"), told)
        if not found:
            self.paper.line("no MCP server of this chat has prompts")

    async def reset(self) -> None:
        if not self.work.fresh:
            await agent_session_reset(self.work.session_id, store=self.work.store)
        self.paper.line("what was said is forgotten; the record stays")

    def farewell(self) -> None:
        if self.work.place.url != "memory:" and not self.work.fresh:
            self.paper.line(("go on with: ", "dim"), (self.command(), "bold"))
