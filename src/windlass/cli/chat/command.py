"""The work of `windlass chat`: a conversation with an agent, in one session that outlives it."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

import click

from windlass import seams
from windlass.chat.input import ChatCommand, agent_chat_route_input
from windlass.chat.loop import ChatLoop
from windlass.cli import text as words
from windlass.cli.approvals import user_name
from windlass.cli.chat.approval import ApprovalDesk
from windlass.cli.chat.markdown import MarkdownTerminal
from windlass.cli.chat.prompt import MessagePrompt, catch_interrupts
from windlass.cli.chat.server_prompts import ServerPrompts
from windlass.cli.console import err
from windlass.cli.options import CommandOptions
from windlass.cli.session_run import Work, leave
from windlass.cli.views import Terminal, view_for
from windlass.errors import WindlassError, nearest
from windlass.events import Replied
from windlass.json_types import JsonObject
from windlass.sessions.api import agent_session_reset
from windlass.sessions.undo import undo, undoable

if TYPE_CHECKING:
    from windlass.engine.results import AgentResult

_HELP = {
    "/help": "this list",
    "/session": "the session's id, and how to come back to it",
    "/cost": "what the session has used so far",
    "/tools": "the tools that the agent has",
    "/undo": "undo the newest effect of the session that can be undone",
    "/prompts": "the prompts of MCP servers, each a command of its own",
    "/reset": "forget what was said; the record stays",
    "/exit": "leave (so does Ctrl-D)",
}
HANDLED: Final[JsonObject] = {"kind": "handled"}
LEAVE: Final[JsonObject] = {"kind": "exit"}


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
            code = runner.run(_Chat(work).go())
        finally:
            runner.run(work.close())
        if work.stuck:
            leave(code)
    ctx.exit(code)


class _Chat:
    """The conversation at a terminal or through a pipe, on the loop of `agent_chat_loop`."""

    def __init__(self, work: Work) -> None:
        self.work, self.paper = work, err()
        self.interactive = sys.stdin.isatty()
        self.prompt = MessagePrompt() if self.interactive else None
        self.desk = ApprovalDesk(work.store, work.session_id, self.paper)
        self.prompts = ServerPrompts(work.runtime, work.agent_options)
        self.code = 0
        self.spoken = False
        self.started = 0.0  # when the last turn began

    async def go(self) -> int:
        """Run until the user leaves; return the exit code of the last turn."""
        self.greet()
        await ChatLoop(self, self.ask, self.paper.line).run()
        self.farewell()
        return 0 if self.interactive else self.code

    def greet(self) -> None:
        if self.interactive:
            self.paper.line(("/help lists commands, Ctrl-D leaves", "dim"))

    # ----------------------------------------------------------------- turns

    async def go_on(self) -> AgentResult[str] | None:
        """Finish the turn that was interrupted, if there is one."""
        if not self.work.unfinished:
            return None
        self.paper.line(("going on with what was interrupted", "dim"))
        self.started = seams.monotonic()
        return await self.work.turn(None, resume=True)

    async def send(self, message: str, /) -> AgentResult[str]:
        """Run the turn of a message."""
        self.started = seams.monotonic()
        return await self.work.turn(message)

    async def take(self, result: AgentResult[str], /) -> None:
        """Ask what the turn asks, and report its end; the chat goes on in any case."""
        while result.status == "suspended" and await self.answer_questions():
            result = await self.work.go_on()
        self.spoken = True
        self.code = self.work.exit_code(result)
        self.work.report(result, seams.monotonic() - self.started, "chat")

    async def answer_questions(self) -> bool:
        """Ask about the calls that wait; return whether all of them have an answer."""
        if self.prompt is None:
            return False
        waiting = await self.desk.waiting()
        for one in waiting:
            with catch_interrupts():
                given = self.desk.ask(one, self.prompt)
            if given is None:
                return False
            await self.desk.record(one, given)
        return bool(waiting)

    # ----------------------------------------------------------------- input

    def ask(self) -> object:
        """Read the next message or command: an answer of `on_user_input`."""
        line = self.read()
        if line is None:
            return {"kind": "exit", "reason": "eof"}
        line = line.strip()
        if not line.startswith("/") or line.startswith("//") or "\n" not in line:
            return self.route(line)
        return line  # a paste that begins with a slash

    def read(self) -> str | None:
        """Read a line, or a paste of several; None at the end."""
        while True:
            try:
                with catch_interrupts():
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

    def route(self, line: str) -> object:
        """Route a command to its method, another to a prompt of a server, the rest to the model."""
        routes: dict[str, Callable[[ChatCommand], Any]] = {
            "/help": lambda _: self.help(),
            "/session": lambda _: self.session(),
            "/cost": lambda _: self.cost(),
            "/tools": lambda _: self.list_tools(),
            "/undo": lambda _: self.undo(),
            "/prompts": lambda _: self.list_prompts(),
            "/reset": lambda _: self.reset(),
            "/exit": lambda _: LEAVE,
            "/quit": lambda _: LEAVE,
        }
        name, rest = (line.split(maxsplit=1)[0].lower() if line else ""), line
        if name.startswith("/") and not name.startswith("//"):
            if name not in routes:
                return self.write_prompt(line, name)
            rest = name  # in small letters, and without what follows
        return agent_chat_route_input(rest, {}, routes)

    async def write_prompt(self, line: str, name: str) -> object:
        """Write what a prompt of an MCP server says, for a command that is one."""
        try:
            message = await self.prompts.write(line)
        except (WindlassError, ValueError) as error:
            return {"kind": "handled", "message": words.clean(str(error))}
        if message is not None:
            return {"kind": "send", "message": message}
        hint = nearest(name, _HELP) or "; /help lists what there is"
        return {"kind": "handled", "message": f"no command {name!r}{hint}"}

    # ----------------------------------------------------------------- commands

    def help(self) -> JsonObject:
        for name, what in _HELP.items():
            self.paper.line((f"  {name:<10}", "bold"), what)
        return HANDLED

    def session(self) -> JsonObject:
        self.paper.line(self.work.session_id)
        if self.spoken or not self.work.fresh:
            self.paper.line(("come back with: ", "dim"), self.command())
        return HANDLED

    def command(self) -> str:
        return self.work.chosen.to_go_on(self.work.session_id, "chat")

    async def cost(self) -> JsonObject:
        entries: list[Any] = []
        if not self.work.fresh:
            entries = list(await self.work.store.read(self.work.session_id))
        replies = [entry for entry in entries if isinstance(entry, Replied)]
        usage = sum(reply.usage.total_tokens for reply in replies)
        cost = sum(reply.cost_usd for reply in replies)
        facts = (words.count(len(replies), "model call"), words.tokens(usage), words.money(cost))
        self.paper.line(" · ".join(facts))
        return HANDLED

    async def list_tools(self) -> JsonObject:
        tools = await self.work.list_tools()
        for tool in tools:
            told = words.one_line(tool.description, 100)
            self.paper.line((f"  {words.one_line(tool.name, 60)}  ", "bold"), told)
        if not tools:
            self.paper.line("this chat has no tools; -t and --tools-preset give it some")
        return HANDLED

    async def undo(self) -> JsonObject:
        """Undo the newest effect of the session that can be undone."""
        if self.work.fresh:
            self.paper.line("nothing was done yet")
            return HANDLED
        session_id, tools = self.work.session_id, await self.work.list_tools()
        try:
            steps = await undoable(session_id, tools=tools, store=self.work.store)
            able = [step for step in steps if step.why is None and step.undone_by is None][:1]
            if not able:
                self.paper.line("there is nothing that can be undone")
                return HANDLED
            [step] = await undo(
                session_id,
                [able[0].call_id],
                tools=tools,
                name=user_name(),
                force=True,
                store=self.work.store,
            )
        except WindlassError as error:
            return {"kind": "handled", "message": words.clean(str(error))}
        asked = words.one_line(words.shown_call(step.tool, step.arguments, 100))
        end = "undone" if step.outcome == "ok" else f"not undone: {step.detail or step.outcome}"
        self.paper.line(f"{end}: {asked}")
        return HANDLED

    async def list_prompts(self) -> JsonObject:
        try:
            found = await self.prompts.list()
        except WindlassError as error:
            return {"kind": "handled", "message": words.clean(str(error))}
        for name, prompt in found.items():
            needs = " ".join([f"{one}=…" for one in prompt.arguments])
            told = words.one_line(f"{needs}  {prompt.description}", 100)
            self.paper.line((f"  {words.one_line(name, 60)} ", "bold"), told)
        if not found:
            self.paper.line("no MCP server of this chat has prompts")
        return HANDLED

    async def reset(self) -> JsonObject:
        if not self.work.fresh:
            await agent_session_reset(self.work.session_id, store=self.work.store)
        self.paper.line("what was said is forgotten; the record stays")
        return HANDLED

    def farewell(self) -> None:
        if self.work.place.url != "memory:" and not self.work.fresh:
            self.paper.line(("go on with: ", "dim"), (self.command(), "bold"))
