"""Where options are read: every place in the source that names one to look it up."""

from __future__ import annotations

import ast
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

SOURCE = Path(__file__).parents[1] / "src" / "windlass"
#: The packages that read options by name.
READERS = frozenset(
    "agents audit engine generate llm observe output replay runtime sessions".split()
)
#: The modules of other packages that do.
OTHERS = frozenset(
    {
        "loop.abort",
        "models.keys",
        "options.checks",
        "options.prompts",
        "policies.access",
        "policies.build",
        "policies.compaction.options",
        "policies.context_strategy.options",
        "policies.judges.options",
        "policies.preview.options",
        "policies.projection.options",
        "policies.prompt_defaults",
        "policies.reminders.options",
        "policies.scratchpad.options",
        "policies.skills.options",
        "policies.taint.options",
        "policies.tool_search.plan",
        "policies.tool_surface",
        "tools.filter",
    }
)
#: What says which options there are and what they accept, and what reads or tells what happened.
SILENT = frozenset(
    {
        "options.checks",
        "engine.option_checks",
        "llm.continuation",
        "sessions.effects",
        "engine.judge_options",
        "engine.results",
        "observe.otel",
        "engine.transcript",
    }
)
_READS = frozenset({"get", "pop"})
#: What the assembly calls the options at hand.
_OPTIONS = frozenset({"options", "_options", "checked", "typed", "own", "now"})


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


def reads_options(module: str) -> bool:
    """Does this module of Windlass, `engine.assemble` say, look up options by name?"""
    return module.partition(".")[0] in READERS or module in OTHERS


def lines(known: frozenset[str]) -> Iterator[Line]:
    """Every line of the assembly that reads one of these options by name."""
    for path in sorted(SOURCE.rglob("*.py")):
        module = ".".join(path.relative_to(SOURCE).with_suffix("").parts)
        if reads_options(module) and module not in SILENT:
            for line, _ in found(ast.parse(path.read_text("utf-8")), module, known):
                yield line


def found(
    tree: ast.Module, module: str, known: frozenset[str]
) -> Iterator[tuple[Line, ast.Constant]]:
    """The readings in one module, each with the place that names the option."""
    counts: Counter[tuple[str, str]] = Counter()
    for scope, node in _scoped(tree.body, ""):
        for name in _names(node):
            option = name.value
            if isinstance(option, str) and option in known:
                counts[scope, option] += 1
                yield Line(option, module, scope, counts[scope, option]), name


def _scoped(body: list[ast.stmt], within: str) -> Iterator[tuple[str, ast.AST]]:
    """Functions, methods and assignments, each under its name."""
    for node in body:
        match node:
            case ast.ClassDef(name=name):
                yield from _scoped(node.body, f"{name}.")
            case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name):
                yield within + name, node
            case ast.Assign(targets=[ast.Name(id=name)]) | ast.AnnAssign(target=ast.Name(id=name)):
                if node.value is not None and not name.startswith("__"):
                    yield within + name, node.value
            case _:
                pass


def _names(root: ast.AST) -> Iterator[ast.Constant]:
    """Texts that are looked up: `options.get("x")`, `"x" in options`, and those in a collection."""
    getters = {
        node.targets[0].id
        for node in ast.walk(root)
        if isinstance(node, ast.Assign)
        and isinstance(node.targets[0], ast.Name)
        and isinstance(node.value, ast.Attribute)
        and node.value.attr == "get"
        and _called(node.value.value) in _OPTIONS
    }
    for node in () if _is_literal(root) else _walk(root):
        match node:
            case ast.Call(func=ast.Attribute() as read, args=[ast.Constant() as name, *_]):
                if read.attr in _READS and _called(read.value) in _OPTIONS:
                    yield name
            case ast.Call(func=ast.Name(id=called), args=[ast.Constant() as name, *_]):
                if called in getters:
                    yield name
            case ast.Compare(left=ast.Constant() as name, ops=[ast.In() | ast.NotIn()]):
                if _called(node.comparators[0]) in _OPTIONS:
                    yield name
            case ast.Set(elts=several) | ast.Tuple(elts=several) | ast.List(elts=several):
                yield from (each for each in several if isinstance(each, ast.Constant))
            case _:
                pass


def _called(node: ast.AST) -> str | None:
    """The name of what is looked into: `options`, or `self._options`."""
    match node:
        case ast.Name(id=name) | ast.Attribute(attr=name):
            return name
        case _:
            return None


def _walk(node: ast.AST) -> Iterator[ast.AST]:
    """In the order of the source, but for what is raised and for types: those read nothing."""
    yield node
    for child in ast.iter_child_nodes(node):
        if not isinstance(child, ast.Raise) and not _is_literal(child):
            yield from _walk(child)


def _is_literal(node: ast.AST) -> bool:
    return isinstance(node, ast.Subscript) and _called(node.value) == "Literal"
