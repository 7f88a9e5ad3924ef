"""An invoice out of a letter: the answer is a value, and one that does not fit is asked for again.

    python examples/typed_output.py

`output` is a dataclass, a pydantic model, a TypedDict, a list of them, or a JSON Schema. The model is
asked by the best means it has: its provider's schemas, a tool, or words.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass

import windlass as w
from windlass.testing import call, scripted


@dataclass
class Invoice:
    customer: str
    total: float


@w.tool(side_effect_level="read_only")
def customer_of(order: str) -> str:
    """Who ordered it."""
    return {"A-7": "Ann"}[order]


async def main() -> None:
    model = scripted(
        call("customer_of", order="A-7"),
        '{"customer": "Ann", "total": "twelve"}',
        '{"customer": "Ann", "total": 12.5}',
    )
    clerk = w.Agent(model, system="You read letters.", tools=[customer_of], output=Invoice)
    out = await clerk.run("Dear Sir, for order A-7 we charge EUR 12.50.")
    print(out.output)
    print(f"{out.output.customer} pays {out.output.total:.2f} EUR, after {out.turns} turns")


if __name__ == "__main__":
    asyncio.run(main())
