"""The check of an output: first the schema, then the validators in their order."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from typing import Any, Generic, TypeVar, cast

from windlass.attempts.result import list_problems
from windlass.attempts.state import AgentExecutionState
from windlass.errors import ConfigError, TestBroken, error_text, safe_repr
from windlass.json_types import as_given, is_sequence
from windlass.messages import Message, ToolCall
from windlass.models.base import Response
from windlass.output.plan import OutputPlan
from windlass.output.schema import answer_schema, as_object
from windlass.tools.arguments.validate import Checker
from windlass.usage import NO_USAGE

Output = TypeVar("Output")
ERROR_PROMPT = (
    "Your output did not pass validation:\n{errors}\n"
    "Correct it and call {tool} again with the whole output."
)


class OutputCheck(Generic[Output]):
    """How an output is read, and what it must pass."""

    def __init__(
        self,
        output: object,
        tool: str,
        validators: Sequence[Callable[..., object]],
        error_prompt: str | Callable[..., object] | None,
    ) -> None:
        schema, convert = answer_schema(output, "output")
        sent, wrapped = as_object(schema)
        self.plan = OutputPlan(
            "tool",
            schema,
            sent,
            wrapped,
            tool=tool,
            checker=Checker(schema, "output"),
            convert=convert,
        )
        self.tool, self.parameters = tool, sent
        self.validators = [(each, _takes_state(each)) for each in validators]
        self.error_prompt = error_prompt
        self._prompt_takes_state = callable(error_prompt) and _takes_state(error_prompt)

    def read(self, call: ToolCall) -> tuple[Output | None, tuple[str, ...]]:
        """Return the typed value of an output call, or what does not fit the schema."""
        reading = self.plan.read(Response(Message("assistant", (call,)), NO_USAGE))
        problems = tuple([line.replace("answer", "output", 1) for line in reading.problems])
        return (None if problems else reading.data), problems

    async def validate(self, call: ToolCall, state: AgentExecutionState) -> tuple[str, ...]:
        """Return what is wrong with the output: by its schema, else by its validators."""
        value, problems = self.read(call)
        if problems:
            return problems
        found: list[str] = []
        for validator, takes_state in self.validators:
            found += await _ask(validator, value, state if takes_state else None)
        return tuple(found)

    async def write_error_prompt(self, errors: tuple[str, ...], state: AgentExecutionState) -> str:
        """Write what the model is told of the problems."""
        prompt = self.error_prompt
        if callable(prompt):
            text = prompt(errors, state) if self._prompt_takes_state else prompt(errors)
            if inspect.isawaitable(text):
                text = await text
            if not isinstance(text, str) or not text.strip():
                raise ConfigError(f"error_prompt returns a text, not {safe_repr(text)}")
            return text
        listed = list_problems(errors)
        if prompt is None:
            return ERROR_PROMPT.format(errors=listed, tool=self.tool)
        if "{errors}" in prompt:
            return prompt.replace("{errors}", listed)
        return f"{prompt}\n{listed}"


async def _ask(
    validator: Callable[..., object], value: object, state: AgentExecutionState | None
) -> list[str]:
    """Return the problems that a validator names; what it raises is one."""
    name = getattr(validator, "__name__", type(validator).__name__)
    try:
        answer = validator(value) if state is None else validator(value, state)
        if inspect.isawaitable(answer):
            answer = await answer
    except TestBroken:
        raise
    except Exception as error:
        return [error_text(error) or f"{name}: {type(error).__name__}"]
    if answer is None or answer is True:
        return []
    if answer is False:
        return [f"{name}: the output was refused"]
    if isinstance(answer, str):
        return [answer] if answer.strip() else []
    if is_sequence(answer):
        return [str(problem) for problem in answer]
    kind = safe_repr(answer)
    return [f"{name} returned {kind}: a validator returns None, True, False or problems as text"]


def _takes_state(function: Callable[..., object]) -> bool:
    """Check whether a function wants the state as its second argument."""
    try:
        parameters = inspect.signature(function).parameters.values()
    except (TypeError, ValueError):  # a builtin without a signature
        return False
    positional = [one for one in parameters if one.kind in _POSITIONAL]
    needed = [one for one in positional if one.default is one.empty]
    return len(needed) > 1 or (len(positional) > 1 and positional[1].name == "state")


_POSITIONAL = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)


def check_validators(value: object) -> tuple[Callable[..., object], ...]:
    """Return the validators of a definition, or refuse them."""
    given = as_given(value)
    if not is_sequence(given) or not all([callable(each) for each in given]):
        raise ConfigError(
            f"validators is a list of functions of the output, not {safe_repr(given)}"
        )
    return tuple(cast("Sequence[Callable[..., Any]]", given))
