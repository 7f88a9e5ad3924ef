"""Write `windlass/__init__.pyi` from the table of names in `windlass/__init__.py`.

Run it after a change to the table: `python scripts/make_stub.py`.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import windlass

STUB = Path(windlass.__file__).with_suffix(".pyi")


def main() -> None:
    """Write the names anew."""
    homes: dict[str, tuple[str, ...]] = windlass._HOMES  # pyright: ignore[reportPrivateUsage]
    modules: tuple[str, ...] = windlass._MODULES  # pyright: ignore[reportPrivateUsage]
    lines = [
        '"""What type checkers see of the names in `__init__.py`; made by scripts/make_stub.py."""'
    ]
    lines += [f"from windlass import {name} as {name}" for name in modules]
    lines += [
        f"from windlass.{home} import {name} as {name}"
        for home, names in homes.items()
        for name in names
    ]
    lines += ["__version__: str", "__all__: list[str]"]
    STUB.write_text("\n".join(lines) + "\n", encoding="utf-8")
    for step in (("check", "--fix", "-q"), ("format", "-q")):
        subprocess.run([sys.executable, "-m", "ruff", *step, str(STUB)], check=True)


if __name__ == "__main__":
    main()
