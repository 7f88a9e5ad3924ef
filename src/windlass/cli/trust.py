"""`windlass trust`: allow the files of a project to set more than they may by default."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import click

from windlass.cli.console import out
from windlass.cli.main import debug_option
from windlass.cli.text import clean
from windlass.config.loader import find, widening_of
from windlass.config.trust import TrustRecord
from windlass.errors import ConfigError
from windlass.files import owner_problem
from windlass.models.registry.config import package_files

if TYPE_CHECKING:
    from windlass.config.trust import IgnoredSetting


@click.command()
@click.argument("path", required=False)
@click.option("--yes", is_flag=True, help="Do not ask.")
@click.option("--remove", is_flag=True, help="No longer trust PATH.")
@click.option("--list", "listed", is_flag=True, help="Show what is trusted.")
@debug_option
def trust(path: str | None, yes: bool, remove: bool, listed: bool) -> None:
    """Trust PATH, or the nearest windlass.toml and the packages beside it, as they are now.

    Without trust a project's file may only narrow what applies. Addresses, keys, the store, the
    audit anchor, prices and roles count only in a file that you trust. A file that changes has to
    be trusted again.
    """
    record = TrustRecord(os.environ)
    if listed:
        for place in record.entries():
            out().line(clean(place))
        return
    files = [Path(path)] if path is not None else list(_files())
    if not files:
        raise ConfigError("no windlass.toml from here upward: there is nothing to trust")
    for file in files:
        if remove:
            done = record.forget(file)
            out().line(clean(f"{file}: {'no longer trusted' if done else 'it was not trusted'}"))
        else:
            _trust(record, file, yes)


def _trust(record: TrustRecord, file: Path, yes: bool) -> None:
    if not file.is_file():
        raise ConfigError(f"{file}: there is no such file")
    if problem := owner_problem(file):
        raise ConfigError(f"{file}: {problem}; such a file cannot be trusted")
    content, widening = _widening(file)
    out().line((clean(str(file)), "bold"))
    for each in widening:
        out().line(clean(f"  {each.setting} ({each.origin})"))
    if not widening:
        out().line("  nothing in it needs trust")
    elif yes or click.confirm("trust this file as it is now?"):
        record.trust(file, content)
        out().line(("trusted", "green"))
    else:
        out().line("not trusted")


def _files() -> Iterator[Path]:
    """Yield the project's file, and those that packages put beside it."""
    project = find()
    if project is not None:
        yield project
    yield from package_files(project.parent if project is not None else Path.cwd())


def _widening(file: Path) -> tuple[bytes, list[IgnoredSetting]]:
    """Return the content of the file, and every setting of it that needs trust."""
    return widening_of(file, os.environ)
