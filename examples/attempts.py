"""An invoice that must add up: the model looks at its output, and a validator has the last word.

    python examples/attempts.py

`define_agent` describes the agent: an output tool, helpers, validators. `execute_agent` returns a
`Success` with the typed output, or a `Failure` with a code.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass

import windlass as w
from windlass.testing import call, scripted


@dataclass
class Invoice:
    customer: str
    lines: list[float]
    total: float


@w.tool(side_effect_level="read_only")
def customer_of(order: str) -> str:
    """Say who ordered it."""
    return {"A-7": "Ann"}[order]


def show(invoice: Invoice) -> str:
    return f"{invoice.customer}: {len(invoice.lines)} lines, {invoice.total:.2f} EUR"


def total_is_the_sum(invoice: Invoice) -> str | None:
    wanted = sum(invoice.lines)
    return None if invoice.total == wanted else f"the lines add up to {wanted}"


def define(model: w.Model) -> w.AgentDefinition[Invoice]:
    return w.define_agent(
        name="invoices",
        model=model,
        system="You read letters.",
        prompt=lambda letter: f"Read the invoice in this letter:\n{letter}",
        output=Invoice,
        output_tool={
            "name": "give_invoice",
            "description": "Give the invoice.",
            "reflection_handler": show,
        },
        helpers=[customer_of],
        validators=[total_is_the_sum],
    )


async def read(model: w.Model) -> None:
    outcome = await w.execute_agent(
        define(model),
        "Order A-7: 10 and 2.50 EUR.",
        on_tool_result=lambda state, name, text: print(f"{name}: {text}"),
        on_validation_failure=lambda state, attempt: print(f"refused: {attempt.errors[0]}"),
    )
    match outcome:
        case w.Success(invoice, metadata):
            print(f"{invoice.customer} pays {invoice.total:.2f} EUR", end="")
            print(f" (attempt {len(metadata.attempts)})")
        case w.Failure(code, message):
            print(f"{code}: {message}")


async def main() -> None:
    half = call("give_invoice", customer="Ann", lines=[10, 2.5], total=10)
    whole = call("give_invoice", customer="Ann", lines=[10, 2.5], total=12.5)
    submit = call("submit")
    await read(scripted(call("customer_of", order="A-7"), half, submit, whole, submit))
    await read(scripted("I cannot read this."))


if __name__ == "__main__":
    asyncio.run(main())
