"""The skills of a program, by name; and what was wrong with those that could not be read."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from windlass.errors import ConfigError, nearest
from windlass.policies.skills.skill import Skill


class SkillRegistry:
    """Skills by name, in their order. Made by `skill_registry(…)`.

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
        """The skill of that name, or None."""
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
