"""Aborts: stop a run from anywhere, and get its result in place of an exception."""

from __future__ import annotations

from collections.abc import Callable
from typing import cast

from windlass.errors import safe_repr, whole_text


class Abort:
    """A handle that stops runs, from any thread.

    ```python
    stop = w.Abort()
    task = asyncio.create_task(agent.run("…", abort=stop))
    stop.abort("changed my mind")
    ```
    One handle may serve many runs. The runs end as `cancelled`; `generate` raises `Aborted`.
    """

    def __init__(self) -> None:
        self.aborted = False
        self.reason: str | None = None
        self._listeners: list[Callable[[str], None]] = []

    def abort(self, reason: str = "aborted") -> None:
        """Stop every run that was given this handle; the first reason counts."""
        if self.aborted:
            return
        if not isinstance(cast("object", reason), str):
            reason = safe_repr(reason)
        reason = whole_text(reason)
        self.aborted, self.reason = True, reason
        for listener in list(self._listeners):
            listener(reason)

    def listen(self, listener: Callable[[str], None]) -> None:
        """Call `listener(reason)` on abort, or at once if it was aborted before."""
        self._listeners.append(listener)
        if self.aborted:
            listener(self.reason or "aborted")

    def forget(self, listener: Callable[[str], None]) -> None:
        """Stop calling the listener."""
        if listener in self._listeners:
            self._listeners.remove(listener)
