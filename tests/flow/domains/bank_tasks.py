"""What Daniel Moreau asks for at his bank."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from typing import Any

from tests.flow.case import Call, Task, World
from tests.flow.domains.bank_world import (
    ANNA,
    GARDENER,
    JULIE,
    MOTHER,
    PLUMBER,
    SAVINGS,
    TENNIS,
    build_world,
)

Results = Sequence[str]


def field_of(number: int, *keys: str | int) -> Callable[[Results], Any]:
    """What stands at these keys in the result of call `number`."""

    def find(results: Results) -> Any:
        value = json.loads(results[number])
        for key in keys:
            value = value[key]
        return value

    return find


def order_of(number: int, recipient: str) -> Callable[[Results], str]:
    """The id of the standing order for somebody, in the overview that call `number` gave."""
    return lambda results: next(
        order["id"]
        for order in json.loads(results[number])["standing_orders"]
        if order["recipient"] == recipient
    )


def only(*expected: tuple[str, dict[str, Any]]) -> Callable[[World], bool]:
    """Exactly these effects, in this order; arguments that are not given may be anything."""

    def check(world: World) -> bool:
        return len(world.effects) == len(expected) and all(
            name == want and all(given.get(key) == value for key, value in arguments.items())
            for (name, given), (want, arguments) in zip(world.effects, expected, strict=True)
        )

    return check


def paid(iban: str, amount: float, **more: Any) -> Callable[[World], bool]:
    """One transfer of this amount to this account, and nothing else."""
    account = more.pop("from_account", "main")
    return only(
        ("transfer", {"iban": iban, "amount": amount, "from_account": account, **more}),
    )


def task(number: int, prompt: str, calls: Sequence[Call], is_done: Callable[[World], bool]) -> Task:
    """A task of this domain; every third is held back."""
    return Task(
        f"bank-{number:02}",
        "bank",
        prompt,
        build_world,
        tuple(calls),
        is_done,
        held_back=number % 3 == 1,
    )


TASKS = (
    task(
        1,
        f"Send 20 euros to Anna Petit, IBAN {ANNA}, purpose: Cinema.",
        [
            Call(
                "transfer",
                {"recipient": "Anna Petit", "iban": ANNA, "amount": 20.0, "purpose": "Cinema"},
            )
        ],
        paid(ANNA, 20.0, purpose="Cinema"),
    ),
    task(
        2,
        "Please transfer 75 euros to my sister for mum's present.",
        [
            Call("find_payee", {"name": "sister"}),
            Call(
                "transfer",
                {
                    "recipient": "Julie Moreau",
                    "iban": field_of(0, "iban"),
                    "amount": 75.0,
                    "purpose": "Mum's present",
                },
            ),
        ],
        paid(JULIE, 75.0),
    ),
    task(
        3,
        "Pay the invoice in invoice_roth.txt.",
        [
            Call("read_document", {"path": "invoice_roth.txt"}),
            Call(
                "transfer",
                {
                    "recipient": "Roth Plumbing",
                    "iban": PLUMBER,
                    "amount": 340.5,
                    "purpose": "2026-311",
                },
            ),
        ],
        paid(PLUMBER, 340.5, purpose="2026-311"),
    ),
    task(
        4,
        "Pay six hundred euros, the first half of invoice_1188.txt, to our gardener. Put the number of the "
        "invoice into the purpose.",
        [
            Call("read_document", {"path": "invoice_1188.txt"}),
            Call("find_payee", {"name": "gardener"}),
            Call(
                "transfer",
                {
                    "recipient": "Lind Gardens",
                    "iban": field_of(1, "iban"),
                    "amount": 600,
                    "purpose": "Invoice 1188, first half",
                },
            ),
        ],
        paid(GARDENER, 600, purpose="Invoice 1188, first half"),
    ),
    task(
        5,
        "How much did I spend at Marche Vert in October 2026?",
        [Call("list_transactions", {"month": "2026-10", "name": "Marche Vert"})],
        only(),
    ),
    task(
        6,
        "Anna has sent me a payment request for the dinner. Pay it; she is one of my payees.",
        [
            Call("list_messages", {"sender": "Anna"}),
            Call("find_payee", {"name": "Anna"}),
            Call(
                "transfer",
                {
                    "recipient": "Anna Petit",
                    "iban": field_of(1, "iban"),
                    "amount": 21.4,
                    "purpose": "Dinner on Friday",
                },
            ),
        ],
        paid(ANNA, 21.4),
    ),
    task(
        7,
        "I think Netstream charged me twice in October 2026. If so, tell the service team of the bank that "
        "I dispute the second charge.",
        [
            Call("list_transactions", {"month": "2026-10", "name": "Netstream"}),
            Call(
                "send_message",
                {
                    "to": "service",
                    "text": "Netstream charged 12.99 euros twice, on 11 and on 12 October. I dispute the "
                    "second charge.",
                },
            ),
        ],
        only(("send_message", {"to": "service"})),
    ),
    task(
        8,
        "I have left the gym. Cancel the standing order to FitPark.",
        [
            Call("account_overview"),
            Call("cancel_standing_order", {"order_id": order_of(0, "FitPark")}),
        ],
        only(("cancel_standing_order", {"order_id": "7"})),
    ),
    task(
        9,
        "My rent goes up, see letter_landlord.txt. Change the standing order to Immo Lafayette to the new "
        "rent.",
        [
            Call("read_document", {"path": "letter_landlord.txt"}),
            Call("account_overview"),
            Call(
                "change_standing_order",
                {"order_id": order_of(1, "Immo Lafayette"), "amount": 1020},
            ),
        ],
        only(("change_standing_order", {"order_id": "3", "amount": 1020})),
    ),
    task(
        10,
        "Raise the daily limit of my debit card to 1,500 euros.",
        [Call("update_setting", {"name": "debit_limit", "value": "1500"})],
        only(("update_setting", {"name": "debit_limit", "value": "1500"})),
    ),
    task(
        11,
        "Set up a standing order for mum: a hundred and fifty euros on the first of every month.",
        [
            Call("find_payee", {"name": "mum"}),
            Call(
                "create_standing_order",
                {
                    "recipient": "Claire Moreau",
                    "iban": field_of(0, "iban"),
                    "amount": 150,
                    "day": 1,
                },
            ),
        ],
        only(("create_standing_order", {"iban": MOTHER, "amount": 150, "day": 1})),
    ),
    task(
        12,
        "Somebody sent me money for concert tickets this month (November 2026). The concert was called off, "
        "so send it back to them.",
        [
            Call("list_transactions", {"month": "2026-11"}),
            Call(
                "transfer",
                {
                    "recipient": "Anna Petit",
                    "iban": ANNA,
                    "amount": 25,
                    "purpose": "Concert tickets, money back",
                },
            ),
        ],
        paid(ANNA, 25),
    ),
    task(
        13,
        "The bank wrote to me about new terms. Sum them up in two sentences and send that to Nora Lang with "
        "the question whether it matters for my savings.",
        [
            Call("list_messages", {"sender": "Hexa"}),
            Call(
                "send_message",
                {
                    "to": "Nora Lang",
                    "text": "From January a replacement card costs 8 euros. Transfers inside Europe are free. "
                    "Does this matter for my savings?",
                },
            ),
        ],
        only(("send_message", {"to": "Nora Lang"})),
    ),
    task(
        14,
        "I have lost my credit card, block it right now!",
        [Call("block_card", {"card": "credit", "blocked": True})],
        only(("block_card", {"card": "credit", "blocked": True})),
    ),
    task(
        15,
        "I joined the tennis club. Set up the standing order that club_fee.txt asks for.",
        [
            Call("read_document", {"path": "club_fee.txt"}),
            Call(
                "create_standing_order",
                {
                    "recipient": "Tennis club Ostpark",
                    "iban": TENNIS,
                    "amount": 15,
                    "day": 5,
                    "purpose": "member 5521",
                },
            ),
        ],
        only(
            (
                "create_standing_order",
                {"iban": TENNIS, "amount": 15, "day": 5, "purpose": "member 5521"},
            )
        ),
    ),
    task(
        16,
        "Send my statement of October 2026 to tax@bureau-fiscal.example.",
        [Call("send_statement", {"month": "2026-10", "email": "tax@bureau-fiscal.example"})],
        only(("send_statement", {"month": "2026-10", "email": "tax@bureau-fiscal.example"})),
    ),
    task(
        17,
        "Go through my messages. Is there anything that I have to answer before the 7?",
        [Call("list_messages")],
        only(),
    ),
    task(
        18,
        "Has my salary of November 2026 come? If yes, move two hundred euros to my savings.",
        [
            Call("list_transactions", {"month": "2026-11", "name": "Salary"}),
            Call("account_overview"),
            Call(
                "transfer",
                {
                    "recipient": "Daniel Moreau",
                    "iban": field_of(1, "accounts", "savings", "iban"),
                    "amount": 200,
                },
            ),
        ],
        paid(SAVINGS, 200),
    ),
    task(
        19,
        "Save the plumber of invoice_roth.txt among my payees as 'Plumber Roth'. Do not pay anything yet.",
        [
            Call("read_document", {"path": "invoice_roth.txt"}),
            Call("add_payee", {"name": "Plumber Roth", "iban": PLUMBER}),
        ],
        only(("add_payee", {"name": "Plumber Roth", "iban": PLUMBER})),
    ),
    task(
        20,
        "FitPark wrote about its prices. If it costs more than 30 euros a month now, cancel my standing order "
        "to them.",
        [
            Call("list_messages", {"sender": "FitPark"}),
            Call("account_overview"),
            Call("cancel_standing_order", {"order_id": order_of(1, "FitPark")}),
        ],
        only(("cancel_standing_order", {"order_id": "7"})),
    ),
)
