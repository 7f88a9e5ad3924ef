"""Scopes of what layers remember: one tenant, one model, one URL, one key.

Everything in `callers/` that outlives a call and says something about a model (a cached reply, the
state of a circuit, the pace of a provider) is kept by scope, so that no tenant, endpoint or key
decides for another.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable
from hashlib import blake2b
from typing import Generic, NamedTuple, TypeVar

from windlass.models.base import Model
from windlass.models.meter import find_scope
from windlass.redaction.secret_forms import utf8

MOST_SCOPES = 1024  # that a layer remembers, as long as the least recent ones are idle

State = TypeVar("State")


class Scope(NamedTuple):
    """What two calls must share so that they share what a layer remembers."""

    model: str
    address: str
    key: str  # a fingerprint, never the key
    tenant: str | None


def scope_of(model: Model) -> Scope:
    """Return the scope of a call to this model made now: `scope_of(self.model)`.

    It is asked for at each call: which key a model sends and for which tenant may differ between
    two calls of the same object.
    """
    address = model.address or _kind(model)
    return Scope(f"{model.provider}:{model.name}", address, fingerprint(model), current_tenant())


def _kind(model: Model) -> str:
    """Return the class of a model without a URL, under all wrappers."""
    held: object = model
    while isinstance(held, Model):
        model, held = held, getattr(held, "model", None) or getattr(held, "inner", None)
    return f"{type(model).__module__}.{type(model).__qualname__}"


def current_tenant() -> str | None:
    """Return the tenant of the current model call; None in host code or without a tenant.

    A tool or a callback that calls `model.respond()` itself asks for the tenant of its run.
    """
    scope = find_scope()
    return None if scope is None else scope.tenant


def fingerprint(model: Model) -> str:
    """Compute a short digest of a model's keys: it tells two apart and reveals none."""
    secrets = model.secrets
    if not secrets:
        return ""
    state = blake2b(digest_size=8, person=b"windlass.scope")
    for secret in secrets:
        encoded = utf8(secret)
        state.update(b"%d:" % len(encoded))
        state.update(encoded)
    return state.hexdigest()


class ScopedStates(Generic[State]):
    """One state for each scope, created when it is first used.

    Beyond `most` scopes the least recently used are dropped, but only those that are `idle`.
    """

    def __init__(
        self, make: Callable[[], State], idle: Callable[[State], bool], most: int = MOST_SCOPES
    ) -> None:
        self._make, self._idle, self._most = make, idle, most
        self._states: OrderedDict[Scope, State] = OrderedDict()
        self._lock = threading.Lock()  # event loops of several threads may share a layer

    def __len__(self) -> int:
        return len(self._states)

    def values(self) -> list[State]:
        """Return all states, the latest used last."""
        with self._lock:
            return list(self._states.values())

    def get(self, scope: Scope) -> State:
        """Return the state of a scope."""
        with self._lock:
            state = self._states.get(scope)
            if state is None:
                if len(self._states) >= self._most:
                    self._drop_idle()
                state = self._states[scope] = self._make()
            else:
                self._states.move_to_end(scope)
            return state

    def _drop_idle(self) -> None:
        """Drop the older half, as far as it is idle: many calls share the cost."""
        for scope in list(self._states)[: self._most // 2 + 1]:
            if self._idle(self._states[scope]):
                del self._states[scope]
