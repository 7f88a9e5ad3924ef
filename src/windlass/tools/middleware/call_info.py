"""The description of a call for functions of yours: consent, tool callers, dry runs."""

from __future__ import annotations

from typing import Any

from windlass.detach import detach
from windlass.errors import nearest
from windlass.json_types import JsonObject
from windlass.tools.handlers import own
from windlass.tools.tool import Tool, ToolContext


class AskedCall(JsonObject):
    """A call: a dict whose keys can be read as fields, `call.name`, `call.arguments["path"]`."""

    def __getattr__(self, name: str) -> Any:
        try:
            return self[name]
        except KeyError:
            raise AttributeError(f"a call has no {name!r}{nearest(name, self)}") from None


def asked_call(tool: Tool, arguments: JsonObject, ctx: ToolContext[Any]) -> AskedCall:
    """Describe the call that is about to run."""
    return described(
        tool, arguments, ctx.call_id, ctx.session_id, ctx.run_id, str(ctx.caller), ctx.attempt
    )


def described(
    tool: Tool,
    arguments: JsonObject,
    call_id: str,
    session_id: str,
    run_id: str,
    caller: str,
    attempt: int = 1,
) -> AskedCall:
    """Describe a call of the tool, with a copy of its arguments."""
    return AskedCall(
        id=call_id,
        name=tool.name,
        arguments=own(arguments),
        kind=tool.annotations.get("kind"),
        effect=tool.effect,
        annotations=detach(dict(tool.annotations)),
        session_id=session_id,
        run_id=run_id,
        caller=caller,
        attempt=attempt,
    )
