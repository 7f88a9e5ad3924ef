"""`windlass demo`: four processes, three of them killed, one refund; shown as it happens."""

from __future__ import annotations

import asyncio
import shlex
import signal
import subprocess
import sys
import tempfile
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
import msgspec

from windlass.cli import timeline
from windlass.cli.console import out
from windlass.cli.demo.repair import RepairStory
from windlass.cli.demo.scene import PACE, build_scene
from windlass.cli.demo.shop import SESSION, Shop
from windlass.cli.main import debug_option
from windlass.cli.text import count, to_program
from windlass.events import Event, ToolResulted
from windlass.store import open_store

if TYPE_CHECKING:
    from windlass.cli.console import ConsoleOutput
    from windlass.cli.timeline import TimedEntry

DEATHS = {
    "before-commit": "SIGKILL, with the refund inserted and not committed",
    "after-commit": "SIGKILL, with the commit done and the run not yet told",
    "after-letter": "SIGKILL, with the letter posted and not yet recorded",
}
NAIVE_DEATHS = DEATHS | {
    "before-commit": "SIGKILL, with the refund made and not yet recorded",
    "after-commit": "SIGKILL, with the record made and the run not yet told",
}


@click.command()
@click.option("--keep", metavar="FOLDER", help="Keep the shop, its journal and the log there.")
@click.option(
    "--naive", is_flag=True, help="Make the refund without transaction and key: it doubles."
)
@click.option(
    "--coding", is_flag=True, help="Mend a failing test instead, with the built-in tools."
)
@debug_option
def demo(keep: str | None, naive: bool, coding: bool) -> None:
    """Show a refund, or with --coding an edit, that survives SIGKILL: offline, no key, in seconds."""
    if naive and coding:
        raise click.UsageError("--naive is about the refund: leave --coding or --naive out")
    with _folder(keep) as folder:
        story = RepairStory(folder, out()) if coding else Story(Shop(folder), out(), naive)
        story.tell()
        story.next_steps(keep)
        kept = story.as_promised
    click.get_current_context().exit(0 if kept else 1)


@contextmanager
def _folder(keep: str | None) -> Generator[Path]:
    if keep is None:
        with tempfile.TemporaryDirectory(prefix="windlass-demo-") as folder:
            yield Path(folder)
        return
    folder = Path(keep)
    folder.mkdir(parents=True, exist_ok=True)
    if any(folder.iterdir()):
        raise click.UsageError(f"--keep {keep}: the folder is not empty")
    yield folder


class Story:
    """The demo: what the processes report, and what the parent observes."""

    def __init__(self, shop: Shop, paper: ConsoleOutput, naive: bool) -> None:
        self.shop, self.paper, self.naive = shop, paper, naive
        self.deaths = NAIVE_DEATHS if naive else DEATHS
        self.verified = 0  # rows of the chain

    def tell(self) -> None:
        """Run the whole demo."""
        self.headline()
        self.shop.open_for_business()
        for number, moment in enumerate((*self.deaths, "never")):
            self.process(moment, first=number == 0)
        entries = self.journal()
        self.effects()
        self.trace(entries)

    @property
    def refunds(self) -> int:
        """The number of refunds made."""
        return len(self.shop.rows("refunds"))

    @property
    def as_promised(self) -> bool:
        """Whether there is one refund and one letter on an intact record; naively, two refunds."""
        letters = len(self.shop.rows("letters"))
        return self.refunds == (2 if self.naive else 1) and letters == 1 and self.verified > 0

    def headline(self) -> None:
        say = self.paper.line
        say(("windlass demo", "bold"), ": a refund, and three kill signals in its way")
        say("")
        say("  The model is scripted: no key, no network. The rest is real: the loop, the")
        say("  tools, the journal, SQLite, and processes that end with SIGKILL. The refunds")
        say("  table has no UNIQUE, and no tool asks whether there was a refund before.")
        if self.naive:
            say(("  --naive: the refund has no transaction and ignores its key.", "yellow"))

    def process(self, moment: str, *, first: bool) -> None:
        """Run one process from start to end, and show the state after it."""
        code = self.watch(moment, first)
        self.shop.observe()
        if moment == "never":
            if code != 0:
                raise click.ClickException(f"the last process of the demo ended with {code}")
            return
        if code != -getattr(signal, "SIGKILL", -1) and sys.platform != "win32":
            raise click.ClickException(f"a process should have been killed and ended with {code}")
        self.paper.line("  ", ("✗ ", "red"), (self.deaths[moment], "bold red"))
        self.paper.line((f"    committed by now: {self.world()}", "dim"))

    def watch(self, moment: str, first: bool) -> int:
        """Run the process and show its events."""
        pace = PACE if self.paper.fancy else 0.0
        # -P: without it modules of the current folder, which may be a download, come first
        command = [sys.executable, "-P", "-m", "windlass.cli.demo.child"]
        command += [str(self.shop.file.parent.absolute())]
        command += [moment, str(pace), "naive" if self.naive else "safe"]
        decode = msgspec.json.Decoder(Event).decode
        with subprocess.Popen(command, stdout=subprocess.PIPE) as child:
            what = "starts the run" if first else "resumes it from the journal"
            self.paper.line("")
            self.paper.line(("▸ ", "cyan"), (f"process {child.pid}", "bold"), f" {what}")
            show = build_scene(self.paper)
            assert child.stdout is not None
            for line in child.stdout:
                show(decode(line))
            show.end()
        return child.returncode

    def world(self) -> str:
        """Describe what is committed, and what the journal has recorded."""
        letters = len(self.shop.rows("letters"))
        facts = [count(self.refunds, "refund")] + ([count(letters, "letter")] if letters else [])
        known = {e.entry.tool for e in self.journal() if isinstance(e.entry, ToolResulted)}
        recorded = [name for name in ("refund", "write_letter") if name in known]
        return f"{', '.join(facts)}; on record as done: {', '.join(recorded) or 'neither'}"

    def journal(self) -> list[TimedEntry]:
        """Read and verify the session's record in this process."""

        async def look() -> list[Any]:
            store = open_store(self.shop.file, add_tables=True)
            try:
                self.verified = await store.verify(SESSION)
                return await timeline.read(store, SESSION)
            finally:
                await store.aclose()

        return asyncio.run(look())

    def effects(self) -> None:
        """Show the log of effects, and what it proves."""
        say = self.paper.line
        say("")
        say(
            ("The effect log", "bold"),
            (": appended outside the database, never de-duplicated", "dim"),
        )
        lines = self.shop.read_log()
        wide = max(len(line["who"]) for line in lines)
        for line in lines:
            tone = "bold" if line["who"] == "observer" else "dim"
            say("  ", (f"{line['who']:<{wide}}  {line['what']:<16}  {line['about']}", tone))
        begun = sum(1 for line in lines if line["what"] == "refund begins")
        made = sum(1 for line in lines if line["what"] == "refund committed")
        say("")
        times = {1: "exactly once", 2: "twice"}.get(made, f"{made} times")
        mark, tone = ("✓ ", "green") if made == 1 else ("✗ ", "red")
        tried = f"{count(len(self.deaths), 'kill')}, the refund begun {count(begun, 'time')}"
        say((mark, tone), (f"The customer was refunded {times}", f"bold {tone}"), f" ({tried}).")

    def trace(self, entries: list[TimedEntry]) -> None:
        """Show the journal as `windlass sessions show` would."""
        self.paper.line("")
        self.paper.line(
            ("The session's trace", "bold"), (": the same journal, read as a timeline", "dim")
        )
        timeline.show(self.paper, entries)
        self.paper.line("")
        rows = count(self.verified, "row")
        self.paper.line(
            ("✓ ", "green"), f"The chain of hashes holds: {rows}, none missing, none changed."
        )

    def next_steps(self, keep: str | None) -> None:
        """Print what to do next, as commands that can be pasted as they are."""
        say = self.paper.line
        say("")
        say(("What next", "bold"), (": paste a line", "dim"))
        program = to_program()
        hints: list[tuple[str, str]] = []
        if not self.naive:
            hints.append((f"{program} demo --naive", "no transaction, no key: two refunds"))
        if keep is None:
            hints.append((f"{program} demo --keep shop", "keep the files and look around"))
        else:
            store = shlex.quote(str(self.shop.file))
            hints.append((f"{program} sessions show {SESSION} --store {store}", "the trace"))
        hints.append((f"{program} run 'Hello.' --provider mock", "a first run, without a key"))
        hints.append((f"{program} models", "real models and the keys they want"))
        # A command has its line to itself: zsh takes a comment behind one for arguments.
        for command, what in hints:
            say("  ", (what, "dim"))
            say((command, "cyan"))
