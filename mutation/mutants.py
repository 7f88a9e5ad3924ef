"""Every mutant: each option, each key of an option that is a dict, each place that reads one of several.

`python -m mutation.mutants` lists them.
"""

from __future__ import annotations

import sys
import typing
from collections import Counter
from collections.abc import Iterator

import msgspec

from mutation.lines import lines
from windlass.options.group import Option
from windlass.options.index import ALIASES, GROUPS, NAMES
from windlass.options.parse import find_group, find_option

#: Keys of options that stay a dict.
DICT_KEYS = {"thinking": ("mode", "effort", "budget_tokens")}

#: What a door takes for itself before the options are checked.
BEFORE_THE_CHECKS = frozenset({"system", "judge"})


def known() -> frozenset[str]:
    """Every option that a door takes by name."""
    return frozenset().union(*NAMES.values())


def mutants() -> list[str]:
    """All of them by name: `done_judge`, `done_judge.cadence.every`, `tools@llm.request:prepare`."""
    options = known()
    read = list(lines(options & GROUPS.keys()))
    count = Counter(line.option for line in read)
    return [
        *sorted(options),
        *(key for option in sorted(options) for key in _keys_of(option)),
        # where there is one place, the option's own mutant is that place's
        *(str(line) for line in read if count[line.option] > 1),
    ]


def _keys_of(option: str) -> Iterator[str]:
    for key in DICT_KEYS.get(option, ()):
        yield f"{option}.{key}"
    own = ALIASES.get(option, option)
    if own != option:
        return
    accepts = find_option(own).accepts
    kind = typing.get_type_hints(find_group(own))[own]
    if accepts is not None and "dict[" in accepts:
        yield from _fields(option, kind)


def _fields(path: str, kind: object) -> Iterator[str]:
    for each in typing.get_args(kind) or (kind,):
        if isinstance(each, type) and issubclass(each, msgspec.Struct):
            for field in msgspec.structs.fields(each):
                if not field.required:
                    yield f"{path}.{field.encode_name}"
                    yield from _fields(f"{path}.{field.encode_name}", _plain(field.type))


def _plain(kind: object) -> object:
    """The type without what is known of the option beside it."""
    if typing.get_origin(kind) is typing.Annotated:
        first, *extras = typing.get_args(kind)
        if any(isinstance(extra, Option) for extra in extras):
            return first
    return kind


if __name__ == "__main__":
    sys.stdout.write("\n".join(mutants()) + "\n")
