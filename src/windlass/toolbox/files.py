"""The tools `file_read`, `file_write` and `file_edit`: whole files and exact texts of a workspace."""

from __future__ import annotations

import asyncio
import os
from typing import Annotated, Any, BinaryIO, Final

import msgspec

from windlass.errors import Conflict
from windlass.json_types import JsonObject
from windlass.messages import ToolResult
from windlass.toolbox.content import (
    FILE_LABELS,
    LARGEST_TEXT,
    check_digest,
    finish_in_thread,
    hold_file,
    read_content,
    replace_content,
)
from windlass.toolbox.edits.refusal import EditRefused
from windlass.toolbox.edits.result import EditResult, RecordedEdit, build_result, parse_result
from windlass.toolbox.edits.spans import SpanEdit, apply_edits, digest_of, unified_diff
from windlass.toolbox.edits.text_patch import plan_text_patch
from windlass.toolbox.edits.tools import EditTool
from windlass.toolbox.sandbox.atomic import write_atomically
from windlass.toolbox.sandbox.path_errors import FileChanged, PathRefused
from windlass.toolbox.sandbox.paths import Workspace, fingerprint_file
from windlass.tools.roles import Content, Target
from windlass.tools.tool import Retry, Tool, ToolContext

MOST_LINES: Final = 2_000  # lines that a read shows without a limit
MOST_BYTES: Final = 256_000  # bytes that a read shows
LONGEST_LINE: Final = 4_000  # bytes of a line that are shown
ABSENT: Final = "0" * 16  # the digest of a file that was not there
_PIECE: Final = 1 << 20

Positive = Annotated[int, msgspec.Meta(ge=1)]
_PATH = Annotated[str, Target, "the file, relative to the workspace"]
_DIGEST = Annotated[
    str | None, "the digest that the last read or change showed: refused if it changed since"
]


class FileTools:
    """The file tools of one workspace."""

    def __init__(self, workspace: Workspace) -> None:
        self._workspace = workspace

    def build(self) -> dict[str, Tool]:
        """Return the tools, by name."""
        read = EditTool(
            self.file_read,
            name="file_read",
            kind="read",
            side_effect_level="read_only",
            annotations={"path_args": ["path"], "result": "untrusted", "file_digest": True},
        )
        changing: JsonObject = {
            "side_effect_level": "workspace_write",
            "annotations": {"path_args": ["path"], **FILE_LABELS},
            "keyed": True,
            "undo": self._restore,
        }
        write = EditTool(
            self.file_write,
            name="file_write",
            kind="write",
            preview=self._preview_write,
            **changing,
        )
        edit = EditTool(
            self.file_edit, name="file_edit", kind="edit", preview=self._preview_edit, **changing
        )
        return {one.name: one for one in (read, write, edit)}

    async def file_read(
        self,
        path: _PATH,
        offset: Annotated[Positive, Content, "the first line, counted from 1"] = 1,
        limit: Annotated[Positive | None, Content, "how many lines"] = None,
    ) -> str:
        """Read lines of a text file, with their numbers."""
        return await asyncio.to_thread(_read_lines, self._workspace, path, offset, limit)

    async def file_write(
        self,
        path: _PATH,
        content: Annotated[str, Content, "the whole new content"],
        digest: _DIGEST = None,
    ) -> EditResult:
        """Write a whole file: make it, with its folders, or replace it."""
        async with hold_file(self._workspace, path):
            return await finish_in_thread(self._write, path, content, digest, preview=False)

    async def file_edit(
        self,
        path: _PATH,
        old_string: Annotated[str, Content, "the exact text, with its white space"],
        new_string: Annotated[str, Content],
        replace_all: bool = False,
        digest: _DIGEST = None,
    ) -> EditResult:
        """Replace a text that stands in the file exactly once, or every one with replace_all."""
        async with hold_file(self._workspace, path):
            return await finish_in_thread(
                self._edit, path, old_string, new_string, replace_all, digest, preview=False
            )

    def _preview_write(self, args: JsonObject) -> str:
        return str(self._write(args["path"], args["content"], args.get("digest"), preview=True))

    def _preview_edit(self, args: JsonObject) -> str:
        texts = args["path"], args["old_string"], args["new_string"]
        every = args.get("replace_all", False)
        return str(self._edit(*texts, every, args.get("digest"), preview=True))

    def _write(self, path: str, text: str, digest: str | None, *, preview: bool) -> EditResult:
        data = _encode(text, "content")
        workspace = self._workspace
        try:
            if not workspace.exists(path):
                return self._create(path, data, digest, preview=preview)
        except PathRefused as error:
            raise EditRefused("file", str(error)) from None
        before = read_content(workspace, path)
        if (
            before.data != data
        ):  # what is there already needs no check: the call may have been cut off
            check_digest(before.shown, before.data, digest)
        edits = () if before.data == data else (SpanEdit(0, len(before.data), data),)
        lines = data.count(b"\n") + (not data.endswith(b"\n") and bool(data))
        what = f"replaced the content ({lines} lines)" if edits else "has this content already"
        result = build_result(before.shown, before.data, edits, what, is_preview=preview)
        if edits and not preview:
            replace_content(workspace, path, data, before.fingerprint)
        return result

    def _create(self, path: str, data: bytes, digest: str | None, *, preview: bool) -> EditResult:
        workspace = self._workspace
        if digest is not None and digest != ABSENT:
            raise EditRefused("changed", f"{path} is gone since it was read; look for it again")
        try:
            if not preview:
                write_atomically(workspace, path, data, create=True, make_folders=True)
            shown = workspace.display(path)
        except FileChanged as error:
            raise EditRefused("changed", str(error)) from None
        except PathRefused as error:
            raise EditRefused("file", str(error)) from None
        return EditResult(
            path=shown,
            summary=f"created, {len(data):,} bytes",
            # The model has just written all of it: only who looks at a preview needs it again.
            diff=unified_diff(shown, b"", data).decode(errors="replace") if preview else "",
            digest_before=ABSENT,
            digest=digest_of(data),
            is_preview=preview,
        )

    def _edit(
        self, path: str, old: str, new: str, every: bool, digest: str | None, *, preview: bool
    ) -> EditResult:
        before = read_content(self._workspace, path, digest)
        if b"\0" in before.data[:8192]:
            raise EditRefused("file", f"{path} is a binary file of {len(before.data):,} bytes")
        try:
            change = plan_text_patch(before.data, old, new, replace_all=every)
        except EditRefused as error:
            words = str(error).replace("old_text", "old_string").replace("new_text", "new_string")
            words = words.replace(", line=…,", "")
            raise EditRefused(error.code, words, error.candidates) from None
        shown, edits = before.shown, change.edits
        result = build_result(shown, before.data, edits, change.summary, is_preview=preview)
        if edits and not preview:
            after = apply_edits(before.data, edits)
            replace_content(self._workspace, path, after, before.fingerprint)
        return result

    async def _restore(self, args: JsonObject, result: ToolResult, _ctx: ToolContext[Any]) -> str:
        """Restore the file as it was before."""
        recorded = parse_result(result.text)
        if recorded is None:
            return "nothing was changed"
        return await finish_in_thread(self._take_back, str(args.get("path")), recorded)

    def _take_back(self, path: str, recorded: RecordedEdit) -> str:
        workspace = self._workspace
        created = recorded.digest_before == ABSENT
        try:
            if created and not workspace.exists(path):
                return f"{path} is gone, as it was before"
            now = read_content(workspace, path)
            found = digest_of(now.data)
            if found == recorded.digest_before:
                return f"{now.shown} is as it was before"
            if found != recorded.digest:
                raise Conflict(
                    f"{now.shown} changed since (digest {recorded.digest} then, {found} now); undo "
                    "what came later first"
                )
            if created:
                workspace.remove(path)
                return f"{now.shown} is gone, as it was before"
        except PathRefused as error:
            raise Conflict(str(error)) from None
        before = recorded.reverse(now.data)
        if before is None:
            raise Conflict(f"the record does not hold the text that {path} had")
        replace_content(workspace, path, before, now.fingerprint)
        return f"{now.shown} is as it was before"


def build_file_tools(workspace: Workspace) -> dict[str, Tool]:
    """Build `file_read`, `file_write` and `file_edit` for a workspace."""
    return FileTools(workspace).build()


def _encode(text: str, what: str) -> bytes:
    try:
        return text.encode()
    except UnicodeEncodeError:
        raise EditRefused(
            "text", f"{what} holds half of a surrogate pair, which no file can"
        ) from None


def _read_lines(workspace: Workspace, path: str, offset: int, limit: int | None) -> str:
    """Read some lines in constant memory; a binary file is named as such."""
    try:
        shown = workspace.display(path)
        with workspace.open_read(path) as file:
            size = os.fstat(file.fileno()).st_size
            if b"\0" in file.read(8192):
                raise Retry(f"{shown} is a binary file of {size:,} bytes")
            digest = None
            if size <= LARGEST_TEXT:
                digest = fingerprint_file(file).digest[:16]
            file.seek(0)
            if not _skip_lines(file, offset - 1):
                file.seek(0)
                total = _count_lines(file)
                raise Retry(f"{shown} has {total:,} lines; there is no line {offset:,}")
            lines, more = _take_lines(file, offset, limit or MOST_LINES)
    except PathRefused as error:
        raise Retry(str(error)) from None
    last = offset + len(lines) - 1
    head = f"{shown}: lines {offset} to {last}" if lines else f"{shown}: an empty file"
    if more:
        head += f"; there are more, read on with offset={last + 1}"
    marks = [head] if digest is None else [head, f"digest {digest}"]
    return "\n".join([*marks, *lines])


def _skip_lines(file: BinaryIO, count: int) -> bool:
    """Move to the line after `count` others; False if the file ends before."""
    while count > 0:
        begin = file.tell()
        piece = file.read(_PIECE)
        if not piece:
            return False
        found = piece.count(b"\n")
        if found < count:
            count -= found
            continue
        at = -1
        for _ in range(count):
            at = piece.index(b"\n", at + 1)
        file.seek(begin + at + 1)
        is_there = bool(file.read(1))
        file.seek(begin + at + 1)
        return is_there
    return True


def _count_lines(file: BinaryIO) -> int:
    total, last = 0, b"\n"
    while piece := file.read(_PIECE):
        total += piece.count(b"\n")
        last = piece[-1:]
    return total + (last != b"\n")


def _take_lines(file: BinaryIO, number: int, limit: int) -> tuple[list[str], bool]:
    """Return up to `limit` lines with their numbers, and whether there are more."""
    lines: list[str] = []
    taken = 0
    while len(lines) < limit and taken < MOST_BYTES:
        line = file.readline(LONGEST_LINE)
        if not line:
            return lines, False
        cut = 0
        if not line.endswith(b"\n"):
            while rest := file.readline(_PIECE):
                cut += len(rest)
                if rest.endswith(b"\n"):
                    break
        taken += len(line)
        text = line.rstrip(b"\r\n").decode(errors="replace")
        if cut > 2:
            text += f" … ({cut:,} more bytes in this line)"
        lines.append(f"{number + len(lines):6}\t{text}")
    return lines, bool(file.read(1))
