"""The methods of the protocol, on the official SDK's server: what a client lists, calls, reads and gets."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from secrets import token_hex
from typing import Final, TypeVar

import mcp_types as types
import msgspec
from mcp.server.caching import CacheHint
from mcp.server.lowlevel import Server
from mcp.server.request_state import RequestStateBoundary, RequestStateSecurity
from mcp.shared.exceptions import MCPError
from mcp_types.version import MODERN_PROTOCOL_VERSIONS

from windlass import __version__
from windlass.access.caller import Caller
from windlass.errors import Suspended
from windlass.json_types import JsonObject
from windlass.mcp.server import content
from windlass.mcp.server.catalog import (
    RESUME_PARAMETERS,
    RESUME_TOOL,
    Catalog,
    row_uri,
    type_arguments,
)
from windlass.mcp.server.exchange import Exchange
from windlass.mcp.server.open_calls import Context, Finished, OpenCall, OpenCalls, RequestState
from windlass.mcp.server.peer import Answer, Level
from windlass.mcp.server.requested_call import RequestedCall
from windlass.mcp.server.run import CallRuns
from windlass.mcp.server.subscribers import Subscribers
from windlass.messages import Message
from windlass.server.refusal import describe_failure
from windlass.tools.tool import Tool

T = TypeVar("T")

PAGE: Final = 200  # items of a list that one answer has
MOST_SESSIONS: Final = 1000  # of the handshake era, at a time
_RESOURCE_NOT_FOUND: Final = -32002  # before 2026-07-28; since then -32602
_LISTS: Final = (
    "tools/list",
    "prompts/list",
    "resources/list",
    "resources/templates/list",
    "resources/read",
    "server/discover",
)


class Handlers:
    """The answers of one server to its clients."""

    def __init__(
        self,
        catalog: Catalog,
        runs: CallRuns,
        calls: OpenCalls,
        *,
        caller: Caller | None,
        may_park: bool,
    ) -> None:
        self.catalog, self.runs, self.calls = catalog, runs, calls
        self.caller = caller  # of a connection without headers
        self.may_park = may_park
        self.levels: dict[str, Level] = {}  # by session, as `logging/setLevel` says
        self.subscribers = Subscribers(catalog, self._caller)

    # --------------------------------------------------------------------------- lists

    async def list_tools(
        self, ctx: Context, params: types.PaginatedRequestParams | None
    ) -> types.ListToolsResult:
        """List the tools that the caller may call."""
        tools = [content.to_tool(tool) for tool in self.catalog.tools_for(self._caller(ctx))]
        if self.may_park:
            tools.append(_resume_tool())
        page, cursor = _paginate(tools, params)
        return types.ListToolsResult(tools=page, next_cursor=cursor)

    async def list_prompts(
        self, ctx: Context, params: types.PaginatedRequestParams | None
    ) -> types.ListPromptsResult:
        """List the prompts that the caller may use."""
        prompts = [
            types.Prompt(
                name=one.name,
                description=one.tool.description,
                arguments=_prompt_arguments(one.tool),
            )
            for one in self.catalog.prompts_for(self._caller(ctx))
        ]
        page, cursor = _paginate(prompts, params)
        return types.ListPromptsResult(prompts=page, next_cursor=cursor)

    async def list_resources(
        self, ctx: Context, params: types.PaginatedRequestParams | None
    ) -> types.ListResourcesResult:
        """List the host's resources, and the lists of rows that the caller may search."""
        caller = self._caller(ctx)
        found = [
            types.Resource(
                uri=one.uri,
                name=one.name,
                description=one.tool.description,
                mime_type=one.mime_type,
            )
            for one in self.catalog.resources_for(caller)
            if not one.is_template
        ]
        for tool in self.catalog.rows_for(caller, "search"):
            name = tool.verb.plan.name
            found.append(
                types.Resource(
                    uri=row_uri(name),
                    name=name,
                    description=tool.description,
                    mime_type="application/json",
                )
            )
        page, cursor = _paginate(found, params)
        return types.ListResourcesResult(resources=page, next_cursor=cursor)

    async def list_templates(
        self, ctx: Context, params: types.PaginatedRequestParams | None
    ) -> types.ListResourceTemplatesResult:
        """List addresses with parameters: the host's, and one for the rows of each resource."""
        caller = self._caller(ctx)
        found = [
            types.ResourceTemplate(
                uri_template=one.uri,
                name=one.name,
                description=one.tool.description,
                mime_type=one.mime_type,
            )
            for one in self.catalog.resources_for(caller)
            if one.is_template
        ]
        for tool in self.catalog.rows_for(caller, "get"):
            name = tool.verb.plan.name
            found.append(
                types.ResourceTemplate(
                    uri_template=f"{row_uri(name)}/{{id}}",
                    name=name,
                    description=tool.description,
                    mime_type="application/json",
                )
            )
        page, cursor = _paginate(found, params)
        return types.ListResourceTemplatesResult(resource_templates=page, next_cursor=cursor)

    # --------------------------------------------------------------------------- calls

    async def call_tool(
        self, ctx: Context, params: types.CallToolRequestParams
    ) -> types.CallToolResult | types.InputRequiredResult:
        """Run a tool; a failure is a result that says so, so that a model can go on."""
        try:
            if params.name == RESUME_TOOL:
                done = await self._resume(ctx, params)
            else:
                tool = self._find_tool(params.name)
                call = RequestedCall(params.name, params.arguments or {})
                done = await self._call(
                    ctx, tool, call, params.request_state, params.input_responses
                )
        except MCPError:
            raise
        except Exception as error:
            return await self._failed_call(error, self._caller(ctx))
        if isinstance(done, types.InputRequiredResult):
            return done
        await self.subscribers.announce(done)
        return content.to_call_result(done.result, done.tool, done.session_id)

    async def read_resource(
        self, ctx: Context, params: types.ReadResourceRequestParams
    ) -> types.ReadResourceResult | types.InputRequiredResult:
        """Read a resource of the host, a row, or the first rows."""
        located = self.catalog.locate(str(params.uri))
        if located is None:
            raise _not_found(ctx, params.uri)
        tool, arguments, kind = located
        call = RequestedCall(tool.name, arguments)
        done = await self._call_or_fail(
            ctx, tool, call, params.request_state, params.input_responses
        )
        if isinstance(done, types.InputRequiredResult):
            return done
        result = done.result
        if result.is_error:
            if '"not_found"' in result.text or result.outcome == "invalid":
                raise _not_found(ctx, params.uri)
            raise MCPError(types.INVALID_PARAMS, result.text)
        contents = [content.to_contents(one, str(params.uri)) for one in content.blocks_of(result)]
        if kind is not None:
            contents = [one.model_copy(update={"mime_type": kind}) for one in contents]
        return types.ReadResourceResult(contents=contents)

    async def get_prompt(
        self, ctx: Context, params: types.GetPromptRequestParams
    ) -> types.GetPromptResult | types.InputRequiredResult:
        """Write a prompt."""
        prompt = self.catalog.prompts.get(params.name)
        tool = None if prompt is None else self.catalog.find(prompt.tool.name)
        if tool is None:
            raise MCPError(types.INVALID_PARAMS, f"Unknown prompt: {params.name}"[:200])
        call = RequestedCall(tool.name, type_arguments(tool, {**(params.arguments or {})}))
        done = await self._call_or_fail(
            ctx, tool, call, params.request_state, params.input_responses
        )
        if isinstance(done, types.InputRequiredResult):
            return done
        if done.result.is_error:
            raise MCPError(types.INVALID_PARAMS, done.result.text)
        messages = msgspec.json.decode(done.result.text, type=list[Message])
        return types.GetPromptResult(
            description=tool.description, messages=content.to_prompt_messages(messages)
        )

    async def complete(
        self, ctx: Context, params: types.CompleteRequestParams
    ) -> types.CompleteResult:
        """Suggest values of an argument that has a fixed set of them."""
        caller, values = self._caller(ctx), list[str]()
        tool: Tool | None = None
        if isinstance(params.ref, types.PromptReference):
            name = params.ref.name
            prompts = self.catalog.prompts_for(caller)
            tool = next((one.tool for one in prompts if one.name == name), None)
        else:
            uri = params.ref.uri
            resources = self.catalog.resources_for(caller)
            tool = next((one.tool for one in resources if one.uri == uri), None)
        if tool is not None:
            schema = tool.parameters.get("properties", {}).get(params.argument.name, {})
            choices: list[object] = schema.get("enum", [])
            start = params.argument.value.casefold()
            values = [str(one) for one in choices if str(one).casefold().startswith(start)]
        shown = types.Completion(values=values[:100], total=len(values), has_more=len(values) > 100)
        return types.CompleteResult(completion=shown)

    async def set_level(
        self, ctx: Context, params: types.SetLevelRequestParams
    ) -> types.EmptyResult:
        """Keep the least level of log messages that a session wants."""
        self.levels[Exchange.of(ctx).session_key] = params.level
        while len(self.levels) > MOST_SESSIONS:
            del self.levels[next(iter(self.levels))]
        return types.EmptyResult()

    # --------------------------------------------------------------------------- one call

    def principal(self, ctx: Context) -> str:
        """Return who a sealed state belongs to."""
        return str(self._caller(ctx))

    def input_schema(self, name: str) -> JsonObject | None:
        """Return the schema of a tool, for headers that repeat its arguments."""
        tool = next((one for one in self.catalog.all_tools() if one.name == name), None)
        return None if tool is None else tool.parameters

    def _caller(self, ctx: Context) -> Caller:
        exchange = Exchange.of(ctx)
        caller = exchange.caller or self.caller
        if caller is None:
            raise MCPError(types.INVALID_REQUEST, "nobody is known by these headers")
        return caller

    def _find_tool(self, name: str) -> Tool:
        tool = next((one for one in self.catalog.all_tools() if one.name == name), None)
        if tool is None:
            raise MCPError(types.INVALID_PARAMS, f"Unknown tool: {name}"[:200])
        return tool

    async def _call_or_fail(
        self,
        ctx: Context,
        tool: Tool,
        call: RequestedCall,
        state: str | None,
        answers: Mapping[str, Answer] | None,
    ) -> Finished | types.InputRequiredResult:
        """Run a call whose failure is an error of the protocol."""
        try:
            return await self._call(ctx, tool, call, state, answers)
        except MCPError:
            raise
        except Exception as error:
            status, body = describe_failure(error)
            if isinstance(error, Suspended):
                text = await self._parked_text(error, self._caller(ctx))
                body = {**_public(body), "message": text}
            code = types.INTERNAL_ERROR if status >= 500 else types.INVALID_REQUEST
            raise MCPError(code, str(body["message"]), data=_public(body)) from None

    async def _call(
        self,
        ctx: Context,
        tool: Tool,
        call: RequestedCall,
        state: str | None,
        answers: Mapping[str, Answer] | None,
    ) -> Finished | types.InputRequiredResult:
        caller = self._caller(ctx)
        if state is not None:
            return await self._go_on(ctx, caller, state, answers or {})
        opened = OpenCall(caller, "", answers)

        async def work(opened: OpenCall) -> Finished:
            result = await self.runs.begin(tool, call, caller, opened)
            return Finished(result, tool, opened.session_id)

        return await self._start(ctx, opened, work)

    async def _go_on(
        self, ctx: Context, caller: Caller, state: str, answers: Mapping[str, Answer]
    ) -> Finished | types.InputRequiredResult:
        """Go on with a call whose question the client has answered."""
        known = msgspec.json.decode(state, type=RequestState)
        opened = self.calls.find(known, caller)
        if opened is None:  # another process asked, or one that was killed
            return await self._resume_session(ctx, caller, known.session_id, answers)
        self._attach(opened, ctx)
        opened.accept(answers)
        opened.wake()
        return await self._follow(opened, ctx)

    async def _resume(
        self, ctx: Context, params: types.CallToolRequestParams
    ) -> Finished | types.InputRequiredResult:
        caller = self._caller(ctx)
        if params.request_state is not None:
            return await self._go_on(
                ctx, caller, params.request_state, params.input_responses or {}
            )
        session_id = (params.arguments or {}).get("session_id")
        if not isinstance(session_id, str) or not session_id:
            raise MCPError(types.INVALID_PARAMS, "session_id is the session of a call that waits")
        return await self._resume_session(ctx, caller, session_id, None)

    async def _resume_session(
        self,
        ctx: Context,
        caller: Caller,
        session_id: str,
        answers: Mapping[str, Answer] | None,
    ) -> Finished | types.InputRequiredResult:
        opened = OpenCall(caller, session_id, answers)
        opened.sealed = answers is not None

        async def work(opened: OpenCall) -> Finished:
            result, tool = await self.runs.resume(session_id, caller, opened)
            return Finished(result, tool, session_id)

        return await self._start(ctx, opened, work)

    async def _start(
        self, ctx: Context, opened: OpenCall, work: Callable[[OpenCall], Awaitable[Finished]]
    ) -> Finished | types.InputRequiredResult:
        self._attach(opened, ctx)
        self.calls.begin(opened, work)
        return await self._follow(opened, ctx)

    def _attach(self, opened: OpenCall, ctx: Context) -> None:
        opened.attach(ctx, self.levels.get(Exchange.of(ctx).session_key))

    async def _follow(self, opened: OpenCall, ctx: Context) -> Finished | types.InputRequiredResult:
        with Exchange.of(ctx).watch(opened.leave):
            return await self.calls.follow(opened)

    async def _failed_call(self, error: Exception, caller: Caller) -> types.CallToolResult:
        _, body = describe_failure(error)
        body = _public(body)
        if isinstance(error, Suspended):
            body["message"] = await self._parked_text(error, caller)
        text = msgspec.json.encode(body).decode()
        return types.CallToolResult(content=[types.TextContent(text=text)], is_error=True)

    async def _parked_text(self, error: Suspended, caller: Caller) -> str:
        """Say what a call waits for, who can answer how, and how to get the result then."""
        lines = await self.runs.describe_parked(error, caller)
        return "\n".join(
            [
                "The call waits, and has not run.",
                *lines,
                "Answer with `windlass approvals approve ID` or `windlass approvals deny ID`, "
                f"then call {RESUME_TOOL} with session_id {error.session_id!r}.",
            ]
        )


def _public(body: JsonObject) -> JsonObject:
    """Return what a client is told of a failure, without the calls that wait."""
    return {name: value for name, value in body.items() if name != "pending"}


def _not_found(ctx: Context, uri: object) -> MCPError:
    modern = ctx.protocol_version in MODERN_PROTOCOL_VERSIONS
    code = types.INVALID_PARAMS if modern else _RESOURCE_NOT_FOUND
    return MCPError(code, "Resource not found", data={"uri": str(uri)[:2000]})


def _paginate(
    items: Sequence[T], params: types.PaginatedRequestParams | None
) -> tuple[list[T], str | None]:
    """Return one page of a list, and the cursor of the next."""
    cursor = None if params is None else params.cursor
    first = 0
    if cursor is not None:
        if not cursor.isascii() or not cursor.isdigit() or len(cursor) > 9:
            raise MCPError(types.INVALID_PARAMS, "Unknown cursor")
        first = int(cursor)
    page = list(items[first : first + PAGE])
    return page, str(first + PAGE) if first + PAGE < len(items) else None


def _prompt_arguments(tool: Tool) -> list[types.PromptArgument]:
    required = tool.parameters.get("required", [])
    return [
        types.PromptArgument(
            name=name, description=schema.get("description"), required=name in required
        )
        for name, schema in tool.parameters.get("properties", {}).items()
    ]


def _resume_tool() -> types.Tool:
    return types.Tool(
        name=RESUME_TOOL,
        description="Get the result of a call that waited for approval, once somebody has answered.",
        input_schema=RESUME_PARAMETERS,
    )


def build_server(
    handlers: Handlers,
    *,
    name: str,
    instructions: str | None,
    state_keys: Sequence[str],
    lifespan: Callable[[Server[JsonObject]], AbstractAsyncContextManager[JsonObject]],
) -> Server[JsonObject]:
    """Build the SDK's server around the handlers."""
    keys = list(state_keys) or [token_hex(32)]
    security = RequestStateSecurity(keys=keys, bind_principal=handlers.principal)
    server: Server[JsonObject] = Server(
        name,
        version=__version__,
        instructions=instructions,
        lifespan=lifespan,
        cache_hints={method: CacheHint(ttl_ms=0, scope="private") for method in _LISTS},
        get_tool_input_schema=handlers.input_schema,
        on_list_tools=handlers.list_tools,
        on_call_tool=handlers.call_tool,
        on_list_resources=handlers.list_resources,
        on_list_resource_templates=handlers.list_templates,
        on_read_resource=handlers.read_resource,
        on_subscribe_resource=handlers.subscribers.subscribe,
        on_unsubscribe_resource=handlers.subscribers.unsubscribe,
        on_subscriptions_listen=handlers.subscribers.listen,
        on_list_prompts=handlers.list_prompts,
        on_get_prompt=handlers.get_prompt,
        on_completion=handlers.complete,
    )
    server.add_request_handler("logging/setLevel", types.SetLevelRequestParams, handlers.set_level)
    server.middleware.append(RequestStateBoundary(security, default_audience=name))
    return server
