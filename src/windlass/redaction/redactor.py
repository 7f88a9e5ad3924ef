"""Redaction of secrets in everything that is written, shown or logged.

A `Secret` holds a key without ever showing it. A `Redactor` knows every secret it was given and
replaces it with `[redacted]` in text, data, streams and log records, also where the secret is
JSON-escaped (every letter of it, or only what must be), URL-quoted or in base64. It finds what it knows; it does not guess.
"""

from __future__ import annotations

import base64
import hmac
import logging
import re
import threading
import traceback
from collections.abc import Iterable, Mapping
from functools import lru_cache
from typing import Any, Literal, NoReturn, TypeAlias, TypeVar, cast, get_args, get_origin

import msgspec

from windlass.errors import ConfigError
from windlass.json_types import JsonObject
from windlass.redaction.secret_forms import SHORTEST, Forms, utf8

T = TypeVar("T")
Bytes: TypeAlias = bytes  # `Redactor.bytes` would hide the type inside the class

MARK = "[redacted]"
SHORTEST_IN_ENVIRONMENT = 8  # only its name suggests that this one is a secret
DEEPEST = 200  # what is nested deeper is replaced whole rather than looked through

_SECRET_NAME = re.compile(
    r"(?:^|_)(?:api_?key|access_?key|private_?key|auth_?key|token|secret|authorization|auth|cookie|dsn)$"
    r"|secret|passw(?:or)?d|passphrase|credential",
    re.IGNORECASE,
)
_NOT_SECRET_NAME = re.compile(r"_(?:file|path|dir|url|uri|id|name|type)$", re.IGNORECASE)
_SCHEMES = ("bearer", "basic", "token", "apikey", "digest")
_URL_PASSWORD = r"(?<=://)([^/\s:@]*):([^/\s@]+)@"


class Secret:
    """A key that is never shown: `w.models.anthropic(…, api_key=w.Secret("sk-…"))`.

    Printing, formatting or logging it shows `Secret(****)`; JSON, msgspec and pickle refuse it.
    `reveal()` returns the value.
    """

    __slots__ = ("_value",)

    def __init__(self, value: str | Secret) -> None:
        revealed = value.reveal() if isinstance(value, Secret) else value
        if not isinstance(revealed, str):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise ConfigError(f"a Secret holds text, not {type(revealed).__name__}")
        self._value = revealed

    def reveal(self) -> str:
        """Return the value itself."""
        return self._value

    def __repr__(self) -> str:
        return "Secret(****)"

    __str__ = __repr__

    def __format__(self, spec: str) -> str:
        return format(repr(self), spec)

    def __bool__(self) -> bool:
        return bool(self._value)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Secret):
            return NotImplemented
        return hmac.compare_digest(utf8(self._value), utf8(other._value))

    def __hash__(self) -> int:
        return hash((Secret, self._value))

    def __copy__(self) -> Secret:
        return self

    def __deepcopy__(self, memo: object) -> Secret:
        return self

    def __reduce__(self) -> NoReturn:
        raise TypeError(
            "a Secret is not pickled; pass the name of its environment variable instead"
        )


def looks_secret(name: str) -> bool:
    """Check whether a name suggests a secret: `looks_secret("HF_TOKEN")`."""
    plain = name.replace("-", "_").replace(".", "_")
    return bool(_SECRET_NAME.search(plain)) and not _NOT_SECRET_NAME.search(plain)


def secrets_in(name: str, value: str) -> list[str]:
    """Return the secrets in the value of a variable: all of it, or passwords in its URLs."""
    passwords: list[str] = []
    if "://" in value:
        passwords = [password for _user, password in re.findall(_URL_PASSWORD, value)]
    return [value, *passwords] if value and looks_secret(name) else passwords


def mask_url(text: str) -> str:
    """Mask the password of any URL in a text: `postgresql://ann:****@host/db`."""
    if "://" not in text:
        return text
    parts = re.split(_URL_PASSWORD, text)  # words, user, password, words, …
    parts[2::3] = [":****@"] * (len(parts) // 3)
    return "".join(parts)


def _searchable(value: str | Secret) -> set[str]:
    """Return the forms of a value that are long enough to search for."""
    plain = value.reveal() if isinstance(value, Secret) else value
    taken = {each for each in (plain, plain.strip()) if len(each) >= SHORTEST}
    return {each for each in taken if each not in MARK}


class Redactor:
    """Replaces every secret it knows with `[redacted]`.

    ```python
    redactor = Redactor()
    redactor.add("sk-ant-123456")
    redactor.text("the key is sk-ant-123456")  # 'the key is [redacted]'
    ```
    Values shorter than 6 characters are not taken: they would be found everywhere.
    """

    def __init__(self, secrets: Iterable[str | Secret] = ()) -> None:
        self._secrets: dict[str, int] = {}  # each with the number of times it was added
        self.is_empty = True  # no secret is known
        self._lock = threading.RLock()  # a model may be collected, and its keys forgotten, anywhere
        self._known: Forms | None = None  # made anew at the first search after a change
        for secret in secrets:
            self.add(secret)

    def __len__(self) -> int:
        return len(self._secrets)

    def __repr__(self) -> str:
        return f"<Redactor of {len(self)} secrets>"

    # ------------------------------------------------------------------ what it knows

    def add(self, value: str | Secret) -> bool:
        """Search for this secret from now on; False when it is too short."""
        taken = _searchable(value)
        with self._lock:
            for each in taken:
                if each not in self._secrets:
                    self._known = None
                self._secrets[each] = self._secrets.get(each, 0) + 1
                self.is_empty = False
        return bool(taken)

    def forget(self, value: str | Secret) -> None:
        """Take back one `add`; a secret that was added twice stays known."""
        with self._lock:
            for each in _searchable(value) & self._secrets.keys():
                self._secrets[each] -= 1
                if not self._secrets[each]:
                    del self._secrets[each]
                    self._known = None
            self.is_empty = not self._secrets

    @property
    def forms(self) -> Forms:
        """All forms that are searched for."""
        known = self._known
        if known is None:
            with self._lock:
                known = self._known = Forms(frozenset(self._secrets))
        return known

    def add_env(self, environ: Mapping[str, str]) -> None:
        """Add the values of variables that are named like secrets, and passwords in URLs."""
        for name, value in environ.items():
            found = secrets_in(name, value)
            if name.upper().endswith("_KEY"):
                found.append(value)
            for each in found:
                if len(each) >= SHORTEST_IN_ENVIRONMENT:
                    self.add(each)

    def add_headers(self, headers: Mapping[str, str | Secret]) -> None:
        """Add what these headers authenticate with; of `Bearer sk-…` the bare token."""
        for name, value in headers.items():
            if not looks_secret(name):
                continue
            plain = value.reveal() if isinstance(value, Secret) else value
            scheme, _, rest = plain.strip().partition(" ")
            if rest and scheme.lower() in _SCHEMES:
                self.add(rest)
                if scheme.lower() == "basic":
                    self._add_basic(rest)
            else:
                self.add(plain)
            if name.lower() == "cookie":
                for pair in plain.split(";"):
                    self.add(pair.partition("=")[2])
            elif name.lower() == "set-cookie":  # what follows the first pair is no secret
                self.add(plain.partition(";")[0].partition("=")[2])

    def _add_basic(self, encoded: str) -> None:
        try:
            decoded = base64.b64decode(encoded, validate=True).decode()
        except ValueError:
            return
        self.add(decoded.partition(":")[2])

    # ------------------------------------------------------------------ what it cleans

    def text(self, text: str) -> str:
        """Redact a text; return the same object when it holds no secret."""
        return self.forms.replace(text, MARK)

    def bytes(self, data: Bytes) -> Bytes:
        """Redact UTF-8 bytes: a log line, a response body."""
        return self.forms.replace_bytes(data, MARK.encode())

    def value(self, obj: T) -> T:
        """Redact structs, dicts, lists and text, keeping the type.

        What has no secret in it is returned as it is. Field names, tags and fields with a closed
        list of values are left alone, so that what is written can be read again.
        """
        forms = self.forms
        if not forms or isinstance(obj, _CLOSED):
            return obj
        if isinstance(obj, str):
            return cast(T, self.text(obj))
        if isinstance(obj, msgspec.Struct) and not _open_fields(type(obj)):
            return obj
        try:
            encoded = msgspec.json.encode(obj)
        except (TypeError, ValueError, RecursionError, OverflowError):
            return self._walk(obj)  # not JSON as it stands (a Secret, odd keys): look at each part
        if forms.are_in_json(encoded):
            return self._walk(obj)
        return obj

    def entry(self, event: T) -> T:
        """Redact a journal entry or event; return the same object when it holds no secret."""
        return self.value(event)

    def stream(self) -> RedactingStream:
        """Build a redactor for text in pieces, where a secret may be cut in two."""
        return RedactingStream(self)

    def error(self, error: BaseException) -> str:
        """Format an exception as `Type: message`, redacted."""
        return self.text("".join(traceback.format_exception_only(error)).strip())

    def scrub(self, error: BaseException) -> None:
        """Redact an exception that is passed on, and those behind it."""
        seen: set[int] = set()
        behind: list[BaseException | None] = [error]
        while behind:
            at = behind.pop()
            if at is None or id(at) in seen:
                continue
            seen.add(id(at))
            cleaned = self.value(at.args)
            if cleaned is not at.args:
                at.args = cleaned
            for name, held in vars(at).items():
                if isinstance(held, str):
                    vars(at)[name] = self.text(held)
            behind += (at.__cause__, at.__context__)

    def traceback(self, error: BaseException) -> str:
        """Format the whole traceback of an exception, redacted."""
        return self.text("".join(traceback.format_exception(error)))

    def _walk(self, obj: object, depth: int = 0) -> Any:
        if depth > DEEPEST:
            return MARK
        match obj:
            case str():
                return self.text(obj)
            case None | bool() | int() | float():
                return obj
            case Secret():
                return MARK
            case Bytes():
                return self.bytes(obj)
            case msgspec.Struct():
                return self._walk_struct(obj, depth)
            case dict():
                return self._walk_dict(cast("dict[Any, Any]", obj), depth)
            case list() | tuple() | set() | frozenset():
                return self._walk_items(cast("list[Any]", obj), depth)
            case _:
                return self._walk_other(obj, depth)

    def _walk_struct(self, obj: msgspec.Struct, depth: int) -> msgspec.Struct:
        changes: JsonObject = {}
        for name in _open_fields(type(obj)):
            before = getattr(obj, name)
            after = self._walk(before, depth + 1)
            if after is not before:
                changes[name] = after
        return msgspec.structs.replace(obj, **changes) if changes else obj

    def _walk_dict(self, obj: dict[Any, Any], depth: int) -> dict[Any, Any]:
        changed = False
        cleaned: dict[Any, Any] = {}
        for key, value in obj.items():
            clean_key, clean_value = self._walk(key, depth + 1), self._walk(value, depth + 1)
            changed = changed or clean_key is not key or clean_value is not value
            cleaned[clean_key] = clean_value
        return cleaned if changed else obj

    def _walk_items(self, items: list[Any], depth: int) -> Any:
        cleaned = [self._walk(item, depth + 1) for item in items]
        if all(after is before for after, before in zip(cleaned, items, strict=True)):
            return items
        if hasattr(items, "_fields"):
            return cast(Any, type(items))(*cleaned)  # a named tuple takes its items one by one
        return type(items)(cleaned)

    def _walk_other(self, obj: object, depth: int) -> Any:
        """Redact dataclasses, enums and attrs in their plain form."""
        try:
            plain = msgspec.to_builtins(obj, enc_hook=_mask_secret)
        except (TypeError, ValueError, NotImplementedError, RecursionError):
            return obj
        if type(plain) is type(obj):
            return obj
        cleaned = self._walk(plain, depth + 1)
        return obj if cleaned is plain else cleaned


class RedactingStream:
    """Text in pieces, without secrets: `feed` each piece, and `flush` at the end.

    It holds back only a tail that could be the beginning of a secret. The pieces it returns, put
    together, are what `Redactor.text` makes of the whole.
    """

    __slots__ = ("_held", "_redactor")

    def __init__(self, redactor: Redactor) -> None:
        self._redactor, self._held = redactor, ""

    def feed(self, text: str) -> str:
        """Return what may be shown now."""
        forms = self._redactor.forms
        if not forms:
            return text
        buffer = self._held + text if self._held else text
        shown: list[str] = []
        done, hold = 0, forms.tail(buffer, 0)
        for start, end in forms.find(buffer):
            if start >= hold:
                break
            # No secret begins before this one and it cannot grow any longer: it is final.
            shown += buffer[done:start], MARK
            done = end
            if done > hold:
                hold = forms.tail(buffer, done)
        self._held = buffer[hold:]
        if not shown and hold == len(buffer):
            return buffer
        shown.append(buffer[done:hold])
        return "".join(shown)

    def flush(self) -> str:
        """Return what was held back, redacted."""
        held, self._held = self._held, ""
        return self._redactor.text(held)


class RedactingFilter(logging.Filter):
    """Cleans log records: `handler.addFilter(RedactingFilter(redactor))`.

    Put it on handlers: a filter on a logger does not see what its children log. Message,
    arguments, extra fields and exception text are cleaned; no record is dropped.
    """

    def __init__(self, redactor: Redactor) -> None:
        super().__init__()
        self._redactor = redactor

    def filter(self, record: logging.LogRecord) -> bool:
        """Clean the record in place."""
        if not self._redactor.is_empty:
            self._clean_message(record)
            self._clean_exception(record)
            for name, value in record.__dict__.items():
                if name not in ("msg", "args", "exc_info", "exc_text"):
                    record.__dict__[name] = self._redactor.value(value)
        return True

    def _clean_message(self, record: logging.LogRecord) -> None:
        try:
            message = record.getMessage()
        except Exception:  # logging prints the parts of a record it cannot format: clean those
            record.msg = self._redactor.value(record.msg)
            record.args = self._redactor.value(record.args)
            return
        clean = self._redactor.text(message)
        if clean is not message:
            record.msg, record.args = clean, ()

    def _clean_exception(self, record: logging.LogRecord) -> None:
        if record.exc_text:
            record.exc_text = self._redactor.text(record.exc_text)
        if not record.exc_info or record.exc_info[1] is None:
            return
        plain = "".join(traceback.format_exception(record.exc_info[1])).rstrip("\n")
        clean = self._redactor.text(plain)
        if clean is not plain:
            # Formatters print `exc_text` when it is there; the exception itself must not travel on.
            record.exc_text, record.exc_info = clean, None


_CLOSED = (int, float, bool, type(None))


def _mask_secret(obj: object) -> str:
    if isinstance(obj, Secret):
        return MARK
    raise NotImplementedError(f"{type(obj).__name__} has no plain form")


@lru_cache(maxsize=512)
def _open_fields(struct: type[msgspec.Struct]) -> tuple[str, ...]:
    """Return the fields of a struct that may hold free text."""
    return tuple(
        field.name for field in msgspec.structs.fields(struct) if _may_hold_text(field.type)
    )


def _may_hold_text(shape: Any) -> bool:
    if shape in _CLOSED or get_origin(shape) is Literal:
        return False
    arguments = get_args(shape)
    return not arguments or any(_may_hold_text(argument) for argument in arguments)
