"""From a prompt and options to a call that can be made: what `llm_call` and its like begin with."""

from __future__ import annotations

from typing import Any

import msgspec

from windlass.agents.assemble import choice_fits, model_of, reached
from windlass.agents.checks import words
from windlass.agents.options import CallOptions, given, settings_of, with_environment
from windlass.agents.prompt import asked
from windlass.errors import BadRequest, ConfigError
from windlass.models.audit import audit
from windlass.models.base import Frame, Model, Request
from windlass.tools.function import as_tools

CALL_OPTIONS = CallOptions.__optional_keys__ | {"system"}


class Prepared(msgspec.Struct, frozen=True):
    """A call that can be made: the model behind its caller, and what it is asked."""

    model: Model
    request: Request


def prepare(
    prompt: Any, system: str | None, typed: dict[str, Any], door: str = "llm_call"
) -> Prepared:
    """The call that is meant, everything checked and nothing asked yet."""
    if "system" in typed:
        if system is not None:
            raise ConfigError("system is given twice: as the second argument and as an option")
        system = typed.pop("system")
    options = given(typed, CALL_OPTIONS, door)
    given_messages = options.get("messages")
    if prompt is None and given_messages is None:
        raise ConfigError(f"{door} needs a prompt, or messages=[…]")
    messages = asked(prompt if given_messages is None else given_messages)
    if not messages:
        raise ConfigError("the prompt is empty: a model needs something to answer")
    if system is not None:
        system = words("system", system)
    if problems := audit(messages):
        raise BadRequest(f"these messages cannot be sent: {'; '.join(problems)}")
    model, chosen = model_of(options), options
    if model.remote:
        chosen = with_environment(options)
    model = reached(model, options)
    tools = as_tools(options.get("tools"))
    choice_fits(options, tools)
    specs = tuple(tool.spec for tool in tools)
    return Prepared(model, Request(messages, Frame(system, specs, settings_of(chosen))))
