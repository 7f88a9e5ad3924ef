"""The options of skills, and the policy that they ask for."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeAlias, TypedDict, cast

from windlass.errors import ConfigError, nearest, safe_repr
from windlass.loop.policy import Policy
from windlass.options.checks import (
    boolean,
    check_struct,
    function,
    number,
    one_of,
    text,
    texts,
    words,
)
from windlass.policies.build import About
from windlass.policies.skills.skill import (
    Skill,
    SkillMatch,
    SkillRegistry,
    check_allowed,
    fits_name,
)
from windlass.tools.function import as_tools

#: A skill, its keys, a folder of them, or several of these.
SkillSource: TypeAlias = (
    SkillRegistry | Skill | Mapping[str, Any] | str | os.PathLike[str] | Sequence[Any]
)


class SkillOptions(TypedDict, total=False):
    """Which skills there are, and how they are chosen."""

    skills: SkillSource | None
    skill_match: dict[str, Any] | SkillMatch
    working_files: str | Sequence[str]


_Check = Callable[[str, Any], Any]


# --------------------------------------------------------------------------- skills


def skill_define(name: str, options: Mapping[str, Any] | None = None, /, **fields: Any) -> Skill:
    """A skill: what it is found by, what it says, which tools go with it.

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
    given = {**(options or {}), **fields}
    if given.setdefault("name", name) != name:
        raise ConfigError(
            f"a skill has one name, not both {safe_repr(name)} and {safe_repr(given['name'])}"
        )
    if not fits_name(name):
        raise ConfigError(
            f"a skill's name has up to 128 characters, none of them < > \" & / or \\, not {safe_repr(name)}"
        )
    return _DEFINED(f"skill {name!r}", given)


def skill_registry(*skills: SkillSource) -> SkillRegistry:
    """Skills by name: those that you define, and those of folders with a SKILL.md each.

    ```python
    registry = w.skill_registry("skills", ship)
    for problem in registry.problems:
        print(problem)  # what was wrong with files; nothing here ends a program
    ```
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
            from windlass.policies.skills.loader import skills_in

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
    from windlass.policies.skills.globs import Glob

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


_DEFINED: _Check = check_struct(
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


def _skills(name: str, value: Any) -> SkillRegistry | None:
    if value is None or isinstance(value, SkillRegistry):
        return value
    return skill_registry(value)


def _invoke(name: str, value: Any) -> tuple[str, ...]:
    return texts(name, [value] if isinstance(value, str) else value)


_FIELDS: _Check = check_struct(
    SkillMatch,
    {
        "strategy": one_of("metadata", "host", "embedding"),
        "top_n": number(1, whole=True),
        "sticky": boolean,
        "matcher": function,
        "invoke": _invoke,
    },
    flag=False,
)


def _match(name: str, value: Any) -> SkillMatch | None:
    match: SkillMatch | None = _FIELDS(name, value)
    if match is not None:
        asks = match.strategy != "metadata"
        if asks and match.matcher is None:
            raise ConfigError(
                f"{name}.strategy {match.strategy!r} asks a matcher of yours: give one as {name}.matcher"
            )
        if not asks and match.matcher is not None:
            raise ConfigError(f'{name}.matcher is asked with strategy "host"; give that too')
    return match


def _files(name: str, value: Any) -> tuple[str, ...]:
    several = isinstance(value, (list, tuple))
    given = cast("list[Any]", value if several else [value])
    return texts(name, [os.fspath(p) if hasattr(p, "__fspath__") else p for p in given])


CHECKS: dict[str, _Check] = {
    "skills": _skills,
    "skill_match": _match,
    "working_files": _files,
}


def policies(about: About) -> list[Policy[Any]]:
    """The policies that these options ask for."""
    registry: SkillRegistry | None = about.options.get("skills")
    if registry is None:
        for name in ("skill_match", "working_files"):
            if about.options.get(name) and "skills" not in about.options:
                raise ConfigError(f"{name} is about skills, and there are none: give skills too")
        return []
    match: SkillMatch = about.options.get("skill_match") or SkillMatch()
    for name in match.invoke:
        _may_be_invoked(registry, name)
    from windlass.policies.skills.policy import GatedSkills, Skills

    own = {tool.name for tool in as_tools(about.options.get("tools"))}
    tools = [tool for tool in about.tools if tool.name in own]
    gated = any(skill.allowed_tools or skill.files for skill in registry)
    kind = GatedSkills if gated else Skills
    return [kind(registry, match, about.options.get("working_files") or (), tools)]


def _may_be_invoked(registry: SkillRegistry, name: str) -> None:
    skill = registry.get(name)
    if skill is None:
        raise ConfigError(
            f"skill_match.invoke names {name!r}, which is no skill{nearest(name, registry.names)}"
        )
    if not skill.user_invocable:
        raise ConfigError(f"skill {name!r} is not user-invocable: it cannot be invoked by name")
