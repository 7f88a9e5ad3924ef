"""The role of an argument: to whom or which object, what is at stake, or words.

A tool says it (`Annotated[str, w.Target]`, or `annotations={"roles": {"to": "target"}}`). Where nobody
does it is guessed from the schema and the name; what cannot be guessed counts as a target.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, Literal, NamedTuple, TypeAlias

from windlass.access.facts import kind_of_argument
from windlass.access.flow.tokens import split_name
from windlass.errors import ConfigError, safe_repr
from windlass.json_types import is_mapping, is_sequence

Role: TypeAlias = Literal["target", "stake", "content"]
ROLES: Final[tuple[Role, ...]] = ("target", "stake", "content")

_FORMATS: Final[dict[str, Role]] = {
    **dict.fromkeys(("email", "uri", "url", "hostname", "ipv4", "ipv6", "uuid"), "target"),
    **dict.fromkeys(("date", "date-time", "time", "duration"), "stake"),
}
_TARGET: Final = frozenset(
    "to cc bcc recipient recipients email emails mail address addresses iban bic account phone url urls "
    "uri link host domain server channel room path paths file files filename folder directory dir id "
    "ids uuid key name names handle user username login customer contact payee attendee attendees "
    "invite invites invitees participants passenger passengers guest traveller traveler assignee "
    "reviewer reviewers owner repo repository branch tag ref label labels hotel flight product order "
    "issue number event card environment table database query command cmd argv script sql code street "
    "city country postcode zip field setting attachment attachments destination origin target webhook "
    "endpoint service package module calendar project team group organization vendor".split()
)
_STAKE: Final = frozenset(
    "amount price total sum value percent percentage quantity qty count stock limit budget cost fee "
    "rate password secret token pin permission permissions role roles access scope date day days time "
    "start end until from since deadline expires expiry valid currency state status decision enabled "
    "visible public private level mode method force cabin schedule cron month year week hours minutes "
    "check_in check_out guests".split()
)
_CONTENT: Final = frozenset(
    "subject body text message content contents title description reason purpose note notes comment "
    "summary caption reply memo details explanation greeting caption remark remarks feedback answer "
    "headline signature".split()
)


class RoleGuess(NamedTuple):
    """The role of an argument, and how it is known."""

    role: Role
    why: str


def declared_roles(annotations: Mapping[str, Any]) -> Mapping[str, Role]:
    """Return the roles that a tool states: argument -> role."""
    said: object = annotations.get("roles")
    if said is None:
        return {}
    if not is_mapping(said):
        raise ConfigError(
            f"a tool's roles are a dict such as {{'to': 'target'}}, not {safe_repr(said)}"
        )
    for name, role in said.items():
        if role not in ROLES:
            raise ConfigError(
                f"the role of argument {name!r} is {safe_repr(role)}; it is one of {', '.join(ROLES)}"
            )
    return said


def role_of(name: str, schema: object, annotations: Mapping[str, Any]) -> RoleGuess:
    """Return the role of one argument: `role_of("to", {"type": "string"}, {})` -> target."""
    stated = declared_roles(annotations).get(name)
    if stated is not None:
        return RoleGuess(stated, "the tool says so")
    kind = kind_of_argument(name, annotations)
    if kind != "text":
        return RoleGuess("target", f"it is a {kind}")
    field: Mapping[str, Any] = schema if is_mapping(schema) else {}
    by_format = _FORMATS.get(str(field.get("format")))
    if by_format is not None:
        return RoleGuess(by_format, f"its format is {field['format']}")
    types = schema_types(field)
    if "boolean" in types or choices_of(field):
        return RoleGuess("stake", "it is a choice")
    return _guess_by_name(name, bool(types & {"integer", "number"}))


def _guess_by_name(name: str, numeric: bool) -> RoleGuess:
    for word in (name.lower(), *reversed(split_name(name))):
        if numeric and word in _STAKE:
            return RoleGuess("stake", f"its name has {word!r}")
        if word in _CONTENT and not numeric:
            return RoleGuess("content", f"its name has {word!r}")
        if word in _TARGET:
            return RoleGuess("target", f"its name has {word!r}")
        if word in _STAKE:
            return RoleGuess("stake", f"its name has {word!r}")
    if numeric:
        return RoleGuess("stake", "it is a number")
    return RoleGuess("target", "nothing says what it is")


def schema_types(schema: Mapping[str, Any]) -> frozenset[str]:
    """Return the JSON types that a schema allows, those of its alternatives too."""
    said: object = schema.get("type")
    found: set[str] = {said} if isinstance(said, str) else set(said if is_sequence(said) else ())
    for key in ("anyOf", "oneOf"):
        for one in schema.get(key) or ():
            if is_mapping(one):
                found |= schema_types(one)
    return frozenset(found)


def choices_of(schema: Mapping[str, Any]) -> tuple[object, ...]:
    """Return the values that a schema enumerates."""
    found = (*(schema.get("enum") or ()), *((schema["const"],) if "const" in schema else ()))
    for key in ("anyOf", "oneOf"):
        for one in schema.get(key) or ():
            if is_mapping(one):
                found += choices_of(one)
    return tuple([one for one in found if one is not None])
