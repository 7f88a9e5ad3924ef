"""The audit log: one chained row for each call, written in the call's transaction.

A chain belongs to a session, or to a host's calls outside of sessions. Each row holds the hash of
its content and of the row before it; heads can be sealed elsewhere.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from hashlib import blake2b
from typing import Any, TypedDict, Unpack

import msgspec

from windlass.errors import ConfigError, Corrupt, nearest, safe_repr
from windlass.json_types import JsonObject
from windlass.loop.run import Run
from windlass.redaction.redactor import Redactor
from windlass.resources.row import Plain
from windlass.resources.tx import Change
from windlass.store.base import Store
from windlass.tools.tool import ToolContext

TABLE = "windlass_audit"
LONGEST = 2048  # bytes of one value in a diff; of a longer one the digest is kept
_copy_state = blake2b(digest_size=32).copy  # half as long as with a new object
_encode = msgspec.json.Encoder().encode
_OWN = "/* windlass */"  # so that no body has the same statement: see `Tx.keep`


class AuditRow(msgspec.Struct, frozen=True):
    """One row of the resource log: caller, verb, row, time, tenant and outcome.

    `changes` is JSON: for each changed row its resource, id, versions, digests before and after,
    and `{field: [before, after]}`. `n` is its place in the log and not part of the hash chain.
    """

    n: int
    chain: str
    seq: int
    at: float
    tenant: str | None
    caller: str
    roles: str
    request: str | None
    conversation: str | None
    session: str | None
    run: str | None
    call: str | None
    tool: str
    resource: str
    verb: str
    row: str | None
    outcome: str  # ok, denied
    reason: str | None
    changes: str
    hash: bytes


COLUMNS = AuditRow.__struct_fields__
_CONTENT = COLUMNS[1:-1]


def host_ids(ctx: ToolContext[Any]) -> tuple[str | None, str | None]:
    """Return the host's ids of the request and the conversation of a call's run."""
    if not isinstance(ctx.scope, Run):
        return None, None
    return ctx.scope.host.request_id, ctx.scope.host.conversation_id


class Origin(msgspec.Struct, frozen=True):
    """The origin of a call."""

    chain: str
    at: float
    tenant: str | None
    caller: str
    roles: tuple[str, ...]
    tool: str
    resource: str
    verb: str
    request: str | None = None
    conversation: str | None = None
    session: str | None = None
    run: str | None = None
    call: str | None = None
    lane: int = 0  # of a host's calls, where they run side by side: each row names the one before


class Which(TypedDict, total=False):
    """Filters of the log: a row must match all that are given."""

    tenant: str | None
    caller: str
    request: str
    conversation: str
    session: str
    call: str
    tool: str
    resource: str
    verb: str
    row: str
    outcome: str
    since: float
    until: float
    after: int  # rows later than this `n`
    limit: int


def ensure(tx: Any) -> None:
    """Create the table."""
    if tx.dialect == "postgres":  # which finds a table that is just being made twice over
        tx.keep(_LOCK, (_MAKING,))
    number = "INTEGER PRIMARY KEY" if tx.dialect == "sqlite" else "BIGSERIAL PRIMARY KEY"
    blob, real = ("BLOB", "REAL") if tx.dialect == "sqlite" else ("BYTEA", "DOUBLE PRECISION")
    whole = "INTEGER" if tx.dialect == "sqlite" else "BIGINT"
    types = {
        "n": number,
        "seq": f"{whole} NOT NULL",
        "at": f"{real} NOT NULL",
        "hash": f"{blob} NOT NULL",
    }
    empty = {"tenant", "request", "conversation", "session", "run", "call", "row", "reason"}
    lines = [
        f'"{name}" {types.get(name, "TEXT" if name in empty else "TEXT NOT NULL")}'
        for name in COLUMNS
    ]
    lines.append("UNIQUE (chain, seq)")
    tx.keep(f"CREATE TABLE IF NOT EXISTS {TABLE} ({', '.join(lines)}) {_OWN}")
    tx.keep(f"CREATE INDEX IF NOT EXISTS {TABLE}_of ON {TABLE} (tenant, at) {_OWN}")


_HEAD = f"SELECT seq, hash FROM {TABLE} WHERE chain = ? ORDER BY seq DESC LIMIT 1 {_OWN}"
_INTO = ", ".join(f'"{name}"' for name in COLUMNS[1:])
_INSERT = f"INSERT INTO {TABLE} ({_INTO}) VALUES ({', '.join('?' * len(COLUMNS[1:]))}) {_OWN}"
_MAKING = 0x57494E444C415353  # the number of a lock that nothing else uses
_LOCK = f"SELECT pg_advisory_xact_lock(?) {_OWN}"


def write(
    tx: Any,
    origin: Origin,
    changes: Sequence[Change],
    *,
    row: Any = None,
    outcome: str = "ok",
    reason: str | None = None,
    redactor: Redactor | None = None,
) -> None:
    """Append a row in the call's own transaction."""
    chain = _text(origin.chain)
    if tx.dialect == "postgres" and origin.session is None:
        chain = f"{chain}:{origin.lane}"  # which no other call uses meanwhile
    head = tx.keep(_HEAD, (chain,)).fetchone()
    seq, before = (0, genesis(chain)) if head is None else (head[0] + 1, bytes(head[1]))
    if row is None and changes:
        row = changes[0].id
    rendered = [_render_change(one, redactor) for one in changes]
    caller, roles = origin.caller, origin.roles
    request, conversation, run, why = origin.request, origin.conversation, origin.run, reason
    if redactor is not None:
        # names that others chose; ids of sessions, calls and rows are keys, and stay as they are
        named = [
            redactor.text(one) if isinstance(one, str) else one
            for one in (caller, request, conversation, run, why, *roles)
        ]
        caller, request, conversation, run, why, *roles = named
    content = (
        chain,
        seq,
        origin.at,
        _text(origin.tenant),
        _text(caller),
        ",".join([str(_text(role)) for role in roles]),
        _text(request),
        _text(conversation),
        _text(origin.session),
        _text(run),
        _text(origin.call),
        origin.tool,
        origin.resource,
        origin.verb,
        _text(row, 512),
        outcome,
        _text(why, 512),
        _encode(rendered).decode(),
    )
    tx.keep(_INSERT, (*content, link(before, content)))


def _text(value: object, most: int | None = None) -> Any:
    """Convert anything to text that every database holds, so that refusals can be logged."""
    if value is None:
        return None
    if type(value) is str and most is None and value.isascii() and "\0" not in value:
        return value  # as nearly all are
    if type(value) is not str:
        value = str(value) if type(value) is int and abs(value) < 1 << 64 else safe_repr(value)
    text = value if most is None else value[:most]
    if text.isascii() and "\0" not in text:
        return text
    return text.replace("\0", "\ufffd").encode("utf-8", "replace").decode()


def genesis(chain: str) -> bytes:
    """Return the hash that the first row of a chain is linked to."""
    return _digest(b"windlass audit\0" + chain.encode())


def link(before: bytes, content: Sequence[Any]) -> bytes:
    """Compute the hash of a row from its columns `chain` to `changes`."""
    return _digest(before + _encode(content))


def verify(rows: Iterable[AuditRow]) -> dict[str, bytes]:
    """Verify every chain among these rows; return the heads, or raise `Corrupt`.

    That nothing was cut off a chain's end only a head kept elsewhere can show.
    """
    heads: dict[str, bytes] = {}
    counts: dict[str, int] = {}
    for row in rows:
        chain = row.chain
        if row.seq != counts.get(chain, 0):
            raise Corrupt(f"audit chain {chain!r}: row {counts.get(chain, 0)} is missing")
        content = [getattr(row, name) for name in _CONTENT]
        heads[chain] = link(heads.get(chain) or genesis(chain), content)
        if heads[chain] != row.hash:
            raise Corrupt(f"audit chain {chain!r}, row {row.seq}: changed since it was written")
        counts[chain] = row.seq + 1
    return heads


async def query(store: Store, **which: Unpack[Which]) -> list[AuditRow]:
    """Return the rows that match, the oldest first: `await audit.query(store, session="s1")`."""
    for name in which:
        if name not in Which.__annotations__:
            raise ConfigError(
                f"audit.query has no filter {name!r}{nearest(name, Which.__annotations__)}"
            )
    terms: list[str] = []
    values: list[Any] = []
    signs = {"since": ("at", ">="), "until": ("at", "<"), "after": ("n", ">")}
    for name, value in which.items():
        if name == "limit":
            continue
        column, sign = signs.get(name, (name, "="))
        if value is None:
            terms.append(f'"{column}" IS NULL')
        else:
            terms.append(f'"{column}" {sign} ?')
            values.append(value)
    columns = ", ".join(f'"{name}"' for name in COLUMNS)
    sql = f"SELECT {columns} FROM {TABLE} WHERE {' AND '.join(terms) or '1 = 1'} ORDER BY n"
    if (limit := which.get("limit")) is not None:
        sql += " LIMIT ?"
        values.append(limit)

    def look(tx: Any) -> list[AuditRow]:
        found = tx.execute(sql, tuple(values)).fetchall()
        return [msgspec.convert(dict(zip(COLUMNS, row, strict=True)), AuditRow) for row in found]

    await store.commit(ensure)
    return await store.consult(look)


# --------------------------------------------------------------------------- what changed


def _render_change(change: Change, redactor: Redactor | None) -> JsonObject:
    plan, before, after = change.plan, change.before, change.after
    old, new = before or plan.blank, after or plan.blank
    diff: JsonObject = {}
    for name in plan.names:
        if old[name] != new[name]:
            if name in plan.private:
                diff[name] = "private"
            else:
                diff[name] = [_value(old[name], redactor), _value(new[name], redactor)]
    return {
        "resource": plan.name,
        "id": change.id,
        "version": [before["version"] if before else None, after["version"] if after else None],
        "digest": [fingerprint(before, plan.private), fingerprint(after, plan.private)],
        "diff": diff,
    }


def _value(value: object, redactor: Redactor | None) -> Any:
    if value is None or type(value) in (int, float, bool):
        return value
    if redactor is not None:
        value = redactor.value(value)
    if isinstance(value, str) and len(value) * 4 <= LONGEST:
        return value
    data = _encode(value)
    return {"digest": _digest(data).hex()} if len(data) > LONGEST else value


def fingerprint(row: Plain | None, private: frozenset[str]) -> str | None:
    """Compute a digest of a row with its version, without private fields."""
    if row is None:
        return None
    if private:  # a digest of what is private could be found by trying
        row = {name: value for name, value in row.items() if name not in private}
    return _digest(_encode(row)).hex()[:32]


def _digest(data: bytes) -> bytes:
    state = _copy_state()
    state.update(data)
    return state.digest()
