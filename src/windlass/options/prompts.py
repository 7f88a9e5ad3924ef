"""Every prompt of ours by its id, and the words that somebody puts in its place.

A text of your own is given by the path of its file, as `{"text": …}` or `{"path": …}`, or by a
function that is handed the values and writes it. Ids, files and placeholders are checked before
anything is asked.
"""

from __future__ import annotations

import inspect
import os
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, TypeAlias, TypedDict, Unpack, cast

from windlass.errors import ConfigError, nearest, safe_repr
from windlass.files import read_regular
from windlass.options.checks import no_key, text, words
from windlass.options.prompt_text import Words

if TYPE_CHECKING:
    from windlass.policies.prompt_defaults import Prompt

#: What an override may be: a path, `{"text": …}`, `{"path": …}`, or a function of the values.
PromptSource: TypeAlias = (
    str | os.PathLike[str] | Mapping[str, Any] | Callable[[dict[str, Any]], Any]
)


class PromptOverrides(TypedDict, total=False):
    """The ids as names of Python: `agent_prompt_overrides(agent_nudge={"text": "Go on."})`."""

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
    """Words of your own in place of ours, checked as they are written.

    ```python
    prompts = w.agent_prompt_overrides(
        agent_nudge={"text": "You are not done. Call a tool."},
        agent_completion_judge_system="prompts/judge.md",
    )
    await w.agent_loop("Mend the tests.", model=model, tools=tools, prompts=prompts)
    ```
    A dict with the ids themselves may stand first.
    """
    if overrides is not None and not isinstance(cast("object", overrides), Mapping):
        raise ConfigError(f"prompts are a dict by id, not {safe_repr(overrides)}")
    given: dict[str, PromptSource] = dict(overrides or {})
    ids = {id.replace(".", "_"): id for id in _ours()}
    for name, source in cast("Mapping[str, PromptSource]", named).items():
        if name not in ids:
            raise no_key("agent_prompt_overrides", name, ids)
        if ids[name] in given:
            raise ConfigError(f"{ids[name]} is given twice: as {ids[name]!r} and as {name}")
        given[ids[name]] = source
    check_prompts("prompts", given)
    return given


# --------------------------------------------------------------------------- the option


def check_prompts(name: str, value: Any) -> dict[str, Any] | None:
    """The overrides by id: each a text that was read, or the function that writes it."""
    if value is None:
        return None
    if not isinstance(value, Mapping):
        raise ConfigError(f"{name} is a dict by prompt id, not {safe_repr(value)}")
    found: dict[str, Any] = {}
    ours = _ours()
    for id, source in cast("Mapping[Any, Any]", value).items():
        if id not in ours:
            hint = nearest(id, ours) if isinstance(id, str) else ""
            known = "" if hint else f"; there are {', '.join(ours)}"
            raise ConfigError(f"{name}: there is no prompt {safe_repr(id)}{hint}{known}")
        found[id] = _read(f"{name}[{id!r}]", source)
        if isinstance(found[id], str) and "sentinel" not in ours[id].needs:
            _complete(id, found[id], {})
    return found


def _ours() -> Mapping[str, Prompt]:
    from windlass.policies.prompt_defaults import PROMPTS  # it asks every area for its words

    return PROMPTS


def _read(whose: str, source: Any) -> Any:
    if callable(source):
        return source
    if isinstance(source, Mapping):
        given = cast("Mapping[Any, Any]", source)
        for key in given:
            if key not in ("text", "path"):
                raise no_key(whose, key, ("text", "path"))
        if len(given) != 1:
            raise ConfigError(f"{whose} is given by text or by path: by one of them")
        if "text" in given:
            return text(f"{whose}.text", given["text"])
        source = given["path"]
    place: object = source
    if isinstance(source, os.PathLike):
        place = os.fspath(cast("os.PathLike[str]", source))
    if not isinstance(place, str) or not place:
        raise ConfigError(
            f"{whose} is a path, {{'text': …}}, {{'path': …}} or a function, not {safe_repr(place)}"
        )
    return _file(whose, place)


def _file(whose: str, place: str) -> str:
    """The words of a file. A path that is not absolute begins in the current directory."""
    try:
        found = read_regular(place).decode("utf-8").rstrip("\r\n")
    except (OSError, ValueError) as error:
        why = error.strerror if isinstance(error, OSError) else "it is not text in UTF-8"
        raise ConfigError(
            f"{whose}: {safe_repr(place)} cannot be read ({why}); words themselves are {{'text': …}}"
        ) from None
    return text(whose, found)


# --------------------------------------------------------------------------- in use


def override(options: Mapping[str, Any], id: str) -> Any:
    """What stands in place of a prompt, as it was given: a text, a function, or None."""
    given: Mapping[str, Any] | None = options.get("prompts")
    return None if given is None else given.get(id)


def words_of(options: Mapping[str, Any], id: str, default: str, **values: str) -> Words:
    """The words of a prompt: ours, or yours with the values filled in."""
    given = override(options, id)
    if given is None:
        return default
    if isinstance(given, str):
        return _fill_values(id, given, values)
    return _Writer(id, given, default, values)


def choose_prompt(
    options: Mapping[str, Any], id: str, own: str | None, key: str, default: str, **values: str
) -> Words:
    """The same, for a prompt that has an option of its own too: both at once are refused."""
    if own is None or own == default:
        return words_of(options, id, default, **values)
    if override(options, id) is not None:
        raise ConfigError(f"{key} and prompts[{id!r}] say the same: give one of them")
    return own


class _Writer:
    """A function that writes a prompt, with what it is handed. Its answer is checked as a text is."""

    __slots__ = ("default", "id", "values", "write")

    def __init__(
        self, id: str, write: Callable[[dict[str, Any]], Any], default: str, values: dict[str, str]
    ) -> None:
        self.id, self.write, self.default, self.values = id, write, default, values

    async def __call__(self) -> str:
        answer = self.write({"id": self.id, "default": self.default, **self.values})
        if inspect.isawaitable(answer):
            answer = await answer
        if not isinstance(answer, str) or not answer.strip():
            raise ConfigError(f"prompts[{self.id!r}] wrote no text but {safe_repr(answer)}")
        return _fill_values(self.id, words(f"prompts[{self.id!r}]", answer), self.values)


def _fill_values(id: str, given: str, values: Mapping[str, str]) -> str:
    _complete(id, given, values)
    for name, value in values.items():
        given = given.replace(f"{{{name}}}", value)
    return given


def _complete(id: str, given: str, values: Mapping[str, str]) -> None:
    """Refuse a text without what makes it work: the model would never learn of it."""
    for name in _ours()[id].needs:
        if f"{{{name}}}" not in given and (name not in values or values[name] not in given):
            raise ConfigError(f"prompts[{id!r}] must name {{{name}}}: {safe_repr(given)} does not")
