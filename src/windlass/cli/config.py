"""`windlass config`: what applies here."""

from __future__ import annotations

from collections.abc import Generator, Iterator
from contextlib import contextmanager
from importlib import import_module
from typing import Any

import click
import msgspec

from windlass.cli.console import err, out
from windlass.cli.main import debug_option
from windlass.cli.options import json_option
from windlass.cli.store_location import find_place
from windlass.cli.text import clean, json_text
from windlass.config.loader import Config
from windlass.config.trust import IgnoredSetting
from windlass.engine.agent_defaults import find_overridden, read_agent_options
from windlass.engine.assemble import assemble
from windlass.errors import ConfigError
from windlass.models.registry.providers import resolve
from windlass.models.registry.registry import build_registry
from windlass.models.registry.scope import current_environ, registry_source

_LONGEST = 40  # characters of a value in a table


@click.command("show")
@json_option
@debug_option
def show(as_json: bool) -> None:
    """Show every effective setting and where it comes from; secrets are masked."""
    loaded = sections().load()
    build_registry(loaded)  # a table may be wrong only together with others
    settings = loaded.explain()
    ignored = [*loaded.ignored, *_overridden(loaded)]
    if as_json:
        files = [str(file) for file in loaded.files]
        out().json(
            {
                "settings": msgspec.to_builtins(settings, enc_hook=str),
                "files": files,
                "ignored": msgspec.to_builtins(ignored),
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
    for each in ignored:
        what = f"{each.setting} ({each.origin})" if each.setting else each.origin
        out().line(("ignored ", "yellow"), clean(f"{what}: {each.reason}"))
    if not loaded.files:
        err().line(("no windlass.toml from here upward: everything is built in", "dim"))


def _overridden(loaded: Config) -> list[IgnoredSetting]:
    """List the settings of files that a variable with another name replaces."""
    return [
        IgnoredSetting(f"agent.{name}", loaded.origin("agent", name), f"{variable} is set")
        for name, variable in find_overridden(loaded).items()
    ]


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
            problems = find_refusals(loaded)
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
    if (missing := _find_missing_key(loader.load(file=path or loader.find()))) is not None:
        err().line(("for windlass run: ", "dim"), clean(missing))


def find_refusals(loaded: Config) -> list[str]:
    """List what `windlass run` would refuse although each setting by itself is right."""
    problems: list[str] = []
    with _using(loaded, has_keys=True):
        for section, model in _named_models(loaded):
            try:
                resolve(model)
            except ConfigError as error:
                where = loaded.origin(section, "model")
                problems.append(f"{where}: {section}.model: {error}")
        if problems:
            return problems
        try:
            assemble(read_agent_options(loaded), None, "agent")
        except ConfigError as error:
            problems += [f"[agent]: {line}" for line in str(error).splitlines()]
    return problems


def _find_missing_key(loaded: Config) -> str | None:
    """Say which key the model of `windlass run` wants, if it is not set."""
    with _using(loaded):
        try:
            assemble(read_agent_options(loaded), None, "agent").model.check()
        except ConfigError as error:
            return str(error)
    return None


def _named_models(loaded: Config) -> Iterator[tuple[str, str]]:
    for section in ("llm", "agent"):
        model = loaded.document(section).data[section].get("model")
        if isinstance(model, str):
            yield section, model


@contextmanager
def _using(loaded: Config, *, has_keys: bool = False) -> Generator[None]:
    """Take providers and models from this configuration within the block.

    With `has_keys` every provider has a key: that none is set is no mistake of a file.
    """
    book = build_registry(loaded)
    variables = [name for endpoint in book.endpoints.values() for name in endpoint.key_env]
    keys = dict.fromkeys(variables, "any key") if has_keys else {}
    registry = registry_source.set(lambda: book)
    environment = current_environ.set({**keys, **loaded.environ})
    try:
        yield
    finally:
        registry_source.reset(registry)
        current_environ.reset(environment)


def sections() -> Any:
    """Return the loader, once every section is registered."""
    return import_module("windlass.config.loader")
