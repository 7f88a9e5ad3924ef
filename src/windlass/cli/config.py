"""`windlass config`: what applies here."""

from __future__ import annotations

from importlib import import_module
from typing import Any

import click
import msgspec

from windlass.cli.console import err, out
from windlass.cli.main import debug_option
from windlass.cli.options import json_option
from windlass.cli.store_location import find_place
from windlass.cli.text import clean, json_text
from windlass.errors import ConfigError
from windlass.models.registry.registry import build_registry

_LONGEST = 40  # characters of a value in a table


@click.command("show")
@json_option
@debug_option
def show(as_json: bool) -> None:
    """Show every effective setting and where it comes from; secrets are masked."""
    loaded = sections().load()
    build_registry(loaded)  # a table may be wrong only together with others
    settings = loaded.explain()
    if as_json:
        files = [str(file) for file in loaded.files]
        out().json(
            {
                "settings": msgspec.to_builtins(settings, enc_hook=str),
                "files": files,
                "ignored": msgspec.to_builtins(loaded.ignored),
            }
        )
        return
    rows = [
        (
            f"{s.section}.{s.key}",
            _short(clean(json_text(msgspec.to_builtins(s.value, enc_hook=str), indent=False))),
            clean(s.origin),
        )
        for s in settings
    ]
    out().table(("SETTING", "VALUE", "FROM"), rows)
    out().line("")
    out().line(("windlass run and chat keep sessions in ", "dim"), clean(find_place(None).url))
    for each in loaded.ignored:
        what = f"{each.setting} ({each.origin})" if each.setting else each.origin
        out().line(("ignored ", "yellow"), clean(f"{what}: {each.reason}"))
    if not loaded.files:
        err().line(("no windlass.toml from here upward: everything is built in", "dim"))


def _short(value: str) -> str:
    """Cut a value to a column; the whole of it is in its file, and in --json."""
    return value if len(value) <= _LONGEST else f"{value[: _LONGEST - 1]}…"


@click.command("check")
@click.argument("path", required=False)
@debug_option
def check(path: str | None) -> None:
    """Look for mistakes in PATH, or in everything that applies here."""
    loader = sections()
    problems: list[str] = loader.check(path) if path is not None else []
    checked: list[str] = []
    if not problems:
        try:
            loaded = loader.load(file=path or loader.find())  # as if it were trusted
            build_registry(loaded)
            checked = [path] if path is not None else [str(file) for file in loaded.files]
        except ConfigError as error:
            problems = str(error).splitlines()
    for problem in problems:
        click.echo(f"windlass: error: {clean(problem)}", err=True)
    if problems:
        click.get_current_context().exit(1)
    if not checked:
        out().line("no windlass.toml from here upward; the environment is right")
    for file in checked:
        out().line(("right", "green"), f" {clean(file)}")


def sections() -> Any:
    """Return the loader, once every section is registered."""
    return import_module("windlass.config.loader")
