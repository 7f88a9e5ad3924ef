"""Prompts of ours that somebody may put other words in place of: declared, and as they are used.

Which prompts there are, and how overrides are read, says `policies/prompt_overrides.py`.
"""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, TypeAlias, cast

import msgspec

from windlass.errors import ConfigError, safe_repr
from windlass.json_types import JsonObject
from windlass.options.checks import words

#: A text, or what writes it when it is needed; the function has been given all that it may know.
Words: TypeAlias = str | Callable[[], str | Awaitable[str]]


class Prompt(msgspec.Struct, frozen=True):
    """A built-in prompt: its text, the values it may name in braces, and required ones."""

    default: str
    values: tuple[str, ...] = ()
    needs: tuple[str, ...] = ()
    may_be_empty: bool = False  # an empty text leaves it out


class PromptOverride(msgspec.Struct, frozen=True):
    """An override of a prompt: a text, or the function that writes it."""

    id: str
    source: str | Callable[[JsonObject], Any]
    needs: tuple[str, ...] = ()

    def fill_in(self, text: str, values: Mapping[str, str]) -> str:
        """Put the values in their places in a text that stands for the prompt."""
        self.check_complete(text, values)
        for name, value in values.items():
            text = text.replace(f"{{{name}}}", value)
        return text

    def check_complete(self, text: str, values: Mapping[str, str]) -> None:
        """Refuse a text without what makes it work: the model would never learn of it."""
        for name in self.needs:
            if name == "sentinel" and name not in values:
                continue  # the run ends without one
            if f"{{{name}}}" not in text and (name not in values or values[name] not in text):
                raise ConfigError(
                    f"prompts[{self.id!r}] must name {{{name}}}: {safe_repr(text)} does not"
                )


#: The prompts that somebody replaced, by id.
Prompts: TypeAlias = Mapping[str, PromptOverride] | None


async def text_of(words: Words) -> str:
    """Return the text itself."""
    if isinstance(words, str):
        return words
    text = words()
    if inspect.isawaitable(text):
        text = await text
    if not isinstance(cast("object", text), str):
        raise ConfigError(f"a prompt is a text, not {safe_repr(text)}")
    return text


def override(prompts: Prompts, id: str) -> PromptOverride | None:
    """Return what stands in place of a prompt, or None."""
    return None if prompts is None else prompts.get(id)


def words_of(prompts: Prompts, id: str, default: str, **values: str) -> Words:
    """Return the text of a prompt: the default, or your override with values filled in."""
    given = override(prompts, id)
    if given is None:
        return default
    if isinstance(given.source, str):
        return given.fill_in(given.source, values)
    return _Writer(given, given.source, default, values)


def choose_prompt(
    prompts: Prompts, id: str, own: str | None, key: str, default: str, **values: str
) -> Words:
    """Choose a prompt that also has an option of its own; refuse both at once."""
    if own is None or own == default:
        return words_of(prompts, id, default, **values)
    if override(prompts, id) is not None:
        raise ConfigError(f"{key} and prompts[{id!r}] say the same: give one of them")
    return own


class _Writer:
    """A function that writes a prompt, with its arguments. Its answer is checked like a text."""

    def __init__(
        self,
        prompt: PromptOverride,
        write: Callable[[JsonObject], Any],
        default: str,
        values: dict[str, str],
    ) -> None:
        self.prompt, self.write, self.default, self.values = prompt, write, default, values

    async def __call__(self) -> str:
        id = self.prompt.id
        answer = self.write({"id": id, "default": self.default, **self.values})
        if inspect.isawaitable(answer):
            answer = await answer
        if not isinstance(answer, str) or not answer.strip():
            raise ConfigError(f"prompts[{id!r}] wrote no text but {safe_repr(answer)}")
        return self.prompt.fill_in(words(f"prompts[{id!r}]", answer), self.values)
