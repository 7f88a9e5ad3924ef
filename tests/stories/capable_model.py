"""A scripted model that can do what a story needs."""

from __future__ import annotations

from typing import Any

from windlass.models.base import Completion, Emit, Response
from windlass.models.registry.capabilities import Capabilities
from windlass.testing import scripted
from windlass.testing.script import ScriptedModel


class Able(ScriptedModel):
    """A scripted model with chosen capabilities."""

    caps: Capabilities = Capabilities()
    completes: Response | None = None

    @property
    def capabilities(self) -> Capabilities:
        return self.caps

    async def complete(self, completion: Completion, emit: Emit) -> Response | None:
        self.completions.append(completion)
        return self.completes


def able(*replies: Any, caps: Capabilities, completes: Response | None = None, **more: Any) -> Able:
    """Build such a model: `able("x", caps=Capabilities(structured=("schema",)))`"""
    model: Any = scripted(*replies, **more)
    model.__class__ = Able
    model.caps, model.completes, model.completions = caps, completes, []
    return model
