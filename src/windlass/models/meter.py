"""The meter of a model call: where wrappers and wires report the requests that one call is made of.

A call may become several requests: retries, fallbacks, an escalation, a shadow. Each of them is
reserved at the price of the model that gets it, and booked with what came of it. Who makes the call
sets `current_meter`; outside such a call nobody counts, and these functions do nothing.
"""

from __future__ import annotations

from contextvars import ContextVar
from typing import Final, NamedTuple, Protocol

import msgspec

from windlass.events import LiveEvent
from windlass.models.base import Aside, Emit, Model, Request, Response
from windlass.redaction.redactor import Redactor

#: The purposes of requests that stand beside a call's answer in the books.
FAILED: Final = "failed_attempt"
SHADOW: Final = "shadow"


class Meter(Protocol):
    """Reserves and books the requests of one model call, one after the other."""

    @property
    def tenant(self) -> str | None:
        """For whom the call is made."""
        ...

    @property
    def redactor(self) -> Redactor | None:
        """Knows the secrets that nobody may write who takes part in the call."""
        ...

    async def begin(self, model: Model, request: Request) -> Request:
        """Reserve for another request; it is limited to what is left at this model's price."""
        ...

    def fail(self, error: BaseException, *, book: bool) -> None:
        """Settle the request under way, which came to nothing, with what was received of it."""
        ...

    def receive(self, response: Response) -> None:
        """Remember the reply to the request under way, until somebody books it."""
        ...

    def receive_part(self, part: Response | None) -> None:
        """Remember what came of a reply that broke off; None: it was sent, and nothing came."""
        ...

    def set_aside(self, aside: Aside) -> None:
        """Settle a reply that is paid for and is not the answer; it travels with the answer."""
        ...

    def carry(self, model: Model, request: Request, response: Response) -> None:
        """Settle a reply whose usage is part of the answer's."""
        ...

    def watch(self, emit: Emit) -> Emit:
        """An emit that remembers what it passes on as received."""
        ...

    def branch(self, purpose: str) -> Meter:
        """A meter for requests beside this call's own."""
        ...


class RunScope(NamedTuple):
    """For whom a run works, and what it may not write down."""

    tenant: str | None
    redactor: Redactor | None


current_meter: ContextVar[Meter | None] = ContextVar("windlass_meter", default=None)

#: The run that the code at work belongs to: for models that a tool or a callback asks directly.
current_run: ContextVar[RunScope | None] = ContextVar("windlass_run", default=None)


def find_scope() -> Meter | RunScope | None:
    """For whom a model is asked now: the call under way, else the run; None: the host's own code."""
    return current_meter.get() or current_run.get()


async def begin_request(model: Model, request: Request) -> Request:
    """Reserve for one more request of the call under way: `request = await begin_request(other, request)`.

    Raises `BudgetExceeded` where no limit leaves room for it.
    """
    meter = current_meter.get()
    return request if meter is None else await meter.begin(model, request)


def fail_request(error: BaseException, *, book: bool = False) -> None:
    """Settle a request that failed while the call goes on; `book`: even if it cost nothing."""
    if (meter := current_meter.get()) is not None:
        meter.fail(error, book=book)


def receive_reply(response: Response) -> None:
    """Remember a reply that is here while the call is not over: whatever happens, it is paid for."""
    if (meter := current_meter.get()) is not None and type(response) is Response:
        meter.receive(response)


def receive_part(part: Response | None) -> None:
    """Remember what came of a reply that broke off."""
    if (meter := current_meter.get()) is not None:
        meter.receive_part(part)


def set_aside(aside: Aside) -> None:
    """Settle a reply that did not suffice, before another request is reserved."""
    if (meter := current_meter.get()) is not None:
        meter.set_aside(aside)


def carry_reply(model: Model, request: Request, response: Response) -> None:
    """Settle a reply whose usage is added to that of the answer, before another is asked for."""
    if (meter := current_meter.get()) is not None:
        meter.carry(model, request, response)


def watch_reply(model: Model, emit: Emit) -> Emit:
    """The emit, watched where the model does not report by itself what came of a broken reply."""
    meter = current_meter.get()
    return emit if meter is None or model.reports_parts else meter.watch(emit)


class RecordingEmit(msgspec.Struct):
    """What an emit has passed on, as far as it was said by a model."""

    emit: Emit
    events: list[LiveEvent]

    def __call__(self, event: LiveEvent) -> None:
        self.events.append(event)
        self.emit(event)
