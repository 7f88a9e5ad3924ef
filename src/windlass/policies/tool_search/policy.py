"""Tools that a search finds, callable from the next turn on.

Two ways, one record. `ClientVault` is the client's search; `NativeVault` records the searches
that a provider ran. Both leave `tool_search_query` and `tool_search_result` entries.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import msgspec

from windlass.events import JournalEntry, Replied, ToolSearchQueried, ToolSearchResulted
from windlass.loop.policy import Policy
from windlass.loop.run import Run
from windlass.loop.turn import Turn
from windlass.messages import Message, ToolCall, ToolResult
from windlass.models.tool_search import search_errors, searches
from windlass.tools.search.deferred import Promotion, Vault, read
from windlass.tools.tool import Tool

Searched = tuple[ToolSearchQueried, ToolSearchResulted]


class PromotedTools(msgspec.Struct, frozen=True):
    """The tools that searches have disclosed, in order."""

    names: tuple[str, ...] = ()


class ClientVault(Policy[PromotedTools]):
    """The search that Windlass runs. What it finds stays for the rest of the session.

    Found tools join the frame behind all others, so that what stood there before stays in place.
    """

    memory = PromotedTools
    keeps = "session"

    def __init__(self, vault: Vault) -> None:
        self.vault = vault

    @property
    def name(self) -> str:
        return "tool_vault"

    async def start(self, run: Run) -> Sequence[Tool] | None:
        """Hide what has not been found; a session keeps what it had found."""
        self._disclose(run)
        return None

    async def before_turn(self, run: Run) -> None:
        """Add what the last turn found to this turn's frame."""
        self._disclose(run)

    def _disclose(self, run: Run) -> None:
        vault, frame = self.vault, run.frame
        known: PromotedTools = run.recall(self)
        names = [name for name in known.names if name in vault.deferred]
        if not vault.by_provider:
            others = [spec for spec in frame.tools if spec.name not in vault.deferred]
            specs = (*others, *(vault.specs[name] for name in names))
            if specs != frame.tools:
                run.reframe(type(frame)(frame.system, specs, frame.settings), "tool_search")
        if names != [name for name in run.tools if name in vault.deferred]:
            seen = {name: tool for name, tool in run.tools.items() if name not in vault.deferred}
            run.tools = {**seen, **{name: vault.deferred[name] for name in names}}

    async def after_tool(self, run: Run, call: ToolCall, result: ToolResult) -> ToolResult:
        """Promote the tools that a search found, and record it."""
        vault, turn = self.vault, run.turn
        if call.name != vault.tool.name or turn is None:
            return result
        whole = turn.results[call.id]  # another policy may have cut what the model sees
        if whole.outcome not in ("ok", "error", "timeout"):
            return result  # it did not come to a search
        known: PromotedTools = run.recall(self)
        promotion = vault.promote(known.names, read(whole.text))
        for entry in search_entries(vault, call, promotion):
            run.record(entry)
        if promotion.promoted != known.names:
            run.remember(self, PromotedTools(promotion.promoted))
        if whole.is_error:
            return result
        content = vault.render_result(promotion.found)
        return (
            whole if content == whole.content else msgspec.structs.replace(whole, content=content)
        )


class NativeVault(Policy[None]):
    """A policy that records the searches that a provider ran by itself."""

    @property
    def name(self) -> str:
        return "tool_vault"

    async def after_reply(self, run: Run, turn: Turn) -> None:
        """Record the searches in the reply, unless they are recorded already."""
        found = searched_natively(turn.message, run.tools)
        known = set(_recorded_searches(run.entries)) if found else ()
        for query, result in found:
            if query.search_id not in known:
                run.record(query)
                run.record(result)


def search_entries(vault: Vault, call: ToolCall, promotion: Promotion) -> Searched:
    """Build the entries of a search that the client ran."""
    mode = "native" if vault.by_provider else "client"
    found = promotion.found
    return (
        ToolSearchQueried(call.id, call.arguments.get("query"), mode, vault.search.way),
        ToolSearchResulted(call.id, found.tool_names, mode, found.diagnostic, promotion.evicted),
    )


def searched_natively(message: Message, tools: Iterable[str]) -> list[Searched]:
    """Build the entries of the searches that a provider ran for this reply."""
    found = searches(message, tools)
    if not found:
        return []
    failed = search_errors(message)
    return [
        (
            ToolSearchQueried(one.search_id, one.query, "native", one.strategy),
            ToolSearchResulted(one.search_id, one.tool_names, "native", failed.get(one.search_id)),
        )
        for one in found
    ]


def _recorded_searches(entries: Sequence[JournalEntry]) -> Iterable[str]:
    """Yield the searches that are recorded since the last reply."""
    for entry in reversed(entries):
        if type(entry) is Replied and entry.purpose is None:
            return
        if type(entry) is ToolSearchQueried:
            yield entry.search_id
