"""Every mutant: each option, each key of an option that is a dict, each line that reads one of several.

`python -m mutation.mutants` lists them.
"""

from __future__ import annotations

import sys
import typing
from collections import Counter
from collections.abc import Iterator

import msgspec

import windlass
from mutation.lines import lines
from windlass.engine import options as doors

#: Keys of options that stay a dict.
DICT_KEYS = {"thinking": ("mode", "effort", "budget_tokens")}

#: What a door takes for itself before the options are checked: only their lines can be mutated.
BEFORE_THE_CHECKS = frozenset({"system", "judge"})


def known() -> dict[str, object]:
    """Every option that a door takes by name, with its type."""
    found: dict[str, object] = {}
    for name, kind in vars(doors).items():
        if name.endswith(("Options", "Keywords")) and typing.is_typeddict(kind):
            found.update(typing.get_type_hints(kind, localns=_Public()))
    return found


class _Public(dict[str, object]):
    """What is public, by name: some of it only the type checker loads with the options."""

    def __missing__(self, name: str) -> object:
        if name not in windlass.__all__:
            raise KeyError(name)
        return getattr(windlass, name)


def mutants() -> list[str]:
    """All of them by name: `done_judge`, `done_judge.cadence.every`, `done_judge@engine.judge_policies:_gates`."""
    options = known()
    read = list(lines(frozenset(options)))
    count = Counter(line.option for line in read)
    passing = sorted(options.keys() - BEFORE_THE_CHECKS)
    return [
        *passing,
        *(key for option in passing for key in _keys(option, options[option])),
        # where there is one line, the option's own mutant is that line's
        *(str(line) for line in read if count[line.option] > 1 or line.option not in passing),
    ]


def _keys(path: str, kind: object) -> Iterator[str]:
    for key in DICT_KEYS.get(path, ()):
        yield f"{path}.{key}"
    for struct in _structs(kind, nested="." in path):
        for field in msgspec.structs.fields(struct):
            if not field.required:
                yield f"{path}.{field.encode_name}"
                yield from _keys(f"{path}.{field.encode_name}", field.type)


def _structs(kind: object, nested: bool) -> Iterator[type[msgspec.Struct]]:
    """The struct that a dict may stand for: the type says both, or it is a part of such a one."""
    kinds = typing.get_args(kind) or (kind,)
    if nested or any(typing.get_origin(each) is dict for each in kinds):
        for each in kinds:
            if isinstance(each, type) and issubclass(each, msgspec.Struct):
                yield each


if __name__ == "__main__":
    sys.stdout.write("\n".join(mutants()) + "\n")
