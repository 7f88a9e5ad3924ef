"""Move the modules of the source tree by the table in `moves.txt`, and rewrite what names them.

Run it on a clean checkout: `python scripts/restructure/move.py`. It renames files, rewrites imports,
dotted names and paths in sources, tests, benchmarks and documents, applies `edits.py`, writes the
table of public names anew, and formats the result.
"""

from __future__ import annotations

import ast
import builtins
import keyword
import re
import subprocess
import sys
from pathlib import Path

from edits import EDITS, EXTRACTS, FOLDERS, GONE, LAST_EDITS, LAYERS, LOWEST, PACKAGES
from merge import merge_all

ROOT = Path(__file__).parents[2]
SOURCE = ROOT / "src" / "windlass"
TABLE = Path(__file__).with_name("moves.txt")
DATA = ("toml", "css", "js")
#: Names that say little without their package.
GENERIC = frozenset(
    "api base config errors model options policies policy queries reply rules schema store".split()
)
TEXTS = ("*.py", "*.pyi", "*.md", "*.toml", "Makefile", ".ci/*", "*.ipynb")
SKIPPED = (
    "scripts/restructure/",
    "tests/project/test_tree_figures.py",
    "requirements/",
    "CHANGELOG.md",
)


def read_table(report: bool = False) -> dict[str, str]:
    """Old name to new name, with `*` spelled out for the modules that are there."""
    table: dict[str, str] = {}
    stay: set[str] = set()
    for line in TABLE.read_text("utf-8").splitlines():
        if words := line.partition("#")[0].split():
            old, new = words
            if old.endswith(".*"):
                for path in sorted((SOURCE / old[:-2].replace(".", "/")).glob("*.py")):
                    if path.stem != "__init__":
                        table[f"{old[:-1]}{path.stem}"] = f"{new[:-1]}{path.stem}"
            elif old != new:
                table[old] = new
            else:
                stay.add(old)
    for path in sorted(SOURCE.rglob("*.py")) if report else ():
        name = ".".join(path.relative_to(SOURCE).with_suffix("").parts).removesuffix(".__init__")
        if name not in table and name not in stay and name != "__init__":
            print(f"not in the table, stays where it is: {name}")
    return table


def base_of(name: str) -> Path:
    """The folder that a dotted name of the table is relative to."""
    return ROOT if name.startswith("tests.") else SOURCE


def old_path(name: str) -> Path | None:
    """The file of a module or a data file, if it is there."""
    base = base_of(name)
    stem, _, suffix = name.rpartition(".")
    if suffix in DATA:
        path = base / f"{stem.replace('.', '/')}.{suffix}"
        return path if path.exists() else None
    path = base / name.replace(".", "/")
    for file in (path.with_suffix(".py"), path / "__init__.py"):
        if file.exists():
            return file
    return None


def new_path(name: str, old: Path, packages: frozenset[str]) -> Path:
    """Where the file goes."""
    base = base_of(name)
    stem, _, suffix = name.rpartition(".")
    if suffix in DATA:
        return base / f"{stem.replace('.', '/')}.{suffix}"
    path = base / name.replace(".", "/")
    if old.name == "__init__.py" and name in packages:
        return path / "__init__.py"
    return path.with_suffix(".py")


class Names:
    """The table as dotted names of Python: `windlass.…` and `tests.…`."""

    def __init__(self, table: dict[str, str]) -> None:
        self.modules: dict[str, str] = {}
        self.symbols = {
            (f"windlass.{source}", name): f"windlass.{target}"
            for source, names, target, _ in EXTRACTS
            for name in names
        }
        for old, new in table.items():
            if old.rpartition(".")[2] not in DATA:
                prefix = "" if old.startswith("tests.") else "windlass."
                self.modules[prefix + old] = prefix + new.removesuffix(".__init__")
        self.known: set[str] = set(self.modules)
        for path in SOURCE.rglob("*.py"):
            parts = path.relative_to(SOURCE.parent).with_suffix("").parts
            self.known.add(".".join(parts).removesuffix(".__init__"))
        #: what a package's own `__init__` binds under the name of one of its modules
        self.bound: set[str] = set()
        for path in SOURCE.rglob("__init__.py"):
            package = ".".join(path.relative_to(SOURCE.parent).parent.parts)
            for node in ast.parse(path.read_text("utf-8")).body:
                if isinstance(node, ast.ImportFrom) and node.module != package:
                    self.bound |= {f"{package}.{each.asname or each.name}" for each in node.names}
        for path in (ROOT / "tests").rglob("*.py"):
            self.known.add(".".join(path.relative_to(ROOT).with_suffix("").parts))

    @property
    def importable(self) -> set[str]:
        """The modules that `from package import module` gives."""
        return self.known - self.bound

    def new(self, module: str) -> str:
        """The new name of a module."""
        return self.modules.get(module, module)

    def longest(self, dotted: str) -> str:
        """A dotted name with the module at its beginning renamed; attributes behind it stay."""
        parts = dotted.split(".")
        for end in range(len(parts), 1, -1):
            module = ".".join(parts[:end])
            if module in self.known:
                return ".".join([self.new(module), *parts[end:]])
        return dotted


class File:
    """One file whose words are rewritten: import statements by their syntax, the rest as text."""

    def __init__(self, path: Path, names: Names, paths: dict[str, str], home: str | None) -> None:
        self.path = path
        self.names = names
        self.paths = paths
        self.home = home  # the old package of a module of ours
        self.text = path.read_text("utf-8")

    def rewrite(self) -> None:
        """Write the file with everything renamed."""
        spans: list[tuple[int, int, str]] = []
        if self.path.suffix in (".py", ".pyi"):
            spans = self._imports()
        out: list[str] = []
        at = 0
        for start, end, words in sorted(spans):
            out += [self._texts(self.text[at:start]), words]
            at = end
        text = "".join(out) + self._texts(self.text[at:])
        if text != self.path.read_text("utf-8"):
            self.path.write_text(text, "utf-8")

    def _imports(self) -> list[tuple[int, int, str]]:
        tree = ast.parse(self.text)
        lines = self.text.splitlines(keepends=True)
        starts = [0]
        for line in lines:
            starts.append(starts[-1] + len(line))

        def offset(line: int, column: int) -> int:
            return starts[line - 1] + len(lines[line - 1].encode()[:column].decode())

        spans: list[tuple[int, int, str]] = []
        renamed: dict[str, str] = {}
        taken = _identifiers(tree)
        for node in ast.walk(tree):
            if isinstance(node, (ast.Import, ast.ImportFrom)):
                words = self._statement(node, taken, renamed)
                if words is not None:
                    start = offset(node.lineno, node.col_offset)
                    end = offset(node.end_lineno or 0, node.end_col_offset or 0)
                    plain = self.text[start:end]
                    statement = ("\n" + " " * node.col_offset).join(words)
                    if len(words) == 1 and isinstance(node, ast.ImportFrom) and "(" in plain:
                        statement = _same_shape(plain, statement)
                    spans.append((start, end, statement))
        for node in ast.walk(tree):
            if isinstance(node, ast.Name) and node.id in renamed:
                start = offset(node.lineno, node.col_offset)
                end = offset(node.end_lineno or 0, node.end_col_offset or 0)
                if self.text[start:end] != node.id:
                    raise SystemExit(f"{self.path}:{node.lineno}: cannot rename {node.id}")
                spans.append((start, end, renamed[node.id]))
        return spans

    def _statement(
        self, node: ast.Import | ast.ImportFrom, taken: dict[str, int], renamed: dict[str, str]
    ) -> list[str] | None:
        """The lines that an import statement becomes; None if it stays as it is."""
        if isinstance(node, ast.Import):
            parts = [(each.name, self.names.new(each.name), each.asname) for each in node.names]
            if all(old == new for old, new, _ in parts):
                return None
            return [
                f"import {new} as {name}" if name else f"import {new}" for _, new, name in parts
            ]
        module, package = node.module or "", ""
        if node.level:
            parts = self.path.relative_to(ROOT).parent.parts
            package = ".".join(parts[: len(parts) - node.level + 1])
            module = f"{package}.{module}".removesuffix(".")
        if module.split(".")[0] not in ("windlass", "tests"):
            return None
        groups: dict[str, list[str]] = {}
        changed = False
        for each in node.names:
            whole = f"{module}.{each.name}"
            if whole in self.names.importable:
                home, _, last = self.names.new(whole).rpartition(".")
                name = each.asname
                if last != each.name and name is None:
                    name = self._renamed(each.name, home, last, taken, renamed)
                changed = changed or (home, last) != (module, each.name)
            else:
                home = self.names.symbols.get((module, each.name)) or self.names.new(module)
                last, name = each.name, each.asname
                changed = changed or home != module
            groups.setdefault(home, []).append(f"{last} as {name}" if name else last)
        if not changed:
            return None
        lines: list[str] = []
        for home, names in groups.items():
            if package and f"{home}.".startswith(f"{package}."):
                home = "." * node.level + home[len(package) + 1 :]
            few = len(names) < 4
            listed = ", ".join(names) if few else f"({', '.join(names)},)"
            lines.append(f"from {home} import {listed}")
        return lines

    def _renamed(
        self, old: str, home: str, last: str, taken: dict[str, int], renamed: dict[str, str]
    ) -> str | None:
        """Rename the uses of an imported module with it, or keep the old name as an alias."""
        new = f"{home.rpartition('.')[2]}_{last}" if last in GENERIC else last
        if renamed.get(old) != new:
            free = new not in taken and not hasattr(builtins, new) and not keyword.iskeyword(new)
            if not free or taken.get(old) != 0 or f"{{{old}." in self.text:
                return old
            renamed[old] = new
            taken[new] = 1
        return None if new == last else new

    def _texts(self, text: str) -> str:
        text = re.sub(
            r"(?m)^(?P<lead>[ \t>\"'`]*)from (?P<module>(?:windlass|tests)[\w.]*) import "
            r"(?P<names>\w+(?: as \w+)?(?:, \w+(?: as \w+)?)*)(?P<rest>[ \t]*(?:#.*)?)$"
            r"|(?<![\w/@.-])(?:windlass|tests|w)(?:\.[a-z_][a-z0-9_]*)+",
            self._named,
            text,
        )
        text = re.sub(
            r"(?<![\w/.])(?:(?:src/)?windlass/|tests/)?[a-z_]+(?:/[a-z_0-9]+)+\.(?:py|toml|css|js)\b",
            lambda found: self.paths.get(found[0], found[0]),
            text,
        )
        for old, new in FOLDERS.items():
            text = re.sub(rf"(?<=`){re.escape(old)}(?=[`*])", new, text)
        if self.home is not None:
            text = re.sub(r"`([a-z_]+\.py)`", self._neighbour, text)
        return text

    def _named(self, found: re.Match[str]) -> str:
        """A module in a text: in an import, as in a string or a document, or by its dotted name."""
        if found["module"] is None:
            if found[0].startswith("w."):
                return self.names.longest(f"windlass{found[0][1:]}").replace("windlass.", "w.", 1)
            return self.names.longest(found[0])
        groups: dict[str, list[str]] = {}
        module = found["module"]
        for each in found["names"].split(", "):
            name, _, alias = each.partition(" as ")
            whole = f"{module}.{name}"
            if whole in self.names.importable:
                home, _, last = self.names.new(whole).rpartition(".")
                alias = alias or (name if last != name else "")
            else:
                home = self.names.symbols.get((module, name)) or self.names.new(module)
                last = name
            groups.setdefault(home, []).append(f"{last} as {alias}" if alias else last)
        lines = [f"from {home} import {', '.join(names)}" for home, names in groups.items()]
        return found["lead"] + f"\n{found['lead']}".join(lines) + found["rest"]

    def _neighbour(self, found: re.Match[str]) -> str:
        """A file of the same folder, named without it."""
        before = f"{self.home}/{found[1]}".removeprefix("/")
        after = self.paths.get(before)
        if after is None:
            return found[0]
        here = self.path.relative_to(SOURCE).parent.as_posix()
        return f"`{after.removeprefix(here + '/')}`"


def _same_shape(plain: str, statement: str) -> str:
    """With the comments of a statement in several lines, if it only has another module now."""
    if "#" not in plain:
        return statement
    module = statement.split()[1]
    return re.sub(r"^from [\w.]+ import", f"from {module} import", plain)


def _identifiers(tree: ast.Module) -> dict[str, int]:
    """Every name in a file, and how often it is bound by something else than an import."""
    taken: dict[str, int] = {}
    for node in ast.walk(tree):
        match node:
            case ast.Name(id=name, ctx=context):
                taken[name] = taken.get(name, 0) + (not isinstance(context, ast.Load))
            case ast.arg(arg=name) | ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name):
                taken[name] = taken.get(name, 0) + 1
            case ast.ClassDef(name=name) | ast.ExceptHandler(name=str(name)):
                taken[name] = taken.get(name, 0) + 1
            case ast.MatchAs(name=str(name)) | ast.MatchStar(name=str(name)):
                taken[name] = taken.get(name, 0) + 1
            case ast.alias(name=name, asname=alias):
                taken.setdefault(alias or name.split(".")[0], 0)
            case _:
                pass
    return taken


def tracked() -> list[Path]:
    """Every text file of the project."""
    command = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard", *TEXTS]
    listed = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    return [
        ROOT / name
        for name in sorted(set(listed.stdout.split("\0")))
        if name and not name.startswith(SKIPPED) and (ROOT / name).is_file()
    ]


def move_files(table: dict[str, str]) -> tuple[dict[str, str], dict[Path, str]]:
    """Rename the files; the paths as documents write them, and the old package of each."""
    packages = frozenset(new.rpartition(".")[0] for new in table.values())
    moved: list[tuple[Path, Path, str]] = []
    paths: dict[str, str] = {}
    homes: dict[Path, str] = {}
    for old, new in table.items():
        before = old_path(old)
        if before is None:
            print(f"not there: {old}")
            continue
        after = new_path(new, before, packages)
        if new.endswith(".__init__"):
            after = base_of(new) / f"{new.replace('.', '/')}.py"
        moved.append((before, after, before.read_text("utf-8")))
        base = base_of(old)
        one, two = before.relative_to(base).as_posix(), after.relative_to(base).as_posix()
        paths[one] = two
        if base is SOURCE:
            paths[f"src/windlass/{one}"] = f"src/windlass/{two}"
            paths[f"windlass/{one}"] = f"windlass/{two}"
            homes[after] = before.relative_to(base).parent.as_posix().removeprefix(".")
    for before, _, _ in moved:
        before.unlink()
    for _, after, text in moved:
        if after.exists():
            raise SystemExit(f"two files for {after}")
        after.parent.mkdir(parents=True, exist_ok=True)
        after.write_text(text, "utf-8")
    for path in SOURCE.rglob("*.py"):
        homes.setdefault(path, path.relative_to(SOURCE).parent.as_posix().removeprefix("."))
    return paths, homes


def make_packages() -> None:
    """An `__init__.py` for each new folder, and none for those that are empty now."""
    for folder in sorted({path.parent for path in SOURCE.rglob("*.py")}):
        init = folder / "__init__.py"
        name = folder.relative_to(SOURCE).as_posix().replace("/", ".")
        if not init.exists():
            init.write_text(f'"""{PACKAGES[name]}"""\n', "utf-8")
        elif {path for path in folder.rglob("*.py")} == {init}:
            init.unlink()
    for folder in sorted((path for path in SOURCE.rglob("*") if path.is_dir()), reverse=True):
        if folder.name == "__pycache__":
            for path in folder.iterdir():
                path.unlink()
        if not any(folder.iterdir()):
            folder.rmdir()


def extract(source: str, names: tuple[str, ...], target: str, first_line: str) -> None:
    """Move definitions from one module to another, with the imports that they need."""
    table = read_table()
    here = SOURCE / f"{table.get(source, source).replace('.', '/')}.py"
    there = SOURCE / f"{target.replace('.', '/')}.py"
    text = here.read_text("utf-8")
    tree, lines = ast.parse(text), text.splitlines(keepends=True)
    cut: list[tuple[int, int]] = []
    for node in tree.body:
        if _defines(node) in names:
            cut.append((node.lineno - 1, node.end_lineno or 0))
    if len(cut) != len(names):
        raise SystemExit(f"{here}: {names} are not there")
    pieces = ["".join(lines[start:end]) for start, end in cut]
    used = {node.id for node in ast.walk(ast.parse("".join(pieces))) if isinstance(node, ast.Name)}
    imports = [
        f"from {node.module} import {each.name}{f' as {each.asname}' if each.asname else ''}\n"
        if isinstance(node, ast.ImportFrom)
        else f"import {each.name}\n"
        for node in ast.walk(tree)
        if isinstance(node, (ast.Import, ast.ImportFrom))
        for each in node.names
        if (each.asname or each.name) in used
        and getattr(node, "module", "") != f"windlass.{target}"
    ]
    if not there.exists():
        there.write_text(f'"""{first_line}"""\n\nfrom __future__ import annotations\n', "utf-8")
    body = there.read_text("utf-8")
    mark = "from __future__ import annotations\n"
    head, _, rest = body.partition(mark)
    there.write_text(head + mark + "\n" + "".join(imports) + rest + "\n\n" + "\n\n".join(pieces))
    for start, end in reversed(cut):
        del lines[start:end]
    left = "".join(lines)
    still = {node.id for node in ast.walk(ast.parse(left)) if isinstance(node, ast.Name)}
    if wanted := [name for name in names if name in still]:
        head, _, rest = left.partition(mark)
        left = f"{head}{mark}\nfrom windlass.{target} import {', '.join(wanted)}\n{rest}"
    here.write_text(left, "utf-8")


def _defines(node: ast.stmt) -> str | None:
    match node:
        case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name) | ast.ClassDef(name=name):
            return name
        case ast.Assign(targets=[ast.Name(id=name)]):
            return name
        case _:
            return None


def write_homes(names: Names) -> None:
    """The tables of names that are loaded when they are first used."""
    path = SOURCE / "__init__.py"
    text = path.read_text("utf-8")
    node = next(each for each in ast.parse(text).body if _defines(each) == "_HOMES")
    assert isinstance(node, ast.Assign)
    homes: dict[str, tuple[str, ...]] = {}
    for home, words in ast.literal_eval(node.value).items():
        for word in words:
            place = names.symbols.get((f"windlass.{home}", word)) or names.new(f"windlass.{home}")
            place = place.removeprefix("windlass.")
            homes[place] = (*homes.get(place, ()), word)
    lines = text.splitlines(keepends=True)
    table = "".join(f"    {home!r}: {words!r},\n" for home, words in sorted(homes.items()))
    lines[node.lineno - 1 : node.end_lineno] = [f"_HOMES = {{\n{table}}}\n"]
    path.write_text("".join(lines), "utf-8")
    path = SOURCE / "testing" / "__init__.py"
    text = path.read_text("utf-8")
    for old, new in names.modules.items():
        if old.startswith("windlass.testing.") and old.count(".") == 2:
            text = text.replace(f': "{old.split(".")[2]}"', f': "{new.split(".")[2]}"')
    path.write_text(text, "utf-8")


def write_layers() -> None:
    """The contract of import-linter, with the new layers."""
    path = ROOT / "pyproject.toml"
    text = path.read_text("utf-8")
    found = re.search(r'(?s)layers = \[\n.*?    "(?P<lowest>messages : [^"]*)",\n\]\n', text)
    if found is None:
        raise SystemExit("pyproject.toml: where are the layers?")
    lowest = [name for name in found["lowest"].split(" : ") if name not in GONE]
    layers = [*LAYERS, " : ".join([*lowest, *LOWEST])]
    table = "".join(f'    "{layer}",\n' for layer in layers)
    path.write_text(text.replace(found[0], f"layers = [\n{table}]\n"), "utf-8")


def merged_paths(merged: dict[str, str]) -> dict[str, str]:
    """The files of merged modules, as documents name them."""
    paths: dict[str, str] = {}
    for old, new in merged.items():
        one = f"{old.removeprefix('windlass.').replace('.', '/')}.py"
        two = f"{new.removeprefix('windlass.').replace('.', '/')}.py"
        paths[one] = two
        paths[f"src/windlass/{one}"] = f"src/windlass/{two}"
    return paths


def apply_edits(edits: list[tuple[str, str, str]]) -> None:
    """What no rule says: each text must be there exactly as often as it is given."""
    for file, old, new in edits:
        path = ROOT / file
        text = path.read_text("utf-8")
        if old not in text:
            print(f"EDIT not applied: {file}: {old!r}")
            continue
        path.write_text(text.replace(old, new), "utf-8")


def main() -> None:
    """Move everything."""
    table = read_table(report=True)
    names = Names(table)
    paths, homes = move_files(table)
    for path in tracked():
        home = homes.get(path)
        File(path, names, paths, home).rewrite()
    make_packages()
    for each in EXTRACTS:
        extract(*each)
    write_homes(names)
    write_layers()
    apply_edits(EDITS)
    if merged := merge_all():
        names = Names({})
        names.modules = merged
        names.known |= set(merged)
        names.symbols = {}
        for path in tracked():
            File(path, names, merged_paths(merged), None).rewrite()
        write_homes(names)
    apply_edits(LAST_EDITS)
    ruff = [sys.executable, "-m", "ruff"]
    subprocess.run([*ruff, "check", "--fix", "-q", "."], cwd=ROOT)
    subprocess.run([*ruff, "format", "-q", "."], cwd=ROOT, check=True)
    subprocess.run([sys.executable, "scripts/make_stub.py"], cwd=ROOT, check=True)
    subprocess.run(["git", "add", "-A"], cwd=ROOT, check=True)


if __name__ == "__main__":
    main()
