"""What it costs to import, in fresh processes beside one that does nothing."""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import tempfile

from bench.table import Row

IMPORT, FIRST_TURN = 40.0, 350.0
HEAVY = ("aiohttp", "rich", "pydantic")

_TURN = f"""
import windlass as w
from windlass.testing import call, scripted

@w.tool
def add(a: int, b: int) -> int:
    "Add two numbers."
    return a + b

out = w.Agent(scripted(call("add", a=1, b=2), "3"), tools=[add]).run_sync("1 + 2?")
assert out.output == "3" and out.turns == 2, out
import sys
loaded = [name for name in {HEAVY!r} if name in sys.modules]
assert not loaded, loaded
"""


def rows(reps: int) -> list[Row]:
    """CPU over a bare interpreter; a process that loaded what it should not need fails the bench."""
    programs = {
        "nothing": "pass",
        "import": "import windlass",
        "agent": "import windlass; windlass.Agent",
        "turn": _TURN,
    }
    taken: dict[str, list[float]] = {name: [] for name in programs}
    with tempfile.TemporaryDirectory() as compiled:
        for program in programs.values():
            _cpu(program, compiled)  # whoever installs a package has its bytecode
        for _ in range(reps):
            for name, program in programs.items():
                taken[name].append(_cpu(program, compiled) * 1000)
    nothing = statistics.median(taken["nothing"])

    def row(name: str, title: str, allowed: float | None, peers: str = "") -> Row:
        over = [mine - base for mine, base in zip(taken[name], taken["nothing"], strict=True)]
        ours = f"{statistics.median(taken[name]):.0f} ms whole process"
        bare = f"{nothing:.0f} ms"
        spread = (min(over), max(over))
        return Row(title, statistics.median(over), allowed, ours, bare, spread, "ms", peers)

    return [
        row("import", "`import windlass`, CPU over a bare interpreter", IMPORT),
        row("agent", "`import windlass; windlass.Agent`, the same", None, "505 to 2,427 ms"),
        row(
            "turn",
            f"import and a first scripted run with a tool, the same; {', '.join(HEAVY)} not loaded",
            FIRST_TURN,
        ),
    ]


def _cpu(program: str, compiled: str) -> float:
    """CPU seconds of a process, from its beginning to its end; its bytecode is kept there."""
    environ = {**os.environ, "PYTHONDONTWRITEBYTECODE": "", "PYTHONPYCACHEPREFIX": compiled}
    command = [sys.executable, "-c", program]
    process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True, env=environ)
    assert process.stderr is not None
    said = process.stderr.read()
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    process.stderr.close()
    if process.returncode != 0:
        raise RuntimeError(f"a fresh process failed: {said}")
    return usage.ru_utime + usage.ru_stime
