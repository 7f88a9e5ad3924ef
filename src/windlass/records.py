"""Records whose fields are items too: `result.llm.iterations` and `result["llm"]["iterations"]`."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import msgspec

from windlass.errors import ConfigError, nearest
from windlass.json_types import JsonObject, is_list, is_object


class NamedFields(msgspec.StructMeta):
    """Metaclass of structs that users build: an unknown field is answered with the nearest one."""

    if not TYPE_CHECKING:  # checkers see the fields themselves

        def __call__(cls, *args: object, **fields: object) -> Any:  # noqa: N805 - of a metaclass
            """Build the struct, or raise `ConfigError` for a field that it does not have."""
            try:
                return super().__call__(*args, **fields)
            except TypeError as error:
                known = cls.__struct_fields__
                unknown = next((name for name in fields if name not in known), None)
                if unknown is None:
                    raise
                hint = nearest(unknown, known, "struct_fields") or f"; it has {', '.join(known)}"
                raise ConfigError(f"{cls.__name__} has no field {unknown!r}{hint}") from error


class Record(msgspec.Struct, frozen=True):
    """A struct whose fields and properties are items too: `reply["text"]`, `dict(cost)`."""

    def __getitem__(self, name: str) -> Any:
        if not name.startswith("_") and hasattr(self, name):
            return getattr(self, name)
        raise KeyError(f"{type(self).__name__} has no {name!r}{nearest(name, dir(self))}")

    def keys(self) -> Iterator[str]:
        """Return the names of the fields."""
        return iter(self.__struct_fields__)


class RecordDict(dict[str, Any]):
    """A dict whose keys are attributes too: `result.adaptive_budget.extensions_used`."""

    def __getattr__(self, name: str) -> Any:
        try:
            return self[name]
        except KeyError:
            raise AttributeError(f"there is no {name!r} here{nearest(name, self)}") from None


def to_record(value: JsonObject) -> RecordDict:
    """Convert plain data, with all objects in it, to dicts whose keys are attributes."""
    return RecordDict({name: _convert(one) for name, one in value.items()})


def _convert(value: object) -> object:
    if is_object(value):
        return to_record(value)
    return [_convert(one) for one in value] if is_list(value) else value
