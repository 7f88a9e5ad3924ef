"""Deferred tools: kept from a model until a search finds them.

A `Vault` has the tools that stay in sight, those behind, and the tool that the model searches with. It
keeps no state: the caller passes what has been disclosed so far.
"""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import msgspec

from windlass.errors import ConfigError, TestBroken, error_text, nearest, safe_repr
from windlass.json_types import JsonObject, is_mapping, is_sequence
from windlass.messages import ToolSpec
from windlass.tools.render import clean
from windlass.tools.search.index import (
    LIMIT,
    LONGEST_PATTERN,
    LONGEST_QUERY,
    MOST,
    Index,
    SearchResult,
)
from windlass.tools.search.options import Strategy, ToolSearch
from windlass.tools.tool import Tool, ToolContext

_LONGEST_NOTE = 500  # characters of a host's diagnostic
_LONGEST_LINE = 120  # of a tool in a listing
_MOST_ANSWERS = 10_000  # of a host's search that are looked at


class ToolPartition(msgspec.Struct, frozen=True):
    """The tools of a run, by whether the model sees them from the start."""

    loaded: tuple[Tool, ...]
    deferred: tuple[Tool, ...]


def sort(tools: Sequence[Tool], search: ToolSearch) -> ToolPartition:
    """Split tools into loaded and deferred; refuse what no provider accepts."""
    names = [tool.name for tool in tools]
    for name in search.always_loaded:
        if name not in names:
            raise ConfigError(
                f"tool_search.always_loaded names {name!r}, which no tool is{nearest(name, names)}"
            )
    deferred = tuple(
        tool for tool in tools if tool.defer_loading and tool.name not in search.always_loaded
    )
    held = {tool.name for tool in deferred}
    loaded = tuple(tool for tool in tools if tool.name not in held)
    if deferred and not loaded:
        raise ConfigError(
            "every tool is deferred, and a model must see at least one: "
            "leave defer_loading off one tool, or name one in tool_search.always_loaded"
        )
    return ToolPartition(loaded, deferred)


class Promotion(msgspec.Struct, frozen=True):
    """The outcome of a search: the disclosed tools, the finds, and the evicted ones."""

    promoted: tuple[str, ...]
    found: SearchResult
    evicted: tuple[str, ...] = ()


class Vault:
    """Deferred tools, and the tool to find them with.

    `by_provider`: the model asks for the search in its provider's own words, and gets the tools
    themselves for an answer; else it calls a tool like any other, and sees what was found among the
    tools of its next turn.
    """

    def __init__(
        self, tools: ToolPartition, search: ToolSearch, *, by_provider: bool = False
    ) -> None:
        self.search, self.loaded, self.by_provider = search, tools.loaded, by_provider
        self.deferred = {tool.name: tool for tool in tools.deferred}
        if any(tool.name == search.name for tool in (*tools.loaded, *tools.deferred)):
            raise ConfigError(
                f"a tool is named {search.name!r}, as the search for tools is: "
                "give one of them another name (tool_search.name)"
            )
        self.specs = {name: plain(tool.spec) for name, tool in self.deferred.items()}
        self.index = Index([tool.spec for tool in tools.deferred])
        self.tool = self._search_tool()

    def _search_tool(self) -> Tool:
        regex = self.search.way == "regex"
        query = "A regular expression" if regex else "What the tool should do, in a few words"
        return Tool(
            name=self.search.name,
            description=_description(self.search.way, list(self.deferred.values())),
            parameters={
                "type": "object",
                "properties": {
                    "query": {
                        "type": "string",
                        "description": query,
                        "maxLength": LONGEST_PATTERN if regex else LONGEST_QUERY,
                    },
                    "limit": {
                        "type": "integer",
                        "minimum": 1,
                        "maximum": MOST,
                        "description": f"How many tools to load at most; {LIMIT} if left out",
                    },
                },
                "required": ["query"],
            },
            handler=self._handle,
            side_effect_level="read_only",
            kind="search",
            annotations={"tool_class": "session_control", "pinned": True},
        )

    async def _handle(self, arguments: JsonObject, ctx: ToolContext[Any]) -> str:
        found = await self.find(arguments["query"], arguments.get("limit"), ctx)
        return self.render_result(found)

    async def find(
        self, query: str, limit: int | None = None, ctx: ToolContext[Any] | None = None
    ) -> SearchResult:
        """Find tools by a query, with the chosen strategy."""
        way, limit = self.search.way, limit or LIMIT
        if way == "bm25":
            return self.index.bm25(query, limit)
        if way == "regex":
            return self.index.regex(query, limit)
        try:
            answer = await self._ask_host(query, ctx)
        except (KeyboardInterrupt, SystemExit, GeneratorExit, TestBroken):
            raise
        except BaseException as error:
            task = asyncio.current_task()
            if isinstance(error, asyncio.CancelledError) and (task is None or task.cancelling()):
                raise
            return SearchResult(
                (), f"The search failed: {type(error).__name__}: {error_text(error, 300)}"
            )
        return _host_found(answer, self.deferred, max(1, min(limit, MOST)))

    async def _ask_host(self, query: str, ctx: ToolContext[Any] | None) -> Any:
        search = self.search.search
        assert search is not None
        specs = tuple(self.specs.values())
        if inspect.iscoroutinefunction(search):
            return await search(query, specs)
        loop = asyncio.get_running_loop()
        pool = None if ctx is None else ctx.scope.pool  # it may well take its time
        answer = await loop.run_in_executor(pool, search, query, specs)
        return await answer if inspect.isawaitable(answer) else answer

    def promote(self, before: Sequence[str], found: SearchResult) -> Promotion:
        """Disclose what was found, within the budget; the oldest are evicted to make room.

        What this search has found stays: it does not push out its own better finds.
        """
        current = tuple(name for name in before if name in self.deferred)
        names = tuple(dict.fromkeys(name for name in found.tool_names if name in self.deferred))
        if self.search.budget_tokens is None:
            new = tuple(name for name in names if name not in current)
            return Promotion((*current, *new), SearchResult(names, found.diagnostic))
        room = _Room(self.search.budget_tokens, self.cost, current, names)
        for name in names:
            if name not in current:
                room.take(name)
        kept = tuple(name for name in names if name in room.kept)
        notes = [found.diagnostic] if found.diagnostic else []
        note = " ".join([*notes, *room.notes()])
        return Promotion(tuple(room.current), SearchResult(kept, note or None), tuple(room.evicted))

    def cost(self, name: str) -> int:
        """Estimate the tokens of a tool's schema."""
        return len(msgspec.json.encode(self.specs[name]).decode()) // 4 + 1

    def initial_specs(self) -> tuple[ToolSpec, ...]:
        """Return the tools a model is shown first; a provider's own search stands in front."""
        loaded = tuple(plain(tool.spec) for tool in self.loaded)
        if self.by_provider:
            return (self.tool.spec, *loaded, *(tool.spec for tool in self.deferred.values()))
        return (*loaded, self.tool.spec)

    def render_result(self, found: SearchResult) -> str:
        """Render a search's answer for the model: `{"tool_names": […], "diagnostic": "…"}`."""
        answer: JsonObject = {"tool_names": list(found.tool_names)}
        if found.diagnostic:
            answer["diagnostic"] = found.diagnostic
        if self.by_provider:
            answer["tools"] = [self.specs[name] for name in found.tool_names]
        return msgspec.json.encode(answer).decode()


class _Room:
    """The room in a budget while the finds of one search are disclosed."""

    def __init__(
        self, budget: int, cost: Callable[[str], int], current: Sequence[str], names: Sequence[str]
    ) -> None:
        self.budget, self.cost, self.current = budget, cost, list(current)
        self.kept = {name for name in names if name in current}
        self.evicted: list[str] = []
        self.too_large: list[str] = []
        self.no_room: list[str] = []

    def take(self, name: str) -> None:
        """Disclose one more, and evict as few of the oldest as needed."""
        cost = self.cost(name)
        if cost > self.budget:
            self.too_large.append(name)
            return
        free = self.budget - sum(map(self.cost, self.current))
        going: list[str] = []
        for old in self.current:
            if free < cost and old not in self.kept:
                going.append(old)
                free += self.cost(old)
        if free < cost:
            self.no_room.append(name)
            return
        self.current = [*(old for old in self.current if old not in going), name]
        self.kept.add(name)
        self.evicted += going

    def notes(self) -> list[str]:
        """List the notes to the model."""
        notes: list[str] = []
        if self.too_large:
            notes.append(f"Too large to load at all: {', '.join(self.too_large)}.")
        if self.no_room:
            left = ", ".join(self.no_room)
            notes.append(f"No room beside the others: {left}. Search again with a smaller limit.")
        if self.evicted:
            notes.append(f"No longer loaded, to make room: {', '.join(self.evicted)}.")
        return notes


def plain(spec: ToolSpec) -> ToolSpec:
    """Return a tool's specification without its deferral."""
    if not spec.defer_loading:
        return spec
    return msgspec.structs.replace(spec, defer_loading=False)


def read(text: str) -> SearchResult:
    """Parse a search's answer; any other text becomes a diagnostic."""
    try:
        return msgspec.json.decode(text, type=SearchResult)
    except (msgspec.DecodeError, RecursionError):
        return SearchResult((), text[:_LONGEST_NOTE])


def listing(tools: Sequence[Tool], how: str) -> str:
    """List the names of tools with one line each, and how to load them."""
    lines = [f"# More tools\n\nThese are not loaded yet. {how} before you call it:"]
    for tool in tools:
        first = tool.description.strip().partition("\n")[0]
        if len(first) > _LONGEST_LINE:
            first = f"{first[: _LONGEST_LINE - 1]}…"
        lines.append(f"- {tool.name}: {first}" if first else f"- {tool.name}")
    return "\n".join(lines)


def _description(way: Strategy, tools: Sequence[Tool]) -> str:
    spaces = list(dict.fromkeys(tool.namespace for tool in tools if tool.namespace))[:20]
    about = f" (among them: {', '.join(spaces)})" if spaces else ""
    how = (
        "Give a regular expression; it is matched, upper and lower case alike, against the names, "
        "descriptions and parameters of tools. No backreferences, no lookaround."
        if way == "regex"
        else "Say in a few words what you want to do, and with what."
    )
    return (
        f"Find and load tools that you do not see yet; there are {len(tools)} more{about}. "
        f"{how} The answer names the tools that were loaded: call them from your next turn on. "
        "Whenever no tool at hand fits the task, search before you say that it cannot be done."
    )


def _host_found(answer: object, known: Mapping[str, Tool], limit: int) -> SearchResult:
    """Parse the answer of a host's search."""
    note: Any = None
    names: Any = answer
    if isinstance(answer, SearchResult):
        names, note = answer.tool_names, answer.diagnostic
    elif is_mapping(answer):
        fields = answer
        names, note = fields.get("tool_names", ()), fields.get("diagnostic")
    if not is_sequence(names):
        return SearchResult(
            (), f"The search answered {safe_repr(names)}, which is no list of names."
        )
    given = names[:_MOST_ANSWERS]
    right = [name for name in given if isinstance(name, str) and name in known]
    notes = [clean(note)[:_LONGEST_NOTE]] if isinstance(note, str) and note else []
    if len(right) < len(given):
        wrong = next(n for n in given if not isinstance(n, str) or n not in known)
        notes.append(
            f"{len(given) - len(right)} of the names found are of no such tool, {clean(safe_repr(wrong))} "
            "for one."
        )
    if not given and not notes:
        notes.append("No tool was found. Try other words for what the tool should do or work on.")
    return SearchResult(tuple(dict.fromkeys(right))[:limit], " ".join(notes) or None)
