"""The servers of `mcp_servers`: an entry in the form that editors use, checked."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, Final, Literal, TypeAlias, cast

import msgspec

from windlass.errors import ConfigError, nearest, safe_repr
from windlass.json_types import JsonObject, is_mapping
from windlass.options.checks import boolean, number, one_of, optional, text, texts
from windlass.options.group import Option, OptionStruct, read_options

Trust: TypeAlias = Literal["trusted", "untrusted"]
NAME: Final = re.compile(r"[A-Za-z0-9_.-]{1,32}")
_VARIABLE: Final = re.compile(r"\$\{(?:env:)?([A-Za-z_][A-Za-z0-9_]*)(?::-([^}]*))?\}")
#: Variables that a server gets without being named: none of them holds a key.
_HARMLESS: Final = frozenset(
    "HOME LOGNAME PATH SHELL TERM USER LANG LANGUAGE TZ TMPDIR".split()
    + "SYSTEMROOT TEMP TMP APPDATA LOCALAPPDATA PATHEXT USERPROFILE".split()
)
_TYPES: Final = ("stdio", "http", "streamable-http", "streamableHttp")


def _check_env(name: str, value: Any) -> Mapping[str, str] | tuple[str, ...]:
    given: object = value
    if is_mapping(given):
        return _check_pairs(name, given)
    return texts(name, given)


def _check_pairs(name: str, value: Any) -> Mapping[str, str]:
    given: object = value
    if not is_mapping(given):
        raise ConfigError(f"{name} is a dict of texts, not {safe_repr(given)}")
    for key, one in given.items():
        if not isinstance(key, str) or not isinstance(one, str):
            raise ConfigError(
                f"{name}: {safe_repr(key)} is a text with a text, not {safe_repr(one)}"
            )
        if "\0" in key + one or "=" in key or not key:
            raise ConfigError(
                f"{name}: {safe_repr(key)} cannot be the name of a variable or header"
            )
    return cast("Mapping[str, str]", dict(given))


def _check_args(name: str, value: Any) -> tuple[str, ...]:
    given: object = value
    if not isinstance(given, (list, tuple)):
        raise ConfigError(f"{name} is a list of texts, not {safe_repr(given)}")
    listed = cast("Sequence[object]", given)
    for one in listed:
        if not isinstance(one, str) or "\0" in one:
            raise ConfigError(f"{name} is a list of texts, not of {safe_repr(one)}")
    return tuple(cast("Sequence[str]", listed))


def _check_url(name: str, value: Any) -> str:
    url = text(name, value)
    if not url.startswith(("http://", "https://")):
        raise ConfigError(f"{name} begins with http:// or https://, not {safe_repr(url)}")
    return url


def _check_auth(name: str, value: Any) -> str | Mapping[str, Any]:
    given: object = value
    if given == "oauth":
        return "oauth"
    if is_mapping(given):
        known = tuple(OAuth.__struct_fields__)
        for key in given:
            if key not in known:
                raise ConfigError(f"{name} has no key {safe_repr(key)}{nearest(str(key), known)}")
        try:
            msgspec.convert(dict(given), OAuth)
        except msgspec.ValidationError as error:
            raise ConfigError(f"{name}: {error}") from None
        return cast("Mapping[str, Any]", dict(given))
    raise ConfigError(
        f"{name} is 'oauth' or a dict such as {{'client_id': …}}, not {safe_repr(given)}"
    )


class OAuth(msgspec.Struct, frozen=True, kw_only=True):
    """How a client is known to an authorization server."""

    client_id: str | None = None
    client_secret: str | None = None
    client_metadata_url: str | None = None
    scope: str | None = None
    redirect_port: int | None = None
    client_name: str = "Windlass"


class McpServer(OptionStruct, frozen=True, kw_only=True):
    """An MCP server: `w.McpServer(name="files", command="npx", args=["-y", "server-filesystem"])`.

    Either a `command`, which is started and spoken to over its standard input and output, or a `url`.
    """

    name: Annotated[str, Option(text)] = ""
    """Its name; its tools are `<name>__<tool>`."""
    command: Annotated[str | None, Option(optional(text))] = None
    """The program to start."""
    args: Annotated[tuple[str, ...], Option(_check_args)] = ()
    """Its arguments."""
    env: Annotated[Mapping[str, str] | tuple[str, ...], Option(_check_env)] = {}
    """Variables for it, by name; or the names of those that it may have from the environment."""
    cwd: Annotated[str | None, Option(optional(text))] = None
    """The folder to start it in, from the workspace of the session, which it is by default."""
    url: Annotated[str | None, Option(optional(_check_url))] = None
    """The address of a server over streamable HTTP."""
    headers: Annotated[Mapping[str, str], Option(_check_pairs)] = {}
    """Headers of every request."""
    auth: Annotated[str | Mapping[str, Any] | None, Option(optional(_check_auth))] = None
    """`"oauth"`, or how this client is known to the authorization server."""
    allow: Annotated[tuple[str, ...] | None, Option(optional(texts))] = None
    """The only tools of it to offer, by their own names."""
    deny: Annotated[tuple[str, ...], Option(texts)] = ()
    """Tools of it that are not offered."""
    timeout: Annotated[float | None, Option(optional(number(0.001)))] = None
    """Seconds for its start, and for each call; None: 60 for the start, `tool_timeout` for a call."""
    trust: Annotated[Trust, Option(one_of("trusted", "untrusted"))] = "untrusted"
    """Whether what it says is as good as what you wrote yourself."""
    required: Annotated[bool, Option(boolean)] = True
    """Whether a run is refused when it does not start."""
    sampling: Annotated[bool, Option(boolean)] = False
    """Whether it may ask the run's model, within the budget of the run."""

    @property
    def place(self) -> str:
        """Where it is, for people: without arguments, which may hold secrets."""
        return self.command or (self.url or "").partition("?")[0]

    def offers(self, tool: str) -> bool:
        """Check whether a tool of it may be offered."""
        return tool not in self.deny and (self.allow is None or tool in self.allow)

    def expand(self, environ: Mapping[str, str], folder: str) -> McpServer:
        """Return the entry with `${NAME}`, `${env:NAME}` and `${workspaceFolder}` replaced."""

        def fill(value: str) -> str:
            return _expand(self.name, value, environ, folder)

        env = self.env
        pairs = {name: environ[name] for name in env if name in environ}
        if isinstance(env, Mapping):
            pairs = {name: fill(value) for name, value in env.items()}
        return msgspec.structs.replace(
            self,
            command=None if self.command is None else fill(self.command),
            args=tuple([fill(one) for one in self.args]),
            env=pairs,
            cwd=None if self.cwd is None else fill(self.cwd),
            url=None if self.url is None else fill(self.url),
            headers={name: fill(value) for name, value in self.headers.items()},
        )

    def build_environment(self, environ: Mapping[str, str]) -> dict[str, str]:
        """Return the variables of its process: harmless ones, and those that the entry names."""
        kept = {
            name: value
            for name, value in environ.items()
            if name in _HARMLESS or name.startswith("LC_")
        }
        return {**kept, **(self.env if isinstance(self.env, Mapping) else {})}


def _expand(server: str, value: str, environ: Mapping[str, str], folder: str) -> str:
    def fill(found: re.Match[str]) -> str:
        name, default = found.groups()
        if name == "workspaceFolder":
            return folder
        if name in environ:
            return environ[name]
        if default is None:
            raise ConfigError(f"MCP server {server!r} needs the variable {name}, which is not set")
        return str(default)

    return _VARIABLE.sub(fill, value) if "${" in value else value


def check_servers(option: str, value: object) -> tuple[McpServer | str, ...]:
    """Check `mcp_servers`: entries by name, a list of entries, objects, or the path of an `mcp.json`.

    A text that is no path is the name of a server of the Runtime.
    """
    if value is None:
        return ()
    if isinstance(value, (str, os.PathLike, McpServer)):
        found = [*_read_item(option, cast("object", value))]
    elif is_mapping(value):
        found = [*_read_table(option, value, strict=True)]
    elif isinstance(value, (list, tuple)):
        found = [
            one
            for at, given in enumerate(cast("Sequence[object]", value))
            for one in _read_item(f"{option}[{at}]", given)
        ]
    else:
        raise ConfigError(
            f"{option} is a dict of servers such as {{'files': {{'command': 'npx'}}}}, a list, or the "
            f"path of an mcp.json, not {safe_repr(value)}"
        )
    names = [one if isinstance(one, str) else one.name for one in found]
    if len(set(names)) < len(names):
        twice = next(name for name in names if names.count(name) > 1)
        raise ConfigError(f"{option}: two servers are called {twice!r}; rename one")
    return tuple(found)


def _read_item(option: str, given: object) -> Sequence[McpServer | str]:
    if isinstance(given, McpServer):
        return [_build(option, given.name, _fields_of(given), strict=True)]
    if isinstance(given, os.PathLike):
        return read_file(option, Path(cast("os.PathLike[str]", given)))
    if isinstance(given, str):
        if given.endswith(".json") or os.sep in given:
            return read_file(option, Path(given).expanduser())
        if not NAME.fullmatch(given):
            raise ConfigError(f"{option}: {safe_repr(given)} is neither a server's name nor a file")
        return [given]
    if is_mapping(given):
        entry = given
        if "name" in entry:
            return [_build(option, str(entry["name"]), entry, strict=True)]
        return _read_table(option, entry, strict=True)
    raise ConfigError(f"{option} is an entry with a name, not {safe_repr(given)}")


def read_file(option: str, path: Path) -> list[McpServer]:
    """Read the servers of an `mcp.json` as an editor wrote it; keys of the editor's own are ignored."""
    try:
        document: object = json.loads(path.read_bytes())
    except OSError as error:
        raise ConfigError(f"{option}: {str(path)!r} cannot be read: {error.strerror}") from None
    except (ValueError, RecursionError) as error:
        raise ConfigError(f"{option}: {str(path)!r} is not JSON: {error}") from None
    if not is_mapping(document):
        raise ConfigError(f"{option}: {str(path)!r} has no 'mcpServers'")
    return _read_table(option, document, strict=False)


def _read_table(option: str, table: Mapping[object, object], *, strict: bool) -> list[McpServer]:
    """Read `{"mcpServers": {name: entry}}`, `{"servers": …}` of another editor, or the entries alone."""
    for wrapper in ("mcpServers", "servers"):
        inner = table.get(wrapper)
        if is_mapping(inner) and not {"command", "url"} & set(map(str, inner)):
            table = inner
            break
    found: list[McpServer] = []
    for name, entry in table.items():
        if isinstance(entry, McpServer):
            found.append(_build(option, str(name), _fields_of(entry), strict=True))
            continue
        if not is_mapping(entry):
            raise ConfigError(f"{option}: {safe_repr(name)} is an entry, not {safe_repr(entry)}")
        if entry.get("disabled") is True:
            continue
        found.append(_build(f"{option}[{safe_repr(name)}]", str(name), entry, strict=strict))
    return found


def _build(option: str, name: str, entry: Mapping[object, object], *, strict: bool) -> McpServer:
    options = read_options(McpServer)
    kind = entry.get("type", entry.get("transport"))
    if kind is not None and kind not in _TYPES:
        raise ConfigError(f"{option}: type is 'stdio' or 'http', not {safe_repr(kind)}")
    fields: JsonObject = {}
    for key, value in entry.items():
        word = str(key)
        if word in options:
            if value is not None:
                fields[word] = options[word].check(f"{option}.{word}", value)
        elif strict and word not in ("type", "transport", "disabled"):
            raise ConfigError(f"{option} has no key {safe_repr(key)}{nearest(word, options)}")
    fields["name"] = name
    return _check_entry(option, McpServer(**fields))


def _fields_of(server: McpServer) -> dict[object, object]:
    return {name: getattr(server, name) for name in server.__struct_fields__}


def _check_entry(option: str, server: McpServer) -> McpServer:
    if not NAME.fullmatch(server.name) or "__" in server.name:
        raise ConfigError(
            f"{option}: a server's name has 1 to 32 letters, digits and `_ . -`, and no `__`; "
            f"not {safe_repr(server.name)}"
        )
    if (server.command is None) == (server.url is None):
        raise ConfigError(f"{option} has a command or a url, and not both")
    if server.url is None and (server.headers or server.auth is not None):
        raise ConfigError(f"{option}: headers and auth are for a url; a command is given `env`")
    return server
