"""The catalog of a server: tools, resources and prompts, each a tool that a role grants.

A prompt `review` is granted as `prompt.review`, a host's resource `settings` as `resource.settings`; rows of
exported resources are read with the verbs `get` and `search`, under the grants of these.
"""

from __future__ import annotations

import re
from base64 import b64encode
from collections.abc import Callable, Sequence
from functools import cached_property, wraps
from inspect import iscoroutinefunction
from typing import Final, NamedTuple, TypeAlias
from urllib.parse import quote, unquote

import msgspec

from windlass.access.caller import Caller
from windlass.access.roles import Roles
from windlass.agents.agent import Agent
from windlass.engine.host_tools import RoleTool
from windlass.errors import ConfigError, safe_repr
from windlass.json_types import JsonObject, is_sequence
from windlass.messages import Document, Message, as_messages
from windlass.resources.registry import ResourceTool
from windlass.runtime.runtime import Runtime
from windlass.tools.function import FunctionTool
from windlass.tools.tool import Tool

Read: TypeAlias = Callable[..., object]
SCHEME: Final = "windlass://"  # of rows: windlass://product/p1
_PARAMETER: Final = re.compile(r"\{(\w+)\}")
#: The tool that goes on with a call that was parked.
RESUME_TOOL: Final = "windlass_resume"
RESUME_PARAMETERS: Final[JsonObject] = {
    "type": "object",
    "properties": {
        "session_id": {"type": "string", "description": "The session of the call that waits."}
    },
    "required": ["session_id"],
    "additionalProperties": False,
}


class McpResource(msgspec.Struct, frozen=True, kw_only=True):
    """A resource of the host: an address, and the function that reads it."""

    uri: str
    """`config://settings`, or a template such as `doc://{name}/text`."""
    tool: Tool
    """The function as a tool; its parameters are those of the template."""
    name: str
    mime_type: str | None = None

    @property
    def is_template(self) -> bool:
        """Whether the address has parameters."""
        return _PARAMETER.search(self.uri) is not None

    def match(self, uri: str) -> JsonObject | None:
        """Return the parameters that an address gives, or None if it is another's."""
        pieces = _PARAMETER.split(self.uri)
        # Pieces alternate: text, name of a parameter, text, …
        pattern = "".join(
            f"(?P<{piece}>[^/?#]+)" if at % 2 else re.escape(piece)
            for at, piece in enumerate(pieces)
        )
        found = re.fullmatch(pattern, uri)
        if found is None:
            return None
        values = {name: unquote(value) for name, value in found.groupdict().items()}
        # What is one step of a path stays one: `%2e%2e%2f` would lead out of a folder.
        if any(value in (".", "..") or set(value) & set("/\\\0") for value in values.values()):
            return None
        return dict(values)


def mcp_resource(
    uri: str,
    *,
    name: str | None = None,
    description: str | None = None,
    mime_type: str | None = None,
) -> Callable[[Read], McpResource]:
    """Offer what a function reads at an address: text, bytes, or something that becomes JSON.

    ```python
    @mcp_resource("doc://{name}", mime_type="text/markdown")
    def page(name: str) -> str: ...
    ```
    """

    def encode(value: object) -> object:
        if not isinstance(value, (bytes, bytearray)):
            return value
        data = b64encode(value).decode()
        return Document(data=data, media_type=mime_type or "application/octet-stream")

    def mark(read: Read) -> McpResource:
        title = name or read.__name__
        tool = FunctionTool(
            _convert_answer(read, encode),
            name=f"resource.{title}",
            description=description,
            side_effect_level="read_only",
        )
        return McpResource(uri=uri, tool=tool, name=title, mime_type=mime_type)

    return mark


class McpPrompt(msgspec.Struct, frozen=True, kw_only=True):
    """A prompt of the host: a name, and the function that writes its messages."""

    name: str
    tool: Tool


def mcp_prompt(write: Read, *, name: str | None = None) -> McpPrompt:
    """Offer what a function writes as a prompt: a text, a `Message`, or a list of them.

    ```python
    @mcp_prompt
    def review(path: str) -> str:
        "Review a file."
        return f"Review {path} for mistakes."
    ```
    """
    title = name or write.__name__

    def encode(value: object) -> str:
        return msgspec.json.encode(_messages(value)).decode()

    tool = FunctionTool(
        _convert_answer(write, encode), name=f"prompt.{title}", side_effect_level="read_only"
    )
    return McpPrompt(name=title, tool=tool)


def _convert_answer(function: Read, convert: Callable[[object], object]) -> Read:
    """Wrap a function so that its answer is converted; it keeps its signature."""
    if iscoroutinefunction(function):

        @wraps(function)
        async def answer_later(*args: object, **values: object) -> object:
            return convert(await function(*args, **values))

        return answer_later

    @wraps(function)
    def answer(*args: object, **values: object) -> object:
        return convert(function(*args, **values))

    return answer


def _messages(value: object) -> list[Message]:
    if isinstance(value, Message):
        return [value]
    if isinstance(value, str):
        return list(as_messages(value))
    if not is_sequence(value):
        raise TypeError(f"a prompt is a text, a Message or a list of them, not {safe_repr(value)}")
    return [message for one in value for message in _messages(one)]


class GrantedTool(RoleTool):
    """A prompt or resource, whose grant is its own name: `prompt.review`."""

    __slots__ = ()

    def refusal(self, caller: Caller) -> str | None:
        """Return why the caller may not use it now, or None."""
        return self._roles().refusal(caller, self.name)


class RowAddress(NamedTuple):
    """A row or a list of rows, as a call of its verb."""

    tool: str
    arguments: JsonObject


class Catalog:
    """Everything that a server offers, and to whom."""

    def __init__(
        self,
        runtime: Runtime,
        agents: Sequence[object],
        prompts: Sequence[object],
        resources: Sequence[object],
    ) -> None:
        self.runtime = runtime
        self.agents = [self._under_roles(_agent_tool(one)) for one in agents]
        self.prompts = {one.name: one for one in map(_as_prompt, prompts)}
        self.resources = [_as_resource(one) for one in resources]
        _refuse_doubles([one.name for one in map(_as_prompt, prompts)], "prompts")
        _refuse_doubles([one.name for one in self.resources], "resources")
        _refuse_doubles([tool.name for tool in self.all_tools()], "tools")

    def _roles(self) -> Roles:
        return self.runtime.roles

    def _under_roles(self, tool: Tool) -> RoleTool:
        return RoleTool(tool, self._roles)

    def all_tools(self) -> list[Tool]:
        """List all tools, whoever may call them."""
        return [*self.runtime.tools(), *self.agents]

    def tools_for(self, caller: Caller) -> list[Tool]:
        """List the tools that a caller may call now."""
        own: list[Tool] = [one for one in self.agents if one.refusal(caller) is None]
        return [*self.runtime.tools(caller), *own]

    @cached_property
    def _extra(self) -> dict[str, GrantedTool]:
        tools = [one.tool for one in (*self.prompts.values(), *self.resources)]
        return {tool.name: GrantedTool(tool, self._roles) for tool in tools}

    def find(self, name: str) -> Tool | None:
        """Find a tool, or the tool behind a prompt or a resource, by its recorded name."""
        found = next((tool for tool in self.all_tools() if tool.name == name), None)
        return found or self._extra.get(name)

    def prompts_for(self, caller: Caller) -> list[McpPrompt]:
        """List the prompts that a caller may use now."""
        return [
            one
            for one in self.prompts.values()
            if self._extra[one.tool.name].refusal(caller) is None
        ]

    def resources_for(self, caller: Caller) -> list[McpResource]:
        """List the host's resources that a caller may read now."""
        return [one for one in self.resources if self._extra[one.tool.name].refusal(caller) is None]

    def rows_for(self, caller: Caller, verb: str) -> list[ResourceTool]:
        """List the verbs `get` or `search` of exported resources that a caller may use now."""
        found = self.runtime.resources.tools(caller)
        return [one for one in found if isinstance(one, ResourceTool) and one.verb.name == verb]

    def may_read(self, caller: Caller, uri: str) -> bool:
        """Check whether a role lets the caller read what is at an address."""
        if any(one.match(uri) is not None for one in self.resources_for(caller)):
            return True
        address = parse_row(uri)
        if address is None:
            return False
        granted = (*self.rows_for(caller, "get"), *self.rows_for(caller, "search"))
        return address.tool in [tool.name for tool in granted]

    def locate(self, uri: str) -> tuple[Tool, JsonObject, str | None] | None:
        """Return the tool that reads an address, its arguments and the type of its content."""
        for one in self.resources:
            values = one.match(uri)
            if values is not None:
                tool = self._extra[one.tool.name]
                return tool, type_arguments(tool, values), one.mime_type
        address = parse_row(uri)
        tool = None if address is None else self.find(address.tool)
        if address is None or not isinstance(tool, ResourceTool):
            return None
        return tool, type_arguments(tool, address.arguments), "application/json"


def row_uri(name: str, id: object = None) -> str:
    """Return the address of a row, or of the list of rows."""
    return f"{SCHEME}{name}" if id is None else f"{SCHEME}{name}/{quote(str(id), safe='')}"


def parse_row(uri: str) -> RowAddress | None:
    """Read the address of a row or of a list of rows."""
    if not uri.startswith(SCHEME):
        return None
    name, slash, id = uri.removeprefix(SCHEME).partition("/")
    if not name or (slash and not id):
        return None
    if not slash:
        return RowAddress(f"search_{name}", {})
    return RowAddress(f"get_{name}", {"id": unquote(id)})


def type_arguments(tool: Tool, given: JsonObject) -> JsonObject:
    """Return arguments that came as texts as the numbers and booleans that the tool expects."""
    schemas: JsonObject = tool.parameters.get("properties", {})
    return {name: _type_argument(schemas.get(name, {}), value) for name, value in given.items()}


def _type_argument(schema: JsonObject, value: object) -> object:
    if not isinstance(value, str) or schema.get("type") not in ("integer", "number", "boolean"):
        return value
    try:
        return msgspec.json.decode(value, type=bool | int | float)
    except (msgspec.DecodeError, UnicodeEncodeError):
        return value  # the check of the arguments says what is wrong with it


def _agent_tool(agent: object) -> Tool:
    if isinstance(agent, Tool):
        return agent
    if not isinstance(agent, Agent):
        raise ConfigError(f"agents is a list of Agents, not {safe_repr(agent)}")
    return agent.as_tool()


def _as_prompt(given: object) -> McpPrompt:
    if isinstance(given, McpPrompt):
        return given
    if not callable(given):
        raise ConfigError(f"prompts is a list of functions, not {safe_repr(given)}")
    return mcp_prompt(given)


def _as_resource(given: object) -> McpResource:
    if not isinstance(given, McpResource):
        raise ConfigError(
            f"resources is a list of functions under @mcp_resource, not {safe_repr(given)}"
        )
    return given


def _refuse_doubles(names: list[str], what: str) -> None:
    twice = next((name for name in names if names.count(name) > 1), None)
    if twice is not None:
        raise ConfigError(f"two {what} of the server are called {twice!r}; rename one")
    if what == "tools" and RESUME_TOOL in names:
        raise ConfigError(f"the server has a tool {RESUME_TOOL!r} of its own; rename yours")
