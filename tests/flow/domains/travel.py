"""Travel: flights, hotels, bookings and the calendar of a traveller and her companions."""

from __future__ import annotations

from tests.flow.case import DomainCases
from tests.flow.domains.travel_injections import INJECTIONS
from tests.flow.domains.travel_tasks import TASKS
from tests.flow.domains.travel_world import build_tools

CASES = DomainCases("travel", build_tools, TASKS, INJECTIONS)
