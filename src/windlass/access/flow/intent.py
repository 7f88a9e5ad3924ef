"""Whether the user asked for what a call does, and for this object and this choice of it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from windlass.access.flow.actions import action_of
from windlass.access.flow.call_values import Leaf
from windlass.access.flow.roles import choices_of
from windlass.access.flow.words import UserWords
from windlass.json_types import is_mapping


def check_intent(
    tool: str,
    parameters: Mapping[str, Any],
    arguments: Mapping[str, Any],
    leaves: Sequence[Leaf],
    user: UserWords,
) -> Iterator[str]:
    """Yield the ways in which a call is not what the user asked for."""
    fields: Mapping[str, Any] = parameters.get("properties") or {}
    yield from _find_missed_choices(fields, arguments, user)
    action = action_of(tool)
    if action is not None:
        places = user.find_action(action)
        choices = [
            place
            for leaf in leaves
            if _is_choice(leaf)
            for place in user.find_choice(str(leaf.value))
        ]
        if not places and not choices:
            yield f"the user did not ask to {action} anything"
    yield from _find_mixed_up(tool, leaves, user)


def _find_missed_choices(
    fields: Mapping[str, Any], arguments: Mapping[str, Any], user: UserWords
) -> Iterator[str]:
    """Yield what is left at its default where the user said something else."""
    for name, schema in fields.items():
        if not is_mapping(schema) or schema.get("default") is None:
            continue
        default = schema["default"]
        if arguments.get(name, default) != default:
            continue
        if isinstance(default, bool):
            wanted = user.wants_switch(name)
            if wanted is not None and wanted is not default:
                yield f"{name} is {default}, and the user said otherwise"
            continue
        choices = [one for one in choices_of(schema) if isinstance(one, str)]
        said = [one for one in choices if user.find_exact_choice(one)]
        if default in choices and said and default not in said:
            yield f"{name} is {default!r}, and the user said {', '.join(map(repr, said))}"


def _is_choice(leaf: Leaf) -> bool:
    return isinstance(leaf.value, str) and leaf.value in choices_of(leaf.schema)


def _find_mixed_up(tool: str, leaves: Sequence[Leaf], user: UserWords) -> Iterator[str]:
    """Yield the choices that the user made for another object, and objects for another choice.

    "R-74: reject, R-75: exchange" is no order to exchange R-74.
    """
    objects = [leaf for leaf in leaves if leaf.role == "target" and user.says(str(leaf.value))]
    anchors = [place for leaf in objects for place in user.places_of(str(leaf.value))]
    for leaf in leaves:
        if not _is_choice(leaf):
            continue
        value = str(leaf.value)
        places = user.find_choice(value)
        rivals = [
            user.find_exact_choice(one)
            for one in choices_of(leaf.schema)
            if isinstance(one, str) and one != value
        ]
        rivals = [found for found in rivals if found]
        if rivals and not user.find_exact_choice(value):
            yield f"the user said another {leaf.name} than {value!r}"
        elif places and anchors and not user.is_nearer(places, rivals, anchors):
            yield f"the user said {leaf.name} {value!r} of something else"
        for one in objects:
            named = str(one.value)
            rivals = [user.places_of(other) for other in user.find_alike(named, one.name, tool)]
            mine = user.places_of(named)
            if places and rivals and not user.is_nearer(mine, rivals, places, slack=True):
                yield f"the user said {leaf.name} {value!r} of another object than {named!r}"
