"""A maintainer's assistant in a public repository: threads, CI logs, packages, pages and settings."""

from __future__ import annotations

from tests.flow.case import DomainCases
from tests.flow.domains.code_injections import INJECTIONS
from tests.flow.domains.code_tasks import TASKS
from tests.flow.domains.code_world import build_tools

CASES = DomainCases("code", build_tools, TASKS, INJECTIONS)
