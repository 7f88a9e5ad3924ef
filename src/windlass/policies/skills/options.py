"""The options of skills, and skills as a program defines them."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import Annotated, Any, TypeAlias, cast

from windlass.errors import ConfigError, safe_repr
from windlass.options.checks import boolean, check_struct, function, text, texts, words
from windlass.options.group import Check, Option, OptionGroup, struct
from windlass.policies.skills.globs import Glob
from windlass.policies.skills.loader import skills_in
from windlass.policies.skills.skill import (
    Skill,
    SkillMatch,
    SkillRegistry,
    check_allowed,
    fits_name,
)

#: A skill, its keys, a folder of them, or several of these.
SkillSource: TypeAlias = (
    SkillRegistry | Skill | Mapping[str, Any] | str | os.PathLike[str] | Sequence[Any]
)


# --------------------------------------------------------------------------- skills


def skill_define(name: str, options: Mapping[str, Any] | None = None, /, **fields: Any) -> Skill:
    """Define a skill: the texts by which it is matched, its instructions, and its tools.

    ```python
    ship = w.skill_define(
        "ship",
        description="Ship a production release",
        when_to_use="User says ship, release or deploy",
        paths=["infra/**", "Dockerfile"],
        allowed_tools=["deploy_service"],
        prompt="Follow the deploy runbook. One command at a time.",
    )
    ```
    Keys may be written as in a SKILL.md: `skill_define("ship", {"allowed-tools": ["deploy"]})`.
    """
    if options is not None and not isinstance(cast("object", options), Mapping):
        raise ConfigError(f"the keys of a skill are a dict, not {safe_repr(options)}")
    keys = {**(options or {}), **fields}
    if keys.setdefault("name", name) != name:
        raise ConfigError(
            f"a skill has one name, not both {safe_repr(name)} and {safe_repr(keys['name'])}"
        )
    if not fits_name(name):
        raise ConfigError(
            f"a skill's name has up to 128 characters, none of them < > \" & / or \\, not {safe_repr(name)}"
        )
    return _DEFINED(f"skill {name!r}", keys)


def skill_registry(*skills: SkillSource) -> SkillRegistry:
    """Collect skills by name: skills that you define, and folders with a SKILL.md.

    ```python
    registry = w.skill_registry("skills", ship)
    for problem in registry.problems:
        print(problem)
    ```
    A file that cannot be read is in `registry.problems`; two skills with one name raise
    `ConfigError`.
    """
    found: list[Skill] = []
    problems: list[str] = []
    for one in skills:
        _collect("skills", one, found, problems, 0)
    return SkillRegistry(found, problems)


def _collect(name: str, value: Any, found: list[Skill], problems: list[str], depth: int) -> None:
    match value:
        case Skill():
            found.append(value)
        case SkillRegistry():
            found += value
            problems += value.problems
        case str() | os.PathLike():
            read = skills_in(text(name, os.fspath(cast("str", value))))
            found += read.skills
            problems += read.problems
        case Mapping():
            keys = cast("Mapping[str, Any]", value)
            if "name" not in keys:
                raise ConfigError(f"{name}: a skill needs a name, and {safe_repr(keys)} has none")
            found.append(skill_define(keys["name"], keys))
        case list() | tuple() if depth < 8:
            for one in cast("Sequence[Any]", value):
                _collect(name, one, found, problems, depth + 1)
        case _:
            raise ConfigError(
                f"{name} is a registry, a skill, a list of skills, or the path of a folder of them, "
                f"not {safe_repr(value)}"
            )


def _several(name: str, value: Any) -> tuple[str, ...]:
    return texts(name, value.replace(",", " ").split() if isinstance(value, str) else value)


def _paths(name: str, value: Any) -> tuple[str, ...]:
    patterns = texts(name, [value] if isinstance(value, str) else value)
    for pattern in patterns:
        try:
            Glob(pattern)
        except ValueError as error:
            raise ConfigError(f"{name}: {safe_repr(pattern)}: {error}") from None
    return patterns


def _dict(name: str, value: Any) -> dict[str, Any]:
    if not isinstance(value, Mapping):
        raise ConfigError(f"{name} is a dict, not {safe_repr(value)}")
    return dict(cast("Mapping[str, Any]", value))


_DEFINED: Check = check_struct(
    Skill,
    {
        "name": text,
        "description": words,
        "when_to_use": words,
        "paths": _paths,
        "allowed_tools": lambda name, value: check_allowed(name, _several(name, value)),
        "prompt": words,
        "disable_model_invocation": boolean,
        "user_invocable": boolean,
        "mcp": _several,
        "on_activate": function,
        "on_deactivate": function,
        "license": words,
        "compatibility": words,
        "metadata": _dict,
    },
    {
        "when-to-use": "when_to_use",
        "allowed-tools": "allowed_tools",
        "disable-model-invocation": "disable_model_invocation",
        "user-invocable": "user_invocable",
        "on-activate": "on_activate",
        "on-deactivate": "on_deactivate",
    },
    flag=False,
)


# --------------------------------------------------------------------------- options


def _check_skills(name: str, value: Any) -> SkillRegistry | None:
    if value is None or isinstance(value, SkillRegistry):
        return value
    return skill_registry(value)


_check_struct = struct(SkillMatch, flag=False)


def _check_match(name: str, value: Any) -> SkillMatch | None:
    match: SkillMatch | None = _check_struct(name, value)
    if match is not None:
        asks = match.strategy != "metadata"
        if asks and match.matcher is None:
            raise ConfigError(
                f"{name}.strategy {match.strategy!r} asks a matcher of yours: give one as {name}.matcher"
            )
        if not asks and match.matcher is not None:
            raise ConfigError(f'{name}.matcher is asked with strategy "host"; give that too')
    return match


def _check_files(name: str, value: Any) -> tuple[str, ...]:
    several = isinstance(value, (list, tuple))
    given = cast("list[Any]", value if several else [value])
    return texts(name, [os.fspath(p) if hasattr(p, "__fspath__") else p for p in given])


class SkillOptions(OptionGroup, frozen=True, kw_only=True):
    """Skills."""

    skills: Annotated[SkillRegistry | None, Option(_check_skills, accepts="SkillSource | None")] = (
        None
    )
    """Skills: a skill, several, a registry, or a folder with a SKILL.md."""
    skill_match: Annotated[
        SkillMatch | None,
        Option(_check_match, accepts="dict[str, Any] | SkillMatch | None", in_file=False),
    ] = None
    """How skills are matched."""
    working_files: Annotated[
        tuple[str, ...], Option(_check_files, accepts="str | Sequence[str]", in_file=False)
    ] = ()
    """Files that the run works on; the paths of skills are matched with them."""
