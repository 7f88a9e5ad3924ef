"""Who asks: the host's `identify` function, and the ASGI types of its servers."""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable, Mapping, MutableMapping
from typing import Any, TypeAlias

from windlass.access.caller import Caller, is_host
from windlass.json_types import as_given
from windlass.server.refusal import RequestRefused

Scope: TypeAlias = MutableMapping[str, Any]
Receive: TypeAlias = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send: TypeAlias = Callable[[MutableMapping[str, Any]], Awaitable[None]]
Identify: TypeAlias = Callable[[Mapping[str, str]], Caller | None | Awaitable[Caller | None]]


async def identify_caller(identify: Identify, headers: Mapping[str, str]) -> Caller:
    """Return the caller that the host knows by these headers; refuse anybody else."""
    found = identify(headers)
    caller = await found if inspect.isawaitable(found) else found
    if caller is None:
        raise RequestRefused(401, "unauthenticated", "nobody is known by these headers")
    if not isinstance(as_given(caller), Caller) or is_host(caller):
        raise TypeError("identify answers a Caller for who asks, and never Caller.local()")
    return caller
