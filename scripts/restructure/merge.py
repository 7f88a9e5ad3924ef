"""Merge modules by the table in `merges.txt`, where that is safe; `move.py` runs it.

A merge is left out, with the reason, if names clash, if one part imports another only inside a
function or as a module, if the merged module would be part of an import cycle, or if it would be
too long.
"""

from __future__ import annotations

import ast
from functools import cache
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parents[2]
SOURCE = ROOT / "src"
TABLE = Path(__file__).with_name("merges.txt")
LONGEST = 600


class Part(NamedTuple):
    """One module, taken apart."""

    name: str
    doc: str
    imports: list[ast.Import | ast.ImportFrom]
    typing: list[ast.Import | ast.ImportFrom]
    body: str
    defined: dict[str, str]
    inner: set[str]


def path_of(module: str) -> Path:
    """The file of a module."""
    path = SOURCE / module.replace(".", "/")
    return path / "__init__.py" if path.is_dir() else path.with_suffix(".py")


def read(module: str) -> Part:
    """Take a module apart: docstring, imports, imports for type checkers, the rest."""
    text = path_of(module).read_text("utf-8")
    tree, lines = ast.parse(text), text.splitlines(keepends=True)
    imports: list[ast.Import | ast.ImportFrom] = []
    types: list[ast.Import | ast.ImportFrom] = []
    gone: set[int] = set()
    defined: dict[str, str] = {}
    inner: set[str] = set()
    for index, node in enumerate(tree.body):
        if isinstance(node, (ast.Import, ast.ImportFrom)):
            imports.append(node)
        elif isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING":
            if not all(isinstance(each, (ast.Import, ast.ImportFrom)) for each in node.body):
                raise Unsafe("TYPE_CHECKING holds more than imports")
            types += [each for each in node.body if isinstance(each, (ast.Import, ast.ImportFrom))]
        elif not (index == 0 and isinstance(node, ast.Expr)):
            for each in ast.walk(node):
                if isinstance(each, ast.ImportFrom):
                    inner.add(each.module or "")
                    inner |= {f"{each.module}.{name.name}" for name in each.names}
            for name in _names(node):
                defined[name] = ast.unparse(node)
            continue
        gone |= set(range(node.lineno - 1, node.end_lineno or 0))
    body = "".join(line for number, line in enumerate(lines) if number not in gone)
    return Part(module, ast.get_docstring(tree) or "", imports, types, body, defined, inner)


class Unsafe(Exception):
    """Why two modules are not merged."""


def _names(node: ast.stmt) -> list[str]:
    match node:
        case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name) | ast.ClassDef(name=name):
            return [name]
        case ast.Assign(targets=targets):
            return [each.id for t in targets for each in ast.walk(t) if isinstance(each, ast.Name)]
        case ast.AnnAssign(target=ast.Name(id=name)):
            return [name]
        case _:
            return []


@cache
def _imports(path: Path, _changed: int) -> list[tuple[str, list[str]]]:
    """What a file imports when it is loaded: modules, and names of each."""
    return [
        (node.module or "", [each.name for each in node.names])
        for node in ast.parse(path.read_text("utf-8")).body
        if isinstance(node, ast.ImportFrom)
    ]


def graph(moved: dict[str, str]) -> dict[str, set[str]]:
    """What each module imports when it is loaded."""
    modules: dict[str, Path] = {}
    for path in (SOURCE / "windlass").rglob("*.py"):
        name = ".".join(path.relative_to(SOURCE).with_suffix("").parts)
        modules[name.removesuffix(".__init__")] = path
    edges: dict[str, set[str]] = {}
    for name, path in modules.items():
        found: set[str] = set()
        for module, imported in _imports(path, path.stat().st_mtime_ns):
            for each in imported:
                whole = f"{module}.{each}"
                known = whole in modules or whole in moved
                found.add(moved.get(whole, whole) if known else moved.get(module, module))
        edges[name] = {each for each in found if each in modules}
    return edges


def _check_cycle(parts: list[str], edges: dict[str, set[str]]) -> None:
    """No way may lead from one part to another through a third module."""
    todo = [each for part in parts for each in edges[part] if each not in parts]
    seen: set[str] = set()
    while todo:
        at = todo.pop()
        if at in parts:
            raise Unsafe("it would import itself")
        if at not in seen:
            seen.add(at)
            todo += edges[at]


def _check_names(parts: list[Part]) -> None:
    own = {part.name for part in parts}
    packages = {name.rpartition(".")[0] for name in own}
    for one in parts:
        if one.inner & own:
            raise Unsafe("one is imported inside a function of the other")
        for node in [*one.imports, *one.typing]:
            if isinstance(node, ast.ImportFrom):
                if node.module in own and any(each.asname for each in node.names):
                    raise Unsafe("a name is imported under another")
                if node.module in packages and any(
                    f"{node.module}.{each.name}" in own for each in node.names
                ):
                    raise Unsafe("a part is imported as a module")
        bound = {
            each.asname or each.name: (getattr(node, "module", ""), each.name)
            for node in [*one.imports, *one.typing]
            for each in node.names
            if getattr(node, "module", "") not in own
        }
        for other in parts:
            if other is one:
                continue
            both = one.defined.keys() & other.defined.keys()
            if clash := sorted(name for name in both if one.defined[name] != other.defined[name]):
                raise Unsafe(f"both define {', '.join(clash)}")
            if both:
                raise Unsafe(f"both define {', '.join(sorted(both))} alike")
            if clash := sorted(bound.keys() & other.defined.keys()):
                raise Unsafe(f"{', '.join(clash)} is imported by one, defined by the other")
            theirs = {
                each.asname or each.name: (getattr(node, "module", ""), each.name)
                for node in [*other.imports, *other.typing]
                for each in node.names
            }
            for name in bound.keys() & theirs.keys():
                if bound[name] != theirs[name] and theirs[name][0] not in own:
                    raise Unsafe(f"{name} means two things")


def _ordered(parts: list[Part], edges: dict[str, set[str]]) -> list[Part]:
    """Those that others need come first."""
    out: list[Part] = []
    left = list(parts)
    while left:
        for part in left:
            if not any(other.name in edges[part.name] for other in left if other is not part):
                out.append(part)
                left.remove(part)
                break
        else:
            raise Unsafe("they import each other")
    return out


def merge(target: str, names: list[str], edges: dict[str, set[str]]) -> None:
    """Write the parts into one file."""
    parts = [read(name) for name in names]
    own = set(names)
    _check_cycle(names, edges)
    _check_names(parts)
    lines: list[str] = []
    typed: list[str] = []
    at_run = {
        each.asname or each.name for part in parts for node in part.imports for each in node.names
    }
    for part in parts:
        for node in part.imports:
            if (
                getattr(node, "module", "") not in own
                and getattr(node, "module", "") != "__future__"
            ):
                lines.append(ast.unparse(node))
        for node in part.typing:
            if getattr(node, "module", "") not in own:
                kept = [each for each in node.names if (each.asname or each.name) not in at_run]
                if kept:
                    node.names = kept
                    typed.append("    " + ast.unparse(node))
    pieces: list[str] = []
    for part in _ordered(parts, edges):
        if part is not parts[0]:
            pieces.append("".join(f"# {line}".rstrip() + "\n" for line in part.doc.splitlines()))
        pieces.append(part.body)
    block = "if TYPE_CHECKING:\n" + "\n".join(dict.fromkeys(typed)) + "\n" if typed else ""
    head = "\n".join(dict.fromkeys(lines))
    quote = '"""'
    raw = "r" if "\\" in parts[0].doc else ""
    ending = "\n" if "\n" in parts[0].doc else ""
    text = (
        f"{raw}{quote}{parts[0].doc}{ending}{quote}\n\nfrom __future__ import annotations\n\n{head}\n\n"
        f"{block}\n\n" + "\n\n".join(pieces)
    )
    if text.count("\n") > LONGEST:
        raise Unsafe(f"{text.count(chr(10))} lines")
    for name in names:
        path_of(name).unlink()
    package = SOURCE / target.replace(".", "/")
    if package.is_dir():
        (package / "__init__.py").unlink()
        for cached in package.rglob("*.pyc"):
            cached.unlink()
        for folder in sorted(package.rglob("*"), reverse=True):
            folder.rmdir()
        package.rmdir()
    package.with_suffix(".py").write_text(text, "utf-8")


def merge_all() -> dict[str, str]:
    """Merge what can be merged; where each module is now."""
    moved: dict[str, str] = {}
    for line in TABLE.read_text("utf-8").splitlines():
        if not (words := line.partition("#")[0]).strip():
            continue
        listed, _, target = words.partition(">")
        names = [f"windlass.{name}" for name in listed.split()]
        whole = f"windlass.{target.strip()}" if target.strip() else names[0]
        try:
            merge(whole, names, graph(moved))
        except Unsafe as error:
            print(f"not merged: {listed.strip()}: {error}")
            continue
        moved.update({name: whole for name in names if name != whole})
    return moved
