"""What a scratchpad is worth: no pad, one that is only appended to, and one that is reorganised.

`python -m bench.scratchpad` prints the table; `python -m bench.scratchpad 120` reads that many pages.
The work is a manual with facts planted between words that nobody needs, read page by page while the
view is kept short. Everything is scripted, so the same figures come out every time; the reorganiser
is one that does its work well, and the figures say what the mechanism then keeps and costs.
"""

from __future__ import annotations

import asyncio
import json
import re
import sys
from typing import Any, Final, NamedTuple

import windlass as w
from windlass.messages import Message, ToolResult
from windlass.models.base import Request
from windlass.testing import ScriptedModel, call, scripted

PAGES: Final = 60
EVERY: Final = 4  # pages to a planted fact
TASK: Final = "Read the manual to its end, then open every door by its code."
_FILLER: Final = "The mill stands by the river and its wheel turns slowly in the rain. " * 8
_FACT: Final = re.compile(r"Door \d+ opens with \d+\.")
_PAGE: Final = re.compile(r"Page (\d+)\.")
_WINDOW: Final = 1_500  # tokens of the view
_WAYS: Final = ("none", "append-only", "periodic")


class Figures(NamedTuple):
    """What came of one way of keeping notes."""

    way: str
    kept: int  # planted facts in the last request
    planted: int
    tail_tokens: float  # of a request, on average
    input_tokens: int  # of all requests, the reorganiser's too
    calls: int
    reorganised: int  # of these calls


def planted(pages: int) -> list[str]:
    """The facts of a manual."""
    return [_fact(page) for page in range(1, pages + 1) if page % EVERY == 1]


def _fact(page: int) -> str:
    return f"Door {page} opens with {page * 7919 % 9000 + 1000}."


def _text(page: int) -> str:
    told = _fact(page) + " " if page % EVERY == 1 else ""
    return f"Page {page}. {_FILLER}{told}The wheel turns on."


@w.tool(side_effect_level="none")
async def read(n: int) -> str:
    """Read a page of the manual."""
    return _text(n)


@w.tool
async def read_and_append(ctx: w.ToolContext[None], n: int) -> str:
    """Read a page; what it says is appended to the scratchpad while there is room."""
    pad = await w.agent_session_scratchpad(ctx.session_id) or {}
    source = f"page:{n}"
    facts = [*pad.get("facts", ()), {"text": _text(n), "source_ref": source}]
    refs = [*pad.get("refs", ()), {"id": source, "kind": "page"}]
    try:
        await w.agent_session_set_scratchpad(ctx.session_id, {**pad, "facts": facts, "refs": refs})
    except w.ConfigError:
        pass  # it is full, and nobody tidies it
    return _text(n)


def tidy(request: Request) -> str:
    """The pad written anew as a careful reorganiser does it: every code, with its source, and no more."""
    lines = request.messages[0].text.splitlines()
    pad = json.loads(lines[1])
    facts = {fact["text"]: fact["source_ref"] for fact in pad["facts"]}
    for line in lines:
        if line.startswith('{"ref"'):
            said = json.loads(line)
            for found in _FACT.findall(said.get("text", "")):
                facts.setdefault(found, said.get("result_of") or said["ref"])
    known = [{"text": text, "source_ref": ref} for text, ref in facts.items()]
    return json.dumps({"goals": pad["goals"], "open_items": [], "facts": known, "refs": []})


def reorganises(request: Request) -> bool:
    """Is it the reorganiser who is asked?"""
    return "keep the scratchpad of an assistant" in (request.system or "")


def reader(pages: int, tool: str) -> ScriptedModel:
    """Reads page after page; what it does follows from the request alone."""

    def reply(request: Request) -> Any:
        if reorganises(request):
            return tidy(request)
        results = [b.text for m in request.messages for b in m.content if isinstance(b, ToolResult)]
        found = _PAGE.match(results[-1]) if results else None
        page = int(found[1]) if found else 0
        return "I have read it all." if page >= pages else call(tool, n=page + 1)

    return scripted(then=reply)


async def compare(pages: int = PAGES) -> list[Figures]:
    """All three ways, one after the other."""
    return [await _kept(way, pages) for way in _WAYS]


async def _kept(way: str, pages: int) -> Figures:
    scratchpad: Any = {"none": False, "append-only": {"reorganize_every": 0}, "periodic": True}[way]
    tool = read_and_append if way == "append-only" else read
    model = reader(pages, tool.name)
    async with w.Runtime(store="memory:", environ={}):
        out = await w.agent_loop(
            TASK,
            model=model,
            tools=[tool],
            scratchpad=scratchpad,
            max_iterations=pages + 1,
            compaction="truncate",
            compact_threshold=_WINDOW,
            compact_keep_last=4,
        )
    assert out.status == "done", out.error
    asked = [request for request in model.requests if not reorganises(request)]
    last = _words([*asked[-1].messages, *asked[-1].tail])
    facts = planted(pages)
    return Figures(
        way,
        sum(fact in last for fact in facts),
        len(facts),
        sum(_tokens(request.tail) for request in asked) / len(asked),
        sum(_tokens((*request.messages, *request.tail)) for request in model.requests),
        len(model.requests),
        len(model.requests) - len(asked),
    )


def _tokens(messages: Any) -> int:
    return w.estimate_tokens(list(messages))


def _words(messages: list[Message]) -> str:
    said: list[str] = []
    for message in messages:
        said.append(message.text)
        said += [block.text for block in message.content if isinstance(block, ToolResult)]
    return "\n".join(said)


def table(figures: list[Figures]) -> str:
    """For people."""
    head = ("scratchpad", "facts kept", "retention", "tail tokens", "input tokens", "model calls")
    rows = [
        (
            each.way,
            f"{each.kept} of {each.planted}",
            f"{each.kept / each.planted:.0%}",
            f"{each.tail_tokens:,.0f}",
            f"{each.input_tokens:,}",
            f"{each.calls} ({each.reorganised} to reorganise)"
            if each.reorganised
            else f"{each.calls}",
        )
        for each in figures
    ]
    wide = [max(len(row[at]) for row in (head, *rows)) for at in range(len(head))]
    lines = [
        "  ".join(cell.ljust(size) for cell, size in zip(row, wide, strict=True)).rstrip()
        for row in (head, tuple("-" * size for size in wide), *rows)
    ]
    return "\n".join(lines)


def main(arguments: list[str]) -> None:
    """Print the table."""
    pages = int(arguments[0]) if arguments else PAGES
    figures = asyncio.run(compare(pages))
    sys.stdout.write(f"{pages} pages, a view of about {_WINDOW:,} tokens\n\n{table(figures)}\n")


if __name__ == "__main__":
    main(sys.argv[1:])
