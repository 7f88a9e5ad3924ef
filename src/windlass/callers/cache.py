"""`with_cache`: send the same request once.

The key is the digest of the request and its scope: the scope (model, address, fingerprint of the
key, tenant; see `scope.py`), system prompt, tools, settings and messages. Replies are kept in
memory, and in a session of a store if one is given, where other processes read them. A reply from
the cache costs nothing and is marked `via="cache"`.
"""

from __future__ import annotations

import asyncio
import logging
from collections import OrderedDict
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

import msgspec

from windlass import seams
from windlass.callers.caller import Layer
from windlass.callers.common import digest, with_price
from windlass.callers.options import number, takes_a_dict, whole
from windlass.callers.redaction import LayerRedactor, secrets_of
from windlass.errors import ConfigError, NoSuchSession, StoreError, safe_repr
from windlass.events import Noted
from windlass.files import check_private
from windlass.json_types import as_given
from windlass.loop.reply import repair_reply
from windlass.models.base import Emit, Holding, Model, Request, Response
from windlass.models.wrappers.base import show
from windlass.store import open_store
from windlass.store.base import Store
from windlass.store.open import SUFFIXES, sqlite_file
from windlass.usage import Usage

log = logging.getLogger("windlass")

NOTE = "llm_cache"
FREE = Usage(cost_usd=0.0)
WHOLE = frozenset({"end_turn", "tool_use", "stop_sequence"})  # what ended otherwise may end better


class CachedReply(msgspec.Struct, frozen=True):
    """A reply in the cache."""

    key: str
    response: Response
    at: float


class Caching(Holding):
    """A model that is called once for the same request."""

    def __init__(self, model: Model, layer: Cache) -> None:
        super().__init__(model)
        self.layer = layer

    async def respond(self, request: Request, emit: Emit) -> Response:
        """Return the cached answer, or a new one."""
        layer, key = self.layer, digest(self.model, request)
        kept = await layer.get(key)
        if kept is not None:
            show(kept, emit)
            return msgspec.structs.replace(kept, usage=FREE, via="cache")
        response = await self.model.respond(request, emit)
        if response.via != "cache":
            try:
                good = repair_reply(response)
            except Exception:
                return response  # no reply at all: the caller handles it
            if good.stop_reason in WHOLE:
                await layer.put(key, with_price(self.model, request, good), secrets_of(self.model))
        return response


class Cache(Layer):
    """The layer of `with_cache`; `hits` and `misses` count."""

    name = "with_cache"

    def __init__(
        self, store: Store | str | None, ttl: float | None, max_entries: int, session_id: str
    ) -> None:
        self.store, self.ttl, self.max_entries = store, ttl, max_entries
        self.session_id = session_id
        self.hits = self.misses = 0
        self._kept: OrderedDict[str, CachedReply] = OrderedDict()
        self._unwritten: list[CachedReply] = []
        self._read, self._writing = store is None, False

    def wrap(self, model: Model) -> Model:
        """Wrap the model in the cache."""
        return Caching(model, self)

    async def get(self, key: str) -> Response | None:
        """Return the cached reply, unless it is too old."""
        if not self._read:
            await self._load()
        kept = self._kept.get(key)
        if kept is not None and self.ttl is not None and seams.now() - kept.at >= self.ttl:
            del self._kept[key]
            kept = None
        if kept is None:
            self.misses += 1
            return None
        self.hits += 1
        self._kept.move_to_end(key)
        return kept.response

    async def put(self, key: str, response: Response, secrets: tuple[str, ...] = ()) -> None:
        """Cache a reply in memory and in the store, without secrets."""
        kept = CachedReply(key, msgspec.structs.replace(response, asides=()), seams.now())
        self._remember(kept)
        if self.store is None:
            return
        self._unwritten.append(LayerRedactor(secrets).value(kept))
        if self._writing:
            return  # the current writer stores it too: a session has one writer
        self._writing = True
        try:
            while self._unwritten:
                await self._write()
        except (StoreError, TypeError, ValueError) as problem:
            # another process writes, the disk is full: the next process asks again
            self._unwritten.clear()
            log.warning("with_cache: a reply is kept in memory only: %s", problem)
        finally:
            self._writing = False

    async def _write(self) -> None:
        async with self._place() as store:
            journal = await store.open(self.session_id)
            try:
                written = list(self._unwritten)
                for kept in written:
                    journal.append(Noted(NOTE, msgspec.to_builtins(kept)))
                journal.flush()
                await journal.durable()
                del self._unwritten[: len(written)]
            finally:
                await journal.close()

    def _remember(self, kept: CachedReply) -> None:
        self._kept[kept.key] = kept
        self._kept.move_to_end(kept.key)
        while len(self._kept) > self.max_entries:
            self._kept.popitem(last=False)

    async def _load(self) -> None:
        async with self._place() as store:
            try:
                entries = await store.read(self.session_id)
            except NoSuchSession:
                entries = []
        if self._read:
            return  # another task has read it meanwhile
        self._read = True
        for entry in entries:
            if type(entry) is Noted and entry.name == NOTE:
                try:
                    kept = msgspec.convert(entry.data, CachedReply)
                except msgspec.ValidationError as problem:
                    log.warning("with_cache: an entry cannot be read: %s", problem)
                    continue
                if kept.key not in self._kept:
                    self._remember(kept)

    @asynccontextmanager
    async def _place(self) -> AsyncGenerator[Store]:
        """Open the store; one given as a URL is open only while it is used."""
        if not isinstance(self.store, str):
            assert self.store is not None
            yield self.store
            return
        if (file := sqlite_file(self.store)) is not None:
            try:
                check_private(file)
            except OSError as error:
                raise StoreError(
                    f"with_cache: {file}: {error.strerror}; replies are not kept there, name another file"
                ) from None
        store = open_store(self.store)
        try:
            yield store
        finally:
            await asyncio.shield(store.aclose())


@takes_a_dict
def with_cache(
    store: Store | str | None = None,
    *,
    ttl: float | None = None,
    max_entries: int = 1024,
    session_id: str = "llm_cache",
) -> Cache:
    """Answer a request that was answered before from a cache: `with_cache(ttl=3600)`.

    With `store` (or its address, `"sqlite:///cache.db"`) replies are also kept in its session
    `session_id`, for other processes. `ttl` is in seconds; `max_entries` is how many replies memory
    keeps. Only calls of one tenant, to one address, with one key share a reply. Replies that were
    cut or refused are not cached. A hit costs nothing and is recorded with `via="cache"`.
    """
    if store is not None and not isinstance(as_given(store), str):
        if not callable(getattr(store, "open", None)) or isinstance(store, type):
            raise ConfigError(f"store is 'sqlite:///name.db' or a store, not {safe_repr(store)}")
    if isinstance(store, str) and not store.endswith(SUFFIXES) and not store.startswith("sqlite:"):
        store = open_store(store)  # memory, or refused now
    if not isinstance(as_given(session_id), str) or not session_id:
        raise ConfigError(f"session_id is a text that is not empty, not {safe_repr(session_id)}")
    return Cache(
        store,
        None if ttl is None else number("ttl", ttl),
        whole("max_entries", max_entries),
        session_id,
    )
