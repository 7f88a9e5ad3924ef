"""Findings of `windlass lint` in Python sources, without running them."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping
from difflib import get_close_matches
from pathlib import Path
from typing import Final, NamedTuple

from windlass.errors import ConfigError
from windlass.files import read_regular
from windlass.models.registry import prices
from windlass.models.registry.providers import resolve
from windlass.models.registry.scope import ENDPOINTS
from windlass.options.group import Door
from windlass.options.index import ALIASES, NAMES
from windlass.options.parse import SUPERSEDED, find_option, unknown_option

#: The functions of Windlass that take options.
DOORS = frozenset(
    {"agent_loop", "Agent", "llm_call", "llm_stream", "llm_completion", "sub_agent_run"}
)
#: Methods that take them too; anything else may have a method of this name.
METHODS = frozenset({"run", "run_sync", "stream", "with_", "resume"})
DEPRECATED = {
    "llm_retries": "llm_caller=with_retry(max_attempts=…), one more than the retries",
    "llm_backoff_ms": "llm_caller=with_retry(backoff_ms=…)",
}
RULE = "deprecated_llm_options"
LARGEST = 2 * 2**20  # bytes of a source
#: Functions whose options are compared with those that exist.
CHECKED: Final[Mapping[str | None, Door]] = {
    "Agent": "agent",
    "agent_loop": "loop",
    "llm_call": "call",
    "llm_stream": "call",
    "llm_completion": "completion",
}
WHERE: Final[Mapping[Door, str]] = {
    "agent": "Agent",
    "loop": "agent_loop",
    "call": "llm_call",
    "completion": "llm_completion",
}
_ELSEWHERE: Final = frozenset({"system", "options", "prompt", "prefix", "suffix"})  # parameters
_UNKNOWN: Final = object()  # a value that is known only when the program runs


class Finding(NamedTuple):
    """One finding: `shop.py:12: llm_retries is deprecated (use …)`."""

    rule: str
    where: str  # file:line, or what else it is about
    message: str
    fix: str = ""


class Source(NamedTuple):
    """The contents of one file that others may need."""

    findings: list[Finding]
    deferred: list[str]  # where a tool is deferred
    searches: bool  # tool_search is given somewhere


def read_source(path: Path) -> Source:
    """Read one file; a file that does not use Windlass has no findings."""
    nothing = Source([], [], False)
    try:
        if path.stat().st_size > LARGEST:
            return nothing
        data = read_regular(path)
    except OSError as error:
        return Source(
            [Finding("unreadable", str(path), f"it cannot be read: {error.strerror}")], [], False
        )
    if b"windlass" not in data:
        return nothing
    try:
        tree = ast.parse(data, str(path))
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        line = getattr(error, "lineno", None) or 1
        message = getattr(error, "msg", None) or str(error)
        return Source(
            [Finding("unreadable", f"{path}:{line}", f"it is not Python: {message}")], [], False
        )
    if not _imports_windlass(tree):
        return nothing
    reader = _Reader(path)
    reader.visit(tree)
    return Source(reader.findings, reader.deferred, reader.searches)


def _imports_windlass(tree: ast.AST) -> bool:
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            if any(name.name.split(".")[0] == "windlass" for name in node.names):
                return True
        elif isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] == "windlass":
            return True
    return False


class _Reader(ast.NodeVisitor):
    def __init__(self, path: Path) -> None:
        self.path = path
        self.findings: list[Finding] = []
        self.deferred: list[str] = []
        self.searches = False
        self.renamed = {**SUPERSEDED, "persistent": "loop_until_done"}
        self._seen: set[tuple[int, str]] = set()
        self.modules: set[str] = set()  # what stands for windlass, or a module of it
        self.names: dict[str, str] = {}  # what stands for one of its names

    def visit_Import(self, node: ast.Import) -> None:
        for name in node.names:
            if name.name.split(".")[0] == "windlass":
                self.modules.add(name.asname or "windlass")

    def visit_ImportFrom(self, node: ast.ImportFrom) -> None:
        if (node.module or "").split(".")[0] != "windlass":
            return
        for name in node.names:
            if name.name == "*":
                self.names.update({door: door for door in DOORS})
            self.names[name.asname or name.name] = name.name
            self.modules.add(name.asname or name.name)

    def _door(self, func: ast.expr) -> str | None:
        """Return the function of Windlass that is called, under any import name."""
        if isinstance(func, ast.Name):
            return self.names.get(func.id)
        root = func
        while isinstance(root, ast.Attribute):
            root = root.value
        ours = isinstance(root, ast.Name) and root.id in self.modules
        return func.attr if ours and isinstance(func, ast.Attribute) else None

    def visit_Call(self, node: ast.Call) -> None:
        called = self._door(node.func)
        door = called in DOORS
        if door or (isinstance(node.func, ast.Attribute) and node.func.attr in METHODS):
            for name, value, line in _options(node):
                self._option(name, line, door=door)
                if called in CHECKED:
                    self._report_refused_option(CHECKED[called], name, value, line)
                if name == "tool_search" and not _is(value, None, False):
                    self.searches = True
            if door:
                self._model(node, called or "")
        for keyword in node.keywords:
            if keyword.arg == "defer_loading" and _is(keyword.value, True):
                self.deferred.append(f"{self.path}:{keyword.value.lineno}")
        self.generic_visit(node)

    def visit_Dict(self, node: ast.Dict) -> None:
        """Check dicts for two option names, which mean nothing else."""
        for key in node.keys:
            if isinstance(key, ast.Constant) and key.value in DEPRECATED:
                self._option(str(key.value), key.lineno, door=False)
            if isinstance(key, ast.Constant) and key.value == "tool_search":
                self.searches = True
        self.generic_visit(node)

    def _option(self, name: str, line: int, *, door: bool) -> None:
        if (line, name) in self._seen:
            return
        self._seen.add((line, name))
        where = f"{self.path}:{line}"
        if name in DEPRECATED:
            message = f"{name} is deprecated"
            self.findings.append(Finding(RULE, where, message, f"use {DEPRECATED[name]}"))
        elif door and name in self.renamed:
            new = self.renamed[name]
            self.findings.append(Finding(RULE, where, f"{name} is now {new}", f"write {new}"))

    def _report_refused_option(self, door: Door, name: str, value: ast.expr, line: int) -> None:
        """Report an option that does not exist, or a literal value that it refuses."""
        if name in self.renamed or name in DEPRECATED or name in _ELSEWHERE:
            return  # reported, or not an option but a parameter
        try:
            given = ast.literal_eval(value)
        except (ValueError, TypeError, SyntaxError, RecursionError, MemoryError):
            given = _UNKNOWN
        problem: str | None = None
        if name not in NAMES[door] and name not in ENDPOINTS and name != "mock":
            problem = str(unknown_option(name, NAMES[door], WHERE[door]))
        elif name in NAMES[door] and given is not _UNKNOWN:
            try:
                find_option(ALIASES.get(name, name)).check(name, given)
            except ConfigError as error:
                problem = str(error)
        if problem is not None and name not in ("model", "provider"):
            self.findings.append(Finding("refused_option", f"{self.path}:{line}", problem))

    def _model(self, node: ast.Call, door: str) -> None:
        given = {name: value for name, value, _ in _options(node)}
        model = given.get("model")
        if model is None and door == "Agent" and node.args:
            model = node.args[0]
        provider = given.get("provider")
        texts = [v.value if isinstance(v, ast.Constant) else v for v in (model, provider)]
        if all(text is None or isinstance(text, str) for text in texts) and texts != [None, None]:
            line = (model or provider or node).lineno
            if problem := unknown_model(*texts):  # pyright: ignore[reportArgumentType]
                self.findings.append(Finding("unknown_model", f"{self.path}:{line}", problem))


def unknown_model(model: str | None, provider: str | None) -> str | None:
    """Return what is wrong with a model's name, or None."""
    try:
        found = resolve(model, provider, environ={})
    except ConfigError as error:
        return str(error)
    if found.provider == "mock" or prices.lookup(found.provider, found.name) is not None:
        return None
    known = [name for home, name in prices.names() if home == found.provider]
    close = get_close_matches(found.name, known, n=1, cutoff=0.8)
    if not close or _letters(close[0]) == _letters(found.name):
        return None  # a version that is not in the catalog yet
    return f"model {found.name!r} of {found.provider} is not known; did you mean {close[0]!r}?"


def _letters(name: str) -> str:
    return "".join(c for c in name if not c.isdigit() and c not in ".-")


def _options(node: ast.Call) -> Iterator[tuple[str, ast.expr, int]]:
    """Yield options by name, and those of dict literals in the call."""
    for keyword in node.keywords:
        if keyword.arg is not None:
            yield keyword.arg, keyword.value, keyword.value.lineno
    dicts = [
        *node.args,
        *(w.value for w in node.keywords if w.arg in (None, "options", "llm_options")),
    ]
    for one in dicts:
        if isinstance(one, ast.Dict):
            for key, value in zip(one.keys, one.values, strict=True):
                if isinstance(key, ast.Constant) and isinstance(key.value, str):
                    yield key.value, value, key.lineno


def _is(node: ast.expr, *values: object) -> bool:
    return isinstance(node, ast.Constant) and any(node.value is value for value in values)
