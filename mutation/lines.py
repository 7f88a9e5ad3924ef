"""Where options are read: every place in the source that takes one out of an option group."""

from __future__ import annotations

import ast
from collections import Counter, defaultdict
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import NamedTuple

SOURCE = Path(__file__).parents[1] / "src" / "windlass"
INDEX = SOURCE / "options" / "index.py"
#: What options that are looked up by name stand in.
_MAPPINGS = frozenset({"values", "now", "typed"})


class Line(NamedTuple):
    """One reading of an option; the number tells readings in the same function apart."""

    option: str
    module: str
    scope: str
    number: int = 1

    def __str__(self) -> str:
        return f"{self.option}@{self.module}:{self.scope}" + f"#{self.number}" * (self.number > 1)

    @staticmethod
    def of(text: str) -> Line:
        """`tools@engine.assemble:assemble#2`, taken apart."""
        option, _, rest = text.partition("@")
        module, _, place = rest.partition(":")
        scope, _, number = place.partition("#")
        return Line(option, module, scope, int(number or 1))


def read_groups() -> dict[str, frozenset[str]]:
    """The options of each group, by the name of the group; nothing of Windlass is imported."""
    for node in ast.parse(INDEX.read_text("utf-8")).body:
        if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
            if node.target.id == "GROUPS" and node.value is not None:
                groups: dict[str, set[str]] = defaultdict(set)
                for option, place in ast.literal_eval(node.value).items():
                    groups[place.partition(":")[2]].add(option)
                return {name: frozenset(options) for name, options in groups.items()}
    raise SystemExit(f"no GROUPS in {INDEX}")


GROUPS = read_groups()


@cache
def reads_options(module: str) -> bool:
    """Does this module of Windlass, `engine.assemble` say, read options?"""
    path = SOURCE.joinpath(*module.split(".")).with_suffix(".py")
    if not path.exists() or "Options" not in (text := path.read_text("utf-8")):
        return False
    every = frozenset().union(*GROUPS.values())
    return next(found(ast.parse(text), module, every), None) is not None


def lines(known: frozenset[str]) -> Iterator[Line]:
    """Every place that reads one of these options."""
    for path in sorted(SOURCE.rglob("*.py")):
        module = ".".join(path.relative_to(SOURCE).with_suffix("").parts)
        if reads_options(module):
            for line, _ in found(ast.parse(path.read_text("utf-8")), module, known):
                yield line


def found(tree: ast.Module, module: str, known: frozenset[str]) -> Iterator[tuple[Line, ast.expr]]:
    """The readings in one module, each with the expression that is the option."""
    counts: Counter[tuple[str, str]] = Counter()
    for scope, node, held in _scopes(tree.body, "", {}):
        for option, expression in _readings(node, held):
            if option in known:
                counts[scope, option] += 1
                yield Line(option, module, scope, counts[scope, option]), expression


def _scopes(
    body: list[ast.stmt], within: str, held: dict[str, str]
) -> Iterator[tuple[str, ast.AST, dict[str, str]]]:
    """Functions and methods, each under its name, with the attributes of `self` that hold a group."""
    for node in body:
        match node:
            case ast.ClassDef(name=name) if name not in GROUPS:
                own = {key: group for key, group in _bound(node).items() if key.startswith("self.")}
                yield from _scopes(node.body, f"{name}.", own)
            case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name):
                yield within + name, node, held
            case _:
                pass


def _readings(function: ast.AST, held: dict[str, str]) -> Iterator[tuple[str, ast.expr]]:
    """Attributes of groups, and options that are looked up in a mapping by name."""
    bound = {**held, **_bound(function)}
    for node in ast.walk(function):
        match node:
            case ast.Attribute(value=value, attr=option, ctx=ast.Load()):
                group = _group_of(value) or bound.get(_path(value) or "")
                if group is not None and option in GROUPS[group]:
                    yield option, node
            case ast.Call(
                func=ast.Attribute(value=looked, attr="get"),
                args=[ast.Constant(value=str(name)), *_],
            ) if _path(looked) in _MAPPINGS:
                yield name, node
            case _:
                pass


def _bound(root: ast.AST) -> dict[str, str]:
    """Names and attributes that hold a group, by their path."""
    bound: dict[str, str] = {}
    for node in ast.walk(root):
        match node:
            case ast.Assign(targets=[ast.Tuple(elts=targets)], value=ast.Tuple(elts=values)):
                for target, value in zip(targets, values, strict=False):
                    _bind(bound, target, value)
            case ast.Assign(targets=targets, value=value):
                for target in targets:
                    _bind(bound, target, value)
            case ast.arg(arg=name, annotation=ast.Name(id=group)) if group in GROUPS:
                bound[name] = group
            case _:
                pass
    return bound


def _bind(bound: dict[str, str], target: ast.expr, value: ast.expr) -> None:
    group, path = _group_of(value), _path(target)
    if group is not None and path is not None:
        bound[path] = group


def _group_of(node: ast.expr) -> str | None:
    """The group that `StallOptions.read(values)` gives."""
    match node:
        case ast.Call(func=ast.Attribute(value=ast.Name(id=group), attr="read")):
            return group if group in GROUPS else None
        case _:
            return None


def _path(node: ast.expr) -> str | None:
    match node:
        case ast.Name(id=name):
            return name
        case ast.Attribute(value=ast.Name(id="self"), attr=attr):
            return f"self.{attr}"
        case _:
            return None
