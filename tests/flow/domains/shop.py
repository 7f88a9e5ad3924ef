"""The shop: a clerk works on orders, returns, products and messages of customers."""

from __future__ import annotations

from tests.flow.case import DomainCases
from tests.flow.domains.shop_injections import INJECTIONS
from tests.flow.domains.shop_tasks import TASKS
from tests.flow.domains.shop_world import build_tools

CASES = DomainCases("shop", build_tools, TASKS, INJECTIONS)
