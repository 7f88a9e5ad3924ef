"""Plans that agents share which differ in their model alone: programs make such agents again and again."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import FunctionType
from typing import Final, cast

import msgspec

from windlass.engine.model import CONNECTION, RETRIES, with_retries, with_tool_format
from windlass.engine.model_options import ModelOptions
from windlass.loop.plan import Plan
from windlass.models.base import Model
from windlass.models.registry.capabilities import Capabilities
from windlass.models.wrappers.native_tools import Native
from windlass.options.index import OF_A_RUN
from windlass.policies.build import Mode
from windlass.tools.tool import Tool

#: Options that a plan does not depend on, or that are in the key of a shared one already.
_APART: Final = OF_A_RUN.union(CONNECTION, {"deps", "deps_type", "messages", "model", "transcript"})
#: Options of agents that share no plan: they depend on a workspace, or bring tools of their own.
_UNSHARED: Final = frozenset(
    {"approval_policy", "mounts", "permissions", "subagents", "tool_preset", "workspace"}
)
#: Types of values that nobody can change.
_CONSTANT: Final = frozenset({str, int, float, bool, type(None)})
_LISTS: Final = frozenset({list, tuple})
_MOST: Final = 256
_NO_MODEL: Final = Model()


class SharedPlan(msgspec.Struct, frozen=True):
    """A plan, and what it takes to give it to an agent with another model."""

    plan: Plan
    tools: tuple[Tool, ...]  # as they were given
    mode: Mode
    repeated: ModelOptions  # no others than how often a model is asked
    caps: Capabilities  # the key has its id

    def give_to(self, model: Model) -> Plan:
        """Return the plan with this model, wrapped as the plan needs it."""
        options = self.repeated
        if self.mode == "native":  # one wrapper in place of two
            attempts, delay = options.llm_retries, options.llm_backoff_ms
            if attempts is not None:
                attempts += 1
            elif not model.retries_calls:
                attempts = RETRIES + 1
            model = Native(model, attempts, None if delay is None else delay / 1000)
        else:
            model = with_tool_format(with_retries(model, options), self.mode)
        return msgspec.structs.replace(self.plan, model=model)


_plans: dict[tuple[object, ...], SharedPlan] = {}


def build_key(
    values: Mapping[str, object], system: str | None, door: str, model: Model
) -> tuple[object, ...] | None:
    """Return all that a plan depends on beside its model; None for what may change unseen."""
    key: list[object] = [door, system, model.provider, model.native_tools, id(model.capabilities)]
    for name, value in values.items():
        if name in _APART:
            continue
        kind = type(value)
        if kind in _CONSTANT and name not in _UNSHARED:
            key += (name, value, kind)  # 1, 1.0 and True are equal
        elif name == "tools" and kind in _LISTS:
            tools = cast("Sequence[object]", value)
            for tool in tools:
                if type(tool) is not FunctionType and not isinstance(tool, Tool):
                    return None
            key += tools
        else:
            return None
    return tuple(key)


def find_shared(key: tuple[object, ...]) -> SharedPlan | None:
    """Return the plan of agents like this one."""
    shared = _plans.get(key)
    return shared if shared is not None and may_share(shared.tools) else None


def may_share(tools: Sequence[Tool]) -> bool:
    """Check whether agents may share a plan with these tools."""
    for tool in tools:  # noqa: SIM110 - done for every agent: `any` takes three times as long
        # Flow control reads annotations, and a program may change them.
        if tool.annotations:
            return False
    return True


def keep_shared(key: tuple[object, ...], shared: SharedPlan) -> None:
    """Keep a plan for other agents."""
    if len(_plans) >= _MOST:
        _plans.clear()
    # Without its model: who holds a model holds its key, too.
    _plans[key] = msgspec.structs.replace(shared, plan=shared.plan.of(_NO_MODEL))
