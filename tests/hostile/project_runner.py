"""Run commands and agents in a project, in a process that is watched: `project_runner.py SPEC`.

SPEC is a file of JSON (see `Spec`). The report, a list of `Outcome`, is written to `output/report.json`
of the world. The watch begins before anything of Windlass is imported. Without SPEC the names of
such files are read from standard input, and each is done in a child of this process, which has
imported everything by then: that saves most of the time, and shows no import.
"""

from __future__ import annotations

import asyncio
import faulthandler
import gc
import importlib
import json
import os
import pkgutil
import re
import sys
import traceback
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any, Final, NamedTuple

from tests.hostile.project_detector import Detector, modules_from

HANGS_AFTER: Final = 120.0  # seconds of one command, on the slowest machine


class Spec(NamedTuple):
    """What to do, and where."""

    name: str
    root: str
    project: str
    store: str  # the folder in which .windlass is made
    host: str
    port: int
    mode: str  # "few", "every", "agents" or "unsafe"


class Outcome(NamedTuple):
    """How one command or agent ended, and what it did that it should not."""

    what: str
    code: int
    said: str  # the end of what it printed
    faults: list[str]


def main() -> None:
    """Run the spec in the argument, or serve specs from standard input."""
    if len(sys.argv) > 1:
        examine(Path(sys.argv[1]))
    else:
        serve()


def serve() -> None:
    """Run each line of standard input in a child, and answer with its exit status."""
    import windlass

    for name in ("click.testing", "aiohttp", "tests.hostile.project_commands"):
        importlib.import_module(name)
    for module in pkgutil.walk_packages(windlass.__path__, "windlass."):
        if not module.name.startswith(("windlass.testing", "windlass.server")):
            importlib.import_module(module.name)
    gc.freeze()
    for line in sys.stdin:
        child = os.fork()
        if child == 0:
            status = 1
            try:
                place, _, environment = line.strip().partition("\t")
                os.environ.clear()
                os.environ.update(json.loads(environment))
                examine(Path(place))
                status = 0
            except BaseException:
                traceback.print_exc()
            finally:
                os._exit(status)
        _, status = os.waitpid(child, 0)
        print(os.waitstatus_to_exitcode(status), flush=True)


def examine(file: Path) -> None:
    """Read the spec, do it, write the report."""
    spec = Spec(*json.loads(file.read_bytes()))
    detector = _detector(spec)
    os.chdir(spec.project)
    if spec.name == "folder_gone":
        os.rmdir(spec.project)
    sys.addaudithook(detector)
    if spec.mode == "unsafe":
        outcomes = run_unsafe(spec, detector)
    elif spec.mode == "agents":
        outcomes = asyncio.run(run_agents(spec, detector))
    else:
        outcomes = run_commands(spec, detector)
    detector.active = False
    if imported := modules_from(detector.sources):
        outcomes.append(Outcome("all of them", 0, "", [f"imported {name}" for name in imported]))
    report = [outcome._asdict() for outcome in outcomes]
    report.append({"connections": len(detector.connections)})
    Path(spec.root, "output", "report.json").write_text(json.dumps(report))


def _detector(spec: Spec) -> Detector:
    root, project = os.path.realpath(spec.root), os.path.realpath(spec.project)
    store = f"{os.path.realpath(spec.store)}/.windlass"
    names = ("export.jsonl", "trace.html", "cassette.jsonl", "seals.jsonl", "transcripts")
    return Detector(
        address=(spec.host, spec.port),
        writable=[
            store,
            f"{store}/.gitignore",
            *(f"{store}/sessions.db{ending}" for ending in ("", "-wal", "-shm", "-journal")),
            *(f"{project}/{name}" for name in names),
            f"{project}/transcripts/llm_transcript.jsonl",
            f"{root}/home/.config/windlass/",
            f"{root}/temporary/",
        ],
        sources=[f"{root}/folders/", f"{root}/elsewhere/", f"{root}/home/"],
    )


# --------------------------------------------------------------------------- commands


def run_commands(spec: Spec, detector: Detector) -> list[Outcome]:
    """Run every line of the command line, one after the other."""
    from click.testing import CliRunner

    from tests.hostile.project_commands import lines_for
    from windlass.cli.main import cli

    outcomes: list[Outcome] = []
    for line in lines_for(spec.name, every=spec.mode == "every"):
        words, path = line.words, list(sys.path)
        named = _values(words, "--tools")
        detector.named = frozenset(
            os.path.realpath(f"{word.partition(':')[0]}.py") for word in named
        )
        if spec.name != "folder_gone":
            detector.stores = frozenset(map(os.path.realpath, _values(words, "--store")))
        detector.may_start = MAY_START.get(words[0], lambda _command: False)
        faulthandler.dump_traceback_later(HANGS_AFTER, exit=True)
        result = CliRunner().invoke(cli, words, input=line.stdin)
        faulthandler.cancel_dump_traceback_later()
        sys.path[:] = path
        for module in modules_from(detector.sources) if named else ():
            if sys.modules[module].__file__ in detector.named:
                del sys.modules[module]
        faults = [f"{fault.kind} {fault.what}" for fault in detector.take()]
        faults += _wrong_end(result, debug="--debug" in words)
        outcomes.append(Outcome(line.text, result.exit_code, result.output[-2000:], faults))
    return outcomes


def _values(words: list[str], option: str) -> list[str]:
    return [word for before, word in zip(words, words[1:], strict=False) if before == option]


def _is_demo(command: list[str]) -> bool:
    return command[0] == sys.executable and "windlass.cli.demo.child" in command


def _is_probe(command: list[str]) -> bool:
    if re.fullmatch(r"(/usr(/local)?)?/bin/bwrap", command[0]):
        return command[-3:] == ["/bin/sh", "-c", ":"]
    warden = Path(__file__).parents[2] / "src/windlass/toolbox/sandbox/warden.py"
    return command[:4] == [sys.executable, "-I", "-S", str(warden)]


MAY_START = {"demo": _is_demo, "doctor": _is_probe}


def _wrong_end(result: Any, *, debug: bool) -> list[str]:
    """List a traceback, or an unexpected error."""
    found: list[str] = []
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        found.append("raised " + "".join(traceback.format_exception(result.exception))[-2000:])
    if "Traceback (most recent call last)" in result.output and not debug:
        found.append("showed a traceback")
    if "(--debug shows where)" in result.output:
        found.append(f"an error that nobody foresaw: {result.output[-300:]}")
    return found


# --------------------------------------------------------------------------- agents

DEFAULT_STORE: Final = ".windlass/sessions.db"


async def run_agents(spec: Spec, detector: Detector) -> list[Outcome]:
    """Run agents in the folder, through the library."""
    import windlass as w
    from windlass.callers import with_cassette
    from windlass.errors import WindlassError

    model = "anthropic:claude-sonnet-4-5"

    async def plain() -> Any:
        return await w.Agent(model).run("hello")

    async def without_a_name() -> Any:
        return await w.Agent("claude-sonnet-4-5").run("hello")

    async def loop() -> Any:
        return await w.agent_loop("hello", model=model)

    async def in_a_runtime() -> Any:
        async with w.Runtime() as runtime:
            _ = runtime.roles
            return await w.Agent(model).run("hello")

    async def in_the_default_store() -> Any:
        return await w.Agent(model).run("hello", session_id="a", store=DEFAULT_STORE)

    async def with_a_transcript() -> Any:
        return await w.Agent(model).run("hello", llm_transcript_dir="transcripts")

    async def with_a_cassette() -> Any:
        return await w.llm_call("hello", model=model, llm_caller=with_cassette("cassette.jsonl"))

    async def with_skills() -> Any:
        return await w.Agent(model).run("hello", skills="skills")

    async def with_prompts() -> Any:
        return await w.Agent(model).run("hello", prompts={"agent.nudge": "prompt.md"})

    async def one_call() -> Any:
        return await w.llm_call("hello", model=model)

    acts: list[Callable[[], Awaitable[Any]]] = [
        plain,
        without_a_name,
        loop,
        in_a_runtime,
        in_the_default_store,
        with_a_transcript,
        with_a_cassette,
        with_skills,
        with_prompts,
        one_call,
    ]
    # A program that names a store has it opened there: links are followed, as anybody expects.
    elsewhere = spec.name in ("parent_settings", "folder_linked_itself")
    if elsewhere or any(map(os.path.islink, (DEFAULT_STORE, os.path.dirname(DEFAULT_STORE)))):
        acts.remove(in_the_default_store)
    outcomes: list[Outcome] = []
    for act in acts:
        faulthandler.dump_traceback_later(HANGS_AFTER, exit=True)
        code, said, raised = 0, "", list[str]()
        try:
            result = await act()
            status = getattr(result, "status", "done")
            code, said = (
                int(status not in ("done", "idle")),
                f"{status} {getattr(result, 'error', '')}",
            )
        except (WindlassError, OSError) as error:
            code, said = 1, f"{type(error).__name__}: {error}"
        except Exception:
            code, raised = 2, [f"raised {traceback.format_exc()[-2000:]}"]
        faulthandler.cancel_dump_traceback_later()
        faults = [f"{fault.kind} {fault.what}" for fault in detector.take()]
        outcomes.append(Outcome(act.__name__, code, said[-2000:], faults + raised))
    return outcomes


# --------------------------------------------------------------------------- the detector itself


def run_unsafe(spec: Spec, detector: Detector) -> list[Outcome]:
    """Do unwanted acts that the detector must see."""
    import shutil
    import socket
    import sqlite3
    import subprocess

    elsewhere, home = Path(spec.root, "elsewhere"), Path(spec.root, "home")
    attacker = os.environ["WINDLASS_TEST_ATTACKER"].split(":")

    def import_planted() -> None:
        sys.path.insert(0, spec.project)
        importlib.import_module("shop")

    acts: dict[str, Callable[[], Any]] = {
        "connect": lambda: socket.create_connection((attacker[0], int(attacker[1])), 5),
        "look up": lambda: socket.getaddrinfo("attacker.example.com", 80),
        "listen": lambda: socket.create_server(("127.0.0.1", 0)),
        "write": lambda: (elsewhere / "new").write_text("x"),
        "append": lambda: open(home / ".bashrc", "a").close(),
        "write through a link": lambda: Path("link").write_text("x"),
        "write beside the store": lambda: Path(".windlass/other").write_text("x"),
        "remove": lambda: (elsewhere / "victim").unlink(),
        "rename": lambda: (elsewhere / "victim").rename(Path(".windlass", "sessions.db")),
        "hard link": lambda: os.link(home / ".bashrc", home / "b"),
        "symbolic link": lambda: (home / "b").symlink_to("x"),
        "make a folder": lambda: (home / "folder").mkdir(),
        "remove a folder": lambda: shutil.rmtree(home),
        "change a mode": lambda: (home / ".bashrc").chmod(0o777),
        "open a database": lambda: sqlite3.connect(elsewhere / "victim.db"),
        "open a database by address": lambda: sqlite3.connect(
            f"file:{elsewhere}/victim.db?mode=ro", uri=True
        ),
        "import": import_planted,
        "execute": lambda: exec(compile("1", f"{spec.project}/shop.py", "exec")),
        "start": lambda: subprocess.run([sys.executable, "-c", "pass"], check=False),
        "shell": lambda: os.system("true"),
    }
    detector.active = False
    Path("link").symlink_to(home / ".bashrc")
    detector.active = True
    outcomes: list[Outcome] = []
    for name, act in acts.items():
        try:
            act()
            said = "nobody stopped it"
        except OSError as error:
            said = str(error)
        faults = [f"{fault.kind} {fault.what}" for fault in detector.take()]
        outcomes.append(Outcome(name, 0, said, faults))
    detector.active = False  # as a library below Python would: only a snapshot shows it
    with sqlite3.connect(elsewhere / "victim.db") as connection:
        connection.execute("INSERT INTO mine VALUES (2)")
    return outcomes


if __name__ == "__main__":
    main()
