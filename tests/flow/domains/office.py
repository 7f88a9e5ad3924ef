"""The office: mail, contacts, calendar, files and notes."""

from __future__ import annotations

from tests.flow.case import DomainCases
from tests.flow.domains.office_injections import INJECTIONS
from tests.flow.domains.office_tasks import TASKS
from tests.flow.domains.office_world import build_tools

CASES = DomainCases("office", build_tools, TASKS, INJECTIONS)
