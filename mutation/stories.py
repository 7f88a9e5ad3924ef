"""Which stories could notice that an option is gone: those that name it."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parents[1]
#: Where promises are tested through the public doors.
FOLDERS = (
    "tests/stories",
    "tests/stories/attempts",
    "tests/names",
    "tests/callers",
    "tests/sessions",
    "tests/cancel",
    "tests/config",
    "tests/cli",
)
#: Slow stories, which are asked about lines of the command line alone.
COMMANDS = "tests/cli/"


class Story(NamedTuple):
    """One test function and every name and text in it and in the helpers of its file."""

    id: str
    words: frozenset[str]

    @property
    def gives_flags(self) -> bool:
        """Whether it calls a command."""
        return any(word.startswith("--") for word in self.words)


def stories(folders: Sequence[str] = FOLDERS) -> list[Story]:
    """Every test function of these folders."""
    told: list[Story] = []
    for folder in folders:
        for path in sorted((ROOT / folder).glob("test_*.py")):
            file = path.relative_to(ROOT) if path.is_relative_to(ROOT) else path
            told += told_in(file.as_posix(), path.read_text("utf-8"))
    return told


def told_in(file: str, source: str) -> Iterator[Story]:
    """The test functions of one file."""
    tests, parts = _top(ast.parse(source))
    for name, test in tests.items():
        yield Story(f"{file}::{name}", frozenset(_words(test, parts)))


def _top(tree: ast.Module) -> tuple[dict[str, ast.AST], dict[str, ast.AST]]:
    """The tests of a file, and all else that it names, its own or from another file of the tests."""
    tests: dict[str, ast.AST] = {}
    parts: dict[str, ast.AST] = {}
    for node in tree.body:
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("tests."):
            parts = {**_helpers(node.module or "", tuple(a.name for a in node.names)), **parts}
    for node in tree.body:
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            (tests if node.name.startswith("test_") else parts)[node.name] = node
        elif isinstance(node, ast.ClassDef):
            parts[node.name] = node
            for inner in node.body:
                if isinstance(inner, (ast.FunctionDef, ast.AsyncFunctionDef)):
                    if inner.name.startswith("test_") and node.name.startswith("Test"):
                        tests[f"{node.name}::{inner.name}"] = inner
        elif isinstance(node, (ast.Assign, ast.AnnAssign)):
            for target in node.targets if isinstance(node, ast.Assign) else [node.target]:
                if isinstance(target, ast.Name):
                    parts[target.id] = node
    return tests, parts


@cache
def _helpers(module: str, names: tuple[str, ...]) -> dict[str, ast.AST]:
    """What another file of the tests names, so that its helpers' words are known too."""
    place = ROOT.joinpath(*module.split("."))
    if place.with_suffix(".py").exists():
        return _top(ast.parse(place.with_suffix(".py").read_text("utf-8")))[1]
    files = {name: place / f"{name}.py" for name in names}
    return {n: ast.parse(file.read_text("utf-8")) for n, file in files.items() if file.exists()}


def _words(test: ast.AST, parts: Mapping[str, ast.AST]) -> set[str]:
    """What it says itself, and what the helpers say that it mentions."""
    words: set[str] = set()
    todo, seen = [test], set[str]()
    while todo:
        own, mentioned = _says(todo.pop())
        words |= own
        for name in mentioned & parts.keys() - seen:
            seen.add(name)
            todo.append(parts[name])
    return words


@cache
def _says(part: ast.AST) -> tuple[frozenset[str], frozenset[str]]:
    """The options' names that it may hold, and whom it mentions."""
    words: set[str] = set()
    mentioned: set[str] = set()
    for node in ast.walk(part):
        match node:
            case ast.keyword(arg=str() as word) | ast.Constant(value=str() as word):
                words.add(word)
                if word.startswith("--"):
                    words.add(word[2:].replace("-", "_"))
            case ast.Name(id=word) | ast.arg(arg=word):
                mentioned.add(word)
            case _:
                pass
    return frozenset(words), frozenset(mentioned)


def noticing(mutant: str, told: list[Story], options: frozenset[str]) -> list[str]:
    """The stories that give the mutant's option, and its key.

    First those whose file is named like a part of the mutant's module, then those that give little
    else.
    """
    name, _, place = mutant.partition("@")
    option, *keys = name.split(".")
    parts = [part.rstrip("s") for part in place.partition(":")[0].split(".") if part]
    if parts[:1] == ["cli"]:
        near = [story for story in told if story.gives_flags or story.id.startswith(COMMANDS)]
    else:
        told = [story for story in told if not story.id.startswith(COMMANDS)]
        wanted = {option, *keys[-1:]}
        near = [story for story in told if wanted <= story.words]
        if keys and not near:
            near = [story for story in told if option in story.words]

    def order(story: Story) -> tuple[bool, int, int]:
        file = story.id.partition("::")[0]
        named = sum(part in file for part in parts)
        return option not in story.words, -named, len(story.words & options)

    return [story.id for story in sorted(near, key=order)]
