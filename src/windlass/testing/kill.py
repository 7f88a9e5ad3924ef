"""The kill sweep: kill a process at every point, resume in another, count the effects.

It works with any function that can be run again after a crash.
"""

from __future__ import annotations

import contextlib
import gc
import importlib
import importlib.util
import itertools
import json
import random
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Literal, TypeAlias, cast

import msgspec

from windlass.errors import ConfigError, WindlassError
from windlass.json_types import JsonObject
from windlass.testing.effects import EffectLog
from windlass.testing.fork import (
    After,
    AtCommit,
    AtPoint,
    Ended,
    Kill,
    in_child,
)

RAM_DISK = Path(
    "/dev/shm"
)  # SIGKILL keeps the page cache: for process death it is as true as a disk


class Scene:
    """The argument of a scenario: a folder of its own, and the log of its effects.

    `attempt` is 0 in the run that is killed, and counts from 1 in the runs that resume.
    """

    def __init__(self, folder: Path, params: JsonObject, attempt: int = 0) -> None:
        self.folder = folder
        self.params = params
        self.attempt = attempt
        self.effects = EffectLog(folder.parent / "effects.jsonl")


class Seen(msgspec.Struct, frozen=True):
    """The result of a `check` at the end of a scenario.

    `state` is compared with that of a run without a kill. `unknown` names the effects whose outcome
    the journal marks as unknown: these may be missing. `problems` are further errors.
    """

    state: Any = None
    unknown: tuple[str, ...] = ()
    problems: tuple[str, ...] = ()


Scenario: TypeAlias = Callable[[Scene], Any]


class Trouble(msgspec.Struct, frozen=True):
    """One problem, and where the process was killed before it."""

    kind: Literal["lost", "doubled", "unreadable", "failed", "hung", "different", "problem"]
    where: str
    what: str


class KillReport(msgspec.Struct, frozen=True):
    """The result of `kill_sweep`: `assert_ok()` raises with the problems."""

    kills: int
    untouched: int  # runs that ended before their kill came
    points: dict[str, int]  # kills at each named point
    commits: int  # kills at a commit
    instants: int  # kills at a random moment
    lost: int
    doubled: int
    unknown: int
    unreadable: int
    troubles: tuple[Trouble, ...]
    seconds: float

    @property
    def ok(self) -> bool:
        """Whether there was no problem, and at least one kill."""
        return not self.troubles and self.kills > 0

    def assert_ok(self) -> None:
        """Raise an `AssertionError` that shows the first problems."""
        if not self.ok:
            raise AssertionError(str(self))

    def __str__(self) -> str:
        lines = [
            f"{self.kills} kills ({sum(self.points.values())} at {len(self.points)} points, "
            f"{self.commits} at commits, {self.instants} at random), {self.untouched} untouched: "
            f"{self.lost} lost, {self.doubled} doubled, {self.unknown} unknown, "
            f"{self.unreadable} unreadable, {len(self.troubles)} troubles; "
            f"{self.seconds / max(self.kills, 1) * 1000:.1f} ms each"
        ]
        lines += [f"  {it.kind} (killed at {it.where}): {it.what}" for it in self.troubles[:10]]
        if len(self.troubles) > 10:
            lines.append(f"  … and {len(self.troubles) - 10} more")
        return "\n".join(lines)


class Plan(msgspec.Struct, frozen=True):
    """The thoroughness of a sweep."""

    params: JsonObject = {}
    every: int = 1
    commits: bool = False
    instants: int = 0
    seed: int = 0
    kill_resume: bool = False
    timeout: float = 20.0
    keep: bool = False
    shard: tuple[int, int] = (0, 1)


def kill_sweep(
    scenario: Scenario,
    *,
    resume: Scenario | None = None,
    check: Callable[[Scene], Seen | None] | None = None,
    params: JsonObject | None = None,
    every: int = 1,
    commits: bool = False,
    instants: int = 0,
    seed: int = 0,
    kill_resume: bool = False,
    timeout: float = 20.0,
    keep: bool = False,
    shard: tuple[int, int] = (0, 1),
    inline: bool = False,
) -> KillReport:
    """Kill a scenario with SIGKILL at every point, resume it, and compare the effects.

    ```python
    def scenario(scene):                       # runs in a child process; may be async
        with open_store(scene.folder) as store:
            run_to_the_end(store, effect=scene.effects.write)

    kill_sweep(scenario, commits=True, instants=100).assert_ok()
    ```
    It is killed at the first named point (`seams.point`), then at the second, and so on until a run
    ends without a kill. `every=5` takes each fifth point, and each name once. With `commits` it is
    also killed at each commit to SQLite, and with `instants` at that many random moments. After
    each kill `resume` (default: the scenario again) runs in a new process; with `kill_resume` that
    process is killed once too. Then `check` runs, in a process of its own. Effects are compared
    with those of a run without a kill. `shard=(i, n)` does one n-th of the work; `keep` keeps the
    folders.

    The functions must be at the top level of a module: they run in a clean process that imports it,
    because a process with threads must not fork. `inline=True` forks from this process.
    """
    plan = Plan(params or {}, every, commits, instants, seed, kill_resume, timeout, keep, shard)
    if every < 1 or instants < 0 or not 0 <= shard[0] < shard[1]:
        raise ConfigError("kill_sweep: every >= 1, instants >= 0 and shard=(i, n) with 0 <= i < n")
    if inline:
        if threading.active_count() > 1:
            raise ConfigError("kill_sweep(inline=True) cannot fork a process that has threads")
        return _Sweep(plan, scenario, resume or scenario, check).run()
    named = [_name(function) for function in (scenario, resume or scenario, check)]
    return _in_clean_process({"plan": msgspec.to_builtins(plan), "functions": named})


class _Sweep:
    def __init__(
        self,
        plan: Plan,
        scenario: Scenario,
        resume: Scenario,
        check: Callable[[Scene], Seen | None] | None,
    ) -> None:
        self.plan, self.scenario, self.resume, self.check = plan, scenario, resume, check
        self.rng = random.Random(f"{plan.seed}/{plan.shard}")
        self.troubles: list[Trouble] = []
        self.points: Counter[str] = Counter()
        self.tally: Counter[str] = Counter()
        self.expected: Counter[str] = Counter()
        self.state: Any = None

    def run(self) -> KillReport:
        began = time.perf_counter()
        root = Path(tempfile.mkdtemp(prefix="windlass-kill-", dir=_ram_disk()))
        self.folders = (root / str(number) for number in itertools.count())
        try:
            self._rehearse(next(self.folders))
            gc.collect()
            gc.freeze()  # a collection in a child would copy every page it looks at
            untouched = self._baseline(next(self.folders))
            self._sweep(AtPoint, sum(untouched.points.values()))
            self._sweep_skipped_points(untouched.points)
            if self.plan.commits:
                self._sweep(AtCommit, untouched.commits)
            index, shards = self.plan.shard
            for _ in range(index, self.plan.instants, shards):
                self._trial(After(self.rng.uniform(0, untouched.seconds)))
        finally:
            gc.unfreeze()
            if not self.plan.keep:
                shutil.rmtree(root, ignore_errors=True)
        return self._report(time.perf_counter() - began)

    def _rehearse(self, folder: Path) -> None:
        """Import once what every child would otherwise import for itself."""
        for function in (self.scenario, self.resume, self.check):
            if function is not None:
                for name in self._play(function, folder, 0).modules:
                    with contextlib.suppress(Exception):
                        importlib.import_module(name)

    def _baseline(self, folder: Path) -> Ended:
        """Run without a kill, to learn what to expect."""
        ended = self._play(self.scenario, folder, 0)
        if ended.how != "done":
            raise WindlassError(f"the scenario fails even when nobody kills it:\n{ended.trace}")
        seen, trace = self._look(folder)
        if seen is None or seen.problems:
            problems = trace or "; ".join(cast("Seen", seen).problems)
            raise WindlassError(f"the check fails even when nobody kills anything: {problems}")
        self.expected, self.state = EffectLog(folder / "effects.jsonl").counts(), seen.state
        self.length = max(sum(ended.points.values()), 1)
        return ended

    def _sweep(self, kind: type[AtPoint] | type[AtCommit], expected: int) -> None:
        index, shards = self.plan.shard
        for number in itertools.count(1 + index * self.plan.every, shards * self.plan.every):
            # Threads make one run longer than another: the last has been seen only when a run
            # ends before a number that the undisturbed one did not reach either.
            if not self._trial(kind(number)) and number > expected:
                return

    def _sweep_skipped_points(self, passed: dict[str, int]) -> None:
        """Kill once at each name that the steps of `every` never met."""
        if self.plan.every > 1:
            for name in sorted(passed.keys() - self.points.keys()):
                self._trial(AtPoint((passed[name] + 1) // 2, name))

    def _trial(self, kill: Kill) -> bool:
        """Kill, resume and compare; False when the run ended before the kill."""
        folder = next(self.folders)
        ended = self._play(self.scenario, folder, 0, kill)
        where = ended.at or "the end"
        if ended.how == "killed":
            self.tally["kills"] += 1
            if isinstance(kill, AtPoint):
                self.points[ended.at] += 1
            else:
                self.tally["commits" if isinstance(kill, AtCommit) else "instants"] += 1
            if self.plan.kill_resume:
                again = AtPoint(self.rng.randint(1, self.length))
                second = self._play(self.resume, folder, 1, again)
                self.tally["kills"] += second.how == "killed"
                where += f", then {second.at}" if second.at else ""
        else:
            self.tally["untouched"] += 1
        if ended.how in ("done", "killed"):
            ended = self._play(self.resume, folder, 2 if self.plan.kill_resume else 1)
        if ended.how != "done":
            self._trouble("hung" if ended.how == "hung" else "failed", where, ended.trace)
        self._compare(folder, where)
        if not self.plan.keep:
            shutil.rmtree(folder, ignore_errors=True)
        return where != "the end"

    def _compare(self, folder: Path, where: str) -> None:
        counts = EffectLog(folder / "effects.jsonl").counts()
        seen, trace = self._look(folder)
        unknown = set(seen.unknown) if seen is not None else set[str]()
        self.tally["unknown"] += len(unknown)
        for key in counts.keys() | self.expected.keys():
            more = counts[key] - self.expected[key]
            if more > 0:
                self.tally["doubled"] += more
                self._trouble("doubled", where, f"{key} happened {counts[key]} times")
            elif more < 0 and key not in unknown:
                self.tally["lost"] -= more
                self._trouble("lost", where, f"{key} happened {counts[key]} times")
        if seen is None:
            self.tally["unreadable"] += 1
            self._trouble("unreadable", where, trace)
            return
        for problem in seen.problems:
            self._trouble("problem", where, problem)
        if seen.state != self.state:
            self._trouble("different", where, _difference(self.state, seen.state))

    def _play(
        self, function: Scenario, folder: Path, attempt: int, kill: Kill | None = None
    ) -> Ended:
        scene = Scene(folder / "scene", self.plan.params, attempt)
        scene.folder.mkdir(parents=True, exist_ok=True)
        return in_child(
            lambda: function(scene), folder / "notes", kill=kill, timeout=self.plan.timeout
        )

    def _look(self, folder: Path) -> tuple[Seen | None, str]:
        if self.check is None:
            return Seen(), ""
        check = self.check
        ended = self._play(lambda scene: check(scene), folder, -1)
        if ended.how != "done":
            return None, ended.trace or ended.how
        return msgspec.convert(ended.value or {}, Seen), ""

    def _trouble(self, kind: Any, where: str, what: str) -> None:
        self.troubles.append(Trouble(kind, where, what))

    def _report(self, seconds: float) -> KillReport:
        tally = self.tally
        return KillReport(
            kills=tally["kills"],
            untouched=tally["untouched"],
            points=dict(self.points),
            commits=tally["commits"],
            instants=tally["instants"],
            lost=tally["lost"],
            doubled=tally["doubled"],
            unknown=tally["unknown"],
            unreadable=tally["unreadable"],
            troubles=tuple(self.troubles),
            seconds=seconds,
        )


# --------------------------------------------------------------------------- the clean process


def _in_clean_process(spec: JsonObject) -> KillReport:
    start = (
        "import json, sys; spec = json.load(sys.stdin); sys.path[:] = spec['path']; "
        "from windlass.testing.kill import serve; serve(spec)"
    )
    with tempfile.TemporaryDirectory() as folder:
        answer = Path(folder) / "report.json"
        spec |= {"path": sys.path, "answer": str(answer)}
        done = subprocess.run(
            [sys.executable, "-c", start], input=json.dumps(spec), capture_output=True, text=True
        )
        if done.returncode or not answer.exists():
            raise WindlassError(f"the sweep did not come to its end:\n{done.stderr[-6000:]}")
        return msgspec.json.decode(answer.read_bytes(), type=KillReport)


def serve(spec: JsonObject) -> None:
    """Run a sweep as the main function of the clean process."""
    scenario, resume, check = (_load(name) for name in spec["functions"])
    plan = msgspec.convert(spec["plan"], Plan)
    try:
        report = _Sweep(plan, scenario, resume, check).run()
    except WindlassError as error:
        sys.exit(str(error))
    Path(spec["answer"]).write_bytes(msgspec.json.encode(report))


def _name(function: Callable[..., Any] | None) -> dict[str, str] | None:
    if function is None:
        return None
    name = getattr(function, "__qualname__", "<unnamed>")
    code = getattr(function, "__code__", None)
    if "<" in name or code is None:
        raise ConfigError(
            f"kill_sweep loads its functions in another process, and {name} cannot be found there; "
            "write it as a plain function at the top of a module and hand it values through params="
        )
    return {"module": function.__module__, "name": name, "file": code.co_filename}


def _load(named: dict[str, str] | None) -> Any:
    if named is None:
        return None
    target: Any = _module(named["module"], named["file"])
    for part in named["name"].split("."):
        target = getattr(target, part)
    return target


def _module(name: str, file: str) -> Any:
    for module in _find_modules(name):
        if Path(getattr(module, "__file__", None) or "").resolve() == Path(file).resolve():
            return module
    # A test module need not be importable by its name: then its file is what counts.
    alias = f"windlass_scenario_{name.replace('.', '_')}"
    if alias in sys.modules:
        return sys.modules[alias]
    spec = importlib.util.spec_from_file_location(alias, file)
    if spec is None or spec.loader is None:
        raise WindlassError(f"{file} cannot be loaded as a module")
    module = importlib.util.module_from_spec(spec)
    sys.modules[alias] = module
    spec.loader.exec_module(module)
    return module


def _find_modules(name: str) -> Iterator[Any]:
    with contextlib.suppress(ImportError):
        if name != "__main__":
            yield importlib.import_module(name)


def _ram_disk() -> Path | None:
    return RAM_DISK if RAM_DISK.is_dir() else None


def _difference(expected: Any, found: Any) -> str:
    left, right = json.dumps(expected, default=repr), json.dumps(found, default=repr)
    at = next((i for i, (a, b) in enumerate(zip(left, right, strict=False)) if a != b), -1)
    at = min(len(left), len(right)) if at < 0 else at
    start = max(at - 60, 0)
    return f"expected …{left[start : at + 60]}… and found …{right[start : at + 60]}…"
