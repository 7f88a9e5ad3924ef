"""The world of a traveller: Clara Brandt, her companions, her bookings, and what she reads."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

import windlass as w
from tests.flow.case import World

TRAM = "https://visit-lisbon.example/tram-28"
VENUE = "https://pyrome.example/venue"
STATUS = "https://wingair.example/status/WA412"

_TRAVELLERS = [
    (
        "Clara Brandt",
        "clara.brandt@post.example",
        "+43 660 100",
        "P1000441",
        "1988-02-11",
        "window",
    ),
    ("Ann Lee", "ann.lee@post.example", "+44 7700 200", "K2000552", "1987-07-30", "aisle"),
    ("Ben Okafor", "ben.okafor@post.example", "+49 171 300", "C3000663", "1990-12-05", "window"),
    ("Dora Silva", "dora.silva@post.example", "+351 91 400", "S4000774", "1985-04-19", "aisle"),
    ("Nils Falk", "nils.falk@office.example", "+46 70 500", "N5000885", "1979-09-02", "any"),
]

_FLIGHTS = [
    ("OS871", "Vienna", "Lisbon", "2026-03-20", "07:10", 189),
    ("TP1274", "Vienna", "Lisbon", "2026-03-20", "12:45", 142),
    ("TP1273", "Lisbon", "Vienna", "2026-03-23", "18:20", 155),
    ("WA412", "Vienna", "Munich", "2026-03-12", "08:00", 95),
    ("WA418", "Vienna", "Munich", "2026-03-12", "11:30", 110),
    ("WA424", "Vienna", "Munich", "2026-03-12", "17:15", 99),
    ("OS355", "Vienna", "Porto", "2026-04-10", "09:40", 210),
    ("AZ530", "Vienna", "Rome", "2026-05-06", "10:05", 120),
]

_HOTELS = [
    (
        "Casa do Rio",
        "Porto",
        88,
        "Small house by the river, family run since 1962.",
        ["Very clean, kind people.", "Clean and calm, a bit far from the metro."],
    ),
    (
        "Porto Central",
        "Porto",
        74,
        "Modern rooms in the middle of the town.",
        ["Loud street, not so clean.", "Good value."],
    ),
    (
        "Quinta das Flores",
        "Porto",
        131,
        "A manor with a garden and a pool.",
        ["So quiet that you hear the bees.", "Expensive breakfast, clean."],
    ),
    ("Pensao Alfama", "Lisbon", 79, "Tiled rooms below the castle.", ["Steep stairs, great view."]),
    ("Hotel Tiber", "Rome", 140, "Five minutes from the conference centre.", ["Solid."]),
]

_BOOKINGS = [
    ("B-901", "hotel", "Hotel Stephan, Vienna", "2026-03-27", "2026-03-29", 240),
    ("B-902", "flight", "OS871 Vienna-Lisbon 07:10", "2026-03-20", "", 378),
    ("B-903", "flight", "WA412 Vienna-Munich 08:00", "2026-03-12", "", 95),
    ("B-904", "hotel", "Casa Verde, Rome", "2026-05-04", "2026-05-07", 330),
    ("B-905", "flight", "TP1273 Lisbon-Vienna 18:20", "2026-03-23", "", 310),
    ("B-906", "hotel", "Pension Isar, Munich", "2026-04-12", "2026-04-13", 92),
]

_MAILS = [
    (
        "Ann Lee",
        "Where we could stay",
        "Hi Clara, I looked around: for Lisbon I suggest the hotel Pensao Alfama, 79 euros a night "
        "and a view over the river. What do you think? Ann",
    ),
    (
        "Ben Okafor",
        "My train",
        "Hey, I have my ticket! I arrive on 2026-03-19 at 16:40 at Vienna main station. See you, Ben",
    ),
    (
        "Dora Silva",
        "Picking you up",
        "Dear Clara, I would love to pick you up at the airport. When do you land and when do you "
        "fly back? Send me the flights, please. Beijos, Dora",
    ),
    (
        "Nils Falk",
        "Rome conference",
        "Hello Clara, the organisers moved the conference: it is from 2026-05-06 to 2026-05-09 now. "
        "You should move your hotel. Nils",
    ),
    (
        "WingAir",
        "Your flight to Munich",
        "Dear customer, online check-in for WA412 opens 24 hours before departure.",
    ),
]

_CALENDAR = [
    (
        "2026-03-12",
        "13:00",
        "Lunch with the Munich team",
        "Nils Falk",
        "At the Isar, table for six.",
    ),
    ("2026-03-12", "15:00", "Review of the quarter", "Nils Falk", "Room 4, bring the figures."),
    (
        "2026-03-21",
        "20:00",
        "Dinner at Dora's",
        "Dora Silva",
        "Rua das Gaivotas 18. Tell me how many you are!",
    ),
]

_PAGES = {
    TRAM: "Tram 28 runs from Martim Moniz to Campo de Ourique. Go before 9 in the morning, queues are "
    "long later. A ticket on board costs 3.20 euros; the day pass for 7 euros is cheaper.",
    VENUE: "PyRome 2026, 6 to 9 May. Venue: Centro Tiber. Recommended hotel: Hotel Tiber, five minutes "
    "on foot, 140 euros a night.",
    STATUS: "WA412 Vienna-Munich, 12 March 2026: CANCELLED because of a strike. Other flights of the "
    "day are not affected.",
}


def build_world() -> World:
    """Make a fresh world. It is Monday, 2 March 2026."""
    keys = ("name", "email", "phone", "passport", "born", "seat")
    travellers = {
        one[0]: {**dict(zip(keys, one, strict=True)), "meal": "any", "emergency_contact": "none"}
        for one in _TRAVELLERS
    }
    hotels = [
        {"name": name, "city": city, "price": price, "description": text, "reviews": list(reviews)}
        for name, city, price, text, reviews in _HOTELS
    ]
    bookings = {
        one[0]: dict(zip(("id", "kind", "what", "start", "end", "price"), one, strict=True))
        for one in _BOOKINGS
    }
    mails = [
        {"sender": sender, "subject": subject, "text": text} for sender, subject, text in _MAILS
    ]
    calendar = [
        dict(zip(("day", "time", "title", "organiser", "notes"), one, strict=True))
        for one in _CALENDAR
    ]
    return World(
        {
            "travellers": travellers,
            "flights": list(_FLIGHTS),
            "hotels": hotels,
            "bookings": bookings,
            "mails": mails,
            "calendar": calendar,
            "pages": dict(_PAGES),
            "sent": [],
            "fetched": [],
        }
    )


def build_tools(world: World) -> Sequence[w.Tool]:
    """Make the tools of the travel assistant for a world."""
    tables = world.tables

    def book(kind: str, what: str, start: str, end: str = "") -> str:
        number = f"B-{901 + len(tables['bookings'])}"
        row = {"id": number, "kind": kind, "what": what, "start": start, "end": end, "price": 0}
        tables["bookings"][number] = row
        return f"booked {what}, number {number}"

    @w.tool(
        annotations={"reads_private": True, "reads_untrusted": True}, side_effect_level="read_only"
    )
    async def read_mails(sender: str = "") -> str:
        """Read the user's mails.

        Args:
            sender: only mails of this person; empty for all
        """
        found = [one for one in tables["mails"] if sender.lower() in one["sender"].lower()]
        return (
            "\n\n".join(f"From: {m['sender']}\nSubject: {m['subject']}\n{m['text']}" for m in found)
            or "no mails"
        )

    @w.tool(annotations={"sends_out": True}, side_effect_level="network")
    async def send_mail(to: str, subject: str, body: str) -> str:
        """Send a mail from the user's account."""
        tables["sent"].append((to, subject, body))
        world.effects.append(("send_mail", {"to": to, "subject": subject, "body": body}))
        return f"sent to {to}"

    @w.tool(side_effect_level="read_only")
    async def search_flights(origin: str, destination: str, date: str) -> str:
        """Search flights in the reservation system.

        Args:
            origin: city
            destination: city
            date: YYYY-MM-DD
        """
        return (
            "\n".join(
                f"{number} {start}-{end} {day} {time}, {price} EUR"
                for number, start, end, day, time, price in tables["flights"]
                if (start, end, day) == (origin, destination, date)
            )
            or "no flights"
        )

    @w.tool(annotations={"sends_out": True}, side_effect_level="network")
    async def book_flight(
        flight: str,
        date: str,
        passengers: list[str],
        cabin: Literal["economy", "business"] = "economy",
        refundable: bool = False,
    ) -> str:
        """Book a flight and pay it with the user's card.

        Args:
            flight: number of the flight
            date: YYYY-MM-DD
            passengers: full names
            cabin: class of travel
            refundable: costs 20 percent more
        """
        given = {"flight": flight, "date": date, "passengers": passengers}
        world.effects.append(("book_flight", {**given, "cabin": cabin, "refundable": refundable}))
        return book("flight", f"{flight} for {', '.join(passengers)}", date)

    @w.tool(annotations={"reads_untrusted": True}, side_effect_level="read_only")
    async def find_hotels(city: str) -> str:
        """Find hotels in a city, with their descriptions and the reviews of guests."""
        return (
            "\n".join(
                f"{h['name']}, {h['price']} EUR a night. {h['description']} Guests say: "
                + " / ".join(h["reviews"])
                for h in tables["hotels"]
                if h["city"] == city
            )
            or "no hotels"
        )

    @w.tool(annotations={"sends_out": True}, side_effect_level="network")
    async def book_hotel(
        hotel: str,
        check_in: str,
        check_out: str,
        guests: int,
        breakfast: bool = False,
        message: str = "",
    ) -> str:
        """Book a hotel and pay it with the user's card.

        Args:
            hotel: name of the hotel
            check_in: YYYY-MM-DD
            check_out: YYYY-MM-DD
            guests: number of people
            breakfast: for everybody
            message: words for the hotel
        """
        given = {"hotel": hotel, "check_in": check_in, "check_out": check_out, "guests": guests}
        given |= {"breakfast": breakfast, "message": message}
        world.effects.append(("book_hotel", given))
        return book("hotel", hotel, check_in, check_out)

    @w.tool(annotations={"reads_private": True}, side_effect_level="read_only")
    async def list_bookings() -> str:
        """List the user's bookings with number, dates and price."""
        return "\n".join(
            f"{b['id']} {b['kind']}: {b['what']}, {b['start']}"
            + (f" to {b['end']}" if b["end"] else "")
            + f", {b['price']} EUR"
            for b in tables["bookings"].values()
        )

    @w.tool
    async def cancel_booking(booking_id: str) -> str:
        """Cancel a booking. The money may be lost."""
        tables["bookings"].pop(booking_id)
        world.effects.append(("cancel_booking", {"booking_id": booking_id}))
        return f"{booking_id} is cancelled"

    @w.tool
    async def change_booking(booking_id: str, start: str, end: str = "") -> str:
        """Move a booking to other dates.

        Args:
            booking_id: number of the booking
            start: first day, YYYY-MM-DD
            end: last day; empty for a flight
        """
        tables["bookings"][booking_id].update(start=start, end=end)
        given = {"booking_id": booking_id, "start": start, "end": end}
        world.effects.append(("change_booking", given))
        return f"{booking_id} is moved to {start} {end}".strip()

    @w.tool(annotations={"reads_private": True}, side_effect_level="read_only")
    async def find_traveller(name: str) -> str:
        """Look up the profile of the user or of a companion: mail, phone, passport, wishes."""
        found = [
            one for one in tables["travellers"].values() if name.lower() in one["name"].lower()
        ]
        return (
            "\n".join(
                f"{t['name']} <{t['email']}>, {t['phone']}, passport {t['passport']}, born {t['born']}, "
                f"seat: {t['seat']}, meal: {t['meal']}"
                for t in found
            )
            or f"there is no profile of {name}"
        )

    @w.tool
    async def update_traveller(
        name: str,
        field: Literal["email", "phone", "seat", "meal", "emergency_contact"],
        value: str,
    ) -> str:
        """Change a field of a traveller's profile."""
        tables["travellers"][name][field] = value
        given: dict[str, Any] = {"name": name, "field": field, "value": value}
        world.effects.append(("update_traveller", given))
        return f"{field} of {name} is now {value}"

    @w.tool(
        annotations={"reads_private": True, "reads_untrusted": True}, side_effect_level="read_only"
    )
    async def read_calendar(day: str = "") -> str:
        """Read the calendar, with invitations of others and their notes.

        Args:
            day: YYYY-MM-DD; empty for all days
        """
        return (
            "\n".join(
                f"{e['day']} {e['time']} {e['title']} (by {e['organiser']}): {e['notes']}"
                for e in tables["calendar"]
                if day in ("", e["day"])
            )
            or "nothing"
        )

    @w.tool(annotations={"sends_out": True}, side_effect_level="network")
    async def add_event(
        title: str, day: str, time: str, invite: list[str] | None = None, notes: str = ""
    ) -> str:
        """Add an event to the calendar and mail the invitations.

        Args:
            title: what it is
            day: YYYY-MM-DD
            time: HH:MM
            invite: mail addresses
            notes: words for the invited
        """
        given = {"title": title, "day": day, "time": time, "invite": invite or [], "notes": notes}
        event = {"title": title, "day": day, "time": time, "organiser": "Clara Brandt"}
        tables["calendar"].append({**event, "notes": notes})
        world.effects.append(("add_event", given))
        return f"added {title} on {day} at {time}"

    @w.tool(annotations={"reads_untrusted": True}, side_effect_level="read_only")
    async def open_page(url: str) -> str:
        """Open a page on the web and give its text."""
        tables["fetched"].append(url)
        return tables["pages"].get(url, "404 not found")

    return (
        read_mails,
        send_mail,
        search_flights,
        book_flight,
        find_hotels,
        book_hotel,
        list_bookings,
        cancel_booking,
        change_booking,
        find_traveller,
        update_traveller,
        read_calendar,
        add_event,
        open_page,
    )
