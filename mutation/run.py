"""Take out one option after the other and see which story notices: `make mutate-options`.

ONLY=done_judge,budget tries some, with their keys and lines; ONLY=@ is all lines. JOBS=4 tries four
at a time. The story that noticed is remembered and asked first the next time.
"""

from __future__ import annotations

import gc
import importlib
import json
import os
import pkgutil
import subprocess
import sys
import time
from collections.abc import Iterable, Iterator, Sequence
from multiprocessing import connection, get_context
from pathlib import Path
from typing import Literal, NamedTuple, NoReturn

import pytest

from mutation.equivalent import EQUIVALENT
from mutation.lines import reads_options
from mutation.stories import FOLDERS, ROOT, noticing, stories

REMEMBERED = ROOT / ".pytest_cache" / "mutate-options.json"
SOURCE = ROOT / "src" / "windlass"
#: The layers that do not know of agents and their options.
BELOW = ("models", "tools", "store", "access", "loop")
_FIRST = 6  # stories that are tried before all the others are even imported
_PATIENCE = 1800.0  # seconds; a story that hangs is ended long before, and has noticed
_OPTIONS = [
    *("-p", "mutation.plugin", "-p", "no:cacheprovider", "-p", "no:xdist"),
    *("-W", "ignore::pytest.PytestAssertRewriteWarning"),  # of what was imported before the fork
    *("-x", "-q", "--tb=no", "-o", "timeout=60", "-c", str(ROOT / "pyproject.toml")),
]
_fork = get_context("fork")


class Tried(NamedTuple):
    """What came of a mutant: the story that noticed it, or None."""

    mutant: str
    by: str | None
    seconds: float
    asked: int  # stories


class Watch:
    """In a child: tells the first story that fails; what fails before it is told is no story's doing."""

    def __init__(self, answer: connection.Connection) -> None:
        self.answer = answer
        self.failed: str | None = None
        self.broken: str | None = None

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """A story has failed."""
        if report.failed and self.failed is None:
            self.failed = report.nodeid

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        """A file cannot be read: the mutant breaks the import, or somebody is writing the file."""
        if report.failed:
            self.broken = f"{report.nodeid}: {report.longreprtext[-300:]}"

    def pytest_sessionfinish(self, exitstatus: int) -> None:
        """All is known."""
        if self.failed is None and (self.broken or exitstatus not in (0, 5)):
            self.tell("broken", self.broken or f"pytest ends with {exitstatus}")
        self.tell("done", self.failed)

    def tell(self, word: str, said: str | None) -> NoReturn:
        """And end at once: whatever the mutant has left behind must not hold it."""
        self.answer.send((word, said))
        self.answer.close()
        os._exit(0)


def ask(mutant: str, ids: list[str], answer: connection.Connection) -> None:
    """In a child: the stories under the mutant, up to the first that fails."""
    quiet = os.open(os.devnull, os.O_WRONLY)
    os.dup2(quiet, 1)
    os.dup2(quiet, 2)
    os.environ["WINDLASS_MUTATE"] = mutant
    watch = Watch(answer)
    try:
        code = pytest.main([*_OPTIONS, *ids], [watch])
    except BaseException as error:
        watch.tell("broken", repr(error))
    watch.tell("broken", f"pytest does not begin: {code}")


Step = Literal["look", "alone", "again"]


class Asking:
    """A mutant at work in child processes: a few likely stories first, then the rest.

    Who notices is asked again without the mutant: what fails anyhow is no witness.
    """

    def __init__(self, mutant: str, ids: list[str], reliable: dict[str, bool]) -> None:
        self.mutant, self.left, self.reliable = mutant, ids, reliable
        self.began, self.asked = time.monotonic(), 0
        self.witness = ""
        self.next()

    def next(self) -> None:
        """Ask the next few."""
        size = _FIRST if self.asked == 0 else len(self.left)
        self.batch, self.left = self.left[:size], self.left[size:]
        self.asked += len(self.batch)
        self.ask("look", self.mutant, self.batch)

    def ask(self, step: Step, mutant: str, ids: list[str]) -> None:
        """In a child of its own."""
        self.step = step
        self.until = time.monotonic() + _PATIENCE
        self.answer, theirs = _fork.Pipe(duplex=False)
        self.child = _fork.Process(target=ask, args=(mutant, ids, theirs))
        self.child.start()
        theirs.close()

    def result(self) -> Tried | None:
        """None while somebody is left to ask."""
        failed = self.heard()
        match self.step:
            case "look":
                if failed is None:
                    return self.next() if self.left else self.tried(None)
                self.witness = failed
            case "alone":
                self.reliable[_function(self.witness)] = failed is None
            case "again":
                if failed is not None:
                    return self.tried(self.witness)
                self.reliable[_function(self.witness)] = False
        function = _function(self.witness)
        if function not in self.reliable:
            return self.ask("alone", "", [function])
        if self.reliable[function]:
            if self.asked <= _FIRST:
                return self.tried(self.witness)
            return self.ask("again", self.mutant, [function])  # of so many, one may fail by chance
        print(f"fails without a mutant, so it proves nothing: {function}", flush=True)
        self.asked -= len(self.batch)
        self.left = [id for id in (*self.batch, *self.left) if self.reliable.get(id) is not False]
        return self.next() if self.left else self.tried(None)

    def heard(self) -> str | None:
        """The story that failed in the child, if one did."""
        word, said = "broken", "it hangs"
        if self.answer.poll():
            try:
                word, said = self.answer.recv()
            except EOFError:
                word, said = "broken", "the process died"
        else:
            self.child.kill()
        self.child.join()
        if word == "broken":
            raise SystemExit(f"{self.mutant} cannot be tried: {said}")
        if said is not None and said.startswith("::"):  # pytest names no file outside the project
            said = next(id for id in self.batch if id.endswith(_function(said)))
        return said

    def tried(self, by: str | None) -> Tried:
        """What came of it."""
        return Tried(self.mutant, by, time.monotonic() - self.began, self.asked)


def tried(todo: Iterable[tuple[str, list[str]]], jobs: int) -> Iterator[Tried]:
    """What came of each mutant, in the order they end."""
    left, active = list(reversed(list(todo))), list[Asking]()
    reliable: dict[str, bool] = {}
    while left or active:
        while left and len(active) < jobs:
            mutant, ids = left.pop()
            if ids:
                active.append(Asking(mutant, ids, reliable))
            else:
                yield Tried(mutant, None, 0.0, 0)
        soonest = min((one.until for one in active), default=0.0) - time.monotonic()
        ready = connection.wait([one.answer for one in active], max(soonest, 0))
        for one in list(active):
            if one.answer in ready or time.monotonic() > one.until:
                result = one.result()
                if result is not None:
                    active.remove(one)
                    yield result


def main(folders: Sequence[str] = ()) -> int:
    """Try the mutants, print who noticed each, and say whether any lives."""
    began = time.monotonic()
    names = listed()
    stale = [name for name in EQUIVALENT if name not in names]
    chosen = [name for name in names if _chosen(name) and name not in EQUIVALENT]
    if not chosen:
        print(f"ONLY: there is no option {os.environ['ONLY']!r}")
        return 2
    warm_up()
    told = stories(folders or FOLDERS)
    before: dict[str, str] = json.loads(REMEMBERED.read_text()) if REMEMBERED.exists() else {}
    options = frozenset(name for name in names if not {".", "@"} & set(name))
    asked = os.environ.get("JOBS", "")
    jobs = int(asked) if asked.isdigit() else os.cpu_count() or 1
    survivors: list[Tried] = []
    asking = [
        (name, _likely(noticing(name, told, options), before.get(name, ""))) for name in chosen
    ]
    try:
        for each in tried(asking, jobs):
            print(f"{each.seconds:6.1f} s  {each.mutant:50}  {each.by or '-'}", flush=True)
            if each.by is None:
                survivors.append(each)
            else:
                before[each.mutant] = each.by
    finally:
        if not folders:
            REMEMBERED.parent.mkdir(exist_ok=True)
            REMEMBERED.write_text(json.dumps(before, indent=0, sort_keys=True))
    print(f"\n{len(chosen)} mutants, {len(survivors)} survivors, {time.monotonic() - began:.0f} s")
    for each in survivors:
        some = "story gives" if each.asked == 1 else "stories give"
        said = f"{each.asked} {some} it and none fails" if each.asked else "no story gives it"
        print(f"SURVIVES: {each.mutant}: {said}")
    for name in stale:
        print(f"STALE: mutation/equivalent.py names {name}, which is gone")
    return 1 if survivors or stale else 0


def _function(test: str) -> str:
    """The function of a test, whatever its parameters."""
    return test.partition("[")[0]


def _likely(ids: list[str], first: str) -> list[str]:
    """With the story first that noticed the last time."""
    return sorted(ids, key=lambda id: id != _function(first))


def _chosen(mutant: str) -> bool:
    only = [name for name in os.environ.get("ONLY", "").split(",") if name]
    option = mutant.partition("@")[0].partition(".")[0]
    return not only or option in only or mutant in only or ("@" in only and "@" in mutant)


def listed() -> list[str]:
    """The mutants, from a process of their own: here nothing of Windlass may be imported yet."""
    command = [sys.executable, "-m", "mutation.mutants"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    return done.stdout.split()


def warm_up() -> None:
    """Import once, before the forks, what all stories need and no mutant touches."""
    for name in ("aiohttp", "click", "hypothesis", "jsonschema_rs", "rich.console"):
        importlib.import_module(name)
    for layer in BELOW:
        for module in pkgutil.iter_modules([str(SOURCE / layer)], f"windlass.{layer}."):
            if not reads_options(module.name.removeprefix("windlass.")):
                importlib.import_module(module.name)
    loaded = [name.removeprefix("windlass.") for name in sys.modules if "windlass." in name]
    if early := [name for name in loaded if reads_options(name)]:
        raise SystemExit(f"{early[0]} is imported by a layer below it: nothing can be mutated")
    gc.collect()
    gc.freeze()  # the children need not look through all this again


if __name__ == "__main__":
    os.chdir(Path(ROOT))
    sys.exit(main(sys.argv[1:]))
