"""What a behaviour may know of the run when it builds its policy."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from typing import Any, Literal, TypeAlias

import msgspec

from windlass.errors import ConfigError, nearest
from windlass.json_types import JsonObject
from windlass.loop.ledger import Budget
from windlass.loop.policy import Policy
from windlass.loop.run import Run
from windlass.models.base import Model
from windlass.models.registry.capabilities import Capabilities
from windlass.options.group import Values
from windlass.options.prompts import PromptOverride
from windlass.policies.turn_limit.options import Turns
from windlass.tools.tool import Tool

#: How tools are called: through the provider, in the text, or there are none.
Mode: TypeAlias = Literal["native", "text", "none"]
#: Puts changed options into effect in the middle of a run: `await change(run, options, llm_options)`.
ChangeOptions: TypeAlias = Callable[[Run, JsonObject, JsonObject], Awaitable[None]]
#: The model that a behaviour's own settings name: `resolve(provider, model)`.
ModelResolver: TypeAlias = Callable[[str | None, str | Model | None], Model]
#: What a behaviour builds: the policies that its options ask for, in their order.
Policies: TypeAlias = Sequence[Policy[Any]]


class BuildContext(msgspec.Struct, eq=False, kw_only=True):
    """The checked options, and what was built from them so far."""

    values: Values
    door: str
    tools: tuple[Tool, ...]
    """All tools that can be called, offered or not."""
    given_tools: tuple[Tool, ...]
    """Those of them that the options name."""
    mode: Mode
    caps: Capabilities
    limits: Budget
    turns: Turns | None
    """The limit on turns, where it is more than a number."""
    sentinel: str | None
    """The word that ends a run, where there is one."""
    prompts: Mapping[str, PromptOverride] | None
    user_policies: tuple[Policy[Any], ...]
    reads_text_calls: bool
    """Whether calls are read out of text."""
    resolve_model: ModelResolver
    change_options: ChangeOptions
    answer: Policy[Any] | None = None
    """What asks for an answer of a type."""
    tool_search: Policy[Any] | None = None
    """What discloses deferred tools."""
    may_suspend: bool = False
    """Whether the model may suspend its run."""

    def check_tool_names(self, option: str, names: Iterable[str]) -> None:
        """Refuse names that no tool has, unless policies of the user may bring some."""
        if self.user_policies:
            return
        known = {tool.name for tool in (*self.tools, *self.given_tools)}
        for name in names:
            if name not in known:
                raise ConfigError(
                    f"{option} names {name!r}, which no tool is{nearest(name, known)}"
                )

    @property
    def max_turns(self) -> int | None:
        """Turns that a run may take at most."""
        return self.limits.iterations if self.turns is None else self.turns.max
