"""The tools of an execution: helpers, the output tool, and `submit`."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from inspect import isawaitable
from typing import Any, Final, TypedDict

from windlass.attempts.validation import OutputCheck
from windlass.errors import ConfigError, error_text, nearest, safe_repr
from windlass.json_types import JsonObject, as_given, is_mapping, is_sequence
from windlass.loop.run import Run
from windlass.messages import ToolCall, ToolResult
from windlass.tools.function import as_tools
from windlass.tools.middleware.base import ToolWrapper
from windlass.tools.result import refusal
from windlass.tools.source import ToolLike
from windlass.tools.tool import Parked, PreparedArguments, Tool, ToolContext, Validation

Handler = Callable[..., object]


def _confirm(_arguments: JsonObject) -> str:
    return "Submitted."


SUBMIT: Final = "submit"
#: The tool that ends an attempt with reflection. Its call is a signal and has no parameters.
DEFAULT_SUBMIT_TOOL: Final = Tool(
    name=SUBMIT,
    description=(
        "Submit your final output for validation. Call this when you are satisfied with your output."
    ),
    parameters={"type": "object", "properties": {}},
    handler=_confirm,
    side_effect_level="none",
)
ADD_OR_REMOVE: Final = "Add reflection_handler or remove submit tool"
_DEFINITION_KEYS: Final = ("name", "description", "input_schema", "parameters")


class HelperTool(TypedDict):
    """A helper as a schema and a function: `{"definition": {…}, "handler": fn}`.

    `definition` is what providers take: a name, a description and `input_schema` (or `parameters`).
    """

    definition: JsonObject
    handler: Handler


class HelperCall(ToolWrapper):
    """A helper whose failure the model reads as `Error: message`."""

    __slots__ = ()

    async def call(self, arguments: JsonObject, ctx: ToolContext[Any]) -> ToolResult | Parked:
        """Call the helper."""
        result = await self.inner.call(arguments, ctx)
        if isinstance(result, Parked) or result.outcome not in ("error", "retry"):
            return result
        raised = ctx.scope.calls.errors.get(ctx.call_id) if isinstance(ctx.scope, Run) else None
        message = result.text if raised is None else error_text(raised)
        said = message or (type(raised).__name__ if raised is not None else "it failed")
        return refusal(f"Error: {said}", result.outcome)


class OutputTool(Tool):
    """The tool whose arguments are the output. It takes any: they are checked where they count."""

    __slots__ = ("check", "reflect")

    def __init__(
        self, name: str, description: str, check: OutputCheck[Any], reflect: Handler | None
    ) -> None:
        super().__init__(
            name, description, check.parameters, self._answer, side_effect_level="none"
        )
        self.check, self.reflect = check, reflect

    def prepare(self, arguments: JsonObject, mode: Validation = "strict") -> PreparedArguments:
        """Take the arguments as they are."""
        return PreparedArguments(arguments)

    async def _answer(self, arguments: JsonObject) -> object:
        if self.reflect is None:
            return "Received. It is validated now."
        value, problems = self.check.read(ToolCall("", self.name, arguments))
        if problems:
            listed = "\n".join(problems)
            return refusal(f"Error: the output does not fit its schema:\n{listed}", "invalid")
        try:
            shown = self.reflect(value)
            return await shown if isawaitable(shown) else shown
        except Exception as error:
            return refusal(f"Error: {error_text(error) or type(error).__name__}")


def build_helpers(given: object) -> tuple[Tool, ...]:
    """Build the helpers of a definition; their failures read `Error: message`."""
    listed = as_given(given)
    if not is_sequence(listed):
        raise ConfigError(f"helpers is a list of tools, not {safe_repr(listed)}")
    sources: list[ToolLike] = [_from_definition(one) if is_mapping(one) else one for one in listed]
    return tuple([tool if tool.handler is None else HelperCall(tool) for tool in as_tools(sources)])


def _from_definition(given: object) -> Tool:
    """Build a tool from `{"definition": …, "handler": …}`."""
    helper: Mapping[Any, Any] = given if is_mapping(given) else {}
    for key in helper:
        if key not in ("definition", "handler"):
            hint = nearest(str(key), ("definition", "handler"))
            raise ConfigError(
                f"a helper is a Tool or {{'definition': …, 'handler': …}}: it has no {key!r}{hint}"
            )
    definition, handler = helper.get("definition"), helper.get("handler")
    if not is_mapping(definition) or not callable(handler):
        raise ConfigError(
            "a helper is a Tool or {'definition': {'name': …, 'description': …, 'input_schema': …}, "
            f"'handler': fn}}, not {safe_repr(given)}"
        )
    if is_mapping(function := definition.get("function")):  # as OpenAI spells it
        definition = function
    for key in definition:
        if key not in (*_DEFINITION_KEYS, "type", "strict", "cache_control"):
            raise ConfigError(
                f"the definition of a helper has no {key!r}{nearest(str(key), _DEFINITION_KEYS)}"
            )
    parameters = definition.get("input_schema", definition.get("parameters"))
    return Tool(
        str(definition.get("name", "")), definition.get("description", ""), parameters, handler
    )


def check_names(helpers: Sequence[Tool], output_tool: str, *, reflects: bool) -> None:
    """Refuse tools whose names collide, and a `submit` that nothing waits for."""
    names = [tool.name for tool in helpers]
    if SUBMIT in (*names, output_tool):
        if not reflects:
            raise ConfigError(f"{SUBMIT!r} ends an attempt with reflection. {ADD_OR_REMOVE}")
        raise ConfigError(f"the tool {SUBMIT!r} is added by itself: name yours differently")
    if output_tool in names:
        raise ConfigError(f"a helper has the name of the output tool, {output_tool!r}")
