"""Calls under way: each a task of its own, which a request follows until there is an answer or a question.

In the handshake era a question goes to the client while its request is open. Since 2026-07-28 the request is
answered with the question, and the client sends it again with what it answers: the task waits meanwhile.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from typing import Final, TypeAlias

import anyio
import mcp_types as types
import msgspec
from mcp.server import ServerRequestContext
from mcp.server.connection import allowed_log_levels
from mcp.shared.exceptions import MCPError
from mcp.shared.message import ServerMessageMetadata
from mcp_types.version import MODERN_PROTOCOL_VERSIONS
from pydantic import ValidationError

from windlass import seams
from windlass.access.caller import Caller
from windlass.json_types import JsonObject, is_object
from windlass.mcp.server.peer import LEVELS, Ability, Answer, Ask, Level, PeerCannot
from windlass.messages import ToolResult
from windlass.server.refusal import RequestRefused
from windlass.tools.arguments.validate import Checker
from windlass.tools.tool import Tool

Context: TypeAlias = ServerRequestContext[JsonObject]
ANSWER_SECONDS: Final = 600.0  # that a client has to answer a question
_ANSWER_TYPES: Final[dict[str, type[Answer]]] = {
    "elicitation/create": types.ElicitResult,
    "sampling/createMessage": types.CreateMessageResult,
    "roots/list": types.ListRootsResult,
}


class RequestState(msgspec.Struct, frozen=True):
    """What a client sends back with its answers; the SDK seals it."""

    call: str
    round: int
    session_id: str

    def to_text(self) -> str:
        """Encode it."""
        return msgspec.json.encode(self).decode()


class Finished(msgspec.Struct, frozen=True):
    """The result of a call, and whose it is."""

    result: ToolResult
    tool: Tool
    session_id: str


class OpenCall:
    """A call under way, and the channel to whoever asked for it."""

    def __init__(self, caller: Caller, session_id: str, given: Mapping[str, Answer] | None) -> None:
        self.id = seams.new_id("call")
        self.caller, self.session_id = caller, session_id
        self.given = dict(given or {})  # answers that came before they were asked for
        self.sealed = False  # whether the given answers are to questions of ours
        self.left = False
        self.missing: Ability | None = None  # what the call needs and the client does not offer
        self.task: asyncio.Task[Finished] | None = None
        self.timer: asyncio.Timeout | None = None
        self.round = 0
        self._asks: dict[str, Ask] = {}
        self._answers: dict[str, Answer] = {}
        self._answered: asyncio.Future[None] | None = None
        self._changed = asyncio.Event()
        self._outbox: list[Callable[[Context], Awaitable[None]]] = []
        self._steps = 0
        self._ctx: Context | None = None
        self._levels: frozenset[str] = frozenset()

    # --------------------------------------------------------------------------- the request

    def attach(self, ctx: Context, least: Level | None) -> None:
        """Follow the call from this request."""
        self._ctx = ctx
        self._levels = frozenset(allowed_log_levels(ctx.protocol_version, ctx.meta))
        if least is not None:
            self._levels &= frozenset(LEVELS[LEVELS.index(least) :])

    def note_session(self, session_id: str) -> None:
        """Keep the session that the call runs in."""
        self.session_id = session_id

    def leave(self) -> None:
        """Note that the client has closed its connection."""
        self.left = True
        self._changed.set()

    @property
    def question(self) -> types.InputRequiredResult | None:
        """What the client must answer before the call goes on."""
        open_ones = {name: ask for name, ask in self._asks.items() if name not in self._answers}
        if self._answered is None or self._answered.done() or not open_ones:
            return None
        state = RequestState(self.id, self.round, self.session_id)
        return types.InputRequiredResult(input_requests=open_ones, request_state=state.to_text())

    def accept(self, answers: Mapping[str, Answer]) -> None:
        """Take answers; those to nothing we asked are ignored, those that do not fit asked again."""
        for name, ask in self._asks.items():
            answer = answers.get(name)
            if answer is not None and _fits(ask, answer):
                self._answers[name] = answer
        if self._answered is not None and not self._answered.done():
            if self._answers.keys() >= self._asks.keys():
                self._answered.set_result(None)
                self.round += 1  # a state answers once: who sends it again does not follow the call

    async def wait(self) -> None:
        """Wait until there is something to send, to ask or to answer; send what there is."""
        assert self.task is not None and self._ctx is not None
        await self._changed.wait()
        self._changed.clear()
        outbox, self._outbox = self._outbox, []
        for send in outbox:
            await send(self._ctx)

    def wake(self, _task: object = None) -> None:
        """Let the request look again."""
        self._changed.set()

    # --------------------------------------------------------------------------- the channel

    @property
    def capabilities(self) -> types.ClientCapabilities | None:
        """What the client has declared."""
        return None if self._ctx is None else self._ctx.session.client_capabilities

    @property
    def is_modern(self) -> bool:
        """Whether the client speaks 2026-07-28 or later."""
        return self._ctx is not None and self._ctx.protocol_version in MODERN_PROTOCOL_VERSIONS

    async def ask(
        self, asks: Mapping[str, Ask], *, by_server: bool = False
    ) -> Mapping[str, Answer]:
        """Ask the client; `by_server` are questions that only an answer to ours can answer."""
        if self.given and (self.sealed or not by_server):
            given = {name: self.given.pop(name) for name in asks if name in self.given}
            if given.keys() == asks.keys() and all(_fits(asks[name], given[name]) for name in asks):
                return given
        deadline = None if self.timer is None else self.timer.when()
        started = asyncio.get_running_loop().time()
        if self.timer is not None:
            self.timer.reschedule(None)  # the time of a person is no time of the call
        try:
            async with asyncio.timeout(ANSWER_SECONDS):
                if self.is_modern:
                    return await self._ask_in_rounds(asks)
                return await self._ask_directly(asks)
        except TimeoutError:
            raise PeerCannot("the client did not answer in time") from None
        finally:
            if self.timer is not None and deadline is not None:
                spent = asyncio.get_running_loop().time() - started
                self.timer.reschedule(deadline + spent)

    async def _ask_in_rounds(self, asks: Mapping[str, Ask]) -> Mapping[str, Answer]:
        self._asks, self._answers = dict(asks), {}
        self._answered = asyncio.get_running_loop().create_future()
        self.round += 1
        self._changed.set()
        try:
            await self._answered
            return self._answers
        finally:
            self._asks = {}

    async def _ask_directly(self, asks: Mapping[str, Ask]) -> Mapping[str, Answer]:
        assert self._ctx is not None
        about = ServerMessageMetadata(related_request_id=self._ctx.request_id)
        answers: dict[str, Answer] = {}
        for name, ask in asks.items():
            kind = _ANSWER_TYPES[ask.method]
            try:
                answer = await self._ctx.session.send_request(ask, kind, metadata=about)
            except (MCPError, ValidationError) as error:
                raise PeerCannot(f"the client did not answer: {type(error).__name__}") from None
            if not _fits(ask, answer):
                raise PeerCannot("the client answered with something that does not fit the form")
            answers[name] = answer
        return answers

    def log(self, level: Level, data: object) -> None:
        """Send a log message, if the client wants this level."""
        if level in self._levels:
            params = types.LoggingMessageNotificationParams(level=level, data=data)
            message = types.LoggingMessageNotification(params=params)
            self._send(lambda ctx: ctx.session.send_notification(message, ctx.request_id))

    def miss(self, ability: Ability) -> None:
        """Note that the call needs what the client does not offer."""
        self.missing = ability

    def report(self, progress: object) -> None:
        """Send the progress of the tool: a number, a text, or a dict of progress, total and message."""
        amount, total, message = _parse_progress(progress)
        self._steps += 1
        done = float(self._steps) if amount is None else amount
        self._send(lambda ctx: ctx.session.report_progress(done, total, message))

    def _send(self, send: Callable[[Context], Awaitable[None]]) -> None:
        self._outbox.append(send)
        self._changed.set()


def _parse_progress(progress: object) -> tuple[float | None, float | None, str | None]:
    if isinstance(progress, (int, float)) and not isinstance(progress, bool):
        return float(progress), None, None
    if not is_object(progress):
        return None, None, str(progress)[:2000]
    amount, total, message = (progress.get(name) for name in ("progress", "total", "message"))
    return (
        float(amount) if isinstance(amount, (int, float)) else None,
        float(total) if isinstance(total, (int, float)) else None,
        None if message is None else str(message)[:2000],
    )


def _fits(ask: Ask, answer: Answer) -> bool:
    """Check whether an answer is of the kind that was asked for, and a form is filled in right."""
    if isinstance(ask, types.CreateMessageRequest):
        return isinstance(answer, (types.CreateMessageResult, types.CreateMessageResultWithTools))
    if isinstance(ask, types.ListRootsRequest):
        return isinstance(answer, types.ListRootsResult)
    if not isinstance(answer, types.ElicitResult):
        return False
    if answer.action != "accept" or not isinstance(ask.params, types.ElicitRequestFormParams):
        return True
    return not Checker(ask.params.requested_schema, "a form").problems(answer.content or {})


class OpenCalls:
    """All calls under way in one server."""

    def __init__(self, most: int, seconds: float | None) -> None:
        self.most, self.seconds = most, seconds
        self._calls: dict[str, OpenCall] = {}

    def find(self, state: RequestState, caller: Caller) -> OpenCall | None:
        """Find the call that a client answers a question of."""
        opened = self._calls.get(state.call)
        if opened is None or str(opened.caller) != str(caller) or opened.round != state.round:
            return None
        return opened

    def begin(self, opened: OpenCall, work: Callable[[OpenCall], Awaitable[Finished]]) -> None:
        """Start the task of a call; refuse it if the caller has too many."""
        name = str(opened.caller)  # whatever roles he has meanwhile
        mine = sum(str(other.caller) == name for other in self._calls.values())
        if mine >= self.most:
            raise RequestRefused(429, "too_many_calls", f"at most {self.most} calls at a time")
        self._calls[opened.id] = opened
        opened.task = asyncio.create_task(self._run(opened, work))
        opened.task.add_done_callback(opened.wake)

    async def _run(
        self, opened: OpenCall, work: Callable[[OpenCall], Awaitable[Finished]]
    ) -> Finished:
        try:
            async with asyncio.timeout(self.seconds) as opened.timer:
                return await work(opened)
        except TimeoutError:
            if opened.timer is None or not opened.timer.expired():
                raise
            text = f"the call took longer than {self.seconds:g} seconds"
            raise RequestRefused(408, "timeout", text) from None
        finally:
            self._calls.pop(opened.id, None)

    async def follow(self, opened: OpenCall) -> Finished | types.InputRequiredResult:
        """Wait for the result or the next question; a client that leaves cancels the call."""
        task = opened.task
        assert task is not None
        try:
            while not opened.left:
                await opened.wait()
                if task.done():
                    return _finish(opened, task.result())
                if (question := opened.question) is not None:
                    return question
        except asyncio.CancelledError:
            await _cancel(task)
            raise
        await _cancel(task)
        raise RequestRefused(499, "aborted", "the client has left")

    async def aclose(self) -> None:
        """Cancel every call."""
        for opened in list(self._calls.values()):
            if opened.task is not None:
                await _cancel(opened.task)


def _finish(opened: OpenCall, done: Finished) -> Finished:
    """Return the result; a client of 2026-07-28 is told by an error what it must offer."""
    if not (done.result.is_error and opened.missing and opened.is_modern):
        return done
    raise MCPError(
        types.MISSING_REQUIRED_CLIENT_CAPABILITY,
        f"the client does not offer {opened.missing}",
        data={"requiredCapabilities": {opened.missing: {}}},
    )


async def _cancel(task: asyncio.Task[Finished]) -> None:
    task.cancel()
    # A scope of anyio cancels again and again; the run must have time to record its end.
    with anyio.CancelScope(shield=True):
        await asyncio.wait({task})
    if not task.cancelled():
        task.exception()  # seen: it is not to be logged
