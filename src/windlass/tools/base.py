"""What a tool is: a name, a schema, and something to run.

`prepare` runs at the gate, before any policy, so that what is approved is what runs. `call` runs
the handler and turns whatever happens into a `ToolResult`; only cancellation passes through.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Generic, Literal, Protocol, TypeAlias, TypeVar

import msgspec

from windlass.errors import WindlassError
from windlass.messages import ToolResult, ToolSpec

Deps = TypeVar("Deps")
T = TypeVar("T")
Effect: TypeAlias = Literal["read_only", "keyed", "transactional", "plain"]
Validation: TypeAlias = Literal["strict", "lenient", "none"]


class Retry(WindlassError):
    """Raised by a tool: the model sees the words and may try again.

    `raise w.Retry("amount must be positive")`
    """


class Parked(msgspec.Struct, frozen=True):
    """Returned by a keyed tool: the call stays open and the run suspends until it is resumed."""

    reason: str
    conditions: dict[str, Any] | None = None


class Prepared(msgspec.Struct, frozen=True, gc=False):
    """Arguments that are ready to run, or the problems that a model can act on (`path: message`)."""

    arguments: dict[str, Any]
    problems: tuple[str, ...] = ()
    coerced: tuple[str, ...] = ()


class CallScope(Protocol):
    """The part of a run that a tool call may reach."""

    @property
    def cancelled(self) -> bool: ...

    def progress(self, call_id: str, data: Any) -> None: ...

    async def commit(self, call_id: str, body: Callable[[Any], T]) -> T: ...


class ToolContext(Generic[Deps]):
    """What a tool may know of its call. Ask for it by annotation, at any position:

    ```python
    @w.tool
    async def refund(ctx: w.ToolContext[Db], order: str) -> str: ...
    ```
    """

    __slots__ = (
        "attempt", "call_id", "caller", "deps", "run_id", "scope", "session_id", "tool_name",
    )  # fmt: skip

    def __init__(
        self,
        deps: Deps,
        caller: Any,
        session_id: str,
        run_id: str,
        call_id: str,
        tool_name: str,
        scope: CallScope,
        attempt: int = 1,
    ) -> None:
        self.deps, self.caller, self.session_id, self.run_id = deps, caller, session_id, run_id
        self.call_id, self.tool_name, self.scope, self.attempt = call_id, tool_name, scope, attempt

    @property
    def idempotency_key(self) -> str:
        """The same for this call after any number of crashes and resumes."""
        return f"{self.session_id}:{self.call_id}"

    @property
    def cancelled(self) -> bool:
        """True once the run is being cancelled; a long synchronous tool should look now and then."""
        return self.scope.cancelled

    def progress(self, data: Any) -> None:
        """Tell whoever watches how far the call is; from any thread."""
        self.scope.progress(self.call_id, data)

    async def commit(self, body: Callable[[Any], T]) -> T:
        """Run `body(tx)` in one transaction with the record of this call.

        `return await ctx.commit(body)`: the effect and its result are stored together or not at
        all. The body is short, synchronous, and touches nothing but `tx`.
        """
        return await self.scope.commit(self.call_id, body)


Handler: TypeAlias = Callable[..., Any | Awaitable[Any]]


class Tool:
    """Something a model may call. Usually made from a function by `@w.tool`; or by hand:

    ```python
    Tool(name="add", description="Add.", parameters={"a": {"type": "number"}}, handler=lambda args: …)
    ```
    A tool without a handler is run by the host: the run parks and is answered on resume.
    """

    name: str
    description: str
    parameters: dict[str, Any]
    returns: dict[str, Any] | None
    annotations: Mapping[str, Any]
    timeout: float | None  # None: the run's default
    keyed: bool
    transactional: bool
    defer_loading: bool
    namespace: str | None
    handler: Handler | None
    is_async: bool
    effect: Effect
    spec: ToolSpec
    wants_context: bool

    def prepare(self, arguments: dict[str, Any], mode: Validation = "strict") -> Prepared:
        """Check the arguments against the schema, and mend what is safe to mend when lenient."""
        raise NotImplementedError

    async def call(self, arguments: dict[str, Any], ctx: ToolContext[Any]) -> ToolResult | Parked:
        """Run the handler; the result's `id` is left empty for the caller to fill in."""
        raise NotImplementedError
