"""Words of ours that somebody may have put others in place of: a text, or a function that writes it.

Not a policy.
"""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable
from typing import TypeAlias, cast

from windlass.errors import ConfigError, safe_repr

#: A text, or what writes it when it is needed; the function has been given all that it may know.
Words: TypeAlias = str | Callable[[], str | Awaitable[str]]


async def text_of(words: Words) -> str:
    """The text itself."""
    if isinstance(words, str):
        return words
    text = words()
    if inspect.isawaitable(text):
        text = await text
    if not isinstance(cast("object", text), str):
        raise ConfigError(f"a prompt is a text, not {safe_repr(text)}")
    return text
