"""Redaction of what layers write: by the run's redactor and the model's own keys."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TypeVar

from windlass.models.base import Model
from windlass.models.meter import find_scope
from windlass.redaction.redactor import Redactor

T = TypeVar("T")


class LayerRedactor:
    """A redactor of the model's keys and the Runtime's secrets.

    `LayerRedactor(model.secrets).value(reply)`
    """

    def __init__(self, secrets: Iterable[str]) -> None:
        scope = find_scope()
        known = None if scope is None else scope.redactor
        self._redactors = [
            one for one in (known, Redactor(secrets)) if one is not None and len(one)
        ]

    def value(self, value: T) -> T:
        """Remove the secrets from a value."""
        for one in self._redactors:
            value = one.value(value)
        return value

    def text(self, text: str) -> str:
        """Remove the secrets from a text."""
        for one in self._redactors:
            text = one.text(text)
        return text


def secrets_of(model: Model | None) -> tuple[str, ...]:
    """Return the keys of a model and of those that it holds."""
    found: list[str] = []
    while model is not None:
        found += model.secrets
        model = getattr(model, "model", None)  # a wrapper holds the one that has the key
    return tuple(dict.fromkeys(found))
