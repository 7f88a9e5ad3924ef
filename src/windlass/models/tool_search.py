"""Tool searches that a provider ran by itself, read from the blocks of its reply.

Such a search is part of the reply: the blocks go back as they came, and need no result. The loop
reads here what was searched for and found.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

from windlass.json_types import JsonObject
from windlass.messages import Message, Opaque
from windlass.models.wires.json_values import (
    as_dict,
    as_list,
    as_text,
    safe_name,
)

_ANTHROPIC = "tool_search_tool_"


class Search(NamedTuple):
    """One search: `search_id, query, strategy, tool_names = search`.

    What was found in a reply of its own, as after a pause, has no query.
    """

    search_id: str
    query: Any
    strategy: str  # bm25, regex; hosted where the provider names none
    tool_names: tuple[str, ...]


def searches(message: Message, tools: Iterable[str] = ()) -> list[Search]:
    """List the searches in a reply in order: `for search in searches(reply.message): …`.

    `tools` are the names of the tools on offer; a found tool that had another name over there comes
    back under its own.
    """
    own = {safe_name(name): name for name in tools}
    found: dict[str, Search] = {}
    for block in _native(message):
        if (search := _anthropic(block, found) or _openai(block, found)) is not None:
            found[search.search_id] = search
    return [
        search._replace(tool_names=tuple([own.get(name, name) for name in search.tool_names]))
        for search in found.values()
    ]


def search_errors(message: Message) -> dict[str, str]:
    """Return the reasons of failed searches in a reply, by search id."""
    failed: dict[str, str] = {}
    for block in _native(message):
        content = as_dict(block.get("content"))
        if as_text(content.get("type")).endswith("tool_search_tool_result_error"):
            reason = as_text(content.get("error_message")) or as_text(content.get("error_code"))
            failed[as_text(block.get("tool_use_id"))] = reason or "unavailable"
    return failed


def _native(message: Message) -> Iterator[JsonObject]:
    for block in message.content:
        if type(block) is Opaque:
            yield as_dict(block.data)


def _anthropic(block: JsonObject, found: dict[str, Search]) -> Search | None:
    """Parse a block of Anthropic's that begins or ends a search."""
    kind = block.get("type")
    if kind == "server_tool_use" and as_text(block.get("name")).startswith(_ANTHROPIC):
        given = as_dict(block.get("input"))
        query = given.get("query", given.get("pattern", given or None))
        strategy = as_text(block.get("name")).removeprefix(_ANTHROPIC)
        return Search(as_text(block.get("id")), query, strategy, ())
    if kind == "tool_search_tool_result":
        id = as_text(block.get("tool_use_id"))
        references = as_list(as_dict(block.get("content")).get("tool_references"))
        names = [as_text(as_dict(one).get("tool_name")) for one in references]
        begun = found.get(id) or Search(id, None, "hosted", ())
        return begun._replace(tool_names=tuple(filter(None, names)))
    return None


def _openai(block: JsonObject, found: dict[str, Search]) -> Search | None:
    """Parse an item of OpenAI's that begins or ends a search.

    Question and answer of a search that runs over there share no id: an answer is that of the latest
    question without one.
    """
    kind = block.get("type")
    id = as_text(block.get("call_id")) or as_text(block.get("id"))
    if kind == "tool_search_call":
        given = as_dict(block.get("arguments"))
        return Search(id, next(iter(given.values()), None), "hosted", ())
    if kind == "tool_search_output":
        names = tuple(_tool_names(as_list(block.get("tools"))))
        open_ = [search for search in found.values() if not search.tool_names]
        begun = found.get(id) or (open_[-1] if open_ else Search(id, None, "hosted", ()))
        return begun._replace(tool_names=names)
    return None


def _tool_names(tools: list[Any]) -> Iterator[str]:
    """Yield the names of the tools found, also those inside namespaces."""
    for tool in map(as_dict, tools):
        if tool.get("type") == "namespace":
            yield from _tool_names(as_list(tool.get("tools")))
        elif name := as_text(as_dict(tool.get("function")).get("name")) or as_text(
            tool.get("name")
        ):
            yield name
