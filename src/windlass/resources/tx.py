"""Transactions on rows: every statement is bound to the caller's tenant.

`ResourceTx` is what a verb or a method of a resource gets. It remembers what it changed, for the
audit row that is written in the same transaction.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Container, Mapping, Sequence
from typing import Any, TypeVar, cast

import msgspec

from windlass import seams
from windlass.access.caller import Caller
from windlass.errors import (
    ConfigError,
    Conflict,
    InvalidValue,
    NotFound,
    PermissionDenied,
    safe_repr,
)
from windlass.json_types import JsonObject, as_given, is_mapping, is_object
from windlass.resources.fields import integer, text
from windlass.resources.query import LIMIT, Page, Query, Search
from windlass.resources.row import Plain, ResourcePlan, Row, plan_of

R = TypeVar("R", bound=Row)
_MOST_SCANNED = 10_000  # rows looked at for one page, when a hook hides most of them
_MOST_ID = 512


class Change(msgspec.Struct, frozen=True):
    """One row that was written: before and after."""

    plan: ResourcePlan
    id: Any
    before: Plain | None
    after: Plain | None


class ResourceTx:
    """The transaction of a call: `tx.get(Product, "p1")`, `tx.save(pen)`, `tx.execute(sql)`.

    Rows are those of the caller's tenant. Permissions were checked for the method as a whole; hooks
    are not called again. `execute` is for your own tables, without a limit to the tenant.
    """

    __slots__ = ("_known", "_tx", "caller", "changes", "now", "tenant")

    def __init__(
        self, tx: Any, caller: Caller, tenant: str, now: float, known: Container[ResourcePlan]
    ) -> None:
        self._tx, self.caller, self.tenant, self.now = tx, caller, tenant, now
        self._known = known
        self.changes: list[Change] = []

    @property
    def dialect(self) -> str:
        """`sqlite` or `postgres`."""
        return self._tx.dialect

    def execute(self, sql: str, parameters: Sequence[Any] = ()) -> Any:
        """Run a statement on your own tables; `?` stands for a parameter."""
        return self._tx.execute(sql, parameters)

    def _plan(self, cls: type[Row]) -> ResourcePlan:
        plan = plan_of(cls)
        if plan not in self._known:
            raise ConfigError(
                f"{plan.label} is no resource of this Runtime; export it, with verbs=[] if no model "
                "is to call it"
            )
        return plan

    # ----------------------------------------------------------------- objects

    def get(self, cls: type[R], id: Any) -> R | None:
        """Return the row with this id, or None."""
        plan = self._plan(cls)
        row = self.row(plan, id)
        return None if row is None else plan.instance(row)

    def search(
        self,
        cls: type[R],
        where: Mapping[str, Any] | None = None,
        *,
        sort: Sequence[str] = (),
        limit: int = LIMIT,
    ) -> list[R]:
        """Return the rows that match: `tx.search(Order, {"status": "open"}, sort=["-at"])`."""
        return self.page(cls, Query(dict(where or {}), tuple(sort), limit)).rows

    def page(self, cls: type[R], query: Query) -> Page[R]:
        """Return the rows that match, a page at a time."""
        plan = self._plan(cls)
        found = self.rows(plan, query)
        return Page([plan.instance(row) for row in found.rows], found.cursor)

    def create(self, cls: type[R], values: Mapping[str, Any] | None = None, **more: Any) -> R:
        """Create a row: `tx.create(Order, product="p1", amount=2)`."""
        plan = self._plan(cls)
        return plan.instance(self.make(plan, plain_values(plan, {**(values or {}), **more})))

    def update(
        self, cls: type[R], id: Any, values: Mapping[str, Any], version: int | None = None
    ) -> R:
        """Change some fields of a row."""
        plan = self._plan(cls)
        before = self.known(plan, id)
        after = merge_row(plan, before, plain_values(plan, values))
        return plan.instance(self.change(plan, before, after, version))

    def save(self, made: R) -> R:
        """Store a row that was read and changed; raise `Conflict` if somebody else changed it."""
        plan = self._plan(type(made))
        columns = plan.to_plain(made)
        version = columns.pop("version")
        if not version:
            return plan.instance(self.make(plan, plain_values(plan, columns)))
        before = self.known(plan, columns["id"])
        after = plan.build_object(columns)
        return plan.instance(self.change(plan, before, after, version))

    def delete(self, cls: type[R], id: Any, version: int | None = None) -> R:
        """Delete a row, and return it as it was."""
        plan = self._plan(cls)
        before = self.known(plan, id)
        self.drop(plan, before, version)
        return plan.instance(before)

    # ----------------------------------------------------------------- rows

    def row(self, plan: ResourcePlan, id: Any) -> Plain | None:
        """Return the row in its JSON form, or None."""
        key = key_of(plan, id)
        stored = self._tx.execute(plan.select_one, (*plan.mine_of(self.tenant), key)).fetchone()
        return None if stored is None else plan.plain(stored)

    def known(self, plan: ResourcePlan, id: Any) -> Plain:
        """Return the row in its JSON form, or raise `NotFound`."""
        found = self.row(plan, id)
        if found is None:
            raise NotFound(f"there is no {plan.name} {safe_repr(id)}")
        return found

    def rows(self, plan: ResourcePlan, query: Query, allow: bool = False) -> Page[Plain]:
        """Return a page of rows; with `allow`, only those that `allow_read` permits."""
        search = Search(plan, query, self.tenant)
        shown_rows: list[Plain] = []
        after, last, scanned = search.after, None, 0
        while True:
            wanted = search.limit + 1 - len(shown_rows)
            sql, values = search.statement(after, wanted)
            within = "instr" if self.dialect == "sqlite" else "strpos"
            found = self._tx.execute(sql.replace("{within}", within), values).fetchall()
            for stored in found:
                after = search.place(stored)
                row = plan.plain(stored)
                if allow and call_hook(plan.instance(row), "allow_read", self.caller) is not None:
                    continue
                if len(shown_rows) == search.limit:
                    return Page(shown_rows, search.cursor(cast("Any", last)))
                shown_rows.append(row)
                last = after
            scanned += len(found)
            if len(found) < wanted:
                return Page(shown_rows)
            if scanned >= _MOST_SCANNED:
                if last is None:
                    raise InvalidValue("where: too few of these rows may be seen; ask for less")
                return Page(shown_rows, search.cursor(last))

    def make(self, plan: ResourcePlan, values: Mapping[str, Any]) -> Plain:
        """Insert a row; an id is generated when none is given."""
        made = plan.build_object(self.with_id(plan, values))
        return self.insert(plan, made)

    def with_id(self, plan: ResourcePlan, values: Mapping[str, Any]) -> JsonObject:
        """Return the values with an id, generated if missing."""
        if values.get("id") is not None:
            return dict(values)
        if plan.id.kind == "text":
            return {**values, "id": seams.new_id(plan.name)}
        sql = f"SELECT max(id) FROM {plan.quoted} WHERE {plan.mine}"
        most = self._tx.execute(sql, plan.mine_of(self.tenant)).fetchone()[0]
        return {**values, "id": (most or 0) + 1}

    def insert(self, plan: ResourcePlan, made: Any) -> Plain:
        """Insert an object that was checked."""
        key_of(plan, made.id)
        stored = plan.to_stored(made)
        row = plan.plain([*stored, 1])
        values = stored
        if plan.version is not None:
            values = [*values, 1]
        if plan.tenant is not None:
            values = [*values, self.tenant]
        self._write(plan, plan.insert, values, made.id)
        self.changes.append(Change(plan, made.id, None, row))
        return row

    def change(self, plan: ResourcePlan, before: Plain, after: Any, version: int | None) -> Plain:
        """Store the fields of `after` that differ; `version` is the one the caller has seen."""
        if version is not None:
            check_version(plan, before, version)
        if after.id != before["id"]:
            raise InvalidValue(f"{plan.name}: an id stays as it is; make a new row instead")
        shown, stored = plan.find_changes(before, after)
        if not shown:
            return before
        row = {**before, **shown}
        if plan.version is not None:
            row["version"] = before["version"] + 1
        self._alter(plan, plan.changing(tuple(shown)), stored, before, written=True)
        self.changes.append(Change(plan, after.id, before, row))
        return row

    def drop(self, plan: ResourcePlan, before: Plain, version: int | None) -> None:
        """Delete the row."""
        check_version(plan, before, version)
        self._alter(plan, plan.remove, [], before, written=False)
        self.changes.append(Change(plan, before["id"], before, None))

    def _alter(
        self, plan: ResourcePlan, sql: str, values: list[Any], before: Plain, *, written: bool
    ) -> None:
        """Run a statement on one row of a known version; raise `Conflict` if it has changed."""
        if written and plan.version is not None:
            values.append(before["version"] + 1)
        values += [*plan.mine_of(self.tenant), before["id"]]
        if plan.version is not None:
            values.append(before["version"])
        if self._write(plan, sql, values, before["id"]).rowcount != 1:
            raise Conflict(
                f"{plan.name} {safe_repr(before['id'])} was changed meanwhile; read it again"
            )

    def _write(self, plan: ResourcePlan, sql: str, values: Sequence[Any], id: Any) -> Any:
        try:
            return self._tx.execute(sql, values)
        except Exception as error:
            if not _is_taken(error):
                raise
            taken = [one.name for one in plan.fields if one.column.unique]
            also = f", or another row has its {' or '.join(taken)}" if taken else ""
            raise Conflict(f"{plan.name} {safe_repr(id)} is there already{also}") from error


def check_version(plan: ResourcePlan, before: Plain, version: int | None) -> None:
    """Check that the row still has the version that the caller has seen."""
    if version is None:
        return
    if plan.version is None:
        raise InvalidValue(f"{plan.name}: its rows have no version; leave it out")
    if version != before["version"]:
        raise Conflict(
            f"{plan.name} {safe_repr(before['id'])} has version {before['version']}, not "
            f"{safe_repr(version, 40)}; read it again",
            before["version"],
        )


def merge_row(plan: ResourcePlan, before: Plain, values: Mapping[str, Any]) -> Any:
    """Build the row as it would be with these values, and check it."""
    row = {**before, **values}
    del row["version"]
    return plan.build_object(row)


def plain_values(plan: ResourcePlan, values: object) -> JsonObject:
    """Convert a host's or a model's values to their JSON form."""
    if isinstance(values, plan.cls):
        values = msgspec.structs.asdict(values)
    if not is_object(values) and not is_mapping(values):
        raise InvalidValue(f"{plan.name}: values are an object of fields, not {safe_repr(values)}")
    plan.check_names(values)
    try:
        return msgspec.to_builtins(dict(values))
    except (TypeError, ValueError, OverflowError, RecursionError) as error:
        raise InvalidValue(f"{plan.name}: {error}") from None


def key_of(plan: ResourcePlan, id: object) -> Any:
    """Check that an id has the right type, and return it."""
    try:
        if plan.id.kind == "integer":
            if type(id) is int:
                return integer(id)
        elif type(id) is str and 0 < len(id) <= _MOST_ID:
            return text(id)
    except ValueError as error:
        raise InvalidValue(f"id: {error}") from None
    kind = (
        "a whole number" if plan.id.kind == "integer" else f"a text of 1 to {_MOST_ID} characters"
    )
    raise InvalidValue(f"id: is {kind}, not {safe_repr(id)}")


def tenant_of(caller: Caller) -> str:
    """Return the caller's tenant as stored; callers without one share the empty one."""
    tenant = caller.tenant
    if tenant is None:
        return ""
    if not isinstance(as_given(tenant), str) or not tenant:
        raise PermissionDenied(f"the caller's tenant is {safe_repr(tenant)}; name one, or None")
    try:
        return text(tenant)
    except ValueError as error:
        raise PermissionDenied(f"the caller's tenant: {error}") from None


def call_hook(made: Any, hook: str, caller: Caller) -> str | None:
    """Return why the caller may not; None only when the hook returns True."""
    try:
        answer: object = getattr(made, hook)(caller)
    except Exception as error:
        return f"{hook} failed: {type(error).__name__}"
    if answer is True:
        return None
    if isinstance(answer, str) and answer:
        return answer
    return (
        f"{hook} says no" if answer is False else f"{hook} answered {safe_repr(answer)}, not True"
    )


def _is_taken(error: BaseException) -> bool:
    if isinstance(error, sqlite3.IntegrityError):
        return "UNIQUE" in str(error)
    return getattr(error, "sqlstate", None) == "23505"
