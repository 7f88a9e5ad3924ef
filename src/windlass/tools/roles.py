"""Roles of arguments in a signature, for flow control: `to: Annotated[str, w.Target]`.

The schema that a model sees is the same without them.
"""

from __future__ import annotations

import typing
from typing import ClassVar, Literal, TypeAlias, cast

from windlass.json_types import is_mapping
from windlass.tools.schema.fields import fields_of
from windlass.tools.schema.shape import Unsupported

RoleName: TypeAlias = Literal["target", "stake", "content"]


class ArgumentRole:
    """What an argument does in a call; the base of `Target`, `Stake` and `Content`."""

    role: ClassVar[RoleName]

    def __repr__(self) -> str:
        return f"{type(self).__name__}()"


class Target(ArgumentRole):
    """To whom, where, or which object: `to: Annotated[str, w.Target]`.

    Once untrusted content is in the context, a call with effects runs without a question only if
    its targets come from the user, from the host, or from a lookup of something that the user
    named.
    """

    role = "target"


class Stake(ArgumentRole):
    """What is at stake (an amount, a date, a permission): `amount: Annotated[float, w.Stake]`.

    It needs a trusted origin, as a target does.
    """

    role = "stake"


class Content(ArgumentRole):
    """Text that a call passes on: `body: Annotated[str, w.Content]`.

    The model may write it, but it must contain nothing secret, and no address, link or code of
    untrusted origin.
    """

    role = "content"


class TwoRoles(ValueError):
    """One name with two roles: which argument, and which roles."""

    def __init__(self, name: str, first: RoleName, second: RoleName) -> None:
        super().__init__(name, first, second)
        self.name, self.roles = name, (first, second)


class RoleCollector:
    """The roles that the types of a signature state, by the name of the argument or field."""

    def __init__(self) -> None:
        self.found: dict[str, RoleName] = {}
        self._seen: set[object] = set()

    def collect(self, name: str, hint: object) -> None:
        """Take the roles of an argument, and of the fields of its type; `TwoRoles` if they disagree."""
        if isinstance(hint, type) and hint.__module__ == "builtins":
            return
        if typing.get_origin(hint) is typing.Annotated:
            hint, *metadata = typing.get_args(hint)
            self._add_markers(name, metadata)
        if typing.get_origin(hint) is not typing.Literal:
            for inner in typing.get_args(hint):
                self.collect(name, inner)
        for wrapped in ("__supertype__", "__value__"):  # NewType, `type Name = …`
            if (inner := getattr(hint, wrapped, None)) is not None and self._is_new(hint):
                self.collect(name, inner)
        cls = typing.get_origin(hint) or hint
        if isinstance(cls, type) and self._is_new(cls):
            self._collect_fields(cast("type[object]", cls))

    def collect_fields(self, hint: object) -> None:
        """Take the roles of the fields of a class alone, as for `**given: Unpack[…]`."""
        if isinstance(hint, type):
            self._collect_fields(cast("type[object]", hint))

    def _collect_fields(self, cls: type[object]) -> None:
        models = getattr(cls, "model_fields", None)  # pydantic
        if is_mapping(models):
            for name, field in models.items():
                key = getattr(field, "alias", None) or name
                self._add_markers(str(key), getattr(field, "metadata", ()))
                self.collect(str(key), getattr(field, "annotation", None))
            return
        try:
            fields = fields_of(cls) or ()
        except Unsupported:
            return  # whoever builds the schema says so, or has another way
        for field in fields:
            self.collect(field.key, field.hint)

    def _is_new(self, hint: object) -> bool:
        if hint in self._seen:
            return False
        self._seen.add(hint)
        return True

    def _add_markers(self, name: str, metadata: typing.Iterable[object]) -> None:
        for item in metadata:
            marker = item if isinstance(item, type) else type(item)
            if not issubclass(marker, ArgumentRole):
                continue
            before = self.found.setdefault(name, marker.role)
            if before != marker.role:
                raise TwoRoles(name, before, marker.role)
