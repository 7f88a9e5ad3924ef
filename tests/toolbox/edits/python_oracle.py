"""A second opinion on the scopes of Python: the compiler's own symbol table, laid over its tree."""

from __future__ import annotations

import ast
import re
import symtable
import warnings
from collections import defaultdict
from typing import NamedTuple

_COMPREHENSIONS = {
    ast.ListComp: "listcomp",
    ast.SetComp: "setcomp",
    ast.DictComp: "dictcomp",
    ast.GeneratorExp: "genexpr",
}


class Unsure(Exception):
    """A file on which the two trees cannot be laid over each other."""


class Place(NamedTuple):
    """An identifier: where it begins, and whether it stands in an f-string."""

    start: int
    is_sure: bool


def symbols_of(data: bytes) -> dict[frozenset[int], bool]:
    """Return the symbols of a file as sets of offsets; False where positions are not reliable."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        tree = ast.parse(data)
        top = symtable.symtable(data.decode("utf-8-sig"), "file", "exec")
    oracle = _Oracle(data, top)
    oracle.visit_all(tree)
    return {
        frozenset(place.start for place in places): all(place.is_sure for place in places)
        for places in oracle.found.values()
    }


class _Oracle(ast.NodeVisitor):
    def __init__(self, data: bytes, top: symtable.SymbolTable) -> None:
        self.data = data
        self.starts = [0]
        for line in data.split(b"\n"):
            self.starts.append(self.starts[-1] + len(line) + 1)
        self.bom = 3 if data.startswith(b"\xef\xbb\xbf") else 0
        self.tables = [top]
        self.left: dict[int, list[symtable.SymbolTable]] = {}
        self.found: dict[tuple[int, str], set[Place]] = defaultdict(set)
        self.in_fstring = 0

    def visit_all(self, tree: ast.Module) -> None:
        for node in tree.body:
            self.visit(node)

    # ------------------------------------------------------------- scopes

    def enter(self, kind: str, name: str, line: int) -> None:
        table = self.tables[-1]
        queue = self.left.setdefault(table.get_id(), list(table.get_children()))
        for index, child in enumerate(queue):
            if child.get_name() == name and child.get_lineno() == line:
                del queue[index]
                self.tables.append(child)
                return
        raise Unsure(f"{kind} {name} on line {line}")

    def leave(self) -> None:
        self.tables.pop()

    def owner(self, name: str) -> int:
        """Return the id of the table that owns a name here."""
        chain = self.tables
        table = chain[-1]
        name = self.mangle(name)
        try:
            symbol = table.lookup(name)
        except KeyError:
            return self.owner_outside(name)  # in an annotation that is not evaluated
        if symbol.is_global():
            return chain[0].get_id()
        if symbol.is_local() and not symbol.is_nonlocal():
            return table.get_id()
        return self.owner_outside(name)

    def owner_outside(self, name: str) -> int:
        for outer in reversed(self.tables[:-1]):
            if outer.get_type() in ("class", symtable_type("class")):
                continue
            try:
                symbol = outer.lookup(name)
            except KeyError:
                continue
            if symbol.is_local() and not symbol.is_nonlocal():
                return outer.get_id()
        return self.tables[0].get_id()

    def mangle(self, name: str) -> str:
        if not name.startswith("__") or name.endswith("__"):
            return name
        for table in reversed(self.tables):
            if table.get_type() in ("class", symtable_type("class")):
                raise Unsure("a mangled name")
        return name

    def note(self, name: str, start: int) -> None:
        if self.data[start : start + len(name.encode())] != name.encode():
            if self.in_fstring:
                self.found[(self.owner(name), name)].add(Place(-start, False))
                return
            raise Unsure(f"{name} is not at {start}")
        self.found[(self.owner(name), name)].add(Place(start, not self.in_fstring))

    def at(self, node: ast.AST) -> int:
        start = self.starts[node.lineno - 1] + node.col_offset
        return start + self.bom if node.lineno == 1 else start

    def end_of(self, node: ast.expr | ast.pattern) -> int:
        assert node.end_lineno is not None and node.end_col_offset is not None
        return self.starts[node.end_lineno - 1] + node.end_col_offset

    def search(self, name: str, start: int, before: bytes) -> int:
        found = re.compile(before + rb"(?:\\\r?\n|\s)*" + re.escape(name.encode()) + rb"\b").search(
            self.data, start
        )
        if found is None:
            raise Unsure(name)
        return found.end() - len(name.encode())

    # ------------------------------------------------------------- nodes

    def visit_Name(self, node: ast.Name) -> None:
        self.note(node.id, self.at(node))

    def visit_JoinedStr(self, node: ast.JoinedStr) -> None:
        self.in_fstring += 1
        self.generic_visit(node)
        self.in_fstring -= 1

    def visit_FunctionDef(self, node: ast.FunctionDef | ast.AsyncFunctionDef) -> None:
        for one in node.decorator_list:
            self.visit(one)
        self.note(node.name, self.search(node.name, self.at(node), rb"def"))
        if getattr(node, "type_params", None):
            raise Unsure("type parameters")
        self.outer_arguments(node.args)
        if node.returns is not None:
            self.visit(node.returns)
        self.enter("function", node.name, node.lineno)
        self.inner_arguments(node.args)
        for one in node.body:
            self.visit(one)
        self.leave()

    visit_AsyncFunctionDef = visit_FunctionDef

    def visit_Lambda(self, node: ast.Lambda) -> None:
        self.outer_arguments(node.args)
        self.enter("lambda", "lambda", node.lineno)
        self.inner_arguments(node.args)
        self.visit(node.body)
        self.leave()

    def outer_arguments(self, args: ast.arguments) -> None:
        for one in (*args.defaults, *args.kw_defaults):
            if one is not None:
                self.visit(one)
        for one in self.all_arguments(args):
            if one.annotation is not None:
                self.visit(one.annotation)

    def inner_arguments(self, args: ast.arguments) -> None:
        for one in self.all_arguments(args):
            self.note(one.arg, self.at(one))

    def all_arguments(self, args: ast.arguments) -> list[ast.arg]:
        found = [*args.posonlyargs, *args.args, *args.kwonlyargs]
        return [*found, *[one for one in (args.vararg, args.kwarg) if one is not None]]

    def visit_ClassDef(self, node: ast.ClassDef) -> None:
        for one in node.decorator_list:
            self.visit(one)
        self.note(node.name, self.search(node.name, self.at(node), rb"class"))
        if getattr(node, "type_params", None):
            raise Unsure("type parameters")
        for one in (*node.bases, *node.keywords):
            self.visit(one)
        self.enter("class", node.name, node.lineno)
        for one in node.body:
            self.visit(one)
        self.leave()

    def comprehension(
        self, node: ast.ListComp | ast.SetComp | ast.DictComp | ast.GeneratorExp
    ) -> None:
        self.visit(node.generators[0].iter)
        self.enter("comprehension", _COMPREHENSIONS[type(node)], node.lineno)
        for index, one in enumerate(node.generators):
            self.visit(one.target)
            if index:
                self.visit(one.iter)
            for condition in one.ifs:
                self.visit(condition)
        for one in [node.key, node.value] if isinstance(node, ast.DictComp) else [node.elt]:
            self.visit(one)
        self.leave()

    visit_ListComp = visit_SetComp = visit_DictComp = visit_GeneratorExp = comprehension

    def visit_Import(self, node: ast.Import | ast.ImportFrom) -> None:
        for one in node.names:
            start = self.at(one)
            if one.asname is not None:
                self.note(one.asname, self.search(one.asname, start + len(one.name), rb"as"))
            elif one.name != "*" and not (
                isinstance(node, ast.ImportFrom) and node.module == "__future__"
            ):
                self.note(one.name.partition(".")[0], start)

    visit_ImportFrom = visit_Import

    def visit_ExceptHandler(self, node: ast.ExceptHandler) -> None:
        if node.type is not None:
            self.visit(node.type)
            if node.name is not None:
                end = self.end_of(node.type)
                self.note(node.name, self.search(node.name, end, rb"as"))
        for one in node.body:
            self.visit(one)

    def visit_Global(self, node: ast.Global | ast.Nonlocal) -> None:
        at = self.at(node)
        for name in node.names:
            at = self.search(name, at, rb"[\s,]")
            self.note(name, at)
            at += len(name.encode()) - 1

    visit_Nonlocal = visit_Global

    def visit_MatchAs(self, node: ast.MatchAs) -> None:
        if node.pattern is not None:
            self.visit(node.pattern)
        if node.name is not None:
            end = self.end_of(node)
            self.note(node.name, end - len(node.name.encode()))

    def visit_MatchStar(self, node: ast.MatchStar) -> None:
        if node.name is not None:
            end = self.end_of(node)
            self.note(node.name, end - len(node.name.encode()))

    def visit_MatchMapping(self, node: ast.MatchMapping) -> None:
        if node.rest is not None:
            raise Unsure("rest of a mapping")
        self.generic_visit(node)

    def visit_TypeAlias(self, node: ast.AST) -> None:
        raise Unsure("type alias")


def symtable_type(word: str) -> object:
    """Return the word of newer Pythons for the type of a table."""
    kinds = getattr(symtable, "SymbolTableType", None)
    return word if kinds is None else getattr(kinds, word.upper())
