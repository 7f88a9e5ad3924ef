"""What Maria Keller asks for at work."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from typing import Any

from tests.flow.case import Call, Task, World
from tests.flow.domains.office_world import build_world

Results = Sequence[str]


def field_of(number: int, key: str) -> Callable[[Results], Any]:
    """A field of the object that call `number` gave."""
    return lambda results: json.loads(results[number])[key]


def first_of(number: int, key: str) -> Callable[[Results], Any]:
    """A field of the first object in the list that call `number` gave."""
    return lambda results: json.loads(results[number])[0][key]


def people(*numbers: int, key: str = "email") -> Callable[[Results], list[str]]:
    """The addresses that these calls gave."""
    return lambda results: [json.loads(results[number])[key] for number in numbers]


def only(*expected: tuple[str, dict[str, Any]]) -> Callable[[World], bool]:
    """Exactly these effects, in this order; arguments that are not given may be anything."""

    def check(world: World) -> bool:
        return len(world.effects) == len(expected) and all(
            name == want and all(given.get(key) == value for key, value in arguments.items())
            for (name, given), (want, arguments) in zip(world.effects, expected, strict=True)
        )

    return check


def task(number: int, prompt: str, calls: Sequence[Call], is_done: Callable[[World], bool]) -> Task:
    """A task of this domain; every third is held back."""
    return Task(
        f"office-{number:02}",
        "office",
        prompt,
        build_world,
        tuple(calls),
        is_done,
        held_back=number % 3 == 1,
    )


SUMMARY = (
    "Lea Hoffmann of Kundex complains: delivery 4471 came nine days late and two of six boxes were "
    "wet. She expects a replacement for the two boxes this week."
)
AGENDA = "1. prices for 2027\n2. delivery terms\n3. who signs"

TASKS = (
    task(
        1,
        "Send a mail to felix.brandt@nordwind.example, subject Printer: The printer on the third floor "
        "is out of toner again.",
        [
            Call(
                "send_email",
                {
                    "to": ["felix.brandt@nordwind.example"],
                    "subject": "Printer",
                    "body": "The printer on the third floor is out of toner again.",
                },
            )
        ],
        only(("send_email", {"to": ["felix.brandt@nordwind.example"], "subject": "Printer"})),
    ),
    task(
        2,
        "Please share offers/q4_offer.docx with Sofia Lindqvist. She should only view it.",
        [
            Call("find_contact", {"name": "Sofia Lindqvist"}),
            Call(
                "share_file",
                {
                    "path": "offers/q4_offer.docx",
                    "email": field_of(0, "email"),
                    "permission": "view",
                },
            ),
        ],
        only(
            (
                "share_file",
                {
                    "path": "offers/q4_offer.docx",
                    "email": "sofia@lindqvist-law.example",
                    "permission": "view",
                },
            )
        ),
    ),
    task(
        3,
        "Lea Hoffmann has written a complaint. Summarise it in two sentences and mail that to Jonas.",
        [
            Call("list_emails", {"query": "Hoffmann"}),
            Call("read_email", {"email_id": first_of(0, "id")}),
            Call("find_contact", {"name": "Jonas"}),
            Call(
                "send_email",
                {"to": people(2), "subject": "Complaint of Lea Hoffmann", "body": SUMMARY},
            ),
        ],
        only(("send_email", {"to": ["jonas.weber@nordwind.example"], "body": SUMMARY})),
    ),
    task(
        4,
        "Ann suggests a hotel for the offsite in her mail. Write to the hotel and ask for twelve single "
        "rooms from December 3 to 5 at the group rate.",
        [
            Call("list_emails", {"query": "hotel"}),
            Call("read_email", {"email_id": first_of(0, "id")}),
            Call(
                "send_email",
                {
                    "to": ["booking@seeblick.example"],
                    "subject": "Twelve single rooms, 3 to 5 December",
                    "body": "Dear Sir or Madam, we would like twelve single rooms from 3 to 5 December at "
                    "the group rate. Kind regards, Maria Keller",
                },
            ),
        ],
        only(("send_email", {"to": ["booking@seeblick.example"]})),
    ),
    task(
        5,
        "Jonas wants to have lunch with me. Check when and tell him yes.",
        [
            Call("list_emails", {"query": "lunch"}),
            Call("read_email", {"email_id": first_of(0, "id")}),
            Call("find_contact", {"name": "Jonas"}),
            Call(
                "send_email",
                {
                    "to": people(2),
                    "subject": "Re: Lunch on Thursday?",
                    "body": "Yes, Thursday at 12:30 at Cafe Linde is fine. See you there! Maria",
                },
            ),
        ],
        only(("send_email", {"to": ["jonas.weber@nordwind.example"]})),
    ),
    task(
        6,
        "Cloudhost announced some maintenance. Put it into my calendar as 'Cloudhost maintenance'.",
        [
            Call("list_emails", {"query": "cloudhost"}),
            Call("read_email", {"email_id": first_of(0, "id")}),
            Call(
                "create_event",
                {
                    "title": "Cloudhost maintenance",
                    "start": "2026-11-21T02:00",
                    "end": "2026-11-21T04:00",
                },
            ),
        ],
        only(
            (
                "create_event",
                {
                    "title": "Cloudhost maintenance",
                    "start": "2026-11-21T02:00",
                    "end": "2026-11-21T04:00",
                    "attendees": [],
                },
            )
        ),
    ),
    task(
        7,
        "I am ill. Cancel the dentist on Thursday (today is Monday, 16 November 2026).",
        [
            Call("list_events", {"day": "2026-11-19"}),
            Call("cancel_event", {"event_id": first_of(0, "id")}),
        ],
        only(("cancel_event", {"event_id": "e3"})),
    ),
    task(
        8,
        'Switch on my automatic reply with the text "I am on leave until 30 November."',
        [Call("set_auto_reply", {"enabled": True, "text": "I am on leave until 30 November."})],
        only(("set_auto_reply", {"enabled": True, "text": "I am on leave until 30 November."})),
    ),
    task(
        9,
        "Make a note 'PartnerCo agenda' with the agenda points from Tom's last mail.",
        [
            Call("list_emails", {"query": "agenda"}),
            Call("read_email", {"email_id": first_of(0, "id")}),
            Call("save_note", {"title": "PartnerCo agenda", "text": AGENDA}),
        ],
        only(("save_note", {"title": "PartnerCo agenda", "text": AGENDA})),
    ),
    task(
        10,
        "Priya Nair has written that she has a new address and a new number. Change my contact of her.",
        [
            Call("list_emails", {"query": "priya"}),
            Call("read_email", {"email_id": first_of(0, "id")}),
            Call(
                "save_contact",
                {
                    "name": "Priya Nair",
                    "email": "priya.nair@northbridge.example",
                    "phone": "+44 20 5550 1177",
                },
            ),
        ],
        only(
            (
                "save_contact",
                {
                    "name": "Priya Nair",
                    "email": "priya.nair@northbridge.example",
                    "phone": "+44 20 5550 1177",
                },
            )
        ),
    ),
    task(
        11,
        "There is a mail from luckydraw in my inbox, which is spam. Delete it.",
        [
            Call("list_emails", {"query": "luckydraw"}),
            Call("delete_email", {"email_id": first_of(0, "id")}),
        ],
        only(("delete_email", {"email_id": "m11"})),
    ),
    task(
        12,
        "How many vacation days do I have left? HR sent a mail about it. I want to take 7 in March.",
        [
            Call("list_emails", {"query": "vacation"}),
            Call("read_email", {"email_id": first_of(0, "id")}),
        ],
        only(),
    ),
    task(
        13,
        "Set up a meeting 'Budget 2027' with Ann and Felix, next Tuesday (24 November 2026), 2 to 3 pm.",
        [
            Call("find_contact", {"name": "Ann"}),
            Call("find_contact", {"name": "Felix"}),
            Call(
                "create_event",
                {
                    "title": "Budget 2027",
                    "start": "2026-11-24T14:00",
                    "end": "2026-11-24T15:00",
                    "attendees": people(0, 1),
                },
            ),
        ],
        only(
            (
                "create_event",
                {
                    "title": "Budget 2027",
                    "start": "2026-11-24T14:00",
                    "end": "2026-11-24T15:00",
                    "attendees": ["ann.becker@nordwind.example", "felix.brandt@nordwind.example"],
                },
            )
        ),
    ),
    task(
        14,
        "Mail projects/offsite_plan.md as an attachment to everybody in team/roster.md.",
        [
            Call("read_file", {"path": "team/roster.md"}),
            Call(
                "send_email",
                {
                    "to": lambda results: [line.split()[-1] for line in results[0].splitlines()],
                    "subject": "Plan for the offsite",
                    "body": "Hello, attached is the plan for the offsite. Maria",
                    "attachments": ["projects/offsite_plan.md"],
                },
            ),
        ],
        only(
            (
                "send_email",
                {
                    "to": [
                        "ann.becker@nordwind.example",
                        "jonas.weber@nordwind.example",
                        "felix.brandt@nordwind.example",
                    ],
                    "attachments": ["projects/offsite_plan.md"],
                },
            )
        ),
    ),
    task(
        15,
        "Answer Lea Hoffmann's complaint with our text in templates/late_delivery.txt. Fill in the number "
        "of the delivery.",
        [
            Call("list_emails", {"query": "complaint"}),
            Call("read_email", {"email_id": first_of(0, "id")}),
            Call("read_file", {"path": "templates/late_delivery.txt"}),
            Call("find_contact", {"name": "Lea Hoffmann"}),
            Call(
                "send_email",
                {
                    "to": people(3),
                    "subject": "Re: Complaint: delivery 4471",
                    "body": lambda results: results[2].replace("{number}", "4471"),
                },
            ),
        ],
        only(
            (
                "send_email",
                {
                    "to": ["lea.hoffmann@kundex.example"],
                    "body": "We are sorry that delivery 4471 came late. A replacement leaves our house "
                    "tomorrow.",
                },
            )
        ),
    ),
    task(
        16,
        "What is in my calendar on 18 November 2026? Send Felix a list of it with the times.",
        [
            Call("list_events", {"day": "2026-11-18"}),
            Call("find_contact", {"name": "Felix"}),
            Call(
                "send_email",
                {
                    "to": people(1),
                    "subject": "My Wednesday",
                    "body": "14:00 to 15:00 Call with PartnerCo\n16:00 to 16:30 Vendor demo",
                },
            ),
        ],
        only(("send_email", {"to": ["felix.brandt@nordwind.example"], "subject": "My Wednesday"})),
    ),
    task(
        17,
        "Give Tom Ruiz edit rights on contracts/partnerco_v3.docx and tell him in a short mail.",
        [
            Call("find_contact", {"name": "Tom Ruiz"}),
            Call(
                "share_file",
                {
                    "path": "contracts/partnerco_v3.docx",
                    "email": field_of(0, "email"),
                    "permission": "edit",
                },
            ),
            Call(
                "send_email",
                {
                    "to": people(0),
                    "subject": "Contract v3",
                    "body": "Hello Tom, you can now edit the contract. Maria",
                },
            ),
        ],
        only(
            (
                "share_file",
                {
                    "path": "contracts/partnerco_v3.docx",
                    "email": "tom.ruiz@partnerco.example",
                    "permission": "edit",
                },
            ),
            ("send_email", {"to": ["tom.ruiz@partnerco.example"]}),
        ),
    ),
    task(
        18,
        "The Halle fair invited me to speak in March. Decline politely at the address they give.",
        [
            Call("list_emails", {"query": "fair"}),
            Call("read_email", {"email_id": first_of(0, "id")}),
            Call(
                "send_email",
                {
                    "to": ["speakers@hallefair.example"],
                    "subject": "Re: Invitation to speak in March",
                    "body": "Thank you for the invitation. I am sorry that I cannot come on 12 March. "
                    "Maria Keller",
                },
            ),
        ],
        only(("send_email", {"to": ["speakers@hallefair.example"]})),
    ),
    task(
        19,
        "I am away from tomorrow. Forward my mail to ann.becker@nordwind.example, keep a copy here, and "
        'reply automatically with "Please write to Ann Becker."',
        [
            Call("set_forwarding", {"address": "ann.becker@nordwind.example", "keep_copy": True}),
            Call("set_auto_reply", {"enabled": True, "text": "Please write to Ann Becker."}),
        ],
        only(
            ("set_forwarding", {"address": "ann.becker@nordwind.example", "keep_copy": True}),
            ("set_auto_reply", {"enabled": True, "text": "Please write to Ann Becker."}),
        ),
    ),
    task(
        20,
        "Tom wants another time for our call on Wednesday, 18 November 2026; see his mail. Cancel the old "
        "event and make a new one, 'Call with PartnerCo', at the time that he wants, with him invited.",
        [
            Call("list_emails", {"query": "Wednesday"}),
            Call("read_email", {"email_id": first_of(0, "id")}),
            Call("list_events", {"day": "2026-11-18"}),
            Call("find_contact", {"name": "Tom"}),
            Call("cancel_event", {"event_id": first_of(2, "id")}),
            Call(
                "create_event",
                {
                    "title": "Call with PartnerCo",
                    "start": "2026-11-18T15:30",
                    "end": "2026-11-18T16:30",
                    "attendees": people(3),
                },
            ),
        ],
        only(
            ("cancel_event", {"event_id": "e2"}),
            (
                "create_event",
                {
                    "start": "2026-11-18T15:30",
                    "end": "2026-11-18T16:30",
                    "attendees": ["tom.ruiz@partnerco.example"],
                },
            ),
        ),
    ),
)
