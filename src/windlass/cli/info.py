"""`windlass models` and `windlass config`: what is known, and what applies here."""

from __future__ import annotations

import os
from importlib import import_module
from typing import Any

import click

from windlass.cli.main import debug_option
from windlass.cli.options import json_option


@click.command()
@click.option("--provider", "-p", metavar="NAME", help="Of this provider alone.")
@json_option
@debug_option
def models(provider: str | None, as_json: bool) -> None:
    """Known models with price and context window, and the providers whose key is set.

    Prices are dollars per million tokens. Models that are not listed work too; they cost nothing on
    paper.
    """
    from windlass.cli.paper import out
    from windlass.errors import ConfigError, nearest
    from windlass.models import catalog
    from windlass.models.endpoints import ENDPOINTS

    known = [*ENDPOINTS, "mock"]
    if provider is not None and provider not in known and provider not in catalog.models():
        raise ConfigError(f"provider {provider!r} is not known{nearest(provider, known)}")
    infos = [
        info
        for name, entries in catalog.models().items()
        if provider in (None, name)
        for info in entries
    ]
    providers = [_provider(name) for name in known if provider in (None, name)]
    if as_json:
        out().json({"models": [_model(info) for info in infos], "providers": providers})
        return
    paper = out()
    if infos:
        head = ("MODEL", "IN", "OUT", "CACHED", "CONTEXT", "REPLY", "TOOLS")
        rows = [
            (
                f"{info.provider}:{info.name}", _price(info.input), _price(info.output),
                _price(info.cache_read), _size(info.context_window), _size(info.max_output),
                "native" if info.native_tools else "text",
            )
            for info in infos
        ]  # fmt: skip
        paper.table(head, rows, ("IN", "OUT", "CACHED", "CONTEXT", "REPLY"))
        paper.line("")
    rows = [(p["name"], _key_state(p), p["default_model"] or "") for p in providers]
    paper.table(("PROVIDER", "KEY", "DEFAULT MODEL"), rows)


@click.group()
def config() -> None:
    """Show or check the settings that apply here."""


@config.command("show")
@json_option
@debug_option
def show(as_json: bool) -> None:
    """Every effective setting and where it comes from; secrets are masked."""
    import msgspec

    from windlass.cli.paper import err, out
    from windlass.cli.place import find_place
    from windlass.cli.text import clean, json_text

    loaded = _sections().load()
    settings = loaded.explain()
    if as_json:
        files = [str(file) for file in loaded.files]
        out().json({"settings": msgspec.to_builtins(settings, enc_hook=str), "files": files})
        return
    rows = [
        (
            f"{s.section}.{s.key}",
            clean(json_text(msgspec.to_builtins(s.value, enc_hook=str), indent=False)),
            clean(s.origin),
        )
        for s in settings
    ]
    out().table(("SETTING", "VALUE", "FROM"), rows)
    out().line("")
    out().line(("windlass run and chat keep sessions in ", "dim"), clean(find_place(None).url))
    if not loaded.files:
        err().line(("no windlass.toml from here upward: everything is built in", "dim"))


@config.command("check")
@click.argument("path", required=False)
@debug_option
def check(path: str | None) -> None:
    """Look for mistakes in PATH, or in everything that applies here."""
    from windlass.cli.paper import out
    from windlass.cli.text import clean
    from windlass.errors import ConfigError

    loader = _sections()
    problems: list[str] = []
    if path is not None:
        problems, checked = loader.check(path), [path]
    else:
        try:
            checked = [str(file) for file in loader.load().files]
        except ConfigError as error:
            problems, checked = str(error).splitlines(), []
    for problem in problems:
        click.echo(f"windlass: error: {clean(problem)}", err=True)
    if problems:
        click.get_current_context().exit(1)
    if not checked:
        out().line("no windlass.toml from here upward; the environment is right")
    for file in checked:
        out().line(("right", "green"), f" {clean(file)}")


def _sections() -> Any:
    """The loader, once every section is registered."""
    import_module("windlass.store.config")
    return import_module("windlass.config")


def _provider(name: str) -> dict[str, Any]:
    from windlass.models.endpoints import ENDPOINTS

    if name == "mock":
        return {"name": "mock", "key_env": [], "key_set": None, "default_model": "mock"}
    endpoint = ENDPOINTS[name]
    found = next((variable for variable in endpoint.key_env if os.environ.get(variable)), None)
    return {
        "name": name,
        "key_env": list(endpoint.key_env),
        "key_set": found,
        "default_model": endpoint.default_model,
    }


def _key_state(provider: dict[str, Any]) -> str:
    if not provider["key_env"]:
        return "none needed"
    if provider["key_set"]:
        return f"{provider['key_set']} is set"
    return f"missing: {provider['key_env'][0]}"


def _model(info: Any) -> dict[str, Any]:
    import msgspec

    return {"name": info.name, **msgspec.to_builtins(info)}


def _price(usd: float | None) -> str:
    return "" if usd is None else f"{usd:.3f}".rstrip("0").rstrip(".") if usd else "0"


def _size(tokens: int | None) -> str:
    return "" if tokens is None else f"{tokens:,}"
