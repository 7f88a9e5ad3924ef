"""Every command in every hostile project: `python -m tests.hostile.project_proof > bench/PROJECTS.md`.

With names behind it, only these projects; with `--few`, the commands that `make check` runs.
"""

from __future__ import annotations

import sys
import tempfile
from collections import Counter
from pathlib import Path
from typing import Final

from tests.hostile.project_builder import build_world, project_names
from tests.hostile.project_watch import Forks, Report, Server, watch

_COLUMNS: Final = ("commands", "worked", "refused", "agents", "faults")
HEAD: Final = """# Hostile projects

Every command of the command line, with `--json` and `--debug` where it has them, and agents of a program, in
every project of `tests/hostile`. Faults are connections to anything but the model that the user configured, writes
outside of the store, code of the project that ran, tracebacks, errors that nobody foresaw. Made by
`make prove-projects`.

| project | commands | worked | refused | agents | faults |
|---|---:|---:|---:|---:|---:|"""


def main() -> None:
    """Print the table; exit with 1 where there is a fault."""
    few = "--few" in sys.argv
    names = [name for name in sys.argv[1:] if not name.startswith("-")] or project_names()
    model, attacker, forks = Server(), Server(), Forks()
    faults: list[str] = []
    total: Counter[str] = Counter()
    print(HEAD, flush=True)
    for name in names:
        found = [_examine(name, mode, model, attacker, forks) for mode in _modes(few)]
        own = [fault for report in found for fault in report.faults]
        own += [f"{name}: the attacker got {key}" for key in attacker.keys]
        attacker.keys.clear()
        faults += [f"{name}: {fault}" for fault in own]
        codes = [each["code"] for each in found[0].outcomes]
        agents = len(found[-1].outcomes) if len(found) > 1 else 0
        worked = codes.count(0)
        row = (len(codes), worked, len(codes) - worked, agents, len(own))
        total.update(dict(zip(_COLUMNS, row, strict=True)))
        print(f"| {name} | {' | '.join(map(str, row))} |", flush=True)
        for fault in own:
            print(f"{name}: {fault}", file=sys.stderr, flush=True)
    print(
        f"| **{len(names)} projects** | {' | '.join(str(total[column]) for column in _COLUMNS)} |"
    )
    forks.close()
    sys.exit(1 if faults else 0)


def _modes(few: bool) -> tuple[str, ...]:
    return ("few",) if few else ("every", "agents")


def _examine(name: str, mode: str, model: Server, attacker: Server, forks: Forks) -> Report:
    with tempfile.TemporaryDirectory() as folder:
        world = build_world(name, Path(folder, "world"), model.address, attacker.address)
        plants_code = name.startswith(("planted_", "tool_modules"))
        return watch(world, name, mode, None if plants_code else forks)


if __name__ == "__main__":
    main()
