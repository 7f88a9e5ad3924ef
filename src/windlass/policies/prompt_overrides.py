"""Prompts of Windlass by id, and the texts that replace them.

A text of yours is the path of a file, `{"text": …}`, `{"path": …}`, or a function that gets the
values and returns it. Ids, files and placeholders are checked before the first model call.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from typing import Annotated, Any, Final, TypeAlias, TypedDict, Unpack, cast

from windlass.errors import ConfigError, nearest, safe_repr
from windlass.files import read_regular
from windlass.json_types import JsonObject
from windlass.models.wrappers.text_tools import CONTRACT
from windlass.options.checks import no_key, text
from windlass.options.group import Option, OptionGroup
from windlass.options.prompts import Prompt, PromptOverride
from windlass.policies.closing_answer import WORDS as CLOSING
from windlass.policies.compaction.summary_prompt import RULES, TASK
from windlass.policies.completion import ACT, CONTRACTS, NUDGES
from windlass.policies.judges.options import SYSTEM as JUDGE
from windlass.policies.judges.step import SYSTEM as STEP_JUDGE
from windlass.policies.native_tools import WORDS as FALLBACK
from windlass.policies.quoted_calls import WORDS as QUOTED
from windlass.policies.scratchpad.render import SYSTEM as SCRATCHPAD
from windlass.policies.tool_narrowing import LINE

#: A behaviour adds its prompt here, asks `words_of` for it, and adds the name to `PromptOverrides`.
PROMPTS: Final[dict[str, Prompt]] = {
    "agent.loop_contract": Prompt(
        CONTRACTS["native"], ("sentinel",), ("sentinel",), may_be_empty=True
    ),
    "agent.tool_contract_text": Prompt(CONTRACT, ("tools",), ("tools",)),
    "agent.completion_judge_system": Prompt(JUDGE),
    "agent.done_judge_system": Prompt(JUDGE),
    "agent.step_judge_system": Prompt(STEP_JUDGE),
    "agent.nudge": Prompt(NUDGES["native"], ("sentinel",)),
    "agent.action_required": Prompt(ACT, ("sentinel",)),
    "agent.native_tool_fallback": Prompt(FALLBACK),
    "agent.quoted_tool_call": Prompt(QUOTED),
    "agent.continue": Prompt("Continue."),
    "agent.closing_answer": Prompt(CLOSING),
    "agent.compaction_system": Prompt(TASK),
    "agent.compaction_instructions": Prompt(RULES),
    "agent.scratchpad_system": Prompt(SCRATCHPAD),
    "agent.hidden_tools": Prompt(LINE, ("tools",), ("tools",)),
}


#: What an override may be: a path, `{"text": …}`, `{"path": …}`, or a function of the values.
PromptSource: TypeAlias = str | os.PathLike[str] | Mapping[str, Any] | Callable[[JsonObject], Any]


class PromptOverrides(TypedDict, total=False):
    """Ids of prompts as Python names: `agent_prompt_overrides(agent_nudge={"text": "Go"})`."""

    agent_loop_contract: PromptSource
    agent_tool_contract_text: PromptSource
    agent_completion_judge_system: PromptSource
    agent_done_judge_system: PromptSource
    agent_step_judge_system: PromptSource
    agent_nudge: PromptSource
    agent_action_required: PromptSource
    agent_native_tool_fallback: PromptSource
    agent_quoted_tool_call: PromptSource
    agent_continue: PromptSource
    agent_closing_answer: PromptSource
    agent_compaction_system: PromptSource
    agent_compaction_instructions: PromptSource
    agent_scratchpad_system: PromptSource
    agent_hidden_tools: PromptSource


def agent_prompt_overrides(
    overrides: Mapping[str, PromptSource] | None = None, /, **named: Unpack[PromptOverrides]
) -> dict[str, PromptSource]:
    """Build a checked value for the option `prompts`.

    ```python
    prompts = w.agent_prompt_overrides(
        agent_nudge={"text": "You are not done. Call a tool."},
        agent_completion_judge_system="prompts/judge.md",
    )
    await w.agent_loop("Mend the tests.", model=model, tools=tools, prompts=prompts)
    ```
    The first argument may be a dict with the ids themselves. An unknown id raises `ConfigError`.
    """
    if overrides is not None and not isinstance(cast("object", overrides), Mapping):
        raise ConfigError(f"prompts are a dict by id, not {safe_repr(overrides)}")
    given: dict[str, PromptSource] = dict(overrides or {})
    ids = {id.replace(".", "_"): id for id in PROMPTS}
    for name, source in cast("Mapping[str, PromptSource]", named).items():
        if name not in ids:
            raise no_key("agent_prompt_overrides", name, ids)
        if ids[name] in given:
            raise ConfigError(f"{ids[name]} is given twice: as {ids[name]!r} and as {name}")
        given[ids[name]] = source
    check_prompts("prompts", given)
    return given


# --------------------------------------------------------------------------- the option


def check_prompts(name: str, value: Any) -> dict[str, PromptOverride] | None:
    """Check overrides by id, and read the files that they name."""
    if value is None:
        return None
    if not isinstance(value, Mapping):
        raise ConfigError(f"{name} is a dict by prompt id, not {safe_repr(value)}")
    found: dict[str, PromptOverride] = {}
    for id, source in cast("Mapping[Any, Any]", value).items():
        if id not in PROMPTS:
            hint = nearest(id, PROMPTS) if isinstance(id, str) else ""
            known = "" if hint else f"; there are {', '.join(PROMPTS)}"
            raise ConfigError(f"{name}: there is no prompt {safe_repr(id)}{hint}{known}")
        is_empty = source == {"text": ""} and PROMPTS[id].may_be_empty
        read = "" if is_empty else _read(f"{name}[{id!r}]", source)
        found[id] = PromptOverride(id, read, PROMPTS[id].needs)
        if isinstance(read, str) and "sentinel" not in PROMPTS[id].needs:
            found[id].check_complete(read, {})
    return found


def _read(label: str, source: Any) -> Any:
    if callable(source):
        return source
    if isinstance(source, Mapping):
        given = cast("Mapping[Any, Any]", source)
        for key in given:
            if key not in ("text", "path"):
                raise no_key(label, key, ("text", "path"))
        if len(given) != 1:
            raise ConfigError(f"{label} is given by text or by path: by one of them")
        if "text" in given:
            return text(f"{label}.text", given["text"])
        source = given["path"]
    place: object = source
    if isinstance(source, os.PathLike):
        place = os.fspath(cast("os.PathLike[str]", source))
    if not isinstance(place, str) or not place:
        raise ConfigError(
            f"{label} is a path, {{'text': …}}, {{'path': …}} or a function, not {safe_repr(place)}"
        )
    return _file(label, place)


def _file(label: str, place: str) -> str:
    """Read the text of a file; a relative path begins in the current directory."""
    try:
        found = read_regular(place).decode("utf-8").rstrip("\r\n")
    except (OSError, ValueError) as error:
        why = error.strerror if isinstance(error, OSError) else "it is not text in UTF-8"
        raise ConfigError(
            f"{label}: {safe_repr(place)} cannot be read ({why}); words themselves are {{'text': …}}"
        ) from None
    return text(label, found)


class PromptOptions(OptionGroup, frozen=True, kw_only=True):
    """Your own prompts in place of ours."""

    prompts: Annotated[
        dict[str, PromptOverride] | None,
        Option(
            check_prompts,
            aliases=("prompt_overrides",),
            accepts="Mapping[str, PromptSource] | None",
            in_file=False,
            choice="nudge",
        ),
    ] = None
    """Prompts by id: a path, `{"text": …}`, `{"path": …}` or a function that returns the text."""
