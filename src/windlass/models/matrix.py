"""Which row of facts is about a model: `capabilities_of("anthropic", "claude-opus-4-7")`."""

from __future__ import annotations

from windlass.models import catalog
from windlass.models.capabilities import Capabilities


def capabilities_of(provider: str, model: str) -> Capabilities:
    """What is known of the model."""
    info = catalog.lookup(provider, model)
    if info is None:
        return Capabilities()
    return Capabilities(
        known=True,
        native_tools=info.native_tools,
        thinking=info.reasoning,
        always_thinks=not info.thinking_off or info.thinking == "always",
        thinking_budget=info.thinking_budget,
        efforts=info.thinking_levels,
        sampling=info.sampling,
        signs_calls=info.signs_calls,
        media_results=info.media_results,
    )
