"""One server: started once, shared by all runs of a Runtime, started again after it died."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncGenerator, Awaitable, Callable, Generator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager, suppress
from contextvars import Context
from pathlib import Path
from typing import Final, TypeVar, cast

import mcp_types as types
import msgspec
from mcp import Client
from mcp.client import ClientRequestContext, IncomingMessage
from mcp.client.auth import OAuthFlowError
from mcp.client.subscriptions import ListenNotSupportedError, SubscriptionLost
from mcp.shared.exceptions import MCPError
from pydantic import BaseModel, TypeAdapter, ValidationError

from windlass import __version__, seams
from windlass.errors import ConfigError, McpError, PermissionDenied, error_text
from windlass.json_types import JsonObject
from windlass.mcp.client.auth import SignIn, build_auth, describe_sign_in
from windlass.mcp.client.content import to_blocks, to_resource_blocks, to_result
from windlass.mcp.client.http import describe_status, open_http
from windlass.mcp.client.offer import (
    CallParked,
    CallSide,
    ListedTool,
    Listing,
    Prompt,
    Question,
    Round,
)
from windlass.mcp.client.pages import collect, read_pages
from windlass.mcp.client.process import Process, end_all, kill_started, launch
from windlass.mcp.client.servers import McpServer
from windlass.mcp.client.stdio import ErrorLog, open_stdio
from windlass.messages import Document, Image, Text, ToolResult

log = logging.getLogger("windlass.mcp")
T = TypeVar("T")

START_SECONDS: Final = 60.0
MOST_ROUNDS: Final = 10  # of questions in one call
MOST_TOOLS: Final = 1000  # of one server
_FIRST_DELAY, _LONGEST_DELAY = 0.1, 30.0  # seconds before a server that died is started again
_INFO: Final = types.Implementation(name="windlass", version=__version__)
_REQUEST: Final[TypeAdapter[types.InputRequest]] = TypeAdapter(types.InputRequest)


class _OpenCall:
    """A call that waits for its answer, in the task that made it."""

    def __init__(self, side: CallSide) -> None:
        self.side, self.task = side, asyncio.current_task()
        self.parked: CallParked | None = None
        self.over = asyncio.Event()

    def park(self, parked: CallParked) -> None:
        """Take the call back from the server, to be made again with the answer."""
        self.parked = parked
        if self.task is not None:
            self.task.cancel()


class _StartLimit:
    """The time limit of a start, which rests while a person signs in."""

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._timeout: asyncio.Timeout | None = None

    @asynccontextmanager
    async def begin(self) -> AsyncGenerator[None]:
        """Limit the block."""
        try:
            async with asyncio.timeout(self._seconds) as self._timeout:
                yield
        finally:
            self._timeout = None

    @contextmanager
    def pause(self) -> Generator[None]:
        """Rest for the block; the whole time is left after it."""
        if self._timeout is not None:
            self._timeout.reschedule(None)
        try:
            yield
        finally:
            if self._timeout is not None and not self._timeout.expired():
                until = asyncio.get_running_loop().time() + self._seconds
                self._timeout.reschedule(until)


class Connection:
    """A server and the task that owns its transport; `call` and the others start it at need."""

    def __init__(
        self,
        server: McpServer,
        environ: Mapping[str, str],
        folder: str,
        clean: Callable[[str], str],
        sign_in: SignIn | None = None,
        learn: Callable[[McpServer], None] | None = None,
        process: asyncio.Task[Process] | None = None,
    ) -> None:
        self._learn = learn
        self._waiting = process  # it is started before the first need of it
        self.server, self._environ, self._folder, self._clean = server, environ, folder, clean
        self._sign_in, self._limit = sign_in, _StartLimit(server.timeout or START_SECONDS)
        self.listing = Listing()
        self.errors = ErrorLog(server.name, clean)
        self._client: Client | None = None
        self._task: asyncio.Task[None] | None = None
        self._started: asyncio.Future[None] | None = None
        self._stop = asyncio.Event()
        self._stale = False
        self._fresh_until: float | None = None
        self._failures, self._not_before = 0, 0.0
        self._status: int | None = None  # of the last HTTP answer
        self._calls: dict[int, _OpenCall] = {}
        self.closed = False

    # ----------------------------------------------------------------- its life

    async def start(self) -> Client:
        """Return the client, once the server has answered; start it where it does not run."""
        while self._client is None or self._stop.is_set():
            if self.closed:
                raise McpError(self.server.name, "its Runtime is closed")
            if self._started is None or self._started.done():
                await self._begin()
            else:
                await _wait(self._started)
        return self._client

    async def _begin(self) -> None:
        started = self._started = asyncio.get_running_loop().create_future()
        try:
            await self._leave()
            delay = self._not_before - seams.monotonic()
            if delay > 0:
                await seams.sleep(delay)
        except BaseException:
            started.cancel()
            raise
        self._stop.clear()
        self._task = asyncio.get_running_loop().create_task(self._own(started), context=Context())
        await _wait(started)

    async def _leave(self) -> None:
        """Wait for the task of the connection before, which has ended or is ending."""
        if self._task is not None:
            self._stop.set()
            await asyncio.wait({self._task})
            self._task = None

    async def _own(self, started: asyncio.Future[None]) -> None:
        """Hold the transport open until the server ends, or somebody closes the connection."""
        try:
            async with AsyncExitStack() as stack:
                async with self._limit.begin():
                    client = await self._open(stack)
                    await self._fetch(client)
                self._client = client
                if not started.done():
                    started.set_result(None)
                listener = asyncio.create_task(self._listen(client))
                try:
                    await self._stop.wait()
                finally:
                    self._client = None
                    listener.cancel()
                    await asyncio.gather(listener, return_exceptions=True)
        except Exception as error:
            self._back_off()
            if not started.done():
                started.set_exception(self._describe_start(error))
                started.exception()  # mostly somebody waits; if not, the log has it
            log.info("%s: %s", self.server.name, self._clean(describe(error)))
        finally:
            self._client = None
            if not started.done():
                started.cancel()

    def _back_off(self) -> None:
        self._failures += 1
        delay = min(_FIRST_DELAY * 2 ** (self._failures - 1), _LONGEST_DELAY)
        self._not_before = seams.monotonic() + delay

    def _describe_start(self, error: BaseException) -> McpError | ConfigError:
        if isinstance(error, ConfigError):
            return error
        words = "did not answer in time" if isinstance(error, TimeoutError) else describe(error)
        words += describe_status(self.server, self._status)
        tail = self.errors.tail
        told = f"; the end of its standard error:\n{tail}" if tail else ""
        return McpError(self.server.name, self._clean(f"it could not be started: {words}{told}"))

    async def _open(self, stack: AsyncExitStack) -> Client:
        server = self.server
        if server.url is None:
            early, self._waiting = self._waiting, None
            if early is None:
                process = await launch(server, self._environ, self._folder, self._learn)
            else:
                process = await early
            stack.callback(process.kill)
            transport = open_stdio(process, self.errors, self._on_end)
        else:
            server = server.expand(self._environ, self._folder)
            if self._learn is not None:
                self._learn(server)
            sign_in = None if self._sign_in is None else self._visit
            auth = build_auth(server, self._environ, sign_in, self._learn_token)
            self._status = None
            transport = open_http(server, auth, self._note_status)
        client = Client(
            transport,
            client_info=_INFO,
            elicitation_callback=self._on_elicit,
            list_roots_callback=self._on_roots,
            sampling_callback=self._on_sample if server.sampling else None,
            message_handler=self._on_message,
            cache=None,
        )
        return await stack.enter_async_context(client)

    def _note_status(self, status: int) -> None:
        self._status = status

    async def _visit(self, address: str) -> str:
        """Send a person to sign in, whose time is not the server's."""
        assert self._sign_in is not None
        with self._limit.pause():
            return await self._sign_in(address)

    def _learn_token(self, token: str) -> None:
        if self._learn is not None:
            headers = {"Authorization": f"Bearer {token}"}
            self._learn(McpServer(name=self.server.name, url=self.server.url, headers=headers))

    def _on_end(self) -> None:
        """Hear that the server has closed its output."""
        if not self._stop.is_set() and self._client is not None:
            self._back_off()
            log.warning("%s: has ended; it is started again when it is needed", self.server.name)
        self._stop.set()

    async def close(self) -> None:
        """End the server and wait until it is gone."""
        self.closed = True
        self._stop.set()
        early, self._waiting = self._waiting, None
        if early is not None:
            await end_all([early])
        task = self._task
        if task is not None and not task.done():
            if self._client is None:
                task.cancel()
            await asyncio.wait({task})

    def kill(self) -> None:
        """End the server without waiting: the event loop it belongs to is over."""
        self.closed = True
        self._stop.set()
        if self._waiting is not None and self._waiting.done():
            kill_started(self._waiting)
        if self._task is not None:
            with suppress(RuntimeError):
                self._task.cancel()

    # ----------------------------------------------------------------- what it offers

    async def refresh(self) -> Listing:
        """Return what the server offers now; it is asked again where that has changed or expired."""
        client = await self.start()
        expired = self._fresh_until is not None and seams.monotonic() > self._fresh_until
        if self._stale or expired:
            await self._await_answer(self._fetch(client), "tools/list")
        return self.listing

    async def _fetch(self, client: Client) -> None:
        self._stale = False
        session, can = client.session, client.server_capabilities
        tools: dict[str, ListedTool] = {}
        ttl: int | None = None
        if can.tools is not None:
            async for page in read_pages(session.list_tools):
                ttl = page.ttl_ms
                for one in page.tools:
                    if self.server.offers(one.name) and len(tools) < MOST_TOOLS:
                        tools.setdefault(one.name, _read_tool(one))
            if len(tools) == MOST_TOOLS:
                words = (
                    "offers %d tools or more, and those after them are left out; name with `allow`"
                )
                log.warning("%s: " + words + " what you need", self.server.name, MOST_TOOLS)
        info = client.server_info
        found = Listing(
            protocol=client.protocol_version,
            title="" if info is None else f"{info.name} {info.version}",
            instructions=client.instructions,
            tools=tuple(tools.values()),
            has_resources=can.resources is not None,
            has_prompts=can.prompts is not None,
        )
        modern = session.discover_result is not None
        self._fresh_until = seams.monotonic() + ttl / 1000 if modern and ttl else None
        if found != msgspec.structs.replace(self.listing, number=0):
            self.listing = msgspec.structs.replace(found, number=self.listing.number + 1)

    async def _listen(self, client: Client) -> None:
        """Hear of changed lists from a server of the stateless era."""
        can = client.server_capabilities
        if client.session.discover_result is None or not (can.tools and can.tools.list_changed):
            return
        while True:
            try:
                async with client.listen(tools_list_changed=True) as events:
                    async for _ in events:
                        self._stale = True
                return
            except SubscriptionLost:
                self._stale = True
                await seams.sleep(_FIRST_DELAY * 10)
            except (ListenNotSupportedError, MCPError, TimeoutError) as error:
                log.debug("%s: no subscription: %s", self.server.name, error)
                return

    async def _on_message(self, message: IncomingMessage) -> None:
        if isinstance(message, types.ToolListChangedNotification):
            self._stale = True

    # ----------------------------------------------------------------- calls

    async def call(self, name: str, arguments: JsonObject, side: CallSide) -> ToolResult:
        """Call a tool; the answer to each question of the server comes from the side of the run."""
        client = await self.start()
        call = _OpenCall(side)
        self._calls[id(call)] = call
        try:
            answer = await self._await_answer(self._drive(client, name, arguments, side), name)
        except asyncio.CancelledError:
            if call.parked is None or (call.task is not None and call.task.uncancel() > 0):
                raise
            raise call.parked from None
        finally:
            del self._calls[id(call)]
            call.over.set()
        self._failures = 0
        return to_result(answer)

    async def _drive(
        self, client: Client, name: str, arguments: JsonObject, side: CallSide
    ) -> types.CallToolResult:
        relisted = False
        responses: types.InputResponses | None = None
        state: str | None = None
        if side.round is not None:
            responses = await self._respond(name, side.round, side)
            state = side.round.state

        async def on_progress(progress: float, total: float | None, message: str | None) -> None:
            told = {"progress": progress, "total": total, "message": message}
            side.progress({key: one for key, one in told.items() if one is not None})

        for _ in range(MOST_ROUNDS):
            try:
                answer = await client.session.call_tool(
                    name,
                    arguments,
                    progress_callback=on_progress,
                    input_responses=responses,
                    request_state=state,
                    allow_input_required=True,
                )
            except MCPError as error:
                if error.code != types.HEADER_MISMATCH or relisted:
                    raise
                relisted = True
                await self._fetch(client)
                continue
            if not isinstance(answer, types.InputRequiredResult):
                return answer
            asked = {key: _dump(one) for key, one in (answer.input_requests or {}).items()}
            state = answer.request_state
            responses = await self._respond(name, Round(asked, state), side)
        raise McpError(self.server.name, f"{name} asked more than {MOST_ROUNDS} times")

    async def _respond(self, tool: str, asked: Round, side: CallSide) -> types.InputResponses:
        """Answer the requests of one round, one after the other."""
        responses: types.InputResponses = {}
        for key, data in asked.requests.items():
            request = _REQUEST.validate_python(data, by_name=False)
            if isinstance(request, types.ElicitRequest):
                question = self._question(tool, request.params, asked, key)
                answer = await side.elicit(question)
                responses[key] = types.ElicitResult.model_validate(answer)
            elif isinstance(request, types.CreateMessageRequest):
                responses[key] = await self._sample(request.params, side)
            else:
                responses[key] = _build_roots(side.roots)
        return responses

    def _question(
        self,
        tool: str,
        params: types.ElicitRequestParams,
        asked: Round | None = None,
        key: str | None = None,
    ) -> Question:
        is_url = isinstance(params, types.ElicitRequestURLParams)
        schema = None if is_url else _dump(params).get("requestedSchema")
        return Question(
            server=self.server.name,
            tool=tool,
            message=params.message,
            schema=schema,
            url=str(params.url) if is_url else None,
            key=key,
            state=None if asked is None else asked.state,
            requests=None if asked is None else asked.requests,
        )

    async def _sample(
        self, params: types.CreateMessageRequestParams, side: CallSide
    ) -> types.CreateMessageResult:
        if not self.server.sampling:
            raise PermissionDenied(f"MCP server {self.server.name!r} may not ask the run's model")
        return types.CreateMessageResult.model_validate(await side.sample(_dump(params)))

    async def _await_answer(self, work: Awaitable[T], what: str) -> T:
        """Await an answer of the server; whatever goes wrong with it becomes a `McpError`."""
        try:
            return await work
        except MCPError as error:
            if error.code == types.CONNECTION_CLOSED:
                tail = self.errors.tail
                told = f"; the end of its standard error:\n{tail}" if tail else ""
                words = f"it ended before it answered {what}{told}"
                raise McpError(self.server.name, words, is_lost=True) from error
            raise McpError(
                self.server.name, self._clean(f"{error.message} ({error.code})")
            ) from error
        except ValidationError as error:
            words = str(error).splitlines()[0]
            raise McpError(self.server.name, f"its answer to {what} is wrong: {words}") from error
        except (CallParked, PermissionDenied, McpError, asyncio.CancelledError):
            raise
        except Exception as error:
            words = f"its answer to {what} is wrong: {describe(error)}"
            raise McpError(self.server.name, self._clean(words)) from error

    # ----------------------------------------------------------------- requests of an older server

    def _find_call(self) -> _OpenCall | None:
        """Return the call that a request belongs to; None where it could be one of several runs'."""
        calls = list(self._calls.values())
        owners = {call.side.owner for call in calls}
        return calls[-1] if len(owners) == 1 else None

    async def _on_elicit(
        self, context: ClientRequestContext, params: types.ElicitRequestParams
    ) -> types.ElicitResult | types.ErrorData:
        call = self._find_call()
        if call is None:
            return _refuse("it cannot be told which call asks")
        try:
            answer = await call.side.elicit(self._question("", params))
        except CallParked as parked:
            call.park(parked)
            await call.over.wait()
            return _refuse("the answer comes later, and the call is made again then")
        except Exception as error:
            return _refuse(self._clean(error_text(error)))
        return types.ElicitResult.model_validate(answer)

    async def _on_sample(
        self, context: ClientRequestContext, params: types.CreateMessageRequestParams
    ) -> types.CreateMessageResult | types.ErrorData:
        call = self._find_call()
        if call is None:
            return _refuse("it cannot be told which call asks")
        try:
            return await self._sample(params, call.side)
        except Exception as error:
            return _refuse(self._clean(error_text(error)))

    async def _on_roots(self, context: ClientRequestContext) -> types.ListRootsResult:
        call = self._find_call()
        return _build_roots((self._folder,) if call is None else call.side.roots)

    # ----------------------------------------------------------------- resources and prompts

    async def list_resources(self) -> list[JsonObject]:
        """List the resources and the templates of resources."""
        client = await self.start()
        can = client.server_capabilities
        if can.resources is None:
            return []
        session = client.session
        found = await self._await_answer(collect(session.list_resources), "resources/list")
        rows = [_dump(one) for page in found for one in page.resources]
        with suppress(McpError):  # many servers have none, and do not know the method
            more = await self._await_answer(
                collect(session.list_resource_templates), "resources/templates/list"
            )
            rows += [_dump(one) for page in more for one in page.resource_templates]
        return rows

    async def read_resource(self, uri: str) -> list[Text | Image | Document]:
        """Read a resource."""
        client = await self.start()
        found = await self._await_answer(client.read_resource(uri), f"resources/read of {uri}")
        return list(to_resource_blocks(found.contents))

    async def list_prompts(self) -> list[Prompt]:
        """List the prompts."""
        client = await self.start()
        if client.server_capabilities.prompts is None:
            return []
        found = await self._await_answer(collect(client.session.list_prompts), "prompts/list")
        return [
            Prompt(
                server=self.server.name,
                name=one.name,
                description=one.description or "",
                arguments=tuple([each.name for each in one.arguments or ()]),
                required=tuple([each.name for each in one.arguments or () if each.required]),
            )
            for page in found
            for one in page.prompts
        ]

    async def get_prompt(
        self, name: str, arguments: Mapping[str, str]
    ) -> list[tuple[str, list[Text | Image | Document]]]:
        """Return the messages of a prompt: a role, and its blocks."""
        client = await self.start()
        found = await self._await_answer(client.get_prompt(name, dict(arguments)), f"prompt {name}")
        return [(one.role, to_blocks([one.content])) for one in found.messages]


async def _wait(started: asyncio.Future[None]) -> None:
    """Wait for the start without taking it along when the one who waits is cancelled."""
    await asyncio.shield(started)


def _read_tool(tool: types.Tool) -> ListedTool:
    hints = {} if tool.annotations is None else _dump(tool.annotations)
    return ListedTool(
        name=tool.name,
        title=tool.title,
        description=tool.description or "",
        input_schema=tool.input_schema,
        output_schema=tool.output_schema,
        hints=hints,
    )


def _build_roots(folders: tuple[str, ...]) -> types.ListRootsResult:
    return types.ListRootsResult.model_validate(
        {"roots": [{"uri": Path(one).as_uri(), "name": Path(one).name} for one in folders]}
    )


def _dump(model: BaseModel) -> JsonObject:
    return model.model_dump(by_alias=True, mode="json", exclude_none=True)


def _refuse(words: str) -> types.ErrorData:
    return types.ErrorData(code=types.INVALID_REQUEST, message=words)


def describe(error: BaseException) -> str:
    """Describe the first real error of a group in one line."""
    while isinstance(error, BaseExceptionGroup):
        inner: BaseException = cast("BaseExceptionGroup[BaseException]", error).exceptions[0]
        error = inner
    if isinstance(error, MCPError):
        return f"{error.message} ({error.code})"
    if isinstance(error, OAuthFlowError):
        return describe_sign_in(error)
    return error_text(error)
