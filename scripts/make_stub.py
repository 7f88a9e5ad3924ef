"""Write the names of the package and of its topics from the table in `windlass/__init__.py`.

`__init__.pyi` and `sync.pyi` are what type checkers see of the package and its blocking functions; the `__init__.py` of a topic (`windlass.audit`) loads its
names when they are used; `docs/reference/names.md` lists them. Run it after a change to the table: `python scripts/make_stub.py`; `--check` only looks.
"""

from __future__ import annotations

import ast
import inspect
import subprocess
import sys
from pathlib import Path
from typing import Final

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "src"))

import windlass  # noqa: E402

SOURCE = ROOT / "src" / "windlass"
STUB = SOURCE / "__init__.pyi"
SYNC_STUB = SOURCE / "sync.pyi"
PAGE = ROOT / "docs" / "reference" / "names.md"
#: Packages without a page of their own, and the topic that has their names.
_TOPIC_OF: Final = {
    "conditions": "triggers",
    "engine": "agents",
    "events.policy": "policies",
    "loop": "policies",
    "observe.result_records": "agents",
    "output": "agents",
    "store": "audit",
}
#: Packages that list their names themselves.
_OWN_LIST: Final = frozenset(("callers", "events", "models", "testing"))


def read_homes() -> dict[str, str]:
    """Return the module of every public name."""
    homes: dict[str, tuple[str, ...]] = windlass._HOMES  # pyright: ignore[reportPrivateUsage]
    return {name: home for home, names in homes.items() for name in names}


def write_stub() -> str:
    """Write the names of the package, as type checkers see them."""
    modules: tuple[str, ...] = windlass._MODULES  # pyright: ignore[reportPrivateUsage]
    topics: tuple[str, ...] = windlass._TOPICS  # pyright: ignore[reportPrivateUsage]
    lines = [
        '"""What type checkers see of the names in `__init__.py`; made by scripts/make_stub.py."""'
    ]
    lines += [f"from windlass import {name} as {name}" for name in (*modules, *topics)]
    lines += [
        f"from windlass.{home} import {name} as {name}" for name, home in read_homes().items()
    ]
    lines += ["__version__: str", f"__all__ = {windlass.__all__!r}"]
    return "\n".join(lines) + "\n"


def write_sync_stub() -> str:
    """Write the blocking functions, as type checkers see them: each takes what its async form takes."""
    lines = [
        '"""What type checkers see of `windlass.sync`; made by scripts/make_stub.py."""',
        "from collections.abc import AsyncIterator, Callable, Coroutine, Iterator",
        "from typing import Any, ParamSpec, TypeVar",
        "",
        "import windlass",
        "",
        'P = ParamSpec("P")',
        'T = TypeVar("T")',
        "",
        "def wait(work: Coroutine[Any, Any, T]) -> T: ...",
        "def _block(function: Callable[P, Coroutine[Any, Any, T]]) -> Callable[P, T]: ...",
        "def _iterate(function: Callable[P, AsyncIterator[T]]) -> Callable[P, Iterator[T]]: ...",
        "",
    ]
    for name in dir(windlass.sync):
        makes_items = inspect.isasyncgenfunction(getattr(windlass, name))
        lines.append(f"{name} = {'_iterate' if makes_items else '_block'}(windlass.{name})")
    return "\n".join(lines) + "\n"


def read_topics() -> dict[str, dict[str, str]]:
    """Return the names of each topic package and their modules.

    A name that is also a module of the package (`tools.tool`) is left out: it is imported from `windlass`.
    """
    topics: dict[str, dict[str, str]] = {}
    for name, home in read_homes().items():
        package = home.partition(".")[0]
        topic = _TOPIC_OF.get(home) or _TOPIC_OF.get(package, package)
        folder = SOURCE / topic
        is_module = (folder / f"{name}.py").exists() or (folder / name).is_dir()
        if folder.is_dir() and topic not in _OWN_LIST and not is_module:
            topics.setdefault(topic, {})[name] = home
    return topics


def write_topic(topic: str, homes: dict[str, str]) -> str:
    """Write the `__init__.py` of a topic: its docstring stays, its names are loaded on use."""
    words = ast.get_docstring(ast.parse((SOURCE / topic / "__init__.py").read_text("utf-8")))
    lines = [f'"""{words}"""', "", "from __future__ import annotations", ""]
    lines += ["from typing import TYPE_CHECKING", "", "from windlass.lazy import load_names", ""]
    lines += ["if TYPE_CHECKING:"]
    lines += [f"    from windlass.{home} import {name} as {name}" for name, home in homes.items()]
    by_name = ", ".join(f"{name!r}: {home!r}" for name, home in sorted(homes.items()))
    lines += ["else:  # a checker that saw it would take every name for one of the package"]
    lines += [f"    __getattr__ = load_names(__name__, {{{by_name},}})"]
    lines += ["", "# Written by scripts/make_stub.py.", f"__all__ = {sorted(homes)!r}"]
    return "\n".join(lines) + "\n"


def write_page() -> str:
    """Write the page of names by topic."""
    lines = [
        "# Names by topic",
        "",
        "Every public name is imported from `windlass`: `from windlass import Agent, Rule`. `dir(windlass)` and the",
        "completion of a REPL show only the names that most programs use. The packages below have all names of their",
        "topic: `from windlass.audit import AuditEntry` is the same as `from windlass import AuditEntry`.",
        "",
        "In an editor, `w.Agent(` completes all options with their types. In a terminal, `help(w.Agent)` lists them.",
        "",
        "## Every day",
        "",
        ", ".join(f"`{name}`" for name in windlass.__all__) + ".",
        "",
        "## By topic",
        "",
        "| package | its names |",
        "|---|---|",
    ]
    topics = read_topics()
    homes = read_homes()
    for topic in sorted({*topics, *_OWN_LIST, "errors", "messages", "usage"} - {"testing"}):
        own = [name for name, home in homes.items() if home.partition(".")[0] == topic]
        names = sorted(topics.get(topic, own), key=str.lower)
        lines.append(f"| `windlass.{topic}` | {', '.join(f'`{name}`' for name in names)} |")
    lines += [
        "| `windlass.testing` | [scripted models and other tools for tests](../guides/testing.md) |",
        "| `windlass.sync` | the async functions in a blocking form: `windlass.sync.llm_call(…)` |",
    ]
    return "\n".join(lines) + "\n"


def main() -> int:
    """Write the files, or say which are out of date."""
    written = {STUB: write_stub(), SYNC_STUB: write_sync_stub(), PAGE: write_page()}
    for topic, homes in read_topics().items():
        written[SOURCE / topic / "__init__.py"] = write_topic(topic, homes)
    stale = 0
    for path, text in written.items():
        text = text if path.suffix == ".md" else format_source(text, path)
        if path.exists() and path.read_text("utf-8") == text:
            continue
        stale += 1
        if "--check" in sys.argv:
            sys.stdout.write(f"{path.relative_to(ROOT)} is out of date: run scripts/make_stub.py\n")
        else:
            path.write_text(text, "utf-8")
            sys.stdout.write(f"wrote {path.relative_to(ROOT)}\n")
    return 1 if "--check" in sys.argv and stale else 0


def format_source(text: str, path: Path) -> str:
    """Lay a module out as the formatter does."""
    ruff = [sys.executable, "-m", "ruff"]
    for command in (["check", "--fix-only", "--quiet"], ["format", "--quiet"]):
        done = subprocess.run(
            [*ruff, *command, "--stdin-filename", str(path), "-"],
            input=text,
            capture_output=True,
            text=True,
            cwd=ROOT,
        )
        text = done.stdout or text
    return text


if __name__ == "__main__":
    sys.exit(main())
