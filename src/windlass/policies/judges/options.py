"""Who judges ends, as the options of judgement say it."""

from __future__ import annotations

import msgspec

from windlass.models.base import Model
from windlass.policies.judges.evidence import FALLBACK
from windlass.policies.judges.gates import SYSTEM, Cadence


class DoneJudge(msgspec.Struct, frozen=True, kw_only=True):
    """Who must agree that the work is done: `DoneJudge(model="openai:gpt-5", max_invocations=2)`."""

    provider: str | None = None
    model: str | Model | None = None  # the loop's own
    system: str = SYSTEM
    max_invocations: int | None = None  # calls after which the run ends; 0 and None: no cap
    cadence: Cadence = Cadence()


class CompletionJudge(msgspec.Struct, frozen=True, kw_only=True):
    """Who looks at any natural stop: `CompletionJudge(max_invocations=2)`."""

    provider: str | None = None
    model: str | Model | None = None
    system: str = SYSTEM
    feedback_fallback: str = FALLBACK
    max_invocations: int | None = 5
