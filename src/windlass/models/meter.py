"""The meter of a model call, to which wrappers and wires report each single request.

A call may become several requests: retries, fallbacks, an escalation, a shadow. Each of them is
reserved at the price of the model that gets it, and booked with what came of it. Who makes the call
sets `current_meter`; outside such a call nobody counts, and these functions do nothing.
"""

from __future__ import annotations

from contextvars import ContextVar
from typing import Final, Protocol

import msgspec

from windlass.events import LiveEvent
from windlass.models.base import Aside, Emit, Model, Request, Response
from windlass.redaction.redactor import Redactor

#: The purposes of requests that stand beside a call's answer in the books.
FAILED: Final = "failed_attempt"
SHADOW: Final = "shadow"
EMPTY: Final = "empty_completion"  # a reply that said nothing


class Meter(Protocol):
    """Reserves and books the requests of one model call, one after the other."""

    @property
    def tenant(self) -> str | None:
        """The tenant that the call is made for."""
        ...

    @property
    def redactor(self) -> Redactor | None:
        """The redactor of the run, whose secrets nobody may write."""
        ...

    async def begin(self, model: Model, request: Request) -> Request:
        """Reserve for another request; it is limited to what is left at this model's price."""
        ...

    def fail(self, error: BaseException, *, book: bool) -> None:
        """Settle the request under way, which came to nothing, with what was received of it."""
        ...

    def receive(self, response: Response) -> None:
        """Record the reply to the current request until it is booked."""
        ...

    def receive_part(self, part: Response | None) -> None:
        """Record the received part of a reply that broke off; None if nothing arrived."""
        ...

    def set_aside(self, aside: Aside) -> None:
        """Settle a reply that is paid for and is not the answer; it travels with the answer."""
        ...

    def carry(self, model: Model, request: Request, response: Response) -> None:
        """Settle a reply whose usage is part of the answer's."""
        ...

    def watch(self, emit: Emit) -> Emit:
        """Return an emit that records as received what it passes on."""
        ...

    def branch(self, purpose: str) -> Meter:
        """Return a meter for requests beside this call's own."""
        ...


class RunScope(msgspec.Struct, frozen=True, gc=False):
    """The tenant of a run, and its redactor."""

    tenant: str | None
    redactor: Redactor | None


current_meter: ContextVar[Meter | None] = ContextVar("windlass_meter", default=None)

#: The scope of the run that the code at work belongs to: for models that a tool or a callback asks
#: directly. None in host code, and in runs without a tenant and a redactor.
current_run: ContextVar[RunScope | None] = ContextVar("windlass_run", default=None)


def find_scope() -> Meter | RunScope | None:
    """Return the current call's meter, else the scope of the current run, if it has one."""
    return current_meter.get() or current_run.get()


async def begin_request(model: Model, request: Request) -> Request:
    """Reserve for one more request of the current call.

    `request = await begin_request(other, request)`

    Raises `BudgetExceeded` where no limit leaves room for it.
    """
    meter = current_meter.get()
    return request if meter is None else await meter.begin(model, request)


def fail_request(error: BaseException, *, book: bool = False) -> None:
    """Settle a request that failed while the call goes on; `book` records it even at no cost."""
    if (meter := current_meter.get()) is not None:
        meter.fail(error, book=book)


def receive_reply(response: Response) -> None:
    """Record a reply that has arrived before the call ends: it is paid for in any case."""
    if (meter := current_meter.get()) is not None and type(response) is Response:
        meter.receive(response)


def receive_part(part: Response | None) -> None:
    """Record the received part of a reply that broke off."""
    if (meter := current_meter.get()) is not None:
        meter.receive_part(part)


def set_aside(aside: Aside) -> None:
    """Settle a rejected reply before another request is reserved."""
    if (meter := current_meter.get()) is not None:
        meter.set_aside(aside)


def carry_reply(model: Model, request: Request, response: Response) -> None:
    """Settle a reply whose usage is added to that of the answer, before the next request."""
    if (meter := current_meter.get()) is not None:
        meter.carry(model, request, response)


def watch_reply(model: Model, emit: Emit) -> Emit:
    """Return an emit that records, where the model does not report parts of broken replies."""
    meter = current_meter.get()
    return emit if meter is None or model.reports_parts else meter.watch(emit)


class RecordingEmit(msgspec.Struct):
    """An emit that keeps the model's text and calls that it has passed on."""

    emit: Emit
    events: list[LiveEvent]

    def __call__(self, event: LiveEvent) -> None:
        self.events.append(event)
        self.emit(event)


class UnwatchedEmit(msgspec.Struct, gc=False):
    """An emit that keeps the model's text and calls, where nobody else wants them."""

    events: list[LiveEvent] | None = None  # most models emit nothing that nobody wants

    def __call__(self, event: LiveEvent) -> None:
        self.open().append(event)

    def open(self) -> list[LiveEvent]:
        """Return the list of what is kept."""
        if self.events is None:
            self.events = []
        return self.events
