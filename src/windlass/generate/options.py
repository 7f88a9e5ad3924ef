"""The options of `generate` that a loop does not have, or has with another meaning."""

from __future__ import annotations

from typing import Annotated, Any, Final, Literal

from windlass.errors import ConfigError
from windlass.json_types import JsonObject
from windlass.options.checks import anything, boolean, number, one_of, optional
from windlass.options.group import Option, OptionStruct, read_options
from windlass.options.index import NAMES
from windlass.options.parse import unknown_option

TOOL_ITERATIONS: Final = 10  # the default number of rounds of tools
#: Options of a loop that `generate` replaces, or has no use for.
REPLACED: Final = {
    "max_iterations": "max_tool_iterations",
    "token_budget": "max_tokens",
    "budget": "max_tokens and max_cost_usd",
    "max_concurrent_tools": "tool_parallelism",
    "messages": "the input itself",
    "persistent": "nothing",
    "daemon": "nothing",
    "persist_path": "nothing",
    "resume_path": "nothing",
    "wake_interval_ms": "nothing",
    "watch_paths": "nothing",
    "consolidate_on_idle": "nothing",
    "idle_watchdog_attempts": "nothing",
    "event_queue_capacity": "nothing",
}


class GenerateOptions(OptionStruct, frozen=True, kw_only=True):
    """The options of `generate` alone."""

    tool_mode: Annotated[Literal["auto", "return"], Option(one_of("auto", "return"))] = "auto"
    """Whether tools are run, or their calls returned."""
    max_tool_iterations: Annotated[int, Option(number(0, whole=True))] = TOOL_ITERATIONS
    """Rounds of tool calls."""
    max_tokens: Annotated[int | None, Option(optional(number(1, whole=True)))] = None
    """Tokens of the whole loop: prompts, replies and what tools answer."""
    max_output_tokens: Annotated[int | None, Option(optional(number(1, whole=True)))] = None
    """Tokens that a reply may have."""
    max_cost_usd: Annotated[float | None, Option(optional(number(0)))] = None
    """Dollars that it may cost."""
    tool_parallelism: Annotated[
        Literal["parallel", "serial"], Option(one_of("parallel", "serial"))
    ] = "parallel"
    """Whether calls of one reply run at the same time."""
    tool_error_mode: Annotated[Literal["recover", "abort"], Option(one_of("recover", "abort"))] = (
        "recover"
    )
    """Whether the model hears of a failed call, or the loop ends."""
    include_tool_trace: Annotated[bool, Option(boolean)] = False
    """Whether the answer holds the steps on the way to it."""
    conversation: Annotated[Any, Option(anything)] = None
    """The conversation that it goes on with."""
    tools: Annotated[Any, Option(anything)] = None
    """Names of tools, or tools; None: all that the caller may use."""
    system: Annotated[Any, Option(anything)] = None
    """The system prompt."""

    @property
    def returns(self) -> bool:
        """Whether calls are returned and not run."""
        return self.tool_mode == "return"


def parse_generate_options(given: JsonObject) -> tuple[GenerateOptions, JsonObject]:
    """Check the options of `generate` alone; those of the loop are returned as they are."""
    own = read_options(GenerateOptions)
    known = NAMES["loop"].union(own)
    for name in given:
        if name in REPLACED:
            raise ConfigError(f"generate has no option {name!r}: it is {REPLACED[name]} here")
        if name not in known:
            raise unknown_option(name, known, "generate")
    checked = {name: own[name].check(name, given[name]) for name in given if name in own}
    loop = {name: value for name, value in given.items() if name not in own}
    return GenerateOptions(**checked), loop
