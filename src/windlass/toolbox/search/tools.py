"""The tools `grep` and `glob`: lines and files of a workspace."""

from __future__ import annotations

import asyncio
import os
import stat
import time
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Annotated, Final, NamedTuple

import msgspec

from windlass.json_types import JsonObject
from windlass.toolbox.content import finish_in_thread
from windlass.toolbox.sandbox.path_errors import PathRefused
from windlass.toolbox.sandbox.paths import Workspace
from windlass.toolbox.search import process
from windlass.toolbox.search.line_search import HEAD
from windlass.toolbox.search.path_globs import InvalidGlob, compile_glob
from windlass.toolbox.search.process import SearchFailed, list_files, run_search
from windlass.toolbox.search.ripgrep import find_ripgrep
from windlass.toolbox.search.tree import Tree, read_levels_above
from windlass.tools.function import FunctionTool
from windlass.tools.roles import Content, Target
from windlass.tools.tool import Retry, Tool

MOST_RESULTS: Final = 10_000
MOST_CONTEXT: Final = 50
LONGEST_PATTERN: Final = 10_000

Limit = Annotated[int, msgspec.Meta(ge=1, le=MOST_RESULTS)]
Around = Annotated[int, msgspec.Meta(ge=0, le=MOST_CONTEXT)]


class _Place(NamedTuple):
    """What a call looks through: descriptors that are open for its time, and how it is shown."""

    root: int
    inside: str
    folder: int | None
    file: int | None
    shown: str

    @property
    def descriptors(self) -> tuple[int, ...]:
        return tuple([one for one in (self.root, self.folder, self.file) if one is not None])

    def show(self, path: str) -> str:
        """Return a path of a result as other tools take it, on one line."""
        whole = os.path.join(self.shown, path) if path and self.shown != "." else path or self.shown
        text = whole.encode("utf-8", "backslashreplace").decode()
        return text if text.isprintable() else repr(text)


class SearchTools:
    """The search tools of one workspace."""

    def __init__(self, workspace: Workspace) -> None:
        self._workspace = workspace
        self.ripgrep = find_ripgrep(workspace.anchor, *workspace.mounts)

    def build(self) -> dict[str, Tool]:
        """Return the tools, by name."""
        labels: JsonObject = {"path_args": ["path"], "result": "untrusted"}
        lines = FunctionTool(
            self.grep,
            name="grep",
            kind="search",
            side_effect_level="read_only",
            annotations=labels,
        )
        files = FunctionTool(
            self.glob,
            name="glob",
            kind="search",
            side_effect_level="read_only",
            annotations=labels,
        )
        return {one.name: one for one in (lines, files)}

    async def grep(
        self,
        pattern: Annotated[str, Content, "a regular expression of Python's, matched in one line"],
        path: Annotated[str, Target, "the folder or file, relative to the workspace"] = ".",
        glob: Annotated[
            str | None, Content, "only these files, as '*.py' or 'src/**/*.{ts,tsx}'"
        ] = None,
        max_results: Annotated[Limit, Content, "how many matching lines"] = 100,
        context: Annotated[Around, Content, "lines to show before and after each"] = 0,
        ignore_case: Annotated[bool, Content] = False,
    ) -> str:
        """Find lines that match a pattern, without binary files and those that .gitignore names."""
        if len(pattern) > LONGEST_PATTERN:
            size = f"{len(pattern):,} characters; {LONGEST_PATTERN:,} are the most"
            raise Retry(f"the pattern has {size}")
        async with _open_place(self, path) as place:
            request: JsonObject = {
                "do": "grep",
                "pattern": pattern,
                "glob": glob,
                "most": max_results,
                "context": context,
                "ignore_case": ignore_case,
                "ripgrep": self.ripgrep,
            }
            answer = await _ask(request, place)
        return _show_lines(answer, place, has_context=context > 0)

    async def glob(
        self,
        pattern: Annotated[
            str, Content, "as '*.py' (at any depth), 'src/**/test_*.py', '*.{ts,tsx}'"
        ],
        path: Annotated[str, Target, "the folder, relative to the workspace"] = ".",
        max_files: Annotated[Limit, Content, "how many files"] = 500,
    ) -> str:
        """List files whose path matches a glob, without those that .gitignore names."""
        anchor = self._workspace.anchor.rstrip("/")
        if path == "." and pattern.startswith(f"{anchor}/"):
            pattern = pattern[len(anchor) :]
        async with _open_place(self, path) as place:
            if place.folder is None:
                raise Retry(f"{place.shown} is a file, not a folder; file_read shows it")
            found, is_stopped = await self._find_files(pattern, place, max_files)
        shown = [place.show(one) for one in found[:max_files]]
        note = _note(is_stopped)
        if not shown:
            return f"no file matches {pattern!r} in {place.show('')}{note}"
        if len(found) > max_files:
            head = f"the first {max_files:,} files; there are more: narrow the pattern or the path"
        else:
            head = f"{len(shown):,} {'file' if len(shown) == 1 else 'files'}"
        return "\n".join([head + note, *shown])

    async def _find_files(self, pattern: str, place: _Place, most: int) -> tuple[list[str], bool]:
        """Return one file more than was asked for, if there are more, and whether time was over."""
        if self.ripgrep is not None and place.folder is not None:
            try:
                compile_glob(pattern)
                paths = await list_files(self.ripgrep, place.folder, pattern)
            except InvalidGlob as error:
                raise Retry(f"the glob cannot be used: {error}") from None
            except SearchFailed as error:
                raise Retry(str(error)) from None
            if paths is not None:
                return await asyncio.to_thread(_choose_files, paths, pattern, place, most)
        answer = await _ask({"do": "glob", "pattern": pattern, "most": most}, place)
        return answer["files"], bool(answer["is_stopped"])

    def open_place(self, path: str, held: list[int]) -> _Place:
        """Open what a call looks through; the descriptors are in `held`, for the caller to close."""
        workspace = self._workspace
        folder = file = None
        try:
            root, inside = workspace.find_root(path)
            if stat.S_ISDIR(workspace.stat(path).st_mode):
                folder = workspace.open_folder(path)
                held.append(folder)
            else:
                with workspace.open_read(path) as opened:
                    if b"\0" in opened.read(HEAD):
                        size = os.fstat(opened.fileno()).st_size
                        raise Retry(f"{path} is a binary file of {size:,} bytes")
                    opened.seek(0)
                    file = os.dup(opened.fileno())
                    held.append(file)
            return _Place(root, inside, folder, file, workspace.display(path))
        except PathRefused as error:
            raise Retry(str(error)) from None


@asynccontextmanager
async def _open_place(tools: SearchTools, path: str) -> AsyncGenerator[_Place]:
    """Open what a call looks through, in a thread, for the time of the call."""
    held: list[int] = []
    try:
        yield await finish_in_thread(tools.open_place, path, held)
    finally:
        for one in held:
            os.close(one)


def build_search_tools(workspace: Workspace) -> dict[str, Tool]:
    """Build `grep` and `glob` for a workspace."""
    return SearchTools(workspace).build()


async def _ask(request: JsonObject, place: _Place) -> JsonObject:
    request |= {
        "root": place.root,
        "inside": place.inside,
        "folder": place.folder,
        "file": place.file,
        "seconds": process.SECONDS,
    }
    try:
        return await run_search(request, place.descriptors)
    except SearchFailed as error:
        raise Retry(str(error)) from None


def _choose_files(
    paths: list[str], pattern: str, place: _Place, most: int
) -> tuple[list[str], bool]:
    """Choose the first files of ripgrep's that a walk of ours finds, too."""
    assert place.folder is not None
    fits = compile_glob(pattern)
    found: list[str] = []

    def visit(_folder: int, name: str, path: str) -> bool:
        if fits(path, name):
            found.append(path)
        return len(found) > most

    above = read_levels_above(place.root, place.inside)
    tree = Tree(place.folder, above, time.monotonic() + process.SECONDS)
    tree.visit_files(paths, visit)
    return found, tree.is_stopped


def _show_lines(answer: JsonObject, place: _Place, *, has_context: bool) -> str:
    files, count = answer["files"], answer["count"]
    note = _note(bool(answer["is_stopped"]))
    if not files:
        return f"no matches in {place.show('')}{note}"
    if answer["has_more"]:
        head = (
            f"the first {count:,} matches; there are more: narrow the pattern, path or glob, or give "
            "a larger max_results"
        )
    else:
        lines = "match" if count == 1 else "matches"
        head = f"{count:,} {lines} in {len(files):,} {'file' if len(files) == 1 else 'files'}"
    shown = [head + note]
    for path, lines in files:
        name, last = place.show(path), None
        for number, text, is_match in lines:
            if has_context and len(shown) > 1 and (last is None or number > last + 1):
                shown.append("--")
            mark = ":" if is_match else "-"
            shown.append(f"{name}{mark}{number}{mark} {text}")
            last = number
    return "\n".join(shown)


def _note(is_stopped: bool) -> str:
    if not is_stopped:
        return ""
    return f"; not everything was looked at in {process.SECONDS:g} seconds: name a smaller path"
