"""Approvals in place: a person at the terminal answers what a parked run asks."""

from __future__ import annotations

from typing import Final, Literal, TypeAlias

import click

from windlass.cli.chat.prompt import MessagePrompt
from windlass.cli.console import ConsoleOutput
from windlass.cli.mcp.fields import ask_fields
from windlass.cli.text import colour_diff, one_line, shown_call
from windlass.events.receipts import takes_session_answer
from windlass.json_types import JsonObject, is_object
from windlass.loop.form_answer import find_form_problems
from windlass.sessions.approvals import PendingApproval, answer, approvals
from windlass.store.base import Store

Answer: TypeAlias = Literal["yes", "no", "always"]
_ANSWERS: Final = {"y": "yes", "n": "no", "a": "always"}


class ApprovalDesk:
    """Asks about the calls that wait in a session and in those of its sub-agents."""

    def __init__(self, store: Store, session_id: str, paper: ConsoleOutput) -> None:
        self.store, self.session_id, self.paper = store, session_id, paper
        self.contents: dict[str, JsonObject] = {}  # what servers asked for, by question
        self.allowed: set[str] = set()  # tools that were allowed for the rest of the chat

    async def waiting(self) -> list[PendingApproval]:
        """List the calls that nobody has answered."""
        found = await approvals(self.store)
        inside = f"{self.session_id}."
        return [
            one
            for one in found
            if one.answered is None
            and (one.session_id == self.session_id or one.session_id.startswith(inside))
        ]

    def ask(self, one: PendingApproval, prompt: MessagePrompt) -> Answer | None:
        """Ask about one call; None if the person leaves without an answer."""
        if one.tool in self.allowed:
            return "always"
        call = shown_call(one.tool, one.arguments, 100)
        self.paper.line(("  ? ", "yellow"), f"{call}  ", (one_line(one.reason or "", 120), "dim"))
        for line in one.details:
            self.paper.line((f"    {one_line(line, 200)}", "dim"))
        for line, tone in colour_diff(one.diff, 60):
            self.paper.line((f"    {line}", tone))
        if is_object(asked := (one.receipt or {}).get("elicitation")):
            return self._ask_form(one, asked, prompt)
        match prompt.choose("    allow it? yes, no or always (y/n/a) ", _ANSWERS):
            case "yes":
                return "yes"
            case "no":
                return "no"
            case "always":
                return "always"
            case _:
                return None

    def _ask_form(
        self, one: PendingApproval, asked: JsonObject, prompt: MessagePrompt
    ) -> Answer | None:
        """Ask for what an MCP server wants to know."""
        if asked.get("url"):
            self.paper.line(f"    {one_line(str(asked['url']), 500)}")
        chosen = prompt.choose("    answer it? yes or no (y/n) ", {"y": "yes", "n": "no"})
        if chosen != "yes":
            return None if chosen is None else "no"
        schema = asked.get("schema")
        while True:
            try:
                content = ask_fields(schema)
            except click.Abort:
                return None
            problems = find_form_problems(schema, content)
            if not problems:
                self.contents[one.id] = content
                return "yes"
            for line in problems:
                self.paper.line(("    ! ", "yellow"), one_line(line, 200))

    async def record(self, one: PendingApproval, given: Answer) -> None:
        """Record the answer: `always` for the session, where the question takes that."""
        for_session = given == "always" and takes_session_answer(one.receipt)
        if given == "always" and not for_session:
            self.allowed.add(one.tool)
        await answer(
            [one.id],
            given != "no",
            name="the operator",
            scope="session" if for_session else "once",
            content=self.contents.pop(one.id, None),
            store=self.store,
        )
