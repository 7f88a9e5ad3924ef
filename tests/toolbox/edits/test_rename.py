"""Renames follow the scopes of each language, and refuse names that would mix two symbols."""

from __future__ import annotations

import pytest

from windlass.toolbox.edits.languages import BY_NAME
from windlass.toolbox.edits.refusal import EditRefused
from windlass.toolbox.edits.rename import plan_rename
from windlass.toolbox.edits.scopes.table import resolve_symbols
from windlass.toolbox.edits.source import Source
from windlass.toolbox.edits.spans import SpanEdit, apply_edits


def rename(language: str, text: str, symbol: str, new: str, line: int | None = None) -> str:
    source = Source(text.encode(), BY_NAME[language], "file")
    assert not source.faults
    return apply_edits(source.data, plan_rename(source, symbol, new, line).change.edits).decode()


def text_around(language: str, text: str, marked: str) -> str:
    """Return the text with marks around the symbol that has the first mark."""
    source = Source(text.encode(), BY_NAME[language], "file")
    first = len(marked[: marked.index("‹")].encode())
    [found] = [
        one
        for one in resolve_symbols(source)
        if any(occurrence.start == first for occurrence in one.occurrences)
    ]
    edits = [SpanEdit(o.start, o.end, f"‹{o.name}›".encode()) for o in found.occurrences]
    return apply_edits(source.data, edits).decode()


#: language, text with `‹x›` around every place that is renamed, symbol (None: that of the first mark), line
CASES = [
    ("python", "def f(‹x›, y=x0):\n    def g(x):\n        return x\n    return ‹x› + y", "f/x", 1),
    ("python", "‹x› = 1\ndef f():\n    global ‹x›\n    ‹x› = 2\ndef g():\n    x = 3", "x", 1),
    ("python", "def f():\n    ‹x› = 1\n    def g():\n        nonlocal ‹x›\n        ‹x› += 1", "x", 2),
    ("python", "‹x› = 1\nclass A:\n    x = 2\n    def f(self):\n        return ‹x›", "x", 1),
    ("python", "x = 1\nprint([‹x› for ‹x› in x if ‹x›])", None, None),
    ("python", "def f(a):\n    if (‹n› := a):\n        return [‹n› for b in a]", "n", 2),
    ("python", "match v:\n    case {'k': ‹x›} if ‹x›:\n        print(‹x›, v.x)", "x", 2),
    ("python", "class A:\n    def ‹run›(self):\n        self.‹run›(); a.run()", "A/run", None),
    ("python", 'def f(‹x›):\n    return f"{‹x›!r:>{‹x›}} x"', "f/x", None),
    ("python", "try: pass\nexcept E as ‹x›:\n    print(‹x›)", "x", None),
    ("javascript", "let x = 1; { let ‹x› = 2; f(‹x›, o.x, {x: 1}); } f(x)", None, None),
    ("javascript", "function f(‹a›) { var b = () => ‹a›; return function (a) { return a } }", None, None),
    ("javascript", "function f() { if (1) { var ‹v› = 1 } return ‹v› }\nvar v", None, None),
    ("javascript", "for (const ‹i› of xs) { use(‹i›) }\nlet i", None, None),
    ("typescript", "type ‹T› = string; let a: ‹T›; function f<T>(x: T): T { return x }", "T", None),
    ("typescript", "class A { ‹x› = 1; m() { return this.‹x› + o.x } }", "A/x", None),
    ("typescript", "enum ‹E› { A }\nlet e: ‹E› = ‹E›.A", "E", None),
    ("tsx", "const ‹App› = () => <div/>; const r = <‹App› app={1}></‹App›>", None, None),
    ("go", "package p\nfunc f(‹x› int) int {\n\ty := ‹x›\n\t{\n\t\tx := ‹x›\n\t\t_ = x\n\t}\n\treturn ‹x› + y\n}", "f/x", 2),
    ("go", "package p\nfunc f() {\n\tx := 1\n\tif ‹x› := g(x); ‹x› > 0 {\n\t\th(‹x›)\n\t}\n\th(x)\n}", "x", 5),
    ("go", "package p\ntype ‹T› struct{ t int }\nfunc (t ‹T›) m() ‹T› { return ‹T›{t: 1} }", "T", None),
    ("go", "package p\ntype T struct{ ‹n› int }\nfunc (t *T) m() { t.‹n›++; o.n++ }", "type:T/n", None),
    ("rust", "fn f() {\n  let x = 1;\n  let ‹x› = x + 1;\n  g(‹x›);\n}", "x", 4),
    ("rust", 'fn f(‹x›: u8) {\n  println!("{‹x›} {} {{x}}", ‹x›);\n}', "f/x", 1),
    ("rust", "fn f(o: Option<u8>) {\n  if let Some(‹v›) = o { g(‹v›) } else { g(v) }\n}", None, None),
    ("rust", "struct ‹S›;\nimpl ‹S› { fn n() -> ‹S› { ‹S› } }\nmod m { struct S; }", "S", 1),
    ("java", "class A {\n  int ‹x›;\n  void f(int x) { this.‹x› = x; g(o.x); }\n  int g() { return ‹x›; }\n}", "A/x", None),
    ("java", "class A {\n  int x;\n  void ‹x›() { this.‹x›(); ‹x›(); o.x(); int y = x; }\n}", None, None),
    ("java", "class ‹A› {\n  ‹A›() {}\n  static ‹A› of() { return new ‹A›(); }\n}", "class:A", None),
    ("c", "int x;\nint f(int ‹x›) { for (int i = ‹x›; i; i--) { int x = i; g(x); } return ‹x›; }", None, None),
    ("c", "struct ‹s› { int s; };\nstruct ‹s› *f(struct ‹s› *s) { return s; }", "struct:s", None),
    ("c", "#define ‹MAX› 3\nint a[‹MAX›];", "MAX", None),
    ("cpp", "class ‹A› { public: ‹A›(int a) : a_(a) {} ~‹A›(); int a_; };\n‹A› make() { return ‹A›(1); }", "class:A", None),
    ("cpp", "class A { int ‹n›; int f(int m) { return ‹n› + this->‹n› + m; } };", "A/n", None),
]  # fmt: skip


@pytest.mark.parametrize(("language", "marked", "symbol", "line"), CASES)
def test_rename_follows_the_scope(
    language: str, marked: str, symbol: str | None, line: int | None
) -> None:
    text = marked.replace("‹", "").replace("›", "")
    if symbol is None:
        assert text_around(language, text, marked) == marked
        return
    old = marked[marked.index("‹") + 1 : marked.index("›")]
    expected = marked.replace(f"‹{old}›", "new_name")
    assert "‹" not in expected
    assert rename(language, text, symbol, "new_name", line) == expected


SPELLED = [
    ("python", "from a import b\nb()", "b", "from a import b as c\nc()"),
    ("python", "import os\nos.x", "os", "import os as c\nc.x"),
    ("javascript", "import {b} from 'a'\nb()", "b", "import {b as c} from 'a'\nc()"),
    ("javascript", "const {b} = o; f({b})", "b", "const {b: c} = o; f({b: c})"),
    ("javascript", "let b; export {b}", "b", "let c; export {c as b}"),
    ("rust", "fn f(b: u8) -> S { S { b } }", "f/b", "fn f(c: u8) -> S { S { b: c } }"),
    ("rust", "use a::b;\nfn f() { b() }", "b", "use a::b as c;\nfn f() { c() }"),
    ("json", '{"a": {"b": 1}, "b": 2}', "a/b", '{"a": {"c": 1}, "b": 2}'),
    ("yaml", "a:\n  b: 1 # b\nb: 2\n", "a/b", "a:\n  c: 1 # b\nb: 2\n"),
    ("toml", "[a]\nb = 1\n[b]\n", "key:b", "[a]\nc = 1\n[b]\n"),
]


@pytest.mark.parametrize(("language", "text", "symbol", "expected"), SPELLED)
def test_rename_keeps_the_name_that_others_know(
    language: str, text: str, symbol: str, expected: str
) -> None:
    assert rename(language, text, symbol, "c") == expected


REFUSED = [
    ("python", "def f(a, b):\n    return a + b", "f/a", "b", "collision"),
    ("python", "def f(a):\n    return a + len(a)", "f/a", "len", "collision"),
    ("python", "b = 1\ndef f(a):\n    return a + b", "f/a", "b", "collision"),
    ("python", "a = 1\ndef f(b):\n    return a + b", "variable:a", "b", "collision"),
    ("python", "a = 1", "a", "class", "syntax"),
    ("python", "a = 1", "a", "1b", "text"),
    ("python", "import os.path\nos.path", "os", "b", "text"),
    ("python", "print(a)", "a", "b", "not_found"),
    ("python", "a = 1", "b", "c", "not_found"),
    ("python", "def f(a): ...\ndef g(a): ...", "a", "b", "ambiguous"),
    ("javascript", "let a = 1; { let b; f(a) }", "a", "b", "collision"),
    ("javascript", "let a = 1", "a", "if", "syntax"),
    ("rust", "fn f(a: u8) { let b = 1; g(a); }", "f/a", "b", "collision"),
    ("go", "package p\nfunc f(a int) { b := 1; g(a, b) }", "f/a", "b", "collision"),
    ("java", "class A { int a; int b; }", "A/a", "b", "collision"),
    ("typescript", "class A { a = 1; b = 2 }", "A/a", "b", "collision"),
    ("tsx", "const App = () => <div/>; const r = <App/>", "App", "app", "collision"),
    ("json", '{"a": 1, "b": 2}', "a", "b", "collision"),
]


@pytest.mark.parametrize(("language", "text", "symbol", "new", "code"), REFUSED)
def test_rename_that_would_change_a_meaning_is_refused(
    language: str, text: str, symbol: str, new: str, code: str
) -> None:
    with pytest.raises(EditRefused) as refused:
        rename(language, text, symbol, new)
    assert refused.value.code == code
    if code in ("collision", "syntax"):
        assert rename(language, text, symbol, "Zz") != text
