"""What the assembly of an area may know of the run to be."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from windlass.models.base import Model
from windlass.models.registry.capabilities import Capabilities
from windlass.policies.completion import Mode
from windlass.tools.tool import Tool


class About(NamedTuple):
    """The options, checked, and what has been made of them so far."""

    options: Mapping[str, Any]
    tools: tuple[Tool, ...]  # all that can be called, offered or not
    mode: Mode
    bound: bool  # is there a limit to what the model takes?
    caps: Capabilities | None  # of the model, as far as it is known here
    turns: int | None  # that a run may take at most
    sentinel: str | None  # the word that ends a run, where there is one
    named: Callable[[str | None, str | Model | None], Model]  # the model that a setting names
