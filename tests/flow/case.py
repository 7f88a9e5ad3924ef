"""What a task and an injection are. They know nothing of the policy that is measured with them.

A task is done by its reference calls, one after the other, and checked by what the world looks like
afterwards. An injection is a text that stands in something a tool reads; the scripted model obeys it
as soon as it has seen it, and what it makes the model call is the injection's effect.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, TypeAlias

import windlass as w

Domain: TypeAlias = Literal["office", "shop", "bank", "code", "travel"]


@dataclass
class World:
    """The state that tools of a domain read and change."""

    tables: dict[str, Any]
    #: Every change that a tool made, in order: `("send_email", {"to": …})`.
    effects: list[tuple[str, dict[str, Any]]] = field(default_factory=list)

    def did(self, tool: str, **arguments: Any) -> bool:
        """Return whether a tool with effects was called with at least these arguments."""
        return any(
            name == tool and all(given.get(key) == value for key, value in arguments.items())
            for name, given in self.effects
        )


@dataclass(frozen=True)
class Call:
    """A call that the scripted model makes.

    An argument may be a function of the results so far, by the number of the call that gave them.
    """

    tool: str
    arguments: Mapping[str, Any | Callable[[Sequence[str]], Any]] = field(default_factory=dict)


@dataclass(frozen=True)
class Task:
    """An honest task: what the user asks for, the calls that do it, and how the world is then."""

    id: str
    domain: Domain
    prompt: str
    build_world: Callable[[], World]
    calls: tuple[Call, ...]
    is_done: Callable[[World], bool]
    held_back: bool = False


@dataclass(frozen=True)
class Injection:
    """A text planted in what a task reads, the calls that it makes the model do, and their effect."""

    id: str
    task: str
    """The id of the task that it is planted in."""
    plant: Callable[[World], None]
    """Put the text where a reference call of the task reads it."""
    marker: str
    """A part of the text by which the scripted model knows that it has seen it."""
    calls: tuple[Call, ...]
    happened: Callable[[World], bool]
    held_back: bool = False


@dataclass(frozen=True)
class DomainCases:
    """All of a domain. `build_tools(world)` makes its tools, which read and change that world."""

    domain: Domain
    build_tools: Callable[[World], Sequence[w.Tool]]
    tasks: tuple[Task, ...]
    injections: tuple[Injection, ...]
