"""The four operations on the content of a file: bytes and arguments in, a planned change out."""

from __future__ import annotations

from typing import TypeAlias, Union

import msgspec

from windlass.errors import nearest
from windlass.toolbox.edits.change import Change, check_change
from windlass.toolbox.edits.insertion import Position, plan_insertion
from windlass.toolbox.edits.languages import LANGUAGES, Language, find_language
from windlass.toolbox.edits.node_edit import plan_replacement
from windlass.toolbox.edits.refusal import EditRefused
from windlass.toolbox.edits.rename import plan_rename
from windlass.toolbox.edits.selectors import Selector
from windlass.toolbox.edits.source import LARGEST, Source, is_installed
from windlass.toolbox.edits.text_patch import plan_text_patch


class Planned(msgspec.Struct, frozen=True):
    """A change that passed the checks; for a rename also the name to look for elsewhere."""

    change: Change
    renamed: str | None = None


class _Request(msgspec.Struct, frozen=True, tag_field="edit"):
    """An edit as it was asked for."""

    def plan(self, data: bytes, path: str) -> Planned:
        """Plan the edit for the content of a file; `EditRefused` says why it is not made."""
        raise NotImplementedError


class ApplyNode(_Request, frozen=True, tag="apply"):
    """The replacement of a node."""

    selector: Selector
    text: str

    def plan(self, data: bytes, path: str) -> Planned:
        source = open_source(data, path)
        return _check(source, plan_replacement(source, self.selector, self.text))


class InsertAtAnchor(_Request, frozen=True, tag="insert"):
    """Text that is added at an anchor."""

    selector: Selector
    text: str
    position: Position = "after"

    def plan(self, data: bytes, path: str) -> Planned:
        source = open_source(data, path)
        return _check(source, plan_insertion(source, self.selector, self.text, self.position))


class RenameSymbol(_Request, frozen=True, tag="rename"):
    """A new name of a symbol."""

    symbol: str
    new_name: str
    line: int | None = None

    def plan(self, data: bytes, path: str) -> Planned:
        source = open_source(data, path)
        plan = plan_rename(source, self.symbol, self.new_name, self.line)
        notes = [f"not renamed, the same word: {one}" for one in plan.left]
        change = plan.change._replace(notes=tuple(notes))
        return Planned(change, plan.old_name if plan.is_visible_outside else None)


class PatchText(_Request, frozen=True, tag="patch"):
    """The replacement of an exact text; where the file has a grammar, its syntax is checked too."""

    old_text: str
    new_text: str
    replace_all: bool = False
    line: int | None = None

    def plan(self, data: bytes, path: str) -> Planned:
        change = plan_text_patch(
            data, self.old_text, self.new_text, replace_all=self.replace_all, line=self.line
        )
        language = find_language(path)
        if language is not None and change.edits and _can_parse(data, language):
            check_change(Source(data, language, path), change.edits, outline=False)
        return Planned(change)


EditRequest: TypeAlias = Union[ApplyNode, InsertAtAnchor, RenameSymbol, PatchText]


def open_source(data: bytes, path: str) -> Source:
    """Parse a file in the language that its name says."""
    language = find_language(path)
    if language is None:
        suffix = "." + path.rpartition(".")[2] if "." in path else path
        known = [one for language in LANGUAGES for one in language.suffixes]
        raise EditRefused(
            "language",
            f"{path} is in no language that can be edited by syntax{nearest(suffix, known)}; use "
            "edit_safe_text_patch. Known: " + " ".join(known),
        )
    if b"\0" in data[:8192]:
        raise EditRefused("file", f"{path} is a binary file of {len(data):,} bytes")
    return Source(data, language, path)


def _check(source: Source, change: Change) -> Planned:
    if change.edits:
        check_change(source, change.edits)
    return Planned(change)


def _can_parse(data: bytes, language: Language) -> bool:
    """Check whether a file is small enough, and its grammar is installed."""
    return len(data) <= LARGEST and b"\0" not in data[:8192] and is_installed(language)
