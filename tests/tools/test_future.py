"""The same, where annotations are strings: `from __future__ import annotations`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NotRequired, TypedDict

import pytest

from tests.tools.helpers import call, context
from windlass.errors import ConfigError
from windlass.tools.function import as_tool, tool
from windlass.tools.tool import ToolContext

if TYPE_CHECKING:
    from decimal import Decimal

    from tests.tools.nowhere import Db, Receipt  # pyright: ignore[reportMissingImports]


@dataclass
class Item:
    name: str
    parts: list[Item] | None = None


class Order(TypedDict):
    items: list[Item]
    note: NotRequired[str]


async def test_module_level_names_are_found() -> None:
    @tool
    def pack(order: Order, again: Item | None = None) -> str:
        return order["items"][0].name

    order = pack.parameters["properties"]["order"]
    assert order["required"] == ["items"]
    assert (await call(pack, order={"items": [{"name": "pin", "parts": []}]})).content == "pin"


async def test_names_local_to_the_function_that_makes_the_tool_are_found() -> None:
    @dataclass
    class Local:
        n: int
        inner: Other | None = None

    @dataclass
    class Other:
        m: int

    def use(x: Local) -> str:
        return repr(x.inner)

    made = as_tool(use)
    expected = repr(Other(2))
    assert (await call(made, x={"n": 1, "inner": {"m": 2}})).content == expected


async def test_what_only_the_type_checker_knows_may_stand_in_the_context_and_the_return() -> None:
    @tool
    def pay(ctx: ToolContext[Db], amount: int) -> Receipt:
        return f"{ctx.deps}{amount}"  # pyright: ignore[reportReturnType]

    assert list(pay.parameters["properties"]) == ["amount"]
    assert (await pay.call({"amount": 2}, context("db"))).content == "db2"


def test_a_parameter_nobody_can_resolve_is_refused_with_its_name() -> None:
    def price(amount: Decimal) -> Any: ...

    with pytest.raises(ConfigError, match="parameter 'amount' is annotated 'Decimal'.*TYPE_CHECK"):
        as_tool(price)


def test_a_field_nobody_can_resolve_is_refused_with_its_name() -> None:
    @dataclass
    class Holder:
        amount: Decimal

    def price(holder: Holder) -> Any: ...

    with pytest.raises(ConfigError, match="parameter 'holder'.*'Decimal', which cannot be found"):
        as_tool(price)
