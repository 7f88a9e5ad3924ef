"""Where edits go: the node that is named, the separators of its list, its indentation, its bytes."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path
from typing import Any

import pytest

import windlass as w
from windlass.toolbox.edits import tools as tools_module
from windlass.toolbox.edits.plans import ApplyNode, EditRequest, InsertAtAnchor, PatchText
from windlass.toolbox.edits.refusal import EditRefused
from windlass.toolbox.edits.result import build_result, parse_result
from windlass.toolbox.edits.selectors import Selector
from windlass.toolbox.edits.spans import SpanEdit, apply_edits, reverse_diff, unified_diff


def edit(path: str, text: str | bytes, request: EditRequest) -> str:
    data = text if isinstance(text, bytes) else text.encode()
    return apply_edits(data, request.plan(data, path).change.edits).decode()


def add(path: str, text: str, anchor: str, new: str, position: Any = "after") -> str:
    return edit(path, text, InsertAtAnchor(Selector(anchor), new, position))


def put(path: str, text: str, node: str | None, new: str, **more: Any) -> str:
    return edit(path, text, ApplyNode(Selector(node, **more), new))


INSERTED = [
    ("a.js", "f({\n  a() {},\n  b() {}\n})", "a", "c() {}", "after", "f({\n  a() {},\n  c() {},\n  b() {}\n})"),
    ("a.js", "f({\n  a: 1 // one\n})", "a", "b: 2", "after", "f({\n  a: 1, // one\n  b: 2\n})"),
    ("a.js", "x = {a: 1, b: 2}", "a", "c: 3,", "before", "x = {c: 3, a: 1, b: 2}"),
    ("a.ts", "type A = { a: string }", "a", "b: number", "after", "type A = { a: string; b: number }"),
    ("a.ts", "interface A {\n  a: string\n}", "A", "b: number", "last", "interface A {\n  a: string\n  b: number\n}"),
    ("a.ts", "class A {}", "A", "x = 1", "first", "class A {\n    x = 1\n}"),
    ("a.py", "@d\ndef f():\n    pass\n", "f", "@e\ndef g(): ...", "before", "@e\ndef g(): ...\n\n\n@d\ndef f():\n    pass\n"),
    ("a.py", 'def f():\n    """Doc."""\n    return 1\n', "f", "x = 1", "first", 'def f():\n    """Doc."""\n    x = 1\n    return 1\n'),
    ("a.py", "class A:\n\n    def f(self):\n        pass\n\n    def g(self):\n        pass\n", "f", "def h(self):\n    pass", "after", "class A:\n\n    def f(self):\n        pass\n\n    def h(self):\n        pass\n\n    def g(self):\n        pass\n"),
    ("a.py", "import b\n", "file", "import a", "first", "import a\nimport b\n"),
    ("a.py", "", "file", "x = 1", "last", "x = 1\n"),
    ("a.py", "x = [\n    1,\n    2,\n]\n", "x", "3", "last", "x = [\n    1,\n    2,\n    3,\n]\n"),
    ("a.go", "package p\n\nfunc f() {\n\tg()\n}\n", "f", "h()", "last", "package p\n\nfunc f() {\n\tg()\n\th()\n}\n"),
    ("a.go", "package p\n\ntype T struct {\n\ta int\n}\n", "T", "b int", "last", "package p\n\ntype T struct {\n\ta int\n\tb int\n}\n"),
    ("a.go", "package p\n", "file", "import \"fmt\"", "first", "package p\nimport \"fmt\"\n"),
    ("a.rs", "enum E {\n    A,\n    B,\n}\n", "E", "C", "last", "enum E {\n    A,\n    B,\n    C,\n}\n"),
    ("a.rs", "#[a]\nfn f() {}\n", "f", "fn g() {}", "before", "fn g() {}\n#[a]\nfn f() {}\n"),
    ("A.java", "enum E {\n  A,\n  B;\n  int x;\n}\n", "B", "C", "after", "enum E {\n  A,\n  B,\n  C;\n  int x;\n}\n"),
    ("a.c", "typedef struct s {\n  int a;\n} s;\n", "struct:s", "int x;", "before", "int x;\n\ntypedef struct s {\n  int a;\n} s;\n"),
    ("a.cpp", "class A {\npublic:\n  int f();\n};\n", "f", "int g();", "after", "class A {\npublic:\n  int f();\n  int g();\n};\n"),
    ("a.json", "[1, 2]", "item:1", "3", "after", "[1, 2, 3]"),
    ("a.yaml", "a:\n- x: 1\n  y: 2\n", "key:x", "z: 3", "after", "a:\n- x: 1\n  z: 3\n  y: 2\n"),
    ("a.toml", "[a]\nx = 1\n\n[b]\ny = 2\n", "table:a", "z = 3", "last", "[a]\nx = 1\nz = 3\n\n[b]\ny = 2\n"),
]  # fmt: skip


@pytest.mark.parametrize(("path", "text", "anchor", "new", "position", "expected"), INSERTED)
def test_insertion_brings_separators_and_indentation(
    path: str, text: str, anchor: str, new: str, position: str, expected: str
) -> None:
    assert add(path, text, anchor, new, position) == expected


REPLACED = [
    ("a.py", "class A:\n    @p\n    def f(self):\n        pass\n", "f", "def f(self):\n    return 1", "class A:\n    def f(self):\n        return 1\n"),
    ("a.py", "class A:\n    def f(self):\n        pass\n", "f", "    def f(self):\n        return 1\n", "class A:\n    def f(self):\n        return 1\n"),
    ("a.py", "class A:\n    def f(self):\n        pass\n", "f", "def f(self):\n        return 1", "class A:\n    def f(self):\n        return 1\n"),
    ("a.py", 'class A:\n    x = 1\n', "x", 'x = """\nraw\n"""', 'class A:\n    x = """\nraw\n"""\n'),
    ("a.ts", "export const f = () => 1;\n", "f", "export const f = () => 2;", "export const f = () => 2;\n"),
    ("a.ts", "@d()\nexport class A {}\n", "A", "class A { x = 1 }", "class A { x = 1 }\n"),
    ("a.cpp", "class A {\n};\n", "A", "class A {\n  int x;\n};", "class A {\n  int x;\n};\n"),
    ("a.json", '{"a": 1, "b": 2}', "a", '"a": 3,', '{"a": 3, "b": 2}'),
    ("a.yaml", "a:\n  b:\n    c: 1\n  d: 2\n", "a/b", "b:\n  c: 3\n  e: 4", "a:\n  b:\n    c: 3\n    e: 4\n  d: 2\n"),
    ("a.toml", "[a]\nx = 1\n\n[b]\n", "table:a", "[a]\nx = 2", "[a]\nx = 2\n\n[b]\n"),
    ("a.go", "package p\n\nfunc (t *T) M() {\n}\n", "type:T/function:M", "func (t *T) M() int {\n\treturn 1\n}", "package p\n\nfunc (t *T) M() int {\n\treturn 1\n}\n"),
    ("a.rs", "impl A for B {\n    fn f() {}\n}\n", "impl:A for B/f", "fn f() -> u8 {\n    1\n}", "impl A for B {\n    fn f() -> u8 {\n        1\n    }\n}\n"),
]  # fmt: skip


@pytest.mark.parametrize(("path", "text", "node", "new", "expected"), REPLACED)
def test_replacement_is_indented_as_the_node_is(
    path: str, text: str, node: str, new: str, expected: str
) -> None:
    assert put(path, text, node, new) == expected


def test_node_is_found_by_line_pattern_and_grammar() -> None:
    text = "def f():\n    if a:\n        print(1)\n    if b:\n        print(2)\n"
    assert put("a.py", text, None, "print(3)", line=5) == text.replace("print(2)", "print(3)")
    assert put("a.py", text, "f/if_statement#2", "pass").endswith("print(1)\n    pass\n")
    assert put("a.py", text, None, "log(2)", pattern="print(2)") == text.replace(
        "print(2)", "log(2)"
    )
    wide = "é = 'ü'\nprint(1, é)\n"
    assert put("a.py", wide, None, "log()", pattern="print($$$)") == "é = 'ü'\nlog()\n"
    with pytest.raises(EditRefused, match="matches 2 nodes"):
        put("a.py", text, None, "x", pattern="print($A)")
    with pytest.raises(EditRefused, match="not available for toml"):
        put("a.toml", "a = 1\n", None, "x", pattern="a = $A")
    for broken in ("", "$", "((("):
        with pytest.raises(EditRefused):
            put("a.py", text, None, "x", pattern=broken)


def test_edits_keep_line_endings_and_the_byte_order_mark() -> None:
    text = b"\xef\xbb\xbfclass A:\r\n    def f(self):\r\n        pass\r\n"
    made = edit("a.py", text, ApplyNode(Selector("f"), "def f(self):\n    return 1")).encode()
    assert made == text.replace(b"pass", b"return 1")
    made = edit("a.py", text, PatchText("self):\n        pass", "self):\n        ...")).encode()
    assert made == text.replace(b"pass", b"...")


def test_undo_restores_bytes_that_are_not_utf8() -> None:
    before = b"# caf\xe9\nx = 1  # \xff\ny = 2"
    edits = PatchText("x = 1", "x = 3").plan(before, "a.py").change.edits
    result = build_result("a.py", before, edits, "patched")
    recorded = parse_result(str(result))
    assert result.restore and recorded is not None
    assert recorded.reverse(apply_edits(before, edits)) == before


def test_reverse_of_a_diff_that_does_not_fit_is_nothing() -> None:
    diff = unified_diff("a", b"a\nb\n", b"a\nc\n")
    assert reverse_diff(b"a\nc\n", diff) == b"a\nb\n"
    for other in (b"", b"a\n", b"a\nd\n", b"c\n"):
        assert reverse_diff(other, diff) is None
    for before, after in ((b"", b"x"), (b"x", b""), (b"x\n", b"x"), (b"a\r\nb", b"a\nb\r\n")):
        assert reverse_diff(after, unified_diff("a", before, after)) == before


def test_edit_that_swallows_its_neighbours_is_refused() -> None:
    text = "function f() {}\nfunction g() {}\n"
    assert put("a.js", text, "f", "function f() { g() }")
    with pytest.raises(EditRefused):
        put("a.js", text, "f", "function f() {")
    open_block = "class A:\n    def f(self): pass\n    def g(self): pass\n"
    with pytest.raises(EditRefused):
        put("a.py", open_block, "f", "def f(self):\n    if b:")


def test_errors_that_were_there_do_not_stop_an_edit() -> None:
    text = "interface X<out A> { p: string }\nfunction f() { return 1 }\n"
    assert "return 2" in put("a.ts", text, "f", "function f() { return 2 }")
    with pytest.raises(EditRefused) as refused:
        put("a.ts", text, "f", "function f() { return 2 ")
    assert refused.value.code == "syntax"


def test_deep_nesting_and_odd_texts_are_answered() -> None:
    deep = "x = " + "(" * 20_000 + "1" + ")" * 20_000 + "\ny = 2\n"
    assert put("a.py", deep, "variable:y", "y = 3").endswith("y = 3\n")
    nested = '{"a":' * 3_000 + "1" + "}" * 3_000
    with pytest.raises(EditRefused):
        put("a.json", nested, "a", '"b": 1')
    for text in ("", "\n", "\ud800", "x" * 10, "\0"):
        with pytest.raises(EditRefused):
            put("a.json", '{"a": 1}', "a", text)
    with pytest.raises(EditRefused, match="binary"):
        edit("a.py", b"\0\1\2", ApplyNode(Selector("x"), "y"))
    with pytest.raises(EditRefused, match="no language"):
        put("a.txt", "x", "x", "y")
    for path in ("", "//", ":", "#1", '"', "a" * 5_000):
        with pytest.raises(EditRefused):
            put("a.py", "x = 1\n", path, "y = 1")


def test_text_patch_names_the_line_that_differs() -> None:
    text = "def f():\n    return 1\n\ndef g():\n    return 1\n"
    with pytest.raises(EditRefused, match="2 times, on lines 2, 5"):
        edit("a.py", text, PatchText("return 1", "return 2"))
    assert edit("a.py", text, PatchText("return 1", "return 2", line=5)).count("return 2") == 1
    assert edit("a.py", text, PatchText("return 1", "return 2", True)).count("return 2") == 2
    with pytest.raises(
        EditRefused, match="line 2 is\n    return 1\nand old_text has\n    return 3"
    ):
        edit("a.py", text, PatchText("def f():\n    return 3", "x"))
    with pytest.raises(EditRefused, match="syntax"):
        edit("a.py", text, PatchText("def f():", "def f(:"))
    assert edit("notes.txt", "a (b", PatchText("(b", "((")) == "a (("


async def test_change_by_another_between_read_and_write_is_noticed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "a.py"
    file.write_text("x = 1\n")
    edits = w.EditTools(tmp_path)
    plan = tools_module.plan_edit

    async def meddle(request: EditRequest, data: bytes, path: str) -> Any:
        planned = await plan(request, data, path)
        file.write_text("x = 1\ny = 2\n")
        return planned

    monkeypatch.setattr(tools_module, "plan_edit", meddle)
    with pytest.raises(EditRefused, match="changed since it was read") as refused:
        await edits.edit_apply_node("a.py", "x = 3", node="x")
    assert refused.value.code == "changed" and file.read_text() == "x = 1\ny = 2\n"
    monkeypatch.setattr(tools_module, "plan_edit", plan)
    assert (await edits.edit_apply_node("a.py", "x = 3", node="x")).is_changed


async def test_cancelled_edit_is_made_whole_or_not_at_all(tmp_path: Path) -> None:
    edits = w.EditTools(tmp_path)
    for step in range(12):
        file = tmp_path / f"f{step}.py"
        file.write_text("x = 1\n")
        task = asyncio.create_task(edits.edit_apply_node(file.name, "x = 3", node="x"))
        for _ in range(step):
            await asyncio.sleep(0)
        task.cancel()
        done = await asyncio.gather(task, return_exceptions=True)
        after = file.read_text()
        assert after in ("x = 1\n", "x = 3\n") and len(done) == 1
    assert [one for one in os.listdir(tmp_path) if one.endswith(".tmp")] == []


def test_spans_that_overlap_are_refused() -> None:
    with pytest.raises(EditRefused, match="overlap"):
        apply_edits(b"abc", [SpanEdit(0, 2, b""), SpanEdit(1, 3, b"")])
    assert apply_edits(b"abc", [SpanEdit(2, 3, b"z"), SpanEdit(0, 1, b"x")]) == b"xbz"
