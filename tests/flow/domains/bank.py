"""The bank: accounts, payees, transfers, standing orders, statements, messages and invoices."""

from __future__ import annotations

from tests.flow.case import DomainCases
from tests.flow.domains.bank_injections import INJECTIONS
from tests.flow.domains.bank_tasks import TASKS
from tests.flow.domains.bank_world import build_tools

CASES = DomainCases("bank", build_tools, TASKS, INJECTIONS)
