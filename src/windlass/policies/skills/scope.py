"""The effect of active skills on a request: their text and their tools."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import msgspec

from windlass.globs import match_name
from windlass.messages import ToolSpec
from windlass.models.base import Frame, Settings
from windlass.policies.skills.skill import NAMESPACE, Skill
from windlass.tools.tool import Tool

_NAMED = 40  # files of a skill that its text names


class Surface:
    """The caller's own tools, and which of them a skill leaves."""

    __slots__ = ("names", "tools")

    def __init__(self, tools: Sequence[Tool]) -> None:
        self.tools = tuple(tools)
        self.names = frozenset([tool.name for tool in tools])

    def left_by(self, skill: Skill) -> frozenset[str] | None:
        """Return the tools that the skill allows; None if it names none.

        A folder may come from elsewhere: one that names only tools of other programs says nothing.
        """
        if not skill.allowed_tools:
            return None
        left = frozenset([t.name for t in self.tools if _allows(skill.allowed_tools, t)])
        return None if skill.folder is not None and not left else left

    def hidden_by(self, skills: Iterable[Skill]) -> frozenset[str]:
        """Return the tools that no active skill allows, if any of them restricts tools."""
        allowed = [left for skill in skills if (left := self.left_by(skill)) is not None]
        return self.names.difference(*allowed) if allowed else frozenset()


def _allows(entries: Sequence[str], tool: Tool) -> bool:
    """Check a tool against globs over names, and `namespace:` globs over namespaces."""
    for entry in entries:
        if entry.startswith(NAMESPACE):
            if tool.namespace is not None and match_name((entry,), f"{NAMESPACE}{tool.namespace}"):
                return True
        elif match_name((entry,), tool.name):
            return True
    return False


def with_skills(
    frame: Frame, skills: Sequence[Skill], hidden: frozenset[str], reader: ToolSpec | None
) -> Frame:
    """Add the skills' text to the frame, and remove the tools that they hide.

    `reader` reads the files of a skill; it is offered where one has any.
    """
    if not skills:
        return frame
    tools = frame.tools
    if hidden:
        tools = tuple([spec for spec in tools if spec.name not in hidden])
    if reader is not None and any(skill.files for skill in skills):
        tools = (*tools, reader)
    texts = [one for skill in skills if (one := _words(skill, reader)) is not None]
    system = "\n\n".join([*([frame.system] if frame.system else []), *texts]) or None
    return Frame(system, tools, _settings(frame.settings, tools, hidden))


def _settings(settings: Settings, tools: Sequence[ToolSpec], hidden: frozenset[str]) -> Settings:
    """Drop a demand for a tool that is not offered, which providers refuse."""
    choice = settings.tool_choice
    if choice is None or not hidden:
        return settings
    gone = choice.get("name") in hidden if isinstance(choice, dict) else not tools
    return msgspec.structs.replace(settings, tool_choice=None) if gone else settings


def _words(skill: Skill, reader: ToolSpec | None) -> str | None:
    # a closing tag in its text would let a skill forge what follows it
    parts = [skill.prompt.replace("</skill", "&lt;/skill")] if skill.prompt else []
    if skill.files and reader is not None:
        shown = skill.files[:_NAMED]
        more = f" and {len(skill.files) - _NAMED} more" if len(skill.files) > _NAMED else ""
        names = ", ".join(name.replace("</skill", "&lt;/skill") for name in shown)
        parts.append(f"Files of this skill, to be read with {reader.name}: {names}{more}")
    if not parts:
        return None
    body = "\n\n".join(parts)
    return f'<skill name="{skill.name}">\n{body}\n</skill>'
