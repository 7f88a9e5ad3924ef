"""A class of rows: its typed fields, its hooks, and the plan that is made of it once.

A plan knows every name that may stand in a statement; nothing that a caller sends ever does.
"""

from __future__ import annotations

import inspect
import re
import typing
from collections.abc import Callable, Mapping, Sequence
from typing import Any, ClassVar, TypeAlias, TypeVar, cast, dataclass_transform

import msgspec

from windlass.access.caller import Caller
from windlass.errors import ConfigError, InvalidValue, nearest, safe_repr
from windlass.json_types import JsonObject
from windlass.resources.fields import Field, compile_field
from windlass.tools.schema.fields import names_around

VERBS = ("get", "search", "create", "update", "delete")
HOOKS = {
    "get": "allow_read",
    "search": "allow_read",
    "create": "allow_create",
    "update": "allow_update",
    "delete": "allow_delete",
}
TENANT, VERSION = "_tenant", "_version"
MOST_ROWS = 100
_MOST_STATEMENTS = 256
Plain: TypeAlias = JsonObject  # a row as JSON has it, with its version
_PLAN = "__windlass_plan__"
_IDENTIFIER = re.compile(r"[A-Za-z][A-Za-z0-9_]{0,59}")
_OWN = ("windlass_", "sqlite_", "pg_")
_IDS: dict[Any, str] = {str: "text", int: "integer"}


_M = TypeVar("_M", bound="RowMeta")


@dataclass_transform(kw_only_default=True, field_specifiers=(msgspec.field,))
class RowMeta(msgspec.StructMeta):
    """The metaclass of resources: fields go by name, so they may stand in any order."""

    def __new__(
        mcls: type[_M],
        name: str,
        bases: tuple[type, ...],
        namespace: JsonObject,
        **options: Any,
    ) -> _M:
        options.setdefault("kw_only", True)
        return super().__new__(mcls, name, bases, namespace, **options)


class Row(msgspec.Struct, metaclass=RowMeta, dict=True, forbid_unknown_fields=True):
    """A row with typed fields: what `Resource` has besides its verbs."""

    path: ClassVar[str | None] = None  # its name in tools: `path = "shop/products"`
    table: ClassVar[str | None] = None  # its table, when that is not its name
    verbs: ClassVar[Sequence[str]] = VERBS
    mcp_tools: ClassVar[Sequence[str] | Mapping[str, Mapping[str, Any]]] = ()
    max_limit: ClassVar[int] = MOST_ROWS  # rows that one search may answer
    audit_reads: ClassVar[bool] = True

    @property
    def version(self) -> int:
        """The number of writes to the row; 0 until it is stored."""
        return self.__dict__.get(VERSION, 0)

    # Asked for every call, with the values of the row. Only True allows; a text is the reason why not.

    def allow_read(self, caller: Caller) -> bool | str:
        """Check whether the caller may see this row."""
        return True

    def allow_create(self, caller: Caller) -> bool | str:
        """Check whether the caller may create this row."""
        return True

    def allow_update(self, caller: Caller) -> bool | str:
        """Check whether the caller may change this row, both as it is and as it would be."""
        return True

    def allow_delete(self, caller: Caller) -> bool | str:
        """Check whether the caller may delete this row."""
        return True


class Layout(msgspec.Struct, frozen=True):
    """The layout of a table that is not Windlass's own; see `reflect`."""

    tenant: str | None = None  # the column; None: every tenant sees every row
    version: str | None = None
    reflected: bool = True


class ResourcePlan:
    """A compiled resource."""

    def __init__(self, cls: type[Row], name: str | None = None) -> None:
        self.cls = cls
        self.label = cls.__name__
        self.name = path_to_name(name or cls.path or _snake(cls.__name__), self.label)
        self.table = identifier(cls.table or self.name, f"{self.label}: the table")
        self.layout: Layout | None = cls.__dict__.get("__windlass_layout__")
        self.fields = _fields(cls)
        self.by_name = {one.name: one for one in self.fields}
        self.names = tuple(self.by_name)
        self.blank: Plain = dict.fromkeys(self.names)
        self._ways = tuple([(one.name, one.to_db, one.from_db) for one in self.fields])
        self._from_db = tuple([(one.name, one.from_db) for one in self.fields if one.from_db])
        self.id = _id_field(self.by_name, self.label)
        self.verbs = _verbs(cls.verbs, self.label)
        self.limit = _limit(cls.max_limit, self.label)
        self.hooks: dict[str, bool] = {}
        for verb, hook in HOOKS.items():
            own = getattr(cls, hook)
            if inspect.iscoroutinefunction(own):
                raise ConfigError(f"{self.label}.{hook} answers at once; make it a plain def")
            self.hooks[verb] = own is not getattr(Row, hook)
        base = next(each for each in cls.__mro__ if Row in each.__bases__)
        self.overridden = {
            verb: getattr(cls, verb).__func__ is not getattr(base, verb).__func__ for verb in VERBS
        }
        self.documented = cls.__dict__.get("__doc__") is not None
        self.private = frozenset(one.name for one in self.fields if one.column.private)
        self.statements: dict[Any, str] = {}
        self.made: list[Any] | None = None  # its verbs and methods, once they were looked at
        self._write_statements()

    def _write_statements(self) -> None:
        names = self.names
        layout = self.layout
        self.tenant = TENANT if layout is None else layout.tenant
        self.version = VERSION if layout is None else layout.version
        self._shown = names if self.version is None else (*names, "version")
        self.quoted = quote_identifier(self.table)
        self.columns = ", ".join(quote_identifier(name) for name in names)
        if self.version is not None:
            self.columns += f", {quote_identifier(self.version)}"
        self.mine = "1 = 1" if self.tenant is None else f"{quote_identifier(self.tenant)} = ?"
        self.select = f"SELECT {self.columns} FROM {self.quoted}"
        self.select_one = f"{self.select} WHERE {self.mine} AND id = ?"
        into = [*names]
        if self.version is not None:
            into.append(self.version)
        if self.tenant is not None:
            into.append(self.tenant)
        listed, marks = ", ".join(map(quote_identifier, into)), ", ".join("?" * len(into))
        self.insert = f"INSERT INTO {self.quoted} ({listed}) VALUES ({marks})"
        same = "" if self.version is None else f" AND {quote_identifier(self.version)} = ?"
        self.remove = f"DELETE FROM {self.quoted} WHERE {self.mine} AND id = ?{same}"

    def mine_of(self, tenant: str) -> tuple[str, ...]:
        """Return the parameters of `mine`."""
        return () if self.tenant is None else (tenant,)

    def changing(self, names: tuple[str, ...]) -> str:
        """Return the statement that changes these fields."""
        found = self.statements.get(names)
        if found is None:
            sets = [f"{quote_identifier(name)} = ?" for name in names]
            same = ""
            if self.version is not None:
                sets.append(f"{quote_identifier(self.version)} = ?")
                same = f" AND {quote_identifier(self.version)} = ?"
            found = f"UPDATE {self.quoted} SET {', '.join(sets)} WHERE {self.mine} AND id = ?{same}"
            if len(self.statements) >= _MOST_STATEMENTS:  # a caller chooses which fields he changes
                self.statements.clear()
            self.statements[names] = found
        return found

    # ----------------------------------------------------------------- rows

    def plain(self, stored: Sequence[Any]) -> Plain:
        """Convert a stored row to its JSON form."""
        row: Plain = dict(zip(self._shown, stored, strict=False))
        for name, from_db in self._from_db:
            if (value := row[name]) is not None:
                row[name] = from_db(value)
        if self.version is None:
            row["version"] = 0
        return row

    def instance(self, plain: Mapping[str, Any]) -> Any:
        """Build the row as an object of its class."""
        columns = dict(plain)
        version = columns.pop("version", 0)
        made = self.build_object(columns)
        made.__dict__[VERSION] = version
        return made

    def check_names(self, values: Mapping[Any, Any]) -> None:
        """Raise `InvalidValue` for a name that is no field's."""
        if self.by_name.keys() >= values.keys():
            return
        name = next(name for name in values if name not in self.by_name)
        raise InvalidValue(
            f"{self.name} has no field {safe_repr(name)}{nearest(str(name), self.by_name)}"
        )

    def build_object(self, values: Mapping[str, Any]) -> Any:
        """Build an object of these values, or raise `InvalidValue` for the wrong one."""
        self.check_names(values)
        try:
            return msgspec.convert(values, self.cls, strict=True)
        except (msgspec.ValidationError, ValueError, TypeError, OverflowError) as error:
            raise InvalidValue(f"{self.name}: {str(error).replace('$.', '')}") from None
        except RecursionError:
            raise InvalidValue(f"{self.name}: a value is nested too deeply") from None

    def to_stored(self, made: object) -> list[Any]:
        """Return the stored values of an object, in the order of the fields."""
        stored: list[Any] = []
        name = ""
        try:
            for name, to_db, _ in self._ways:
                value = getattr(made, name)
                stored.append(None if value is None else to_db(value))
        except (ValueError, TypeError, OverflowError, RecursionError) as error:
            raise InvalidValue(f"{name}: {error}") from None
        return stored

    def find_changes(self, before: Plain, made: object) -> tuple[Plain, list[Any]]:
        """Return the fields in which an object differs from a row: as JSON has them, and as stored."""
        shown: Plain = {}
        stored: list[Any] = []
        name = ""
        try:
            for name, to_db, from_db in self._ways:
                value, old = getattr(made, name), before[name]
                if value is old and from_db is None:
                    continue  # what was read, and nobody can have changed it in place
                kept = None if value is None else to_db(value)
                new = kept if from_db is None or kept is None else from_db(kept)
                if new != old:
                    shown[name] = new
                    stored.append(kept)
        except (ValueError, TypeError, OverflowError, RecursionError) as error:
            raise InvalidValue(f"{name}: {error}") from None
        return shown, stored

    def to_plain(self, made: Any) -> Plain:
        """Convert an object to its JSON form."""
        row: Plain = msgspec.to_builtins(made)
        row["version"] = made.version
        return row


def is_resource(cls: object) -> bool:
    """Check whether it is a class of rows: one that extends `Resource`."""
    return isinstance(cls, type) and issubclass(cls, Row) and Row not in (cls, *cls.__bases__)


def plan_of(cls: type[Row]) -> ResourcePlan:
    """Return the plan of a resource, compiled at first use."""
    kept = cls.__dict__.get(_PLAN)
    if kept is None:
        if not is_resource(cls):
            raise ConfigError(
                f"{safe_repr(cls)} is not a Resource; write class Product(w.Resource)"
            )
        kept = ResourcePlan(cls)
        setattr(cls, _PLAN, kept)
    return kept


def keep_plan(cls: type[Row], plan: ResourcePlan) -> None:
    """Set the plan of the class."""
    setattr(cls, _PLAN, plan)


def quote_identifier(name: str) -> str:
    """Quote an identifier; only names that passed `identifier` come here."""
    return f'"{name}"'


def path_to_name(path: object, label: str) -> str:
    """Convert a path to a part of a tool's name: `shop/products` is `shop_products`."""
    name = re.sub(r"[^A-Za-z0-9]+", "_", path).strip("_").lower() if isinstance(path, str) else ""
    if not name or not name[0].isalpha():
        raise ConfigError(
            f"{label}: {safe_repr(path)} gives no name for tools; set path to a word such as 'products'"
        )
    return name


def identifier(name: object, what: str) -> str:
    """Check that a name may stand in a statement, and return it."""
    if not isinstance(name, str) or not _IDENTIFIER.fullmatch(name):
        raise ConfigError(
            f"{what} {safe_repr(name)} must be a letter and up to 59 letters, digits and `_`"
        )
    if name.lower().startswith(_OWN):
        raise ConfigError(f"{what} {name!r}: names that begin with {name.split('_')[0]}_ are taken")
    return name


def _snake(name: str) -> str:
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])", "_", name)


_RESERVED = {name for name in dir(Row) if not name.startswith("__")} | {*VERBS, "tenant"}


def _fields(cls: type[Row]) -> tuple[Field, ...]:
    label = cls.__name__
    config = cls.__struct_config__
    plain = cls.__struct_encode_fields__ == cls.__struct_fields__ and config.tag is None
    if not plain or config.omit_defaults or config.array_like:
        raise ConfigError(
            f"{label}: its fields keep their names and places; leave out rename, tag, omit_defaults "
            "and array_like"
        )
    hints = _hints(cls)
    lower: dict[str, str] = {}
    found: list[Field] = []
    for name, default, factory in zip(cls.__struct_fields__, *_defaults(cls), strict=True):
        if name in _RESERVED or name.startswith("_"):
            raise ConfigError(
                f"{label}.{name}: this name is Windlass's own; call the field another"
            )
        identifier(name, f"{label}: the field")
        if lower.setdefault(name.lower(), name) != name:
            raise ConfigError(f"{label}: {name!r} and {lower[name.lower()]!r} are one column")
        made = default if default is not None else factory
        found.append(compile_field(name, hints[name], made is None, made, label))
    return tuple(found)


def _defaults(
    cls: type[Row],
) -> tuple[list[Callable[[], Any] | None], list[Callable[[], Any] | None]]:
    values: list[Callable[[], Any] | None] = []
    factories: list[Callable[[], Any] | None] = []
    for one in msgspec.structs.fields(cls):
        given = one.default
        values.append(None if given is msgspec.NODEFAULT else (lambda given=given: given))
        made = one.default_factory
        factories.append(None if made is msgspec.NODEFAULT else cast("Callable[[], Any]", made))
    return values, factories


def _hints(cls: type[Row]) -> JsonObject:
    try:
        return typing.get_type_hints(cls, include_extras=True)
    except NameError:
        pass
    try:
        hints = typing.get_type_hints(cls, localns=names_around(), include_extras=True)
    except NameError as error:
        raise ConfigError(
            f"{cls.__name__}: its fields name {error.name!r}, which cannot be found; import it there"
        ) from None
    for klass in cls.__mro__:  # msgspec looks them up itself, and cannot see the function around
        if is_resource(klass):
            own = klass.__dict__.get("__annotations__", {})
            klass.__annotations__ = {name: hints.get(name, hint) for name, hint in own.items()}
    return hints


def _id_field(fields: Mapping[str, Field], label: str) -> Field:
    found = fields.get("id")
    if found is None:
        raise ConfigError(f"{label} has no id; write `id: str` or `id: int` in it")
    if found.bare not in _IDS or found.nullable or not found.required:
        raise ConfigError(f"{label}.id is `id: str` or `id: int`, without a default")
    return found


def _verbs(given: object, label: str) -> tuple[str, ...]:
    if isinstance(given, str) or not isinstance(given, Sequence):
        raise ConfigError(f"{label}.verbs is a list of verbs, not {safe_repr(given)}")
    for verb in cast("Sequence[Any]", given):
        if verb not in VERBS:
            raise ConfigError(
                f"{label}.verbs: {safe_repr(verb)} is not a verb{nearest(str(verb), VERBS)}; "
                f"they are {', '.join(VERBS)}"
            )
    return tuple(verb for verb in VERBS if verb in given)


def _limit(given: object, label: str) -> int:
    if type(given) is not int or not 1 <= given <= 10_000:
        raise ConfigError(f"{label}.max_limit is a number from 1 to 10000, not {safe_repr(given)}")
    return given
