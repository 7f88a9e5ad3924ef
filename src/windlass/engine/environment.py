"""The environment of runs: store, ledger, threads, secrets and configuration.

A script needs none of this by name: there is one default environment, which reads the nearest
`windlass.toml` and the variables of the process when it is first used. Hosts make a `Runtime`
(`windlass.runtime.runtime`), which is an environment with interfaces for them.
"""

from __future__ import annotations

import asyncio
import logging
import os
import threading
from collections.abc import Awaitable, Callable, Generator, Iterable, Mapping, Sequence
from concurrent.futures import Executor, ThreadPoolExecutor
from contextlib import AbstractContextManager, contextmanager, nullcontext
from contextvars import Context, ContextVar, Token, copy_context
from functools import cached_property
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self, TypeVar
from weakref import WeakSet

from windlass.access.caller import Caller
from windlass.access.roles import Roles, RolesConfig, as_roles
from windlass.audit.anchors import Anchor, AuditAnchor, AuditConfig, FileAnchor, as_anchor
from windlass.config.loader import Config, load
from windlass.engine.agent_defaults import read_agent_options, with_agent_options
from windlass.errors import ConfigError, safe_repr
from windlass.json_types import JsonObject, as_given
from windlass.loop.ledger import NO_LIMITS, Budget, Ledger
from windlass.loop.period import Period
from windlass.loop.run import Run
from windlass.models.keys import Learned, learn_keys
from windlass.models.mock import MockQueue, current_queue
from windlass.models.registry.scope import current_environ, registry_source
from windlass.options.group import Values
from windlass.redaction.redactor import RedactingFilter, Redactor, Secret
from windlass.resources.current import current_resources
from windlass.store.base import Store
from windlass.store.memory import MemoryStore
from windlass.store.open import StoreConfig, open_store
from windlass.tools.tool import thread_depth

if TYPE_CHECKING:
    from windlass.audit.seal import SealScheduler
    from windlass.engine.host_tools import HostTools
    from windlass.mcp.client.connection import Connection
    from windlass.mcp.client.pool import McpPool
    from windlass.mcp.client.servers import McpServer
    from windlass.models.base import Model
    from windlass.models.registry.registry import ModelRegistry
    from windlass.resources.registry import Resources
    from windlass.resources.resource import Resource
    from windlass.tools.tool import Tool

T = TypeVar("T")

_UNKNOWN: Any = object()  # nobody has asked yet
_current: ContextVar[Environment | None] = ContextVar("windlass_runtime", default=None)
_default: Environment | None = None


class Environment:
    """What the runs of a host share. `windlass.Runtime` documents each argument."""

    def __init__(
        self,
        store: Store | str | os.PathLike[str] | None = None,
        config: str | Path | None = None,
        *,
        budget: Budget | None = None,
        secrets: tuple[str | Secret, ...] = (),
        environ: Mapping[str, str] | None = None,
        resources: Iterable[type[Resource]] | None = None,
        tools: Iterable[Any] | None = None,
        roles: Mapping[str, Any] | Callable[[Caller], Iterable[str]] | Roles | None = None,
        audit_anchor: AuditAnchor | None = None,
        mcp_servers: object = None,
        fleet: str = "local",
    ) -> None:
        self.fleet = fleet
        self._servers = None if mcp_servers is None else _check_servers(mcp_servers)
        self._mcp: McpPool | None = None
        self._given_resources = None if resources is None else tuple(resources)
        self._given_tools = None if tools is None else tuple(tools)
        self._given_roles = roles
        if roles is not None:  # a mistake is one of now, not of the first call
            _ = self.roles
        if tools is not None:
            _ = self._host_tools
        self._given_store, self._config_path = store, config
        self._given_anchor = audit_anchor
        self._keeper: SealScheduler | None = _UNKNOWN
        if audit_anchor is not None:
            _ = self.audit_anchor
        self._environ = environ
        self._config: Config | None = None
        self._book: ModelRegistry | None = None
        self._store: Store | None = None
        self._opened: dict[str, Store] = {}
        self._pools: dict[int, ThreadPoolExecutor] = {}  # by how many tools' threads are around
        self._redactor: Redactor | None = None
        self._learned: Learned = {}
        self._secrets = secrets
        self._inside = 0  # how many blocks of it are open
        self._counting = threading.Lock()
        self.memory = MemoryStore()  # for runs without a store
        self.mock: MockQueue = MockQueue()
        if budget is not None and not isinstance(as_given(budget), Budget):
            raise ConfigError(f"budget is a Budget, not {safe_repr(budget)}")
        self.ledger = Ledger(budget or NO_LIMITS)
        if budget is not None and budget.per is not None:
            self.ledger.period = Period(budget.per, lambda: self.store)
        # finds the ledger of a tenant whose limits hold over several processes
        self.find_tenant_ledger: Callable[[str], Ledger] | None = None
        self.lingering: set[asyncio.Task[None]] = set()
        # park what runs in the background, before the store is closed
        self.closers: set[Callable[[], Awaitable[None]]] = set()
        _living.add(self)

    def ledger_for(self, caller: Caller | None) -> Ledger:
        """Return the ledger above the runs of a caller: that of the tenant, or the Runtime's own."""
        if self.find_tenant_ledger is None:
            return self.ledger
        return self.find_tenant_ledger("" if caller is None else caller.tenant or "")

    # ----------------------------------------------------------------- what it is made of, lazily

    @property
    def config(self) -> Config:
        """The effective `windlass.toml`."""
        if self._config is None:
            self._config = load(file=self._config_path, env=self._environ)
        return self._config

    @property
    def book(self) -> ModelRegistry:
        """What is configured about providers and models here."""
        if self._book is None:
            # Loaded by name: an agent whose model is an object needs no tables.
            registry = import_module("windlass.models.registry.registry")
            book: ModelRegistry = registry.build_registry(self.config)
            self._book = book
        return self._book

    @cached_property
    def transcript_dir(self) -> str | None:
        """The folder for the transcript of every run, from the variables; looked up once."""
        environ = os.environ if self._environ is None else self._environ
        return environ.get("WINDLASS_LLM_TRANSCRIPT_DIR") or None

    def with_defaults(self, options: JsonObject) -> JsonObject:
        """Return options of a run, and below them those of `[agent]` and of the variables."""
        if self.agent_options:
            options = with_agent_options(options, self.agent_options)
        if self.transcript_dir is None or "llm_transcript_dir" in options:
            return options
        return {**options, "llm_transcript_dir": self.transcript_dir}

    @cached_property
    def agent_options(self) -> Values:
        """The options that `[agent]` of the configuration gives to every agent here."""
        return read_agent_options(self.config)

    @cached_property
    def roles(self) -> Roles:
        """Who may do what: as given, else `[roles]` of the configuration, else everyone all."""
        if self._given_roles is not None:
            return as_roles(self._given_roles)
        grants = self.config.get(RolesConfig).grants
        if grants is None:
            self.config.require_trust("roles.")  # nobody may do everything because a file is new
        return Roles(grants)

    @cached_property
    def _host_tools(self) -> HostTools:
        # Loads the package of resources, which most runs do not need.
        from windlass.engine.host_tools import HostScope, HostTools

        scope = HostScope(lambda: self.store, lambda: self.roles, lambda: self.redactor)
        return HostTools(scope, self._given_resources, self._given_tools)

    @property
    def resources(self) -> Resources:
        """The resources here, as tools and for the host: `scope.resources[Product]`."""
        return self._host_tools.resources

    @property
    def conversations(self) -> Resources:
        """Conversations and their turns, which are no tools: `scope.conversations[…]`."""
        return self._host_tools.conversations

    def tools(self, caller: Caller | None = None) -> list[Tool]:
        """List the tools that the caller may call: verbs of resources, and those of `tools=`."""
        return self._host_tools.tools_for(caller)

    @property
    def mcp_servers(self) -> dict[str, McpServer]:
        """The MCP servers of this Runtime, by name."""
        return self._servers or {}

    @property
    def mcp(self) -> McpPool:
        """The MCP servers that run, for this Runtime's own and for those of its runs."""
        if self._mcp is None:
            environ = os.environ if self._environ is None else self._environ
            module = import_module("windlass.mcp.client.pool")
            pool: McpPool = module.McpPool(environ, self.redact, self._learn_server)
            self._mcp = pool
        return self._mcp

    async def connect_servers(self) -> None:
        """Start the MCP servers of this Runtime, and offer their tools beside the others."""
        if self._servers:
            connector = import_module("windlass.engine.mcp.connector")
            self._host_tools.set_server_tools(await connector.connect_host_tools(self))

    async def release_servers(self, connections: Iterable[Connection]) -> None:
        """End the servers that no run uses, unless a block of this Runtime keeps them."""
        idle = self.mcp.release(connections)
        if idle and not self._inside:
            task = asyncio.get_running_loop().create_task(self.mcp.close(idle))
            self.lingering.add(task)
            task.add_done_callback(self.lingering.discard)
            await asyncio.wait({task}, timeout=1.0)  # mostly they have ended with the run

    @cached_property
    def audit_anchor(self) -> FileAnchor | Anchor | None:
        """Where seals are kept: as given, else `[audit]` of the configuration."""
        given, folder = self._given_anchor, None
        if given is None:
            given = self.config.get(AuditConfig).anchor
            folder = self.config.folder(AuditConfig, "anchor")
        if given is None:
            return None
        return as_anchor(given, folder)

    def keeper_for(self, store: Store) -> SealScheduler | None:
        """Return the scheduler of seals for this store, or None.

        An anchor belongs to one store: the Runtime's own, or the first that lasts where that is memory.
        """
        keeper = self._keeper
        if keeper is _UNKNOWN:
            if self.audit_anchor is None:
                self._keeper = None
                return None
            home = self.store
            lasts = not isinstance(store, MemoryStore)
            keeper = self._keeper = self._new_keeper(
                store if lasts and isinstance(home, MemoryStore) else home
            )
        if keeper is None or keeper.store is store:
            return keeper
        keeper.leave_out(store)
        return None

    def _new_keeper(self, store: Store) -> SealScheduler:
        anchor = self.audit_anchor
        if isinstance(anchor, FileAnchor) and isinstance(store, MemoryStore):
            raise ConfigError(
                "audit_anchor outlives a store in memory, and would speak of sessions that are "
                "gone; name a store that lasts: store='sqlite:///agents.db'"
            )
        # Loaded only by hosts that seal what their runs leave behind.
        from windlass.audit.seal import SealScheduler

        return SealScheduler(store, anchor, self.pool, self.config.get(AuditConfig).every)

    @property
    def audited(self) -> Store:
        """The store whose record is sealed and asked: the Runtime's own, nearly always."""
        keeper = self._keeper
        return self.store if keeper is None or keeper is _UNKNOWN else keeper.store

    @property
    def store(self) -> Store:
        """Where sessions live: as given, else `[store]` of the configuration, else memory."""
        if self._store is None:
            given, folder = self._given_store, None
            if given is None:
                given = self.config.get(StoreConfig).url
                folder = self.config.folder(StoreConfig, "url")
            self._store = self.store_at(given, folder)
        return self._store

    def store_at(
        self, place: Store | str | os.PathLike[str] | None, folder: Path | None = None
    ) -> Store:
        """Return the store of a place: an object is itself, the same URL the same store.

        A relative file is looked for in `folder`, else in the current one.
        """
        if place is None:
            return self.memory
        if not isinstance(place, (str, os.PathLike)):
            return place
        url = os.fspath(place)
        if url == "memory:":
            return self.memory
        key = url if folder is None else f"{folder} {url}"
        store = self._opened.get(key)
        if store is None:
            patience = self.config.get(StoreConfig).busy_timeout
            store = open_store(place, busy_timeout=patience, folder=folder)
            self._opened[key] = store
        return store

    @property
    def redactor(self) -> Redactor | None:
        """The redactor of all known secrets; None while there is none."""
        if self._redactor is None:
            self._redactor = Redactor(self._secrets)
            self._redactor.add_env(os.environ if self._environ is None else self._environ)
            for secret in self.config.secrets():
                self._redactor.add(secret)
            _log_filter.redactors.add(self._redactor)
        return None if self._redactor.is_empty else self._redactor

    def redact(self, value: T) -> T:
        """Redact known secrets: `await home.post(id, kind, env.redact(payload))`."""
        redactor = self.redactor
        return value if redactor is None else redactor.value(value)

    def learn(self, model: Model) -> None:
        """Register a model's keys with the redactor, until the model is collected."""
        if not model.secrets:
            return
        _ = self.redactor
        assert self._redactor is not None
        learn_keys(self._redactor, self._learned, model)

    def _learn_server(self, server: McpServer) -> None:
        """Register the secrets among the variables and headers of an MCP server with the redactor."""
        _ = self.redactor
        assert self._redactor is not None
        self._redactor.add_env(server.env if isinstance(server.env, Mapping) else {})
        self._redactor.add_headers(server.headers)

    def pool(self) -> Executor:
        """Return bounded threads for synchronous tools.

        A tool may run an agent and wait for it in its thread: the tools of that run have threads of
        their own, so that they never wait for those who wait for them.
        """
        depth = thread_depth.get()
        pool = self._pools.get(depth)
        if pool is None:
            workers = min(32, (os.cpu_count() or 1) * 4 + 4)
            pool = ThreadPoolExecutor(workers, thread_name_prefix="windlass-tool")
            pool = self._pools.setdefault(depth, pool)
        return pool

    def linger(self, run: Run) -> None:
        """Take over what outlived a cancelled run; its session gets no writer until it ends."""
        task = asyncio.get_running_loop().create_task(_outlive(run))
        self.lingering.add(task)
        task.add_done_callback(self.lingering.discard)

    # ----------------------------------------------------------------- its life

    def as_current(self) -> AbstractContextManager[None]:
        """Make it the current Runtime of this context: `with runtime.as_current(): …`"""
        return _HERE if self._is_current() else self._in_context()

    def _is_current(self) -> bool:
        return (_current.get() or _default) is self

    @contextmanager
    def _in_context(self) -> Generator[None]:
        tokens = self._become_current()
        try:
            yield
        finally:
            _reset(tokens)

    def _become_current(self) -> list[tuple[ContextVar[Any], Token[Any]]]:
        """Set the context variables of the current Runtime to this one's."""
        mine: list[tuple[ContextVar[Any], Any]] = [
            (_current, self),
            (current_queue, self.mock),
            (registry_source, lambda: self.book),
            (current_resources, lambda: self.resources),
            (current_environ, self._environ),
        ]
        if self is _default:  # it is what holds outside of any
            mine = [(variable, None) for variable, _ in mine]
        return [(variable, variable.set(value)) for variable, value in mine]

    def new_context(self) -> Context | None:
        """Copy this context with this Runtime as the current; None where it is so already."""
        if self._is_current():
            return None
        context = copy_context()
        context.run(self._become_current)
        return context

    async def __aenter__(self) -> Self:
        with self._counting:
            self._inside += 1
        _entered.set((*_entered.get(), self._become_current()))
        return self

    async def __aexit__(self, *_: object) -> None:
        *before, tokens = _entered.get() or ([],)
        _entered.set(tuple(before))
        _reset(tokens)
        with self._counting:
            self._inside -= 1
            last = self._inside == 0
        if last:
            await self.aclose()

    def after_fork(self) -> list[object]:
        """Reset threads and files in a forked child; return what is left behind."""
        left: list[object] = [*self._pools.values(), self._store, *self._opened.values()]
        left.append(self._mcp)
        self._pools, self._store, self._keeper, self._mcp = {}, None, _UNKNOWN, None
        self._opened.clear()
        return left

    async def aclose(self) -> None:
        """Close the store and the threads."""
        inside = self._inside
        for close in list(self.closers):
            await close()
        if self.lingering:
            await asyncio.wait(self.lingering, timeout=1.0)
        if self._inside > inside:
            return  # somebody has come in meanwhile, and will close it
        # whoever comes in from now on finds nothing that is being closed
        store, self._store = self._store, None
        opened, self._opened = self._opened, {}
        keeper, self._keeper = self._keeper, _UNKNOWN
        pools, self._pools = self._pools, {}
        servers, self._mcp = self._mcp, None
        if servers is not None:
            await servers.aclose()
        await self._seal_at_the_end(keeper, store)
        for one in opened.values():
            await one.aclose()
        for pool in pools.values():
            pool.shutdown(wait=False, cancel_futures=True)

    async def _seal_at_the_end(self, known: SealScheduler | None, store: Store | None) -> None:
        """Seal what a host did through resources without any run."""
        if known is _UNKNOWN:
            known = None
            if self._given_anchor is not None and store is not None:
                known = None if isinstance(store, MemoryStore) else self._new_keeper(store)
        if known is not None:
            await known.aclose()


def _check_servers(given: object) -> dict[str, McpServer]:
    module = import_module("windlass.mcp.client.servers")
    found: Sequence[McpServer | str] = module.check_servers("mcp_servers", given)
    for one in found:
        if isinstance(one, str):
            raise ConfigError(f"mcp_servers of a Runtime are entries, not the name {one!r}")
    return {one.name: one for one in found if not isinstance(one, str)}


_HERE: AbstractContextManager[None] = nullcontext()
# what the blocks around have changed in this context, the innermost last
_entered: ContextVar[tuple[list[tuple[ContextVar[Any], Token[Any]]], ...]] = ContextVar(
    "windlass_entered", default=()
)


def _reset(tokens: list[tuple[ContextVar[Any], Token[Any]]]) -> None:
    for variable, token in reversed(tokens):
        try:
            variable.reset(token)
        except ValueError:  # entered in another context, which ends on its own
            pass


_living: WeakSet[Environment] = WeakSet()
_left_behind: list[object] = []  # unclosed: what they hold open is the parent's


def _in_child() -> None:
    for environment in list(_living):
        _left_behind.extend(environment.after_fork())


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_in_child)


class _LogFilter(logging.Filter):
    """A filter that removes the secrets of every Runtime from Windlass's log."""

    def __init__(self) -> None:
        super().__init__()
        self.redactors: WeakSet[Redactor] = WeakSet()

    def filter(self, record: logging.LogRecord) -> bool:
        for redactor in self.redactors:
            RedactingFilter(redactor).filter(record)
        return True


_log_filter = _LogFilter()
for _name in (  # a filter does not see what child loggers log
    "windlass",
    "windlass.audit",
    "windlass.loop",
    "windlass.mcp",
    "windlass.models",
    "windlass.server",
    "windlass.store",
    "windlass.tools",
):
    logging.getLogger(_name).addFilter(_log_filter)


async def _outlive(run: Run) -> None:
    while run.calls.threads or run.calls.lingering:
        waits = {asyncio.wrap_future(future) for future in run.calls.threads} | run.calls.lingering
        if waits:
            await asyncio.wait(waits)
        run.calls.lingering = frozenset([task for task in run.calls.lingering if not task.done()])
    await run.journal.close()


def current_environment() -> Environment:
    """Return the environment of this context, else the default one of the process."""
    global _default
    environment = _current.get()
    if environment is not None:
        return environment
    if _default is None:
        _default = Environment()
    return _default


def current_store() -> Store:
    """Return the store of the current environment."""
    return current_environment().store
