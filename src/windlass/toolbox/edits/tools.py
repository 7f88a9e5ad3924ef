"""Five tools for precise edits, which are functions too: `await w.edit_apply_node("cart.py", …)`.

A file is read, the change is planned on its bytes and checked, and only then is the file replaced at
once, if it is still as it was read. Parsing and writing happen in a thread.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Iterator
from typing import Annotated, Any, Literal, ParamSpec, TypeAlias, TypeVar

from windlass.errors import Conflict, nearest
from windlass.json_types import JsonObject
from windlass.messages import ToolResult
from windlass.toolbox.content import (
    FILE_LABELS,
    FileContent,
    finish_in_thread,
    hold_file,
    read_content,
    replace_content,
)
from windlass.toolbox.edits.insertion import Position
from windlass.toolbox.edits.mentions import find_mentions
from windlass.toolbox.edits.plans import (
    ApplyNode,
    EditRequest,
    InsertAtAnchor,
    PatchText,
    Planned,
    RenameSymbol,
)
from windlass.toolbox.edits.refusal import EditRefused
from windlass.toolbox.edits.result import EditResult, build_result, parse_result
from windlass.toolbox.edits.selectors import Selector
from windlass.toolbox.edits.spans import apply_edits, digest_of
from windlass.toolbox.edits.worker import plan_edit
from windlass.toolbox.sandbox.path_errors import StrPath
from windlass.toolbox.sandbox.paths import Workspace
from windlass.tools.function import FunctionTool
from windlass.tools.roles import Content, Target
from windlass.tools.tool import Parked, ToolContext

P = ParamSpec("P")
R = TypeVar("R")
EditToolName: TypeAlias = Literal[
    "edit_apply_node", "edit_insert_at_anchor", "edit_rename_symbol", "edit_safe_text_patch"
]

_PATH = Annotated[str, Target, "the file, relative to the workspace"]
_NODE = Annotated[
    str | None,
    "kinds and names, as in 'class:Cart/function:total'; 'function:total#2' is the second of that name",
]
_LINE = Annotated[int | None, "the line on which the node begins, counted from 1"]
_PATTERN = Annotated[str | None, "code with holes: $A for one node, $$$ for any number of them"]
_DIGEST = Annotated[
    str | None,
    "the digest that the last read or edit of the file showed: refused if it changed since",
]


class EditTool(FunctionTool[P, R]):
    """A tool whose answer is an `EditResult`: a model reads it as text with a diff."""

    __slots__ = ()

    def _finish(self, value: Any) -> ToolResult | Parked:
        return super()._finish(str(value) if isinstance(value, EditResult) else value)


class EditTools:
    """The five edit tools for the files of one folder: `tools=[*w.EditTools("~/shop")]`.

    ```python
    edits = w.EditTools("~/shop")
    await edits.edit_rename_symbol("cart.py", "class:Cart/function:total", "sum_up")
    ```
    Without a folder they work in the current one, as `w.edit_apply_node` and the others do.
    """

    def __init__(self, workspace: Workspace | StrPath | None = None) -> None:
        if workspace is not None and not isinstance(workspace, Workspace):
            workspace = Workspace(workspace)
        self._workspace = workspace
        self.edit_apply_node = self._build(self._apply_node, "edit_apply_node")
        self.edit_insert_at_anchor = self._build(self._insert_at_anchor, "edit_insert_at_anchor")
        self.edit_rename_symbol = self._build(self._rename_symbol, "edit_rename_symbol")
        self.edit_safe_text_patch = self._build(self._safe_text_patch, "edit_safe_text_patch")
        self.edit_dry_run = EditTool(
            self._dry_run,
            name="edit_dry_run",
            kind="read",
            side_effect_level="read_only",
            annotations={"result": "untrusted"},
        )

    def __iter__(self) -> Iterator[FunctionTool[..., Any]]:
        yield self.edit_apply_node
        yield self.edit_insert_at_anchor
        yield self.edit_rename_symbol
        yield self.edit_dry_run
        yield self.edit_safe_text_patch

    def _build(self, fn: Callable[P, R], name: EditToolName) -> EditTool[P, R]:
        async def preview(args: JsonObject) -> str:
            return str(await self._dry_run(name, args))

        return EditTool(
            fn,
            name=name,
            kind="edit",
            side_effect_level="workspace_write",
            annotations={"path_args": ["path"], **FILE_LABELS},
            keyed=True,
            undo=self._restore,
            preview=preview,
        )

    # ----------------------------------------------------------------- tools

    async def _apply_node(
        self,
        path: _PATH,
        text: Annotated[str, Content, "the new text of the whole node, with its decorators"],
        node: _NODE = None,
        line: _LINE = None,
        pattern: _PATTERN = None,
        digest: _DIGEST = None,
    ) -> EditResult:
        """Replace one syntax node (a function, class, key, statement …) by new text.

        Name the node by `node`, `line` or `pattern`. The node includes its decorators, attributes and
        `export`; comments above it stay. The text is indented as the node is.
        """
        return await self._edit(path, ApplyNode(Selector(node, line, pattern), text), digest)

    async def _insert_at_anchor(
        self,
        path: _PATH,
        text: Annotated[str, Content, "the text to add"],
        anchor: Annotated[
            str | None, "kinds and names of the node, as in 'class:Cart'; 'file' for the whole file"
        ] = None,
        position: Annotated[
            Position, "before or after the anchor, or the first or last inside it"
        ] = "after",
        line: _LINE = None,
        pattern: _PATTERN = None,
        digest: _DIGEST = None,
    ) -> EditResult:
        """Add text before, after or inside a syntax node; nothing that is there changes.

        Commas of lists and objects, indentation and blank lines are added as the place needs them.
        """
        request = InsertAtAnchor(Selector(anchor, line, pattern), text, position)
        return await self._edit(path, request, digest)

    async def _rename_symbol(
        self,
        path: _PATH,
        symbol: Annotated[
            str, Target, "its path, as in 'class:Cart/function:total' or 'function:total/tax'"
        ],
        new_name: Annotated[str, Content],
        line: Annotated[int | None, "a line on which it stands, if several have the name"] = None,
        digest: _DIGEST = None,
    ) -> EditResult:
        """Rename a symbol everywhere in one file where it is that symbol by the rules of scope.

        Other symbols of the same name, strings and comments stay. Places that may need the new name,
        in this file and in others, are listed and not touched.
        """
        return await self._edit(path, RenameSymbol(symbol, new_name, line), digest)

    async def _safe_text_patch(
        self,
        path: _PATH,
        old_text: Annotated[str, Content, "the exact text, with its white space"],
        new_text: Annotated[str, Content],
        replace_all: bool = False,
        line: Annotated[int | None, "the line on which it begins, if it stands there twice"] = None,
        digest: _DIGEST = None,
    ) -> EditResult:
        """Replace a text that stands in the file exactly once; for what no syntax node covers.

        A file whose language is known must not have more syntax errors afterwards.
        """
        request = PatchText(old_text, new_text, replace_all, line)
        return await self._edit(path, request, digest)

    async def _dry_run(
        self,
        tool: Annotated[EditToolName, "the edit to preview"],
        arguments: Annotated[dict[str, Any], "its arguments"],
    ) -> EditResult:
        """Show the diff that an edit would make, or why it would be refused, without writing."""
        given = dict(arguments)
        path, digest = given.pop("path", None), given.pop("digest", None)
        request = _read_request(tool, given)
        if not isinstance(path, str):
            raise EditRefused("text", "arguments need a path: {'path': 'cart.py', …}")
        workspace = self._open()
        content = await asyncio.to_thread(read_content, workspace, path, digest)
        planned = await plan_edit(request, content.data, content.shown)
        return await asyncio.to_thread(_describe, workspace, content, planned, is_preview=True)

    # ----------------------------------------------------------------- work

    def _open(self) -> Workspace:
        return self._workspace or Workspace(os.getcwd())

    async def _edit(self, path: str, request: EditRequest, digest: str | None) -> EditResult:
        workspace = self._open()
        async with hold_file(workspace, path):
            content = await asyncio.to_thread(read_content, workspace, path, digest)
            planned = await plan_edit(request, content.data, content.shown)
            result = await asyncio.to_thread(_describe, workspace, content, planned)
            if planned.change.edits:
                after = apply_edits(content.data, planned.change.edits)
                await finish_in_thread(replace_content, workspace, path, after, content.fingerprint)
        return result

    async def _restore(self, args: JsonObject, result: ToolResult, _ctx: ToolContext[Any]) -> str:
        """Restore the file as it was before the edit."""
        path, recorded = str(args.get("path")), parse_result(result.text)
        if recorded is None:
            return "the edit changed nothing"
        workspace = self._open()
        content = await asyncio.to_thread(read_content, workspace, path)
        now = digest_of(content.data)
        if now == recorded.digest_before:
            return f"{content.shown} is as it was before the edit"
        if now != recorded.digest:
            raise Conflict(
                f"{content.shown} changed since the edit (digest {recorded.digest} then, {now} now); "
                "undo what came later first"
            )
        before = await asyncio.to_thread(recorded.reverse, content.data)
        if before is None:
            raise Conflict(f"the record of the edit does not hold the text that {path} had")
        await finish_in_thread(replace_content, workspace, path, before, content.fingerprint)
        return f"{content.shown} is as it was before the edit"


def _describe(
    workspace: Workspace, content: FileContent, planned: Planned, *, is_preview: bool = False
) -> EditResult:
    change = planned.change
    notes = list(change.notes)
    if planned.renamed is not None and change.edits:
        notes += find_mentions(workspace, content.shown, planned.renamed)
    return build_result(
        content.shown, content.data, change.edits, change.summary, notes, is_preview=is_preview
    )


def _read_request(tool: str, given: JsonObject) -> EditRequest:
    """Return the edit of a dry run; `EditRefused` names an argument that is missing or unknown."""
    fields: dict[str, tuple[str, ...]] = {
        "edit_apply_node": ("text", "node", "line", "pattern"),
        "edit_insert_at_anchor": ("text", "anchor", "position", "line", "pattern"),
        "edit_rename_symbol": ("symbol", "new_name", "line"),
        "edit_safe_text_patch": ("old_text", "new_text", "replace_all", "line"),
    }
    if tool not in fields:
        raise EditRefused("text", f"there is no edit {tool!r}{nearest(str(tool), tuple(fields))}")
    for name in given:
        if name not in fields[tool]:
            raise EditRefused("text", f"{tool} has no {name!r}{nearest(name, fields[tool])}")
    line = given.get("line")
    if line is not None and (isinstance(line, bool) or not isinstance(line, int)):
        raise EditRefused("text", f"line is a number, not {line!r:.50}")
    match tool:
        case "edit_rename_symbol":
            return RenameSymbol(_text(given, "symbol"), _text(given, "new_name"), line)
        case "edit_safe_text_patch":
            old, new = _text(given, "old_text"), _text(given, "new_text")
            return PatchText(old, new, given.get("replace_all") is True, line)
        case "edit_apply_node":
            selector = Selector(_word(given, "node"), line, _word(given, "pattern"))
            return ApplyNode(selector, _text(given, "text"))
        case _:
            position: Any = given.get("position", "after")
            if position not in ("before", "after", "first", "last"):
                raise EditRefused("text", "position is before, after, first or last")
            selector = Selector(_word(given, "anchor"), line, _word(given, "pattern"))
            return InsertAtAnchor(selector, _text(given, "text"), position)


def _text(given: JsonObject, name: str) -> str:
    value = given.get(name)
    if not isinstance(value, str):
        raise EditRefused("text", f"{name} is a text, not {value!r:.50}")
    return value


def _word(given: JsonObject, name: str) -> str | None:
    return None if given.get(name) is None else _text(given, name)


_here = EditTools()
edit_apply_node = _here.edit_apply_node
edit_insert_at_anchor = _here.edit_insert_at_anchor
edit_rename_symbol = _here.edit_rename_symbol
edit_dry_run = _here.edit_dry_run
edit_safe_text_patch = _here.edit_safe_text_patch
