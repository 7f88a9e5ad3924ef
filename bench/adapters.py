"""What a call and a streamed chunk cost through our adapters, beside the vendors' own clients.

Both sides get the same request and read the same bytes in the same pieces, and what they made of
them (words, calls, usage, pieces of text) must be equal, or nothing is measured.
"""

from __future__ import annotations

import asyncio
from importlib.metadata import version
from typing import Any

from bench.proof import CutCorner
from bench.sampling import REPS, TARGET, Work, paired, rounds
from bench.sdks import claude, openai, others
from bench.sdks.exchange import Ask, Exchange, Heard, Vendor, exchange, ours
from bench.table import Row, micro

CALL, CHUNK = 1 / 5, 1 / 8
THIN = frozenset({"ollama"})  # a line of JSON and one model made of it: there is no eighth of that
SHORT, PIECES = 20, 1000  # pieces of text in a plain answer, and in a streamed one

VENDORS = (
    claude.anthropic,
    openai.chat,
    openai.responses,
    others.gemini,
    claude.bedrock,
    openai.mistral,
    others.ollama,
)


async def rows(reps: int = REPS, target: float = TARGET, pieces: int = PIECES) -> list[Row]:
    """Two rows for each vendor with a client."""
    found: list[Row] = []
    for make in VENDORS:
        vendor = make()
        whole = exchange(vendor, SHORT, streamed=False)
        found.append(await _row(vendor, whole, "a call", CALL, 1, reps, target))
        stream = exchange(vendor, pieces, streamed=True)
        what, each = f"a chunk of {len(stream.chunks):,}", len(stream.chunks)
        bar = None if vendor.package in THIN else CHUNK
        found.append(await _row(vendor, stream, what, bar, each, reps, target))
    return found


async def _row(
    vendor: Vendor,
    given: Exchange,
    what: str,
    allowed: float | None,
    each: int,
    reps: int,
    target: float,
) -> Row:
    mine, theirs = ours(vendor, given), vendor.theirs(given)
    wanted = await agreed(vendor, mine, theirs)
    works = {"ours": _work(mine, wanted), "theirs": _work(theirs, wanted)}
    taken = await rounds(works, reps, target=target)
    pair = paired(taken["ours"], taken["theirs"])
    name = f"{vendor.name} over `{vendor.package}` {version(vendor.package)}: {what}"
    sides = micro(pair.ours / each), micro(pair.bare / each)
    return Row(name, pair.ratio, allowed, *sides, (pair.low, pair.high))


async def agreed(vendor: Vendor, mine: Ask, theirs: Ask) -> Heard:
    """What both sides make of the answer, which must be the same."""
    one, other = await mine(), await theirs()
    if one != other:
        heard = f"{one!r:.200} … {one.pieces}, {vendor.package} {other!r:.200} … {other.pieces}"
        raise CutCorner(f"{vendor.name}: we heard {heard}")
    return one


def _work(ask: Ask, wanted: Heard) -> Work:
    async def after(kept: list[Any]) -> None:
        if any(heard != wanted for heard in kept):
            raise CutCorner("an answer was read differently the second time")

    return Work(ask, after)


if __name__ == "__main__":
    for row in asyncio.run(rows()):
        print(row.line())
