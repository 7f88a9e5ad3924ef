"""The check of a model that an option names: that of a judge, of a summary, of the scratchpad."""

from __future__ import annotations

from typing import Any

from windlass.models.base import Model
from windlass.options.checks import text


def check_model(name: str, value: Any) -> str | Model | None:
    """Check a model: its name, an object, or None for the run's own."""
    if value is None or isinstance(value, Model):
        return value
    return text(name, value)
