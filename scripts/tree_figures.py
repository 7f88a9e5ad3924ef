"""Print the figures that say how easy the source tree is to read, and check them against ceilings.

`python scripts/tree_figures.py` prints a table. `--check` also fails if a figure is above its
ceiling. `--list FIGURE` prints the places that a figure counts, such as `--list participles`.
"""

from __future__ import annotations

import argparse
import ast
import re
import subprocess
import sys
import tomllib
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from functools import cache, cached_property
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
SOURCE = ROOT / "src" / "windlass"

Function = ast.FunctionDef | ast.AsyncFunctionDef
Import = ast.Import | ast.ImportFrom

# Participles (and past tenses) that do not end in -ed. Verbs whose participle is also their
# imperative (read, set, put, split, cut) are not listed.
IRREGULAR = frozenset(
    "began begun born borne bound bought broken brought built caught chosen come dealt done drawn "
    "driven fallen fed felt forbidden foreseen forgotten found frozen given gone grown heard held "
    "hid hidden kept known laid left lent lost made meant met overridden overspent paid respelt "
    "rewritten risen said saw seen sent shown slid sold sought spelt spent spoken stood stuck sung "
    "sworn taken taught told took understood undone withheld woken won worn written".split()
)
# Words that end in -ed or -ing and are neither participles nor gerunds.
NO_PARTICIPLES = frozenset("bed embed exceed feed indeed need proceed red seed shed speed".split())
NO_GERUNDS = frozenset("ceiling king ping ring spring string thing".split())
# Places in which options are still the user's own words: what parses them, and the doors of a
# process. Everywhere else an option is an attribute.
FRONT_DOOR = (
    *("options/", "cli/", "server/", "testing/"),
    *("agents/agent.py", "agents/agent_turn.py", "agents/presets.py"),
)
OPTION_WORDS = frozenset(("given", "kwargs", "merged", "more", "values", "now"))
# Written by scripts/make_options.py.
GENERATED = (
    "engine/keyword_lists.py",
    "engine/keywords.py",
    "generate/keywords.py",
    "options/agent_table.py",
    "options/flags.py",
    "options/index.py",
)
# The places that load a module when it is asked for: file and function.
LOADERS = frozenset(
    (
        ("__init__.py", "__getattr__"),
        ("lazy.py", "load_names"),
        ("models/__init__.py", "__getattr__"),
        ("engine/assemble.py", "_choose_tools"),
        ("engine/assemble.py", "_plan_search"),
        ("engine/assemble.py", "_build_answer"),
        ("engine/assemble.py", "_choose_effects"),
        ("engine/assemble.py", "_build_watchers"),
        ("loop/build.py", "load"),
        ("engine/features.py", "load"),
    )
)


@dataclass(frozen=True)
class File:
    """A module of the tree."""

    path: str
    text: str
    tree: ast.Module

    @property
    def lines(self) -> int:
        """The number of lines."""
        return self.text.count("\n")

    @property
    def module(self) -> str:
        """The dotted name."""
        parts = ["windlass", *self.path.removesuffix(".py").split("/")]
        return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)

    @property
    def word(self) -> str:
        """The last word of the module's name."""
        return self.module.rpartition(".")[2].rpartition("_")[2]

    @cached_property
    def functions(self) -> list[tuple[str, Function]]:
        """Every function with its qualified name."""
        return list(_functions(self.tree, ""))


def _functions(node: ast.AST, prefix: str) -> Iterator[tuple[str, Function]]:
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef):
            yield f"{prefix}{child.name}", child
            yield from _functions(child, f"{prefix}{child.name}.")
        elif isinstance(child, ast.ClassDef):
            yield from _functions(child, f"{prefix}{child.name}.")
        else:
            yield from _functions(child, prefix)


def read_tree(source: Path = SOURCE) -> list[File]:
    """Read and parse every module."""
    files: list[File] = []
    for path in sorted(source.rglob("*.py")):
        text = path.read_text("utf-8")
        files.append(File(path.relative_to(source).as_posix(), text, ast.parse(text)))
    return files


# Sizes


def largest_files(files: list[File]) -> list[tuple[int, str]]:
    """Return the number of lines of each file, largest first."""
    written = [file for file in files if file.path not in GENERATED]
    return sorted(((file.lines, file.path) for file in written), reverse=True)


def largest_functions(files: list[File]) -> list[tuple[int, str]]:
    """Return the number of lines of each function, largest first."""
    return sorted(
        (
            (
                (node.end_lineno or node.lineno) - node.lineno + 1,
                f"{file.path}:{node.lineno} {name}",
            )
            for file in files
            if file.path not in GENERATED
            for name, node in file.functions
        ),
        reverse=True,
    )


def largest_folders(files: list[File]) -> list[tuple[int, str]]:
    """Return the number of modules directly in each folder, largest first."""
    counts: dict[str, int] = {}
    for file in files:
        folder, _, name = file.path.rpartition("/")
        if name != "__init__.py":
            counts[folder or "."] = counts.get(folder or ".", 0) + 1
    return sorted(((count, folder) for folder, count in counts.items()), reverse=True)


# Names


def is_participle(word: str) -> bool:
    """Tell whether a word is a past participle (or a past tense)."""
    if "_" in word or word in NO_PARTICIPLES:
        return False
    return word in IRREGULAR or (word.endswith("ed") and len(word) > 3)


def is_gerund(word: str) -> bool:
    """Tell whether a word is a gerund."""
    return word.endswith("ing") and len(word) > 4 and word not in NO_GERUNDS


def find_modules_by_verb(files: list[File]) -> list[str]:
    """Find modules and packages named by a gerund or a participle."""
    return [file.path for file in files if is_gerund(file.word) or is_participle(file.word)]


def find_participles(files: list[File]) -> list[str]:
    """Find functions named by a lone participle; properties and dunders are left out."""
    return [
        f"{file.path}:{node.lineno} {name}"
        for file in files
        for name, node in file.functions
        if not (node.name.startswith("__") or _is_property(node))
        and is_participle(node.name.strip("_"))
    ]


def _is_property(node: Function) -> bool:
    names = {ast.unparse(item).split("(")[0].split(".")[-1] for item in node.decorator_list}
    return bool(names & {"property", "cached_property", "setter"})


# Imports


def find_inner_imports(files: list[File]) -> list[str]:
    """Find imports inside functions, except of optional packages and in the feature loader."""
    needed = required_packages()
    found: list[str] = []
    for file in files:
        seen: set[int] = set()
        for name, node in file.functions:
            for item in ast.walk(node):
                if not isinstance(item, ast.Import | ast.ImportFrom) or id(item) in seen:
                    continue
                seen.add(id(item))
                top = _imported(item).partition(".")[0]
                if top in needed and (file.path, name.rpartition(".")[2]) not in LOADERS:
                    found.append(f"{file.path}:{item.lineno} {ast.unparse(item)}")
    return found


def _imported(item: Import) -> str:
    return item.names[0].name if isinstance(item, ast.Import) else item.module or ""


def required_packages() -> set[str]:
    """Return the top-level names that are there in every installation."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    names = {re.split(r"[^\w.-]", entry)[0] for entry in project["dependencies"]}
    packages = {name.replace("-", "_") for name in names}
    return packages | set(sys.stdlib_module_names) | {"windlass"}


def find_cycles(files: list[File]) -> list[list[str]]:
    """Find groups of modules that import each other, lazy and type-only imports included."""
    modules = {file.module for file in files}
    packages = {file.module for file in files if file.path.endswith("__init__.py")}
    graph = {file.module: _edges(file, modules, packages) for file in files}
    groups = [sorted(group) for group in _strong_components(graph) if len(group) > 1]
    return sorted(groups, key=len, reverse=True)


def _edges(file: File, modules: set[str], packages: set[str]) -> set[str]:
    edges: set[str] = set()
    for item in ast.walk(file.tree):
        if isinstance(item, ast.Import):
            edges |= {alias.name for alias in item.names}
        elif isinstance(item, ast.ImportFrom) and item.module:
            inner = {f"{item.module}.{alias.name}" for alias in item.names}
            edges |= inner & modules
            if not inner <= modules:
                edges.add(item.module)
    # A package's own lazy table of names is not an import of its parts by name.
    return (edges & modules) - {file.module} - (packages & {"windlass"})


def _strong_components(graph: dict[str, set[str]]) -> list[set[str]]:
    """Return Kosaraju's components: walk forwards, then backwards in the order of leaving."""
    order: list[str] = []
    seen: set[str] = set()
    for start in graph:
        _walk(start, graph, seen, order)
    back: dict[str, set[str]] = {name: set() for name in graph}
    for name, others in graph.items():
        for other in others:
            back[other].add(name)
    components: list[set[str]] = []
    seen = set()
    for start in reversed(order):
        group: list[str] = []
        _walk(start, back, seen, group)
        if group:
            components.append(set(group))
    return components


def _walk(start: str, graph: dict[str, set[str]], seen: set[str], left: list[str]) -> None:
    """Walk from here and append each name when all that it reaches is done."""
    if start in seen:
        return
    seen.add(start)
    stack: list[tuple[str, Iterator[str]]] = [(start, iter(graph[start]))]
    while stack:
        name, others = stack[-1]
        for other in others:
            if other not in seen:
                seen.add(other)
                stack.append((other, iter(graph[other])))
                break
        else:
            stack.pop()
            left.append(name)


# Text and types


def find_text(pattern: str) -> Callable[[list[File]], list[str]]:
    """Make a function that finds the lines with a pattern, once for each time it occurs."""
    compiled = re.compile(pattern)

    def find(files: list[File]) -> list[str]:
        return [
            f"{file.path}:{number} {line.strip()}"
            for file in files
            for number, line in enumerate(file.text.splitlines(), 1)
            for _ in compiled.finditer(line)
        ]

    return find


find_unformatted = find_text(r"# fmt: (?:skip|off)")
find_any = find_text(r"\bAny\b")
find_casts = find_text(r"\bcast\(")


def find_option_lookups(files: list[File]) -> list[str]:
    """Find options that are looked up by their name in a mapping, behind the front door."""
    found: list[str] = []
    for file in files:
        if not file.path.startswith(FRONT_DOOR):
            found += [
                f"{file.path}:{node.lineno} {ast.unparse(node)}"
                for node in ast.walk(file.tree)
                if isinstance(node, ast.expr) and _is_lookup(node)
            ]
    return found


def _is_lookup(node: ast.expr) -> bool:
    match node:
        case ast.Call(
            func=ast.Attribute(value=owner, attr="get" | "pop"),
            args=[ast.Constant(value=str(option)), *_],
        ):
            pass
        case ast.Subscript(value=owner, slice=ast.Constant(value=str(option)), ctx=ast.Load()):
            pass
        case _:
            return False
    name = owner.id if isinstance(owner, ast.Name) else getattr(owner, "attr", "")
    return option in option_names() and (name.endswith("options") or name in OPTION_WORDS)


@cache
def option_names() -> frozenset[str]:
    """Return the names of all options of runs and calls."""
    tree = ast.parse((SOURCE / "options" / "index.py").read_text("utf-8"))
    names: set[str] = set()
    for node in tree.body:
        if isinstance(node, ast.AnnAssign) and ast.unparse(node.target) in ("GROUPS", "ALIASES"):
            assert node.value is not None
            names.update(ast.literal_eval(node.value))
    return frozenset(names)


def run_attributes(files: list[File]) -> list[str]:
    """Return the attributes of `Run`: its slots and whatever is assigned to `self`."""
    names: set[str] = set()
    for file in files:
        for node in file.tree.body:
            if file.path == "loop/run.py" and isinstance(node, ast.ClassDef) and node.name == "Run":
                names |= set(_attributes(node))
    return sorted(names - {"__weakref__"})


def _attributes(node: ast.ClassDef) -> Iterator[str]:
    for item in ast.walk(node):
        match item:
            case ast.Assign(targets=[ast.Name(id="__slots__")], value=ast.Tuple(elts=slots)):
                yield from (str(slot.value) for slot in slots if isinstance(slot, ast.Constant))
            case ast.Attribute(value=ast.Name(id="self"), attr=name, ctx=ast.Store()):
                yield name
            case _:
                pass
    for item in node.body:
        if isinstance(item, ast.AnnAssign) and isinstance(item.target, ast.Name):
            yield item.target.id


# Journeys

_JOURNEY = '''
import asyncio, inspect, os, sys

import windlass
from windlass.testing import call, scripted
from windlass.testing.providers import FakeAnthropic, Reply, conversation


def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


def scripted_model():
    return scripted(call("add", a=1, b=2), "3")


async def visit(build_model):
    async def run(look=None):
        agent = windlass.Agent(build_model(), tools=[add])
        sys.setprofile(look)
        try:
            result = await agent.run("1 + 2?")
        finally:
            sys.setprofile(None)
        assert result.output == "3"

    def look(frame, event, argument):
        if event == "call" and frame.f_code.co_flags & inspect.CO_OPTIMIZED:
            files.add(frame.f_code.co_filename)

    files = set()
    await run()  # modules are loaded and tables are made
    await run(look)
    return files


async def main(journey):
    if journey == "scripted":
        return await visit(scripted_model)
    script = conversation(Reply(tool_calls=[("add", {"a": 1, "b": 2})]), "3")
    async with FakeAnthropic(script) as server:
        os.environ |= {"ANTHROPIC_API_KEY": "k", "ANTHROPIC_BASE_URL": server.url}
        return await visit(lambda: "anthropic:claude-sonnet-4-5")


print(*sorted(asyncio.run(main(sys.argv[1]))), sep="\\n")
'''


def visited_files(journey: str) -> list[str]:
    """Run an agent with one tool for two turns; return the files of the functions it enters.

    The fakes and the rules by which they check a request are left out. The run is the second of
    its process, so that the loading of modules does not count, with an agent of its own.
    """
    done = subprocess.run(
        [sys.executable, "-c", _JOURNEY, journey], capture_output=True, text=True, timeout=120
    )
    if done.returncode != 0:
        raise RuntimeError(done.stderr)
    source = SOURCE.as_posix() + "/"
    paths = [line.removeprefix(source) for line in done.stdout.splitlines() if source in line]
    return [path for path in paths if not re.match(r"testing/|.*rules", path)]


# The table


@dataclass(frozen=True)
class Figure:
    """One row: its name, what it was, what it is, and what it may be at most."""

    key: str
    title: str
    before: float | str
    now: float
    ceiling: float | None = None
    places: Iterable[object] = field(default=(), repr=False)

    @property
    def is_held(self) -> bool:
        """Tell whether the figure is within its ceiling."""
        return self.ceiling is None or self.now <= self.ceiling


def measure(files: list[File], journeys: bool = True) -> list[Figure]:
    """Return every figure of the tree."""
    figures = [*_measure_sizes(files), *_measure_names(files), *_measure_types(files)]
    cycles = find_cycles(files)
    largest = len(cycles[0]) if cycles else 0
    figures += [
        Figure("cycles", "groups of modules that import each other", 6, len(cycles), 1, cycles),
        Figure("cycle", "modules in the largest such group", 15, largest, 3, cycles[:1]),
    ]
    if journeys:
        for journey, title, before, ceiling in (
            ("scripted", "files a plain run visits, scripted", 32, 28),
            ("wire", "files a plain run visits, on a real wire", 74, 55),
        ):
            paths = visited_files(journey)
            figures.append(Figure(journey, title, before, len(paths), ceiling, paths))
    lines = sum(file.lines for file in files)
    return [
        *figures,
        Figure("modules", "modules", 478, len(files)),
        Figure("lines", "lines", 78_736, lines),
    ]


def _measure_sizes(files: list[File]) -> list[Figure]:
    sizes, functions, folders = (
        largest_files(files),
        largest_functions(files),
        largest_folders(files),
    )
    return [
        Figure("file", "lines of the largest file", 485, sizes[0][0], 600, sizes[:20]),
        Figure(
            "function", "lines of the largest function", 64, functions[0][0], 60, functions[:20]
        ),
        Figure("folder", "files in the largest flat folder", 67, folders[0][0], 30, folders[:10]),
    ]


def _measure_names(files: list[File]) -> list[Figure]:
    modules, functions = find_modules_by_verb(files), find_participles(files)
    return [
        Figure("gerunds", "modules named by a gerund or participle", 70, len(modules), 6, modules),
        Figure(
            "participles",
            "functions named by a lone participle",
            610,
            len(functions),
            60,
            functions,
        ),
    ]


def _measure_types(files: list[File]) -> list[Figure]:
    thousands = sum(file.lines for file in files) / 1000
    imports, skips, lookups = (
        find_inner_imports(files),
        find_unformatted(files),
        find_option_lookups(files),
    )
    run, anys, casts = run_attributes(files), find_any(files), find_casts(files)
    return [
        Figure("imports", "imports inside functions", 449, len(imports), 60, imports),
        Figure("skips", "`# fmt: skip`", 147, len(skips), 0, skips),
        Figure("options", "options looked up by name", 147, len(lookups), 5, lookups),
        Figure("run", "attributes of `Run`", 60, len(run), 25, run),
        Figure("any", "`Any` per 1,000 lines", 42, round(len(anys) / thousands, 1), 28, anys),
        Figure("cast", "`cast(` per 1,000 lines", 7, round(len(casts) / thousands, 1), 4.5, casts),
    ]


def to_table(figures: list[Figure]) -> str:
    """Write the figures as a Markdown table."""
    rows = ["| figure | | before | now | at most |", "|---|---|---|---|---|"]
    rows += [
        f"| {figure.key} | {figure.title} | {_number(figure.before)} | {_number(figure.now)}"
        f"{'' if figure.is_held else ' (!)'} | {_number(figure.ceiling)} |"
        for figure in figures
    ]
    return "\n".join(rows)


def _number(value: float | str | None) -> str:
    return "" if value is None else f"{value:,}" if isinstance(value, int | float) else value


def main(arguments: list[str] | None = None) -> int:
    """Print the table, or the places that one figure counts."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0] if __doc__ else None)
    parser.add_argument(
        "--check", action="store_true", help="fail if a figure is above its ceiling"
    )
    parser.add_argument("--list", metavar="FIGURE", help="print the places that a figure counts")
    options = parser.parse_args(arguments)
    figures = measure(read_tree())
    if options.list:
        chosen = [figure for figure in figures if figure.key == options.list]
        if not chosen:
            parser.error(f"no figure {options.list!r}: {', '.join(f.key for f in figures)}")
        print(*chosen[0].places, sep="\n")
        return 0
    print(to_table(figures))
    above = [figure.title for figure in figures if not figure.is_held]
    if options.check and above:
        print("above the ceiling:", "; ".join(above), file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
