"""Type what the pages tell a new user, in an empty account: `python -m scripts.newcomer`.

A fresh clone, a fresh home folder and a clean environment. Each step is typed as its page says it, and
must show what its page shows. Needs Python 3.11, git, make and pip, and a package index for pip.
`--short` types the middle part with the Python that runs this, without a clone.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from scripts.newcomer_steps import SHORT, STEPS, Step
from scripts.terminal import Prompt
from tests.docs.pages import Block, blocks_of, matches

ROOT = Path(__file__).resolve().parents[1]
# How this machine reaches its package index; nothing else of the environment is passed on.
NETWORK = (
    "PIP_",
    "UV_",
    "SSL_CERT",
    "REQUESTS_CA",
    "http_proxy",
    "https_proxy",
    "HTTP_PROXY",
    "HTTPS_PROXY",
    "no_proxy",
    "NO_PROXY",
)
PATHS = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
_END = "\x1e"


class Differs(Exception):
    """A step that does not do what its page says."""


def find_block(step: Step) -> Block:
    """Find the block of the page that begins as the step says."""
    text = (ROOT / step.page).read_text("utf-8")
    found = [block for block in blocks_of(text) if block.code.startswith(step.typed)]
    if not found:
        raise Differs(f"{step.page} has no block that begins with {step.typed!r}")
    return found[0]


def find_shown(step: Step) -> str:
    """Find the output that the page shows below a line; raise if the line is not on the page."""
    text = (ROOT / step.page).read_text("utf-8")
    for block in blocks_of(text):
        for command, shown in block.commands:
            if command == step.typed:
                return shown
    if step.typed not in text:
        raise Differs(f"{step.page} does not say {step.typed!r}")
    return ""


def check_quotes(steps: tuple[Step, ...]) -> None:
    """Check that everything that is typed stands on its page, and that something is to be seen."""
    for step in steps:
        if step.how in ("save", "paste"):
            block = find_block(step)
            if step.how == "paste" and not (step.sees or block.output or "assert" in block.code):
                raise Differs(f"{step.page}: nothing is shown for {step.typed!r}")
        else:
            find_shown(step)


class Shell:
    """A shell that stays open, so that `cd` and `source` count for what follows."""

    def __init__(self, folder: Path, env: dict[str, str]) -> None:
        self._env = env
        self._process = subprocess.Popen(
            ["bash", "--norc", "--noprofile"],
            cwd=folder,
            env=env,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )

    def run(self, line: str) -> tuple[int, str]:
        """Type a line; return its exit code and what it printed."""
        assert self._process.stdin is not None and self._process.stdout is not None
        redirect = "" if "<" in line else " </dev/null"
        self._process.stdin.write(f"{line}{redirect}\nprintf '{_END}%d\\n' $?\n")
        self._process.stdin.flush()
        printed = ""
        for row in self._process.stdout:
            before, end, code = row.partition(_END)
            printed += before
            if end:
                return int(code), printed
        raise Differs(f"the shell ended: {printed}")

    def open_prompt(self) -> Prompt:
        """Start a Python prompt in the shell's folder, with the shell's Python."""
        python = self.run("command -v python")[1].strip()
        folder = Path(self.run("pwd")[1].strip())
        path = self.run('printf "%s\\n" "$PATH"')[1].strip()
        return Prompt(python, folder, self._env | {"PATH": path})

    def close(self) -> None:
        """End the shell."""
        assert self._process.stdin is not None and self._process.stdout is not None
        self._process.stdin.close()
        self._process.stdout.read()
        self._process.wait()
        self._process.stdout.close()


class Newcomer:
    """Somebody with a shell and at most one Python prompt."""

    def __init__(self, folder: Path, env: dict[str, str]) -> None:
        self.shell = Shell(folder, env)
        self._prompt: Prompt | None = None

    def take(self, step: Step) -> None:
        """Take one step; raise if something else is seen than the page says."""
        match step.how:
            case "shell":
                self._type(step)
            case "save":
                folder = Path(self.shell.run("pwd")[1].strip())
                (folder / step.file).write_text(find_block(step).code, "utf-8")
            case "prompt":
                self._prompt = self.shell.open_prompt()
            case "paste":
                self._paste(step)
            case "leave":
                self.leave()

    def _type(self, step: Step) -> None:
        shown = find_shown(step)
        line = step.typed.replace("<address>", f"'{ROOT}'")
        code, printed = self.shell.run(line)
        if (code != 0) is not step.fails:
            raise Differs(f"ended with {code}:\n{printed}")
        if step.sees and step.sees not in printed:
            raise Differs(f"does not show {step.sees!r}:\n{printed}")
        if not step.sees and shown and not matches(shown, printed):
            raise Differs(f"shows\n{printed}\nand the page says\n{shown}")

    def _paste(self, step: Step) -> None:
        assert self._prompt is not None, "no prompt is open"
        block = find_block(step)
        printed = self._prompt.paste(block.code)
        if "Traceback (most recent call last)" in printed or "SyntaxError" in printed:
            raise Differs(f"fails:\n{printed}")
        for line in [step.sees] if step.sees else (block.output or "").splitlines():
            if line.split("…")[0].strip() not in printed:
                raise Differs(f"does not show {line!r}:\n{printed}")

    def leave(self) -> None:
        """Leave the prompt, if one is open."""
        if self._prompt is not None:
            self._prompt.leave()
            self._prompt = None

    def close(self) -> None:
        """Leave everything."""
        self.leave()
        self.shell.close()


def build_environment(home: Path, *folders: str) -> dict[str, str]:
    """The environment of an account that was made a minute ago."""
    env = {name: text for name, text in os.environ.items() if name.startswith(NETWORK)}
    path = os.pathsep.join([*folders, PATHS])
    return env | {"HOME": str(home), "PATH": path, "LANG": "C.UTF-8", "TERM": "dumb", "USER": "ann"}


def walk(
    steps: tuple[Step, ...], work: Path, env: dict[str, str], *, quiet: bool = False
) -> list[str]:
    """Take the steps one after the other; return what went wrong."""
    wrong: list[str] = []
    newcomer = Newcomer(work, env)
    try:
        for at, step in enumerate(steps, 1):
            began = time.monotonic()
            name = step.typed.splitlines()[0]
            try:
                newcomer.take(step)
                state = "ok"
            except (Differs, TimeoutError, EOFError) as error:
                wrong.append(f"step {at}, {step.page}: {step.how} {name}\n{error}")
                state = "WRONG"
            if not quiet:
                took = time.monotonic() - began
                print(
                    f"{at:3} {state:5} {took:6.1f} s  {step.how:6} {name}  [{step.page}]",
                    flush=True,
                )
            if wrong and step.setup:
                break
    finally:
        newcomer.close()
    return wrong


def main() -> int:
    """Walk through the pages; return the exit code."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--short", action="store_true")
    given = parser.parse_args()
    check_quotes(STEPS)
    with tempfile.TemporaryDirectory(prefix="newcomer-") as name:
        home = Path(name) / "ann"
        (home / "work").mkdir(parents=True)
        folder = str(Path(sys.executable).parent)
        steps = SHORT if given.short else STEPS
        wrong = walk(steps, home / "work", build_environment(home, folder))
    print("\n".join(wrong))
    print(f"{len(steps)} steps, {len(wrong)} wrong")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
