"""A module of the project's own."""

import windlass as w


@w.tool(side_effect_level="read_only")
def price(item: str) -> str:
    """The price of an item."""
    return f"{item} costs 59.90"
