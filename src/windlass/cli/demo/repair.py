"""`windlass demo --coding`: an agent mends a repository, is killed twice, and the tree ends right."""

from __future__ import annotations

import asyncio
import difflib
import os
import shlex
import signal
import subprocess
import sys
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final, TypeAlias

import click
import msgspec

from windlass.cli.demo import repository
from windlass.cli.demo.repository import CODE, MENDED, SESSION, TEST, Moment
from windlass.cli.demo.scene import PACE, build_scene
from windlass.cli.text import colour_diff, count, shown_call, to_program
from windlass.events import Event, ToolCallUpdate, ToolResulted
from windlass.sessions.effects import UndoStep
from windlass.sessions.undo import undo
from windlass.store import open_store
from windlass.store.base import Store

if TYPE_CHECKING:
    from windlass.cli.console import ConsoleOutput

#: Work on the store of the demo.
UndoWork: TypeAlias = Callable[[Store], Awaitable[Sequence[UndoStep]]]
DEATHS: Final[dict[Moment, str]] = {
    "in-edit": "SIGKILL, with the new text written beside the file and the file not yet replaced",
    "in-bash": "SIGKILL, with the tests at work",
}


class RepairStory:
    """The demo: what the processes report, and what is in the folder afterwards."""

    def __init__(self, folder: Path, paper: ConsoleOutput) -> None:
        self.folder, self.paper = folder.absolute(), paper
        self.repository = self.folder / "repository"
        self.verified = 0  # rows of the chain

    def tell(self) -> None:
        """Run the whole demo."""
        self.headline()
        repository.build_repository(self.repository)
        self.process("is given the task", "never", repository.TASK)
        self.take_back()
        self.process("is given the correction", "in-edit", repository.CORRECTION)
        self.process("resumes it from the journal", "in-bash", "")
        self.process("resumes it from the journal", "never", "")
        self.show_tree()

    def headline(self) -> None:
        """Say what is scripted and what is real."""
        say = self.paper.line
        say(("windlass demo --coding", "bold"), ": a failing test, and two kill signals on the way")
        say("")
        say("  The model is scripted: no key, no network. The rest is real: the tools, the")
        say("  files, the journal, the tests, and processes that end with SIGKILL.")
        if repository.choose_level() == "none":
            say(("  This machine has no Landlock: commands run with sandbox='none'.", "yellow"))

    def process(self, what: str, moment: Moment, task: str) -> None:
        """Run one process from start to end, and say how it ended."""
        pace = PACE if self.paper.fancy else 0.0
        # -P: without it modules of the current folder, which may be a download, come first
        command = [sys.executable, "-P", "-m", "windlass.cli.demo.repair_child"]
        command += [str(self.folder), moment, str(pace), task]
        decode = msgspec.json.Decoder(Event).decode
        with subprocess.Popen(command, stdout=subprocess.PIPE) as child:
            self.paper.line("")
            self.paper.line(("▸ ", "cyan"), (f"process {child.pid}", "bold"), f" {what}")
            show = build_scene(self.paper)
            assert child.stdout is not None
            for line in child.stdout:
                event = decode(line)
                if not isinstance(event, ToolCallUpdate):  # what a command wrote comes with its end
                    show(event)
                self.show_result(event)
            show.end()
        wanted = 0 if moment == "never" else -getattr(signal, "SIGKILL", -1)
        if child.returncode != wanted and sys.platform != "win32":
            raise click.ClickException(f"a process of the demo ended with {child.returncode}")
        if moment != "never":
            self.paper.line("  ", ("✗ ", "red"), (DEATHS[moment], "bold red"))
            state = "as it was" if self.read("cart.py") == CODE else "mended"
            self.paper.line((f"    cart.py is {state}; left beside it: {self.litter()}", "dim"))

    def show_result(self, event: Event) -> None:
        """Show the diff of an edit, and the last lines of a command."""
        if not isinstance(event, ToolResulted):
            return
        text = event.result.text
        if "\n--- a/" in text:
            for line, tone in colour_diff("--- a/" + text.partition("\n--- a/")[2]):
                self.paper.line("    ", (line, tone))
        elif event.tool == "bash":
            for line, _ in list(colour_diff(text))[-4:]:
                self.paper.line((f"    {line}", "dim"))

    def take_back(self) -> None:
        """Undo the wrong edit by the journal, as `windlass undo` does."""

        async def work(store: Store) -> Sequence[UndoStep]:
            return await undo(
                SESSION, tools=repository.name_tools(), name="the operator", store=store
            )

        self.paper.line("")
        self.paper.line(("▸ ", "cyan"), ("the operator", "bold"), " takes the edit back")
        for step in asyncio.run(self._with_store(work)):
            if step.outcome == "ok":
                call = shown_call(step.tool, {"path": step.arguments["path"]}, 80)
                self.paper.line("  ", ("↶ ", "green"), f"{call}: {step.detail or step.what}")

    async def _with_store(self, work: UndoWork) -> Sequence[UndoStep]:
        store = open_store(self.folder / "sessions.db", add_tables=True)
        try:
            done = await work(store)
            self.verified = await store.verify(SESSION)
            return done
        finally:
            await store.aclose()

    def read(self, name: str) -> str:
        """Return the content of a file of the repository."""
        return (self.repository / name).read_text()

    def litter(self) -> str:
        """Name what is in the repository beside its two files."""
        known = {"cart.py", "test_cart.py"}
        found = sorted(one.name for one in self.repository.iterdir() if one.name not in known)
        return count(len(found), "temporary file") if found else "nothing"

    def find_processes(self) -> list[int]:
        """Return the processes that still name the folder; none where there is no /proc."""
        mark, found = os.fsencode(self.folder), list[int]()
        for entry in Path("/proc").glob("[0-9]*/cmdline"):
            try:
                words = entry.read_bytes()
            except OSError:
                continue
            if mark in words and int(entry.parent.name) != os.getpid():
                found.append(int(entry.parent.name))
        return found

    @property
    def as_promised(self) -> bool:
        """Whether the code is mended, the test as it was, and nothing else left."""
        right = self.read("cart.py") == MENDED and self.read("test_cart.py") == TEST
        whole = self.litter() == "nothing" and not self.find_processes()
        return right and whole and self.verified > 0

    def show_tree(self) -> None:
        """Show what became of the repository, and whether its tests pass."""

        async def look(_store: Store) -> Sequence[UndoStep]:
            return ()

        say = self.paper.line
        asyncio.run(self._with_store(look))
        say("")
        say(("The repository now", "bold"), (": against what it was in the beginning", "dim"))
        for name, before in (("cart.py", CODE), ("test_cart.py", TEST)):
            lines = difflib.unified_diff(
                before.splitlines(),
                self.read(name).splitlines(),
                f"a/{name}",
                f"b/{name}",
                "",
                "",
                1,
                "",
            )
            for line, tone in colour_diff("\n".join(lines)):
                say("  ", (line, tone))
        done = subprocess.run(
            [sys.executable, "-B", "-m", "unittest"], cwd=self.repository, capture_output=True
        )
        say("")
        good = self.as_promised and done.returncode == 0
        mark, tone = ("✓ ", "green") if good else ("✗ ", "red")
        told = "The tree is right, once" if good else "The tree is wrong"
        say((mark, tone), (told, f"bold {tone}"), f" (2 kills; left over: {self.litter()}).")
        rows = count(self.verified, "row")
        say(("✓ ", "green"), f"The chain of hashes holds: {rows}, none missing, none changed.")

    def next_steps(self, keep: str | None) -> None:
        """Print what to do next, as commands that can be pasted as they are."""
        say, program = self.paper.line, to_program()
        say("")
        say(("What next", "bold"), (": paste a line", "dim"))
        if keep is None:
            say(("  keep the files and look around", "dim"))
            say((f"{program} demo --coding --keep shop", "cyan"))
            return
        store = shlex.quote(str(Path(keep) / "sessions.db"))
        say(("  the trace", "dim"))
        say((f"{program} sessions show {SESSION} --store {store}", "cyan"))
