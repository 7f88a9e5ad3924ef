"""Edit hundreds of real files at random places, and write what came of it: bench/EDITS.md.

`python -m tests.toolbox.edits.proof > bench/EDITS.md`; it fetches packages from npm and Debian.
"""

from __future__ import annotations

import asyncio
import random
import sys
import tempfile
import threading
import time
from importlib.metadata import version
from pathlib import Path

import windlass as w
from tests.toolbox.edits.python_oracle import Unsure, symbols_of
from tests.toolbox.edits.random_edits import Report, edit_file
from tests.toolbox.edits.real_files import choose, download, installed, language_of
from windlass.toolbox.edits.outline import build_outline
from windlass.toolbox.edits.scopes.table import resolve_symbols
from windlass.toolbox.edits.source import Source
from windlass.toolbox.edits.tools import EditTools

SEED = 16
COUNTS = {
    "python": 80,
    "javascript": 40,
    "typescript": 60,
    "tsx": 20,
    "go": 40,
    "rust": 50,
    "java": 50,
    "c": 30,
    "cpp": 30,
    "json": 30,
    "yaml": 30,
    "toml": 30,
}
RACES = 120
COLUMNS = ("apply", "insert", "rename", "patch", "undo")


def measure(name: str, folders: list[Path]) -> tuple[Report, float]:
    """Edit the files of one language."""
    report = Report()
    language = language_of(name)
    begun = time.perf_counter()
    for shown, path in choose(language, folders, COUNTS[name], SEED):
        edit_file(path.read_bytes(), language, shown, SEED, report)
    return report, time.perf_counter() - begun


def compare_with_compiler(folders: list[Path], count: int) -> tuple[int, int, int, int]:
    """Compare all symbols of Python files with the compiler's table: files, symbols, wrong, unsure."""
    files = symbols = wrong = unsure = 0
    for _, path in choose(language_of("python"), folders, count, SEED + 1):
        data = path.read_bytes()
        try:
            expected = symbols_of(data)
        except (Unsure, SyntaxError, ValueError):
            unsure += 1
            continue
        source = Source(data, language_of("python"), path.name)
        found = {frozenset(one.start for one in b.occurrences) for b in resolve_symbols(source)}
        sure = [places for places, is_sure in expected.items() if is_sure]
        files, symbols = files + 1, symbols + len(sure)
        wrong += sum(places not in found for places in sure)
    return files, symbols, wrong, unsure


async def race(folder: Path, files: list[tuple[str, Path]]) -> dict[str, int]:
    """Change files while tools edit them: each edit is refused, or stands beside the change."""
    edits, rng, counts = (
        EditTools(folder),
        random.Random(SEED),
        {"noticed": 0, "before": 0, "lost": 0},
    )
    for number in range(RACES):
        _, origin = files[number % len(files)]
        data = origin.read_bytes()
        source = Source(data, language_of("python"), origin.name)
        named = [one for one in build_outline(source) if one.step.kind in ("function", "class")]
        if not named or source.faults:
            continue
        target = folder / f"f{number}.py"
        target.write_bytes(data)
        one = rng.choice(named)
        foreign, wait = data + b"# theirs\n", rng.random() * 0.03
        changer = threading.Timer(wait, target.write_bytes, [foreign])
        changer.start()
        try:
            await edits.edit_insert_at_anchor(
                target.name,
                "ours = 1",
                anchor=str(one),
                position="before",
                line=source.line_of(one.start),
            )
            done = True
        except w.EditRefused as error:
            done = False
            if error.code == "changed":
                counts["noticed"] += 1
        changer.join()
        now = target.read_bytes()
        if b"# theirs" not in now:
            counts["lost"] += 1
        elif done:
            counts["before"] += 1
    return counts


def main() -> int:
    """Print the report; 1 if something was wrong."""
    wrong: list[str] = []
    with tempfile.TemporaryDirectory() as name:
        folders = [installed(), download(Path(name) / "packages")]
        rows: list[str] = []
        total = Report()
        for language in COUNTS:
            report, seconds = measure(language, folders)
            wrong += report.wrong
            total.counts += report.counts
            total.refused += report.refused
            made = [str(report.counts[one]) for one in COLUMNS]
            files, faulty = report.counts["files"], report.counts["files with errors"]
            refused = sum(report.refused.values())
            rows.append(
                f"| {language} | {files} | {faulty} | {' | '.join(made)} | {refused} | "
                f"{len(report.wrong)} |"
            )
            print(f"{language}: {seconds:.0f} s, {len(report.wrong)} wrong", file=sys.stderr)
        oracle = compare_with_compiler(folders[:1], 300)
        work = Path(name) / "races"
        work.mkdir()
        races = asyncio.run(race(work, choose(language_of("python"), folders[:1], 60, SEED)))
    _print(rows, total, oracle, races)
    for one in wrong[:50]:
        print(one, file=sys.stderr)
    return 1 if wrong or oracle[2] or races["lost"] else 0


def _print(
    rows: list[str], total: Report, oracle: tuple[int, int, int, int], races: dict[str, int]
) -> None:
    packages = ("tree-sitter", "tree-sitter-python", "tree-sitter-typescript", "tree-sitter-cpp")
    print("# Precise edits on real files\n")
    print(
        "`make prove-edits` writes this page. Files come from the installed Python packages, from npm"
    )
    print(
        f"and from Debian, chosen with seed {SEED}; {total.counts['files']} files in all, of which"
    )
    print(f"{total.counts['files beyond ASCII']} have text beyond ASCII.")
    print(f"Versions: {', '.join(f'{one} {version(one)}' for one in packages)}.\n")
    print(
        "Each edit is at a random node. It counts only if the file has no more syntax errors afterwards,"
    )
    print(
        "every byte outside the named span is as it was, and the recorded answer of the edit restores the"
    )
    print(
        "file to the byte (undo). A rename is also made back: the file must be the first one again.\n"
    )
    print(
        "| language | files | with errors before | apply | insert | rename | patch | undo | refused | wrong |"
    )
    print("|---|---|---|---|---|---|---|---|---|---|")
    print("\n".join(rows))
    listed = ", ".join(f"{name} {count}" for name, count in sorted(total.refused.items()))
    print(f"\nRefused, and nothing written: {listed or 'none'}.")
    print(
        "`ambiguous` is two nodes of one name on one line; `collision` a name that would mix two symbols;"
    )
    print("`syntax` an edit in a file that does not parse to begin with.\n")
    files, symbols, wrong, unsure = oracle
    print("## Scopes of Python against the compiler\n")
    print(
        f"All symbols of {files} files, {symbols:,} of them, compared with Python's own symbol table: {wrong}"
    )
    print(
        f"differ. {unsure} further files were left out: the table and the tree cannot be laid over each other"
    )
    print("there (names with two underscores in classes, type parameters).\n")
    print("## Foreign changes\n")
    done = sum(races.values())
    print(
        f"{done} edits while another thread writes to the same file within 30 ms: {races['noticed']} were"
    )
    print(
        f"refused as changed, {races['before']} were finished before the other wrote, {races['lost']} foreign"
    )
    print("changes were lost.")


if __name__ == "__main__":
    sys.exit(main())
