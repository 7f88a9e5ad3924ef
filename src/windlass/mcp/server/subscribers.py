"""Clients that want to hear when a row changes: `resources/subscribe`, and `subscriptions/listen`."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Final, NamedTuple

import mcp_types as types
import msgspec
from mcp.server.session import ServerSession
from mcp.server.subscriptions import (
    InMemorySubscriptionBus,
    ListenHandler,
    ResourceUpdated,
    ToolsListChanged,
)
from mcp.shared.exceptions import MCPError

from windlass.access.caller import Caller
from windlass.json_types import JsonObject
from windlass.mcp.server.catalog import Catalog, row_uri
from windlass.mcp.server.exchange import Exchange
from windlass.mcp.server.open_calls import Context, Finished
from windlass.resources.registry import ResourceTool

log = logging.getLogger("windlass.server")

MOST: Final = 1000  # addresses that one session subscribes to, and sessions that do


class Subscriber(NamedTuple):
    """A session of the handshake era, and what it wants to hear of."""

    session: ServerSession
    caller: Caller
    uris: set[str]


class Subscribers:
    """The subscriptions of all clients; they hear of changes that go through this server."""

    def __init__(self, catalog: Catalog, caller_of: Callable[[Context], Caller]) -> None:
        self.catalog, self.caller_of = catalog, caller_of
        self._sessions: dict[str, Subscriber] = {}
        self._bus = InMemorySubscriptionBus()
        self._listen = ListenHandler(self._bus)
        self._names = self._tool_names()

    def _tool_names(self) -> tuple[str, ...]:
        return tuple([tool.name for tool in self.catalog.all_tools()])

    async def listen(
        self, ctx: Context, params: types.SubscriptionsListenRequestParams
    ) -> types.SubscriptionsListenResult:
        """Serve a stream of changes, since 2026-07-28."""
        for uri in params.notifications.resource_subscriptions or ():
            self._check(ctx, str(uri))
        return await self._listen(ctx, params)

    async def subscribe(
        self, ctx: Context, params: types.SubscribeRequestParams
    ) -> types.EmptyResult:
        """Subscribe a session of the handshake era to an address."""
        self._check(ctx, str(params.uri))
        key = Exchange.of(ctx).session_key
        new = Subscriber(ctx.session, self.caller_of(ctx), set())
        if key not in self._sessions and len(self._sessions) >= MOST:
            del self._sessions[next(iter(self._sessions))]  # the one that came first
        wanted = self._sessions.setdefault(key, new).uris
        if len(wanted) >= MOST:
            raise MCPError(types.INVALID_REQUEST, f"at most {MOST} subscriptions")
        wanted.add(str(params.uri))
        return types.EmptyResult()

    def _check(self, ctx: Context, uri: str) -> None:
        if not self.catalog.may_read(self.caller_of(ctx), uri):
            raise MCPError(types.INVALID_PARAMS, "there is nothing to read at this address")

    async def unsubscribe(
        self, ctx: Context, params: types.UnsubscribeRequestParams
    ) -> types.EmptyResult:
        """End a subscription."""
        key = Exchange.of(ctx).session_key
        known = self._sessions.get(key)
        if known is not None:
            known.uris.discard(str(params.uri))
            if not known.uris:
                self.forget(key)
        return types.EmptyResult()

    def forget(self, key: str) -> None:
        """Forget a session that has ended."""
        self._sessions.pop(key, None)

    async def announce(self, done: Finished) -> None:
        """Tell who subscribed that a call changed a row, or the list of tools."""
        names = self._tool_names()
        if names != self._names:
            self._names = names
            await self._bus.publish(ToolsListChanged())
        tool = done.tool
        if not isinstance(tool, ResourceTool) or tool.verb.reads or done.result.is_error:
            return
        name = tool.verb.plan.name
        uris = [row_uri(name)]
        try:
            row = msgspec.json.decode(done.result.text, type=JsonObject)
        except msgspec.DecodeError:
            row = {}
        if "id" in row:
            uris.append(row_uri(name, row["id"]))
        for uri in uris:
            await self._bus.publish(ResourceUpdated(uri=uri))
            for key, one in list(self._sessions.items()):
                if uri in one.uris and self.catalog.may_read(one.caller, uri):
                    await self._notify(key, one.session, uri)

    async def _notify(self, key: str, session: ServerSession, uri: str) -> None:
        try:
            await session.send_resource_updated(uri)
        except Exception as error:  # it has gone: that is no failure of the call
            log.info("a subscriber is not there any more: %s", type(error).__name__)
            self.forget(key)
