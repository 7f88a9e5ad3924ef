"""A thousand loops at once: their CPU, and the memory that each needs.

Memory is a matter of a whole process, so each sample is one: `python -m bench.crowd ours 1000 10`.
"""

from __future__ import annotations

import asyncio
import gc
import json
import resource
import statistics
import subprocess
import sys
import time
from pathlib import Path
from typing import Any, NamedTuple

from bench.sampling import paired
from bench.table import Row, micro
from bench.work import Script

LOOPS, TURNS = 1000, 10
CPU, MEMORY = 5.0, 3.5
ROOT = Path(__file__).parent.parent


class Crowd(NamedTuple):
    """What one process measured, and how many entries it proved."""

    cpu: float
    memory: float
    entries: int


def rows(reps: int, loops: int = LOOPS, turns: int = TURNS) -> tuple[list[Row], int]:
    """CPU and memory of many loops at once; the entries that were proved."""
    taken: dict[str, list[Crowd]] = {"bare": [], "ours": []}
    for _ in range(reps):
        for side, crowds in taken.items():
            crowds.append(_apart(side, loops, turns))
    ours, bare = taken["ours"], taken["bare"]
    cpu = paired([c.cpu for c in ours], [c.cpu for c in bare])
    memory = paired([c.memory for c in ours], [c.memory for c in bare])
    each = loops * turns
    title = f"{loops:,} loops of {turns} turns at once"
    found = [
        Row(
            f"{title}: CPU of a turn",
            cpu.ratio,
            CPU,
            micro(cpu.ours / each),
            micro(cpu.bare / each),
            (cpu.low, cpu.high),
            peers="x36 to x623",
        ),
        Row(
            f"{title}: peak memory of a loop",
            memory.ratio,
            MEMORY,
            _kilo(memory.ours),
            _kilo(memory.bare),
            (memory.low, memory.high),
            peers="x5.8 to x20",
        ),
    ]
    return found, int(statistics.median([c.entries for c in ours])) * reps


def _kilo(size: float) -> str:
    return f"{size / 1000:.1f} kB"


def _apart(side: str, loops: int, turns: int) -> Crowd:
    command = [sys.executable, "-m", "bench.crowd", side, str(loops), str(turns)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise RuntimeError(f"{' '.join(command[1:])}: {done.stderr}")
    return Crowd(*json.loads(done.stdout.splitlines()[-1]))


# --------------------------------------------------------------------------- in a process of its own


async def measure(side: str, loops: int, turns: int) -> Crowd:
    """Run them all at once; the model lets the others go first at every turn."""
    script = Script(turns, yields=True)
    one, store = _side(side, turns)
    warm = await one()
    gc.collect()
    _reset_peak()
    before = _resident()
    began = time.process_time()
    kept = await asyncio.gather(*[asyncio.create_task(one()) for _ in range(loops)])
    cpu = time.process_time() - began
    memory = (_peak() - before) / loops
    entries = 0
    if store is not None:
        from bench.proof import prove

        entries = await prove(store, [warm, *kept], script)
    return Crowd(cpu, memory, entries)


def _side(side: str, turns: int) -> tuple[Any, Any]:
    """Only the side that is measured is imported: the other's modules are not its memory."""
    if side == "bare":
        from bench import bare

        functions = bare.build("add")
        return lambda: bare.run(functions, Script(turns, yields=True)), None
    from bench import ours
    from windlass.engine.environment import current_store

    agent = ours.build("add")
    return lambda: ours.run(agent, Script(turns, yields=True)), current_store()


def _reset_peak() -> None:
    try:
        Path("/proc/self/clear_refs").write_text("5")
    except OSError:
        pass  # elsewhere the peak since the start has to do


def _resident() -> int:
    return _status("VmRSS") or _usage()


def _peak() -> int:
    return _status("VmHWM") or _usage()


def _status(name: str) -> int:
    try:
        lines = Path("/proc/self/status").read_text().splitlines()
    except OSError:
        return 0
    found = next((line for line in lines if line.startswith(name)), None)
    return int(found.split()[1]) * 1024 if found else 0


def _usage() -> int:
    size = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return size if sys.platform == "darwin" else size * 1024


if __name__ == "__main__":
    print(json.dumps(asyncio.run(measure(sys.argv[1], int(sys.argv[2]), int(sys.argv[3])))))
