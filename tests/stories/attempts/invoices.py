"""What the stories of attempts share: an invoice, its validators, and an agent that reads one."""

from __future__ import annotations

from typing import Any

import msgspec

import windlass as w

GIVE = {"name": "give_invoice", "description": "Give the invoice."}
BILL = {"customer": "Ann", "total": 12.5}


class Invoice(msgspec.Struct):
    """What is to be paid."""

    customer: str
    total: float


ANN = Invoice("Ann", 12.5)


def is_positive(invoice: Invoice) -> None:
    """Refuse an invoice of nothing."""
    if invoice.total <= 0:
        raise ValueError("total must be positive")


@w.tool(side_effect_level="none")
async def look_up(name: str) -> str:
    """Look a customer up."""
    return f"{name} is customer 7"


def show(invoice: Invoice) -> str:
    """Show an invoice to the model."""
    return f"{invoice.customer} owes {invoice.total:.2f}"


def define(model: Any, **changes: Any) -> w.AgentDefinition[Invoice]:
    """Define the agent that reads an invoice."""
    given: dict[str, Any] = {
        "name": "invoices",
        "model": model,
        "output": Invoice,
        "prompt": lambda mail: f"Read the invoice: {mail}",
        "output_tool": GIVE,
        "helpers": [look_up],
        "validators": [is_positive],
    }
    return w.define_agent(**{**given, **changes})


def reflecting(model: Any, **changes: Any) -> w.AgentDefinition[Invoice]:
    """Define the same with reflection."""
    return define(model, **{"output_tool": {**GIVE, "reflection_handler": show}, **changes})
