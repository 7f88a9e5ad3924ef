"""API keys of models, known to a Runtime's redactor while the models exist."""

from __future__ import annotations

import weakref
from collections.abc import Iterator
from typing import TypeAlias, cast

from windlass.models.base import Model
from windlass.redaction.redactor import Redactor

#: The keys that were added for a model, by its id.
Learned: TypeAlias = dict[int, tuple[str, ...]]


def learn_keys(redactor: Redactor, learned: Learned, model: Model) -> None:
    """Register the keys of a model, and of the models it wraps, until each is collected.

    A wrapper often lives for one run only, and the model with the key longer.
    """
    for one in _inner_models(model):
        secrets, known = tuple(one.secrets), learned.get(id(one))
        if secrets == known or not secrets:
            continue
        if known is None:
            try:
                weakref.finalize(
                    one, _forget, weakref.ref(redactor), learned, id(one)
                ).atexit = False
            except TypeError:
                pass  # it cannot be tracked: its keys are kept
        learned[id(one)] = tuple(dict.fromkeys((*(known or ()), *secrets)))
        for secret in learned[id(one)][len(known or ()) :]:
            redactor.add(secret)


def _forget(redactor: weakref.ref[Redactor], learned: Learned, model: int) -> None:
    known, there = learned.pop(model, ()), redactor()
    if there is not None:
        for secret in known:
            there.forget(secret)


def _inner_models(model: Model) -> Iterator[Model]:
    """Yield the model and all that it wraps, at any depth."""
    seen: set[int] = set()
    waiting: list[object] = [model]
    while waiting:
        found = waiting.pop()
        if isinstance(found, (tuple, list)):
            waiting += cast("list[object]", found)
        elif isinstance(found, Model) and id(found) not in seen:
            seen.add(id(found))
            yield found
            waiting += [
                v for v in getattr(found, "__dict__", {}).values() if isinstance(v, (Model, tuple))
            ]
