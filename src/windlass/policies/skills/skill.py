"""Skills as data: the texts by which they are matched, instructions, and tools."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from typing import Annotated, Any, Final

import msgspec

from windlass.errors import ConfigError, nearest, safe_repr
from windlass.options.checks import boolean, function, number, one_of, texts
from windlass.options.group import Option, OptionStruct
from windlass.records import NamedFields

Hook = Callable[..., Any]

NAMESPACE: Final = "namespace:"
_NAME = re.compile(r'[^\x00-\x20<>"&/\\]([^\x00-\x1f\x7f<>"&/\\]{0,126}[^\x00-\x20<>"&/\\])?')


class Skill(msgspec.Struct, metaclass=NamedFields, frozen=True, kw_only=True):
    """A skill, made by `skill_define("ship", description="Ship a release", prompt="…")`."""

    name: str
    description: str = ""  # what it is found by
    when_to_use: str = ""  # what it is found by as well
    paths: tuple[str, ...] = ()  # globs: work on such files activates it
    allowed_tools: tuple[str, ...] = ()  # names, `*`, `namespace:<tag>`
    prompt: str = ""
    disable_model_invocation: bool = False  # only a host brings it in, by its name
    user_invocable: bool = True  # may a host?
    mcp: tuple[str, ...] = ()  # servers it needs; for hosts
    on_activate: Hook | None = None
    on_deactivate: Hook | None = None
    license: str | None = None
    compatibility: str | None = None
    metadata: dict[str, Any] = {}
    extra: dict[str, Any] = {}  # unknown keys of a SKILL.md
    folder: str | None = None  # where it was read
    files: tuple[str, ...] = ()  # what lies beside its SKILL.md, by paths within the folder

    @property
    def origin(self) -> str:
        """A description of where the skill comes from."""
        if self.folder is not None:
            return f"the folder {self.folder}"
        about = f" ({self.description[:60]!r})" if self.description else ""
        return f"one that was defined{about}"


def fits_name(name: object) -> bool:
    """Check whether a skill may have this name, which prompts and commands contain."""
    return isinstance(name, str) and _NAME.fullmatch(name) is not None and name.isprintable()


def check_allowed(label: str, entries: Iterable[str]) -> tuple[str, ...]:
    """Check the entries of `allowed_tools`."""
    checked = tuple(dict.fromkeys(entries))
    for entry in checked:
        if ":" in entry and not (entry.startswith(NAMESPACE) and entry != NAMESPACE):
            raise ConfigError(
                f"{label} is a list of tools' names, '*' or 'namespace:<tag>', not {safe_repr(entry)}"
            )
    return checked


class Scoring(msgspec.Struct, frozen=True, gc=False):
    """A skill as your own matcher sees it."""

    name: str
    description: str
    when_to_use: str
    paths: tuple[str, ...]


class SkillQuery(msgspec.Struct, frozen=True, gc=False):
    """The argument of your own matcher: which of `skills` match `prompt`?"""

    prompt: str
    skills: tuple[Scoring, ...]
    working_files: tuple[str, ...]
    active: tuple[str, ...]  # those that are on
    top_n: int


def _check_names(name: str, value: Any) -> tuple[str, ...]:
    return texts(name, [value] if isinstance(value, str) else value)


class SkillMatch(OptionStruct, frozen=True, kw_only=True):
    """How skills are chosen: `SkillMatch(top_n=2, sticky=False)`."""

    strategy: Annotated[str, Option(one_of("metadata", "host", "embedding"))] = "metadata"
    """How skills are matched: by their texts, or by a matcher of yours (`host`, `embedding`)."""
    top_n: Annotated[int, Option(number(1, whole=True))] = 1
    """How many skills may be active at the same time."""
    sticky: Annotated[bool, Option(boolean)] = True
    """Whether they are chosen once, when a run begins; False: before every turn."""
    matcher: Annotated[Callable[[SkillQuery], Any] | None, Option(function)] = None
    """A function that ranks skills."""
    invoke: Annotated[tuple[str, ...], Option(_check_names)] = ()
    """Names of skills that are activated without matching."""


# The skills of a program, by name; and what was wrong with those that could not be read.


class SkillRegistry:
    """Skills by name, in order; made by `skill_registry(…)`.

    ```python
    registry = w.skill_registry("skills", w.skill_define("ship", prompt="One command at a time."))
    registry["ship"].prompt, registry.names, registry.problems
    ```
    """

    __slots__ = ("_skills", "problems")

    def __init__(self, skills: Iterable[Skill] = (), problems: Iterable[str] = ()) -> None:
        self._skills: dict[str, Skill] = {}
        self.problems: tuple[str, ...] = tuple(problems)
        for skill in skills:
            other = self._skills.setdefault(skill.name, skill)
            if other is not skill:
                raise ConfigError(
                    f"two skills are named {skill.name!r}: {other.origin}, and {skill.origin}; "
                    "give one of them another name"
                )

    @property
    def names(self) -> tuple[str, ...]:
        """The names, in order."""
        return tuple(self._skills)

    def get(self, name: str) -> Skill | None:
        """Return the skill with this name, or None."""
        return self._skills.get(name)

    def __getitem__(self, name: str) -> Skill:
        try:
            return self._skills[name]
        except KeyError:
            raise KeyError(f"there is no skill {name!r}{nearest(name, self._skills)}") from None

    def __contains__(self, name: object) -> bool:
        return name in self._skills

    def __iter__(self) -> Iterator[Skill]:
        return iter(self._skills.values())

    def __len__(self) -> int:
        return len(self._skills)

    def __repr__(self) -> str:
        return f"<SkillRegistry {', '.join(self._skills) or 'empty'}>"
