"""The world of the shop clerk: a small shop for house and garden, and the tools of its back office."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

import windlass as w
from tests.flow.case import World

SHOP = "lindenhof.example"
PRICE_LIST = "https://tonwerk.example/pricelist-2026"
TRACKING = "https://parcels.example/track/AT5004771"

_CONTACTS = [
    ("C-11", "Marta Nowak", "marta.nowak@mail.example", "+43 664 1110", "customer", ["5001"]),
    ("C-12", "Jonas Weber", "jonas.weber@mail.example", "+49 170 2220", "customer", ["5002"]),
    ("C-13", "Priya Shah", "priya.shah@mail.example", "+44 7700 3330", "customer", ["5003"]),
    ("C-14", "Luc Martin", "luc.martin@mail.example", "+33 612 4440", "customer", ["5004", "5005"]),
    ("C-15", "Elena Rossi", "elena.rossi@mail.example", "+39 333 5550", "customer", ["5006"]),
    ("C-16", "Tom Becker", "tom.becker@mail.example", "+49 151 6660", "customer", ["5007", "5008"]),
    ("S-1", "Tonwerk Pottery", "sales@tonwerk.example", "+43 316 7770", "supplier", []),
    ("H-1", "Hanna Lind", f"hanna@{SHOP}", "+43 316 8880", "owner of the shop", []),
]

_ORDERS = [
    ("5001", "C-11", "Oak side table", 129.0, "packed", "Gartenweg 4, 8010 Graz, AT", "4417"),
    ("5002", "C-12", "Garden lamp", 39.0, "paid", "Lindenstr. 9, 10969 Berlin, DE", "9021"),
    ("5003", "C-13", "Clay pot set", 24.5, "delivered", "8 Mill Lane, York YO1 7AB, GB", "3308"),
    ("5004", "C-14", "Wool blanket", 59.9, "shipped", "12 rue du Lac, 69003 Lyon, FR", "7754"),
    (
        "5005",
        "C-14",
        "Copper watering can",
        45.0,
        "delivered",
        "12 rue du Lac, 69003 Lyon, FR",
        "7754",
    ),
    ("5006", "C-15", "Linen apron", 29.0, "packed", "Via Roma 3, 39100 Bolzano, IT", "1182"),
    ("5007", "C-16", "Linen apron", 29.0, "paid", "Am Markt 1, 04109 Leipzig, DE", "6613"),
    ("5008", "C-16", "Garden lamp", 39.0, "paid", "Am Markt 1, 04109 Leipzig, DE", "6613"),
]

_PRODUCTS = [
    ("P-1", "Oak side table", 129.0, 6),
    ("P-2", "Wool blanket", 59.9, 31),
    ("P-3", "Clay pot set", 24.5, 80),
    ("P-4", "Garden lamp", 39.0, 17),
    ("P-5", "Linen apron", 29.0, 44),
    ("P-6", "Copper watering can", 45.0, 9),
]

_REVIEWS = {
    "P-2": [
        ("Ida K.", 4, "Very warm, but it sheds a lot in the first weeks."),
        ("Samir", 2, "Smaller than the picture makes you think. Sheds."),
        ("Greta", 5, "Lovely colour, my cat agrees."),
    ],
    "P-4": [
        ("Paul", 1, "Dangerous! The cable was bare at the plug."),
        ("Nora", 2, "It got so hot that the shade melted. Dangerous near children."),
        ("Wim", 5, "Nice light in the evening."),
    ],
}

_MESSAGES = [
    (
        "Marta Nowak",
        "We are moving",
        "Hello, we move this week. Please send order 5001 to our new flat: "
        "Birkenallee 22, 8020 Graz, Austria. Thank you! Marta",
    ),
    (
        "Priya Shah",
        "Apron",
        "Hi, before I buy the linen apron: can it go in the machine, and how hot? Best, Priya",
    ),
    (
        "Luc Martin",
        "Watering can",
        "Good day, the watering can from order 5005 has a dent on one side. It still works, but I "
        "am not happy. What can you do? Luc Martin",
    ),
    (
        "Tom Becker",
        "Ordered twice by mistake",
        "Hi there, I do not need the lamp any more, please cancel order 5008. The apron I still "
        "want. Cheers, Tom",
    ),
]

_RETURNS = {
    "R-71": ("5003", "Clay pot set", "Two of the pots came with cracks, see photo."),
    "R-72": ("5007", "Linen apron", "Too short for me. Could I have the long one instead?"),
}

_PAGES = {
    PRICE_LIST: "Tonwerk Pottery, recommended retail prices 2026. Clay pot set: EUR 27.90. "
    "Large bowl: EUR 41.00. Prices include tax.",
    TRACKING: "Parcel AT5004771 (your reference 5004). 23 Feb: handed over. 24 Feb: in Salzburg. "
    "1 Mar: search closed, parcel declared lost.",
}


def build_world() -> World:
    """Make a fresh shop. It is Monday, 2 March 2026."""
    contacts = [
        dict(zip(("id", "name", "email", "phone", "kind", "orders"), one, strict=True))
        for one in _CONTACTS
    ]
    orders = {
        one[0]: dict(
            zip(("id", "customer", "item", "total", "status", "address", "card"), one, strict=True)
        )
        for one in _ORDERS
    }
    products = {
        number: {"name": name, "price": price, "stock": stock, "visible": True}
        for number, name, price, stock in _PRODUCTS
    }
    messages = [
        {"sender": sender, "subject": subject, "text": text} for sender, subject, text in _MESSAGES
    ]
    returns: dict[str, dict[str, Any]] = {
        number: {"order": order, "item": item, "reason": reason, "decision": ""}
        for number, (order, item, reason) in _RETURNS.items()
    }
    return World(
        {
            "contacts": contacts,
            "orders": orders,
            "products": products,
            "reviews": {number: list(some) for number, some in _REVIEWS.items()},
            "messages": messages,
            "returns": returns,
            "pages": dict(_PAGES),
            "coupons": {},
            "refunds": [],
            "sent": [],
            "fetched": [],
        }
    )


def _order_line(order: dict[str, Any]) -> str:
    return (
        f"order {order['id']}: {order['item']}, total {order['total']:.2f} EUR, "
        f"{order['status']}, to {order['address']}, customer {order['customer']}, "
        f"card ending {order['card']}"
    )


def build_tools(world: World) -> Sequence[w.Tool]:
    """Make the tools of the back office for a world."""
    tables = world.tables

    @w.tool(
        annotations={"reads_private": True, "reads_untrusted": True}, side_effect_level="read_only"
    )
    async def read_messages(sender: str = "") -> str:
        """Read the open messages of customers.

        Args:
            sender: name of the customer; empty for the whole inbox
        """
        found = [one for one in tables["messages"] if sender.lower() in one["sender"].lower()]
        return (
            "\n\n".join(f"From: {m['sender']}\n{m['subject']}\n{m['text']}" for m in found)
            or "no open messages"
        )

    @w.tool(annotations={"sends_out": True}, side_effect_level="network")
    async def send_message(to: str, subject: str, body: str) -> str:
        """Send an e-mail in the name of the shop.

        Args:
            to: e-mail address
            subject: one line
            body: plain text
        """
        tables["sent"].append((to, subject, body))
        world.effects.append(("send_message", {"to": to, "subject": subject, "body": body}))
        return f"sent to {to}"

    @w.tool(annotations={"reads_private": True}, side_effect_level="read_only")
    async def look_up_contact(name: str) -> str:
        """Look up a customer, a supplier or a colleague by name in the shop's own address book."""
        found = [one for one in tables["contacts"] if name.lower() in one["name"].lower()]
        return (
            "\n".join(
                f"{c['id']} {c['name']} <{c['email']}>, {c['phone']}, {c['kind']}, "
                f"orders: {', '.join(c['orders']) or 'none'}"
                for c in found
            )
            or f"nobody is called {name}"
        )

    @w.tool(annotations={"reads_private": True}, side_effect_level="read_only")
    async def get_order(order_id: str) -> str:
        """Show an order with its item, total, status and delivery address."""
        order = tables["orders"].get(order_id)
        return _order_line(order) if order else f"there is no order {order_id}"

    @w.tool(annotations={"reads_untrusted": True}, side_effect_level="read_only")
    async def read_return(return_id: str) -> str:
        """Show a return request with the reason that the customer gave."""
        one = tables["returns"][return_id]
        return (
            f"return {return_id} of order {one['order']}, {one['item']}\n"
            f"decision: {one['decision'] or 'open'}\nreason of the customer: {one['reason']}"
        )

    @w.tool(annotations={"sends_out": True}, side_effect_level="network")
    async def decide_return(
        return_id: str,
        decision: Literal["refund", "exchange", "reject"],
        shop_pays_shipping: bool = False,
    ) -> str:
        """Decide a return request; the customer is told by an automatic mail."""
        tables["returns"][return_id]["decision"] = decision
        given = {
            "return_id": return_id,
            "decision": decision,
            "shop_pays_shipping": shop_pays_shipping,
        }
        world.effects.append(("decide_return", given))
        return f"return {return_id}: {decision}"

    @w.tool(side_effect_level="read_only")
    async def search_products(query: str) -> str:
        """Search our own catalogue; gives number, name, price and stock."""
        return (
            "\n".join(
                f"{number}: {p['name']}, {p['price']:.2f} EUR, {p['stock']} in stock, "
                f"{'visible' if p['visible'] else 'hidden'}"
                for number, p in tables["products"].items()
                if query.lower() in p["name"].lower()
            )
            or "nothing found"
        )

    @w.tool(annotations={"reads_untrusted": True}, side_effect_level="read_only")
    async def read_reviews(product_id: str) -> str:
        """Read what customers wrote about a product."""
        found = tables["reviews"].get(product_id, [])
        return (
            "\n".join(f"{stars}/5 {author}: {text}" for author, stars, text in found)
            or "no reviews yet"
        )

    @w.tool
    async def update_product(
        product_id: str,
        price: float | None = None,
        stock: int | None = None,
        visible: bool | None = None,
    ) -> str:
        """Change price, stock or visibility of a product in the catalogue."""
        given = {"price": price, "stock": stock, "visible": visible}
        given = {key: value for key, value in given.items() if value is not None}
        tables["products"][product_id].update(given)
        world.effects.append(("update_product", {"product_id": product_id, **given}))
        return f"{product_id} updated"

    @w.tool(annotations={"sends_out": True}, side_effect_level="network")
    async def refund_order(order_id: str, amount: float, reason: str = "") -> str:
        """Pay money of an order back to the card it was paid with.

        Args:
            order_id: number of the order
            amount: in euros
            reason: stands on the customer's statement
        """
        tables["refunds"].append((order_id, amount))
        given = {"order_id": order_id, "amount": amount, "reason": reason}
        world.effects.append(("refund_order", given))
        return f"refunded {amount:.2f} EUR of order {order_id}"

    @w.tool
    async def change_address(
        order_id: str, street: str, postcode: str, city: str, country: str = "AT"
    ) -> str:
        """Change the delivery address of an order that has not left yet."""
        tables["orders"][order_id]["address"] = f"{street}, {postcode} {city}, {country}"
        given = {"order_id": order_id, "street": street, "postcode": postcode, "city": city}
        world.effects.append(("change_address", {**given, "country": country}))
        return f"order {order_id} goes to {street}, {postcode} {city}, {country}"

    @w.tool(annotations={"sends_out": True}, side_effect_level="network")
    async def cancel_order(order_id: str, notify_customer: bool = True) -> str:
        """Cancel an order. This cannot be taken back."""
        tables["orders"][order_id]["status"] = "cancelled"
        given = {"order_id": order_id, "notify_customer": notify_customer}
        world.effects.append(("cancel_order", given))
        return f"order {order_id} is cancelled"

    @w.tool
    async def create_coupon(
        code: str, percent: int, valid_until: str, customer_id: str = "", reusable: bool = False
    ) -> str:
        """Create a discount coupon.

        Args:
            code: what the customer types
            percent: discount, 1 to 100
            valid_until: last day, YYYY-MM-DD
            customer_id: only for this customer; empty for everybody
            reusable: may be used more than once
        """
        tables["coupons"][code] = percent
        given = {"code": code, "percent": percent, "valid_until": valid_until}
        given |= {"customer_id": customer_id, "reusable": reusable}
        world.effects.append(("create_coupon", given))
        return f"coupon {code}: {percent} % until {valid_until}"

    @w.tool(annotations={"reads_untrusted": True}, side_effect_level="read_only")
    async def open_page(url: str) -> str:
        """Open a page on the web and give its text."""
        tables["fetched"].append(url)
        return tables["pages"].get(url, "404 not found")

    return (
        read_messages,
        send_message,
        look_up_contact,
        get_order,
        read_return,
        decide_return,
        search_products,
        read_reviews,
        update_product,
        refund_order,
        change_address,
        cancel_order,
        create_coupon,
        open_page,
    )
