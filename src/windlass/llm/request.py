"""From a prompt and options to a prepared call of `llm_call` and its like."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec

from windlass.engine.assemble import find_provider_check
from windlass.engine.continuation import Past, new_past, read_transcript
from windlass.engine.input import parse_prompt
from windlass.engine.limit_options import LimitOptions
from windlass.engine.model import (
    build_settings,
    check_tool_choice,
    resolve_model,
    with_defaults,
    with_retries,
)
from windlass.engine.model_options import ModelOptions, ProviderDict, SettingOptions
from windlass.engine.run_options import RunOptions
from windlass.engine.tool_options import ToolOptions
from windlass.errors import BadRequest, ConfigError
from windlass.llm.scope import NOBODY, Who
from windlass.llm.tool_search import Searching
from windlass.loop.ledger import Budget
from windlass.messages import Message
from windlass.models.base import Frame, Model, Request
from windlass.models.history import audit
from windlass.models.wrappers.text_tools import TextTools
from windlass.options.checks import words
from windlass.options.group import Values
from windlass.options.parse import parse_options
from windlass.output.options import OutputOptions
from windlass.output.plan import OutputPlan, plan_output
from windlass.policies.tool_search.plan import ToolSearchOptions, plan_tool_search
from windlass.tools.function import as_tools


class PreparedCall(msgspec.Struct, frozen=True):
    """A prepared call: the model behind its caller, and the request."""

    model: Model
    request: Request
    wanted: OutputPlan | None = None  # the shape that its answer is to have
    past: Past = Past("")
    continued: int = 0  # messages from before this call
    search: Searching | None = None  # the model, where it finds its tools by searching
    who: Who = NOBODY
    budget: Budget | None = None  # of this call and its retries


def prepare(
    prompt: Any, system: str | None, typed: dict[str, Any], door: str = "llm_call"
) -> PreparedCall:
    """Check everything and build the call, without making it."""
    if "system" in typed:
        if system is not None:
            raise ConfigError("system is given twice: as the second argument and as an option")
        system = typed.pop("system")
    values = parse_options(typed, "call", door, find_check=find_provider_check, also=("system",))
    output = OutputOptions.read(values)
    messages, past, continued = _build_messages(prompt, values, output, door)
    if system is not None:
        system = words("system", system)
    model_options = ModelOptions.read(values)
    model = resolve_model(model_options)
    chosen = with_defaults(values, model)
    caps = model.capabilities
    tools = as_tools(ToolOptions.read(values).tools)
    choice = SettingOptions.read(values).tool_choice
    check_tool_choice(choice, [tool.name for tool in tools])
    specs = tuple(tool.spec for tool in tools)
    settings = build_settings(chosen, caps, model.provider, "chat")
    system = _with_summary(system, past, messages)
    disclosure, wanted = None, ToolSearchOptions.read(values).tool_search
    if wanted is not None:
        disclosure = plan_tool_search(
            wanted,
            tools,
            model,
            text=not model.native_tools,
            tool_choice=choice,
            forced=ProviderDict.read(values, model.provider).force_native_tool_search,
        )
    if disclosure is not None:
        specs, (system, settings) = disclosure.offered, disclosure.add_to_frame(system, settings)
    frame = Frame(system, specs, settings)
    shape = plan_output(output, caps, frame)
    if shape is not None:
        frame = shape.add_to_frame(frame)
    model = with_retries(model, model_options)
    if frame.tools and not model.native_tools:
        model = TextTools(model)
    search = None
    if disclosure is not None:
        model = search = Searching(model, disclosure)
    who = Who.of(RunOptions.read(values), door)
    budget = LimitOptions.read(values).budget
    request = Request(messages, frame)
    return PreparedCall(model, request, shape, past, continued, search, who, budget)


def _build_messages(
    prompt: Any, values: Values, output: OutputOptions, door: str
) -> tuple[tuple[Message, ...], Past, int]:
    """Build the messages of the call: those given, or a transcript's and the prompt."""
    instead, transcript = RunOptions.read(values).messages, output.transcript
    if instead is not None and transcript is not None:
        raise ConfigError("messages and transcript both say what came before: give one of them")
    past, continued = new_past(), 0
    if transcript is not None:
        before, past = read_transcript(transcript)
        continued = len(before)
        messages = (*before, *(() if prompt is None else parse_prompt(prompt)))
        if prompt is None and _ends_with_reply(messages):
            raise ConfigError(f"{door} goes on from a transcript with a prompt: say something")
    elif prompt is None and instead is None:
        raise ConfigError(f"{door} needs a prompt, or messages=[…]")
    else:
        messages = parse_prompt(prompt if instead is None else instead)
    if not messages:
        raise ConfigError("the prompt is empty: a model needs something to answer")
    if problems := audit(messages):
        raise BadRequest(f"these messages cannot be sent: {'; '.join(problems)}")
    return messages, past, continued


def _ends_with_reply(messages: Sequence[Message]) -> bool:
    return bool(messages) and messages[-1].role == "assistant"


def _with_summary(system: str | None, past: Past, messages: Sequence[Message]) -> str | None:
    """Add the transcript's summary to the system prompt, unless the messages hold it."""
    summary = past.summary
    if not summary or any(summary in message.text for message in messages):
        return system
    note = f"What was said before, in short:\n{summary}"
    return f"{system}\n\n{note}" if system else note
