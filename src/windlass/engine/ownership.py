"""Access to sessions: one rule for every entry point.

A session belongs to (tenant, id) and to the caller who began it. The host may use every session. Another
caller of the same tenant needs a role with a grant `agent_session.<action>`. To everybody else the session
does not exist: the error is that of an unused id.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal, NamedTuple, TypeAlias
from urllib.parse import quote

import msgspec

from windlass import seams
from windlass.access.caller import Caller, is_host
from windlass.engine.environment import Environment, current_environment
from windlass.errors import ConfigError, NoSuchSession, safe_repr
from windlass.events import JournalEntry, RunStarted, SessionOpened
from windlass.json_types import as_given
from windlass.store.base import SessionInfo, Store
from windlass.store.open import Address, check_address

#: What a caller does with a session; a role grants it as `agent_session.<action>`.
SessionAction: TypeAlias = Literal[
    "read", "run", "resume", "fork", "mail", "answer", "edit", "undo", "audit"
]
#: Keys of the workspace, see `toolbox/session_workspace.py`.
_WORKSPACE_KEYS = ("workspace_anchor", "workspace_mounts")
#: The key of the session's owner in its metadata.
OWNER_KEY = "windlass_owner"
#: The key of the record of a worker in the metadata of its session.
WORKER_KEY = "windlass_worker"
BEGIN_TRIES = 60  # waits for a session that is about to begin


class SessionOwner(msgspec.Struct, frozen=True):
    """The caller who began a session: `SessionOwner("ann", "acme")`; no user for the host."""

    user: str | None = None
    tenant: str | None = None

    def is_caller(self, caller: Caller) -> bool:
        """Check whether this caller began the session."""
        return self.user is not None and (self.user, self.tenant) == (caller.user, caller.tenant)


HOST = SessionOwner()


# --------------------------------------------------------------------------- the rule


def check_session_access(
    owner: SessionOwner,
    caller: Caller | None,
    session_id: str,
    environment: Environment,
    action: SessionAction = "read",
) -> None:
    """Raise `NoSuchSession` unless the caller may use the session of this owner so.

    ```python
    check_session_access(owner_of(journal.entries), caller, session_id, environment, "resume")
    ```
    """
    if is_host(caller):
        return
    caller = check_caller(caller)
    if owner.is_caller(caller):
        return
    if owner.tenant == caller.tenant:
        roles = environment.roles
        if roles.grants_session(caller, action):
            return
        # Without roles and tenants the host decides who answers its own questions.
        if action == "answer" and owner == HOST and roles.is_open:
            return
    raise no_such_session(session_id)


def check_caller(caller: object) -> Caller:
    """Refuse what is no `Caller`: a name, a dict, an object that looks like one."""
    if not isinstance(caller, Caller):
        raise ConfigError(f"caller is a Caller, not {safe_repr(caller)}")
    if caller.tenant is not None and (
        not isinstance(as_given(caller.tenant), str) or not caller.tenant
    ):
        raise ConfigError(f"a caller's tenant is a name, or None, not {safe_repr(caller.tenant)}")
    return caller


def no_such_session(session_id: str) -> NoSuchSession:
    """Build the error for an unknown or foreign id; it names no other id."""
    return NoSuchSession(f"no session {session_id!r}")


# --------------------------------------------------------------------------- from an id to a session


class SessionScope(NamedTuple):
    """Where a caller works on sessions: the environment, the store, and in whose name."""

    environment: Environment
    home: Store
    caller: Caller | None

    @classmethod
    def current(cls, store: Address | None, caller: Caller | None) -> SessionScope:
        """Return the scope in the current environment, on the store given or that environment's."""
        environment = current_environment()
        address = check_address("store", store)
        home = environment.store if address is None else environment.store_at(address)
        return cls(environment, home, caller)

    async def find(self, session_id: str, action: SessionAction) -> str:
        """Return the store's id of a session that the caller may use so."""
        return await find_session(self.home, session_id, self.caller, self.environment, action)


async def find_session(
    home: Store,
    session_id: str,
    caller: Caller | None,
    environment: Environment,
    action: SessionAction = "read",
) -> str:
    """Return the id under which the store has the caller's session, if he may use it so.

    ```python
    key = await find_session(store, "review", ann, environment, "mail")
    await store.post(key, "steer", "Hurry up.")
    ```
    For the host it is the id itself. `NoSuchSession` for an id that is unknown or somebody else's.
    """
    if is_host(caller):
        return session_id
    caller = check_caller(caller)
    key, owner = await _look_up(home, session_id, caller)
    if owner is None:
        raise no_such_session(session_id)
    check_session_access(owner, caller, session_id, environment, action)
    return key


async def place_session(
    home: Store, session_id: str, caller: Caller | None, environment: Environment
) -> str:
    """Return the id under which this caller may begin a run, on a new or allowed session."""
    if is_host(caller):
        return session_id
    caller = check_caller(caller)
    key, owner = await _look_up(home, session_id, caller)
    if owner is None:
        check_new_owner(environment, caller)
    else:
        check_session_access(owner, caller, session_id, environment, "run")
    return key


async def readable_sessions(
    home: Store, caller: Caller | None, environment: Environment, action: SessionAction = "read"
) -> list[SessionInfo]:
    """List the sessions of a store that the caller may use so."""
    found = await home.sessions()
    if is_host(caller):
        return found
    seen: list[SessionInfo] = []
    for info in found:
        owner = owner_in(info.metadata) or await _read_owner(home, info.id) or HOST
        try:
            check_session_access(owner, caller, info.id, environment, action)
        except NoSuchSession:
            continue
        seen.append(info)
    return seen


async def is_begun(home: Store, session_id: str) -> bool:
    """Check whether the store has a session of this id."""
    return await _read_owner(home, session_id) is not None


async def wait_for_beginner(attempt: int) -> None:
    """Wait, longer each time, for another process that begins a session of the same id."""
    await seams.sleep(min(0.005 * 2**attempt, 0.25))


async def check_child(home: Store, session_id: str, owner: SessionOwner) -> None:
    """Refuse a child's session that does not belong to the owner of its parent."""
    known = await _read_owner(home, session_id)
    if known is not None and known != owner:
        raise no_such_session(session_id)


def as_seen_by(info: SessionInfo, caller: Caller | None) -> SessionInfo:
    """Describe a session with the ids by which the caller knows it and its family."""
    if is_host(caller):
        return info
    return msgspec.structs.replace(
        info,
        id=visible_id(info.id, caller),
        parent_id=visible_id(info.parent_id, caller) if info.parent_id else None,
        root_id=visible_id(info.root_id, caller) if info.root_id else None,
        child_ids=tuple([visible_id(one, caller) for one in info.child_ids]),
        metadata={
            name: value
            for name, value in info.metadata.items()
            if name not in (OWNER_KEY, WORKER_KEY)
        },
    )


def qualified_id(session_id: str, tenant: str | None) -> str:
    """Build the id of a tenant's session whose plain id is taken: `@acme/review`."""
    prefix = f"@{quote(tenant or '', safe='')}/"
    return session_id if session_id.startswith(prefix) else prefix + session_id


def visible_id(session_id: str, caller: Caller | None) -> str:
    """Return the id by which a caller knows a session of his tenant."""
    if caller is None or is_host(caller) or not session_id.startswith("@"):
        return session_id
    return session_id.removeprefix(qualified_id("", caller.tenant))


async def _look_up(home: Store, session_id: str, caller: Caller) -> tuple[str, SessionOwner | None]:
    """Return the store's id for a session of the caller's tenant, and its owner if any."""
    if not isinstance(as_given(session_id), str):
        raise ConfigError(f"session_id is a text, not {safe_repr(session_id)}")
    prefix = qualified_id("", caller.tenant)
    while session_id.startswith(prefix):  # `@acme/review` is `review` to callers of acme
        session_id = session_id.removeprefix(prefix)
    if not session_id:
        raise ConfigError("session_id is empty")
    own = qualified_id(session_id, caller.tenant)
    owner = await _read_owner(home, own)
    # Another id that begins with `@` is the tenant's own, so that none can be chosen to be another's.
    if owner is not None or session_id.startswith("@"):
        return own, owner
    owner = await _read_owner(home, session_id)
    if owner is not None and owner.tenant != caller.tenant:
        return own, None
    return session_id, owner


async def _read_owner(home: Store, session_id: str) -> SessionOwner | None:
    try:
        known = owner_in((await home.info(session_id)).metadata)
        return owner_of(await home.read(session_id)) if known is None else known
    except NoSuchSession:
        return None


# --------------------------------------------------------------------------- ids on record


async def check_session_id(environment: Environment, home: Store, session_id: str) -> None:
    """Refuse a new session with a known secret in its id, which is written everywhere."""
    if environment.redact(session_id) == session_id:
        return
    try:
        await home.info(session_id)
    except NoSuchSession:
        check_new_id(environment, "session", session_id)


def check_new_id(environment: Environment, what: str, id: str) -> None:
    """Refuse the id of something new where it holds a known secret."""
    if environment.redact(id) != id:
        raise ConfigError(
            f"the id of a {what} holds a secret, and would be on record: choose another"
        ) from None


def check_new_owner(environment: Environment, caller: Caller | None) -> None:
    """Refuse to begin a session or conversation for a caller with a secret in his name.

    The owner has to be on record as he is: a name without its secret could be another's.
    """
    if caller is not None and not is_host(caller):
        check_new_id(environment, "caller", caller.user)
        if caller.tenant is not None:
            check_new_id(environment, "tenant", caller.tenant)


# --------------------------------------------------------------------------- the owner on record


def owner_metadata(
    caller: Caller | None, metadata: Mapping[str, Any] | None = None
) -> dict[str, Any] | None:
    """Build the metadata of a new session with its owner; the host is not named."""
    check_metadata(metadata)
    if caller is None or is_host(caller):
        return None if metadata is None else dict(metadata)
    return with_owner(SessionOwner(caller.user, caller.tenant), metadata)


def with_owner(owner: SessionOwner, metadata: Mapping[str, Any] | None = None) -> dict[str, Any]:
    """Add the owner to metadata."""
    return {**(metadata or {}), OWNER_KEY: {"user": owner.user, "tenant": owner.tenant}}


def check_metadata(metadata: Mapping[str, Any] | None) -> None:
    """Refuse metadata that claims an owner or a workspace."""
    if metadata and OWNER_KEY in metadata:
        raise ConfigError(f"metadata has no key {OWNER_KEY!r}: say who begins a session by caller=")
    if metadata and WORKER_KEY in metadata:
        raise ConfigError(f"metadata has no key {WORKER_KEY!r}: start a worker with spawn_agent")
    for key in _WORKSPACE_KEYS:
        if metadata and key in metadata:
            raise ConfigError(f"metadata has no key {key!r}: say workspace= and mounts=")


def owner_in(metadata: Mapping[str, Any] | None) -> SessionOwner | None:
    """Return the owner that a session's metadata names, if any."""
    named: Any = (metadata or {}).get(OWNER_KEY)
    return None if named is None else msgspec.convert(named, SessionOwner)


def owner_of(entries: Sequence[JournalEntry]) -> SessionOwner:
    """Return who began the session: as its opening says, else the caller of its first run."""
    for entry in entries:
        if type(entry) is SessionOpened and (named := owner_in(entry.metadata)) is not None:
            return named
        if type(entry) is RunStarted:
            return SessionOwner(user_of(entry), entry.tenant)
    return HOST


def user_of(begun: RunStarted) -> str | None:
    """Return the user who began a run, None for the host; older records use `caller`."""
    if begun.user is not None or (begun.tenant is None and begun.caller == str(Caller.local())):
        return begun.user
    return begun.caller.removeprefix(f"{begun.tenant}/")


# --------------------------------------------------------------------------- in whose name


def caller_of_resumed(
    begun: RunStarted, owner: SessionOwner, caller: Caller | None
) -> tuple[Caller, str | None]:
    """Return the caller of a resumed run, and who resumed it where that is another.

    Whoever began the run, and the session's owner, come with the roles that they have now. The host and
    the holder of a role go on in the name of who began it: neither lends his own rights to another's
    prompts, and nobody is lent those of the host.
    """
    user = user_of(begun)
    starter = Caller.local() if user is None else Caller(user, begun.roles, begun.tenant)
    if is_host(caller):
        return starter, None
    caller = check_caller(caller)
    own = (caller.user, caller.tenant) == (user, begun.tenant)
    if own or user is None or owner.is_caller(caller):
        return caller, None
    return starter, str(caller)
