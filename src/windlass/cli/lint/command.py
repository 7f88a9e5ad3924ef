"""`windlass lint`: what to mend before it fails, in sources, settings, registries and histories."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import click

from windlass.cli.config import find_refusals, sections
from windlass.cli.console import out
from windlass.cli.lint.code import DEPRECATED, RULE, Finding, read_source, unknown_model
from windlass.cli.main import debug_option
from windlass.cli.options import json_option
from windlass.cli.text import clean, count
from windlass.config.lines import Lines
from windlass.config.loader import FILE
from windlass.config.sources import parse
from windlass.errors import ConfigError
from windlass.files import read_regular
from windlass.json_types import JsonObject, is_object
from windlass.models.registry.defaults import read_shipped_tables
from windlass.models.registry.registry import ModelRegistry, build_registry
from windlass.models.registry.scope import registry_source

_SKIPPED = frozenset({"node_modules", "__pycache__", "venv", "site-packages", "build", "dist"})


@click.command()
@click.argument("paths", nargs=-1, metavar="[PATH]…")
@click.option(
    "--registry",
    metavar="MODULE:NAME",
    multiple=True,
    help="Tools to count, and to show as flow control takes them. May be repeated.",
)
@click.option("--session", metavar="ID", help="Would providers take the history of this session?")
@click.option(
    "--transcript", metavar="FILE", help="The same for an exported transcript or journal."
)
@click.option(
    "--provider",
    "-p",
    metavar="NAME[:MODEL]",
    multiple=True,
    help="For these providers; default: whose key is set, for a history all.",
)
@click.option("--store", metavar="URL|FILE", help="Where the session is kept.")
@json_option
@debug_option
def lint(
    paths: tuple[str, ...],
    registry: tuple[str, ...],
    session: str | None,
    transcript: str | None,
    provider: tuple[str, ...],
    store: str | None,
    as_json: bool,
) -> None:
    """Find deprecated options, unknown models, wrong settings and too many tools.

    PATH is a file or a folder, by default this one. With --session or --transcript it says instead,
    provider by provider, whether a saved history would be taken. Exit code 1 when there is anything
    to mend.

    \b
      windlass lint src --registry shop.tools:registry
      windlass lint --session refunds --provider gemini
    """
    ctx = click.get_current_context()
    ctx.call_on_close(_with_what_is_known_here())
    if session is not None or transcript is not None:
        if session is not None and transcript is not None:
            raise ConfigError("--session and --transcript are two histories: give one of them")
        if paths or registry:
            raise ConfigError("a history is looked at alone: leave paths and --registry out")
        # Loads every wire, which the other checks do not need.
        from windlass.cli.lint import history

        request = (
            history.read_session(session, store)
            if session is not None
            else history.read_history_file(str(transcript))
        )
        verdicts = list(history.judge_history(request, provider))
        ctx.exit(history.print_verdicts(verdicts, as_json))
    found = _findings(paths, registry, provider)
    if not registry:
        ctx.exit(_tell(found, as_json))
    # Loads policies, which the other checks do not need.
    from windlass.cli.lint.flow import OVERRIDE, describe_registries

    guesses = describe_registries(registry)
    if not as_json and guesses:
        out().line(("arguments and labels, as flow control takes them", "bold"))
        for guess in guesses:
            out().line(f"  {clean(guess.as_line())}")
        out().line((OVERRIDE, "dim"))
    ctx.exit(_tell(found, as_json, {"tools": [guess.as_data() for guess in guesses]}))


def _with_what_is_known_here() -> Callable[[], None]:
    """Use the project's aliases and providers, or the shipped ones; return the undo.

    What takes it back is returned.
    """
    try:
        book = build_registry(sections().load())
    except ConfigError:
        book = ModelRegistry([read_shipped_tables()])
    before = registry_source.set(lambda: book)
    return lambda: registry_source.reset(before)


def _tell(found: list[Finding], as_json: bool, more: JsonObject | None = None) -> int:
    paper = out()
    if as_json:
        paper.json({"findings": [finding._asdict() for finding in found], **(more or {})})
        return 1 if found else 0
    for finding in found:
        fix = f" ({finding.fix})" if finding.fix else ""
        paper.line(
            (clean(finding.where), "bold"),
            f": {clean(finding.message)}{clean(fix)} ",
            (f"[{finding.rule}]", "dim"),
        )
    paper.line(count(len(found), "thing to mend", "things to mend") if found else "nothing to mend")
    return 1 if found else 0


# --------------------------------------------------------------------------- sources and settings


def _findings(
    paths: Sequence[str], registries: Sequence[str], providers: Sequence[str]
) -> list[Finding]:
    found: list[Finding] = []
    deferred: list[str] = []
    searches = False
    settings: list[Path] = []
    for path in _files(paths or (".",), found):
        if path.name == FILE:
            settings.append(path)
            continue
        source = read_source(path)
        found += source.findings
        deferred += source.deferred
        searches = searches or source.searches
    found += _settings(settings, everything=not paths)
    if registries:
        # Loads tools and wires, which the other checks do not need.
        from windlass.cli.lint.registry import check_registries

        found += check_registries(registries, providers)
    if deferred and not searches:
        found += [
            Finding(
                "deferred_tools",
                where,
                "a deferred tool, and no tool_search finds it",
                "give tool_search=True to the run",
            )
            for where in deferred
        ]
    return sorted(found, key=_place)


def _place(finding: Finding) -> tuple[str, int, str]:
    path, _, line = finding.where.rpartition(":")
    return (path, int(line), finding.message) if line.isdigit() else (finding.where, 0, "")


def _files(paths: Iterable[str], found: list[Finding]) -> Iterator[Path]:
    for name in paths:
        path = Path(name)
        if path.is_file():
            yield path
        elif path.is_dir():
            for folder, folders, files in os.walk(path):
                folders[:] = sorted(f for f in folders if f not in _SKIPPED and f[0] != ".")
                for file in sorted(files):
                    if file.endswith(".py") or file == FILE:
                        yield Path(folder, file)
        else:
            found.append(Finding("unreadable", name, "there is no such file or folder"))


def _settings(files: Sequence[Path], *, everything: bool) -> Iterator[Finding]:
    loader = sections()
    told: set[str] = set()
    for file in files:
        told.update(loader.check(str(file)))
        yield from _old_keys(file)
    if everything:
        try:
            loaded = loader.load()
            build_registry(loaded)  # a table may be wrong only together with others
            here = {os.path.abspath(str(file)): str(file) for file in files}
            told.update(_nearer(line, here) for line in find_refusals(loaded))
        except ConfigError as error:
            here = {os.path.abspath(str(file)): str(file) for file in files}
            told.update(_nearer(line, here) for line in str(error).splitlines())
    for problem in sorted(told):
        where, _, message = problem.partition(": ")
        yield Finding("config", where, message or problem)


def _nearer(problem: str, here: dict[str, str]) -> str:
    """Shorten the path in a problem to the one it was found by, so that none repeats."""
    for whole, short in here.items():
        if problem.startswith(whole):
            return short + problem.removeprefix(whole)
    return problem


def _old_keys(file: Path) -> Iterator[Finding]:
    try:
        text = read_regular(file).decode("utf-8-sig")
        data, problem = parse(text, str(file))
    except (OSError, ValueError):
        return  # the loader reports it
    if problem:
        return
    lines = Lines(text)
    for path, value in _leaves(data):
        where = f"{file}{lines.at(path)}"
        if path[-1] in DEPRECATED:
            yield Finding(RULE, where, f"{path[-1]} is deprecated", f"use {DEPRECATED[path[-1]]}")
        elif path[-1] == "persistent":
            yield Finding(RULE, where, "persistent is now loop_until_done", "write loop_until_done")
        elif path[-1] in ("model", "default_model") and isinstance(value, str):
            if problem := unknown_model(value, None):
                yield Finding("unknown_model", where, problem)


def _leaves(value: Any, path: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], Any]]:
    if is_object(value):
        for key, inner in value.items():
            yield from _leaves(inner, (*path, key))
    elif path:
        yield path, value
