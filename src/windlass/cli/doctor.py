"""`windlass models doctor`: what the model behind a URL can really do."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
import msgspec

from windlass.cli import text as words
from windlass.cli.console import err, out
from windlass.cli.main import debug_option
from windlass.cli.options import json_option
from windlass.cli.redaction import secrets_here
from windlass.cli.text import one_line
from windlass.config import loader
from windlass.errors import ConfigError
from windlass.json_types import JsonObject
from windlass.models.doctor import examine
from windlass.models.doctor.row import as_toml, find_shadowing_glob, write
from windlass.models.doctor.run import NEEDED
from windlass.models.registry.providers import resolve
from windlass.models.registry.scope import ENDPOINTS

if TYPE_CHECKING:
    from windlass.cli.console import ConsoleOutput
    from windlass.models.doctor import Finding, Report
    from windlass.redaction.redactor import Redactor

_TONE = {"pass": "green", "fail": "red", "unsupported": "yellow", "skipped": "dim"}


@click.command()
@click.argument("target", metavar="PROVIDER/MODEL")
@click.option("--base-url", metavar="URL", help="The server, where it is not the provider's own.")
@click.option("--key-env", metavar="NAME", help="The variable that holds the key, for --base-url.")
@click.option("--only", metavar="PROBE", multiple=True, help="This probe alone. May be repeated.")
@click.option(
    "--timeout",
    type=click.FloatRange(min=0, min_open=True),
    default=300.0,
    show_default=True,
    metavar="SECONDS",
    help="For the whole examination.",
)
@click.option(
    "--max-usd",
    type=click.FloatRange(min=0),
    default=0.25,
    show_default=True,
    metavar="USD",
    help="What it may cost.",
)
@click.option("--write", "do_write", is_flag=True, help="Put the row into windlass.toml.")
@json_option
@debug_option
def doctor(
    target: str,
    base_url: str | None,
    key_env: str | None,
    only: tuple[str, ...],
    timeout: float,
    max_usd: float,
    do_write: bool,
    as_json: bool,
) -> None:
    """Find out what a model can do, with about twenty tiny calls.

    Prints what passes, fails or is not supported, what that cost, and the capability row for
    windlass.toml. Exit code 0 when the model can hold a loop with tools, else 1.

    \b
      windlass models doctor openai/gpt-4o
      windlass models doctor anthropic:claude-sonnet-4-5 --write
      windlass models doctor qwen3 --base-url http://localhost:8080/v1
    """
    make = _maker(target, base_url, key_env)
    redactor = secrets_here()
    for secret in make().secrets:
        redactor.add(secret)
    paper = err() if as_json else out()

    def tell(finding: Finding) -> None:
        if finding.status != "skipped":  # the summary has the number and the reason
            _line(paper, finding, redactor)

    report = asyncio.run(
        examine(make, timeout=timeout, max_usd=max_usd, only=only or None, tell=tell)
    )
    wrote = _write_row(report) if do_write else None
    if as_json:
        out().json(redactor.value(_document(report, wrote)))
    else:
        _close(paper, report, wrote, redactor)
    click.get_current_context().exit(0 if report.holds_a_loop else 1)


def _maker(target: str, base_url: str | None, key_env: str | None) -> Any:
    model, provider = split(target)
    key = os.environ.get(key_env) if key_env else None
    if key_env and not key:
        raise ConfigError(f"--key-env {key_env}: the variable is not set")

    def make(name: str | None = None, api_key: str | None = None) -> Any:
        if name is not None:  # under the same roof
            at_home = resolve(model, provider, base_url=base_url)
            return resolve(name, at_home.provider, base_url=base_url, api_key=api_key or key)
        return resolve(model, provider, base_url=base_url, api_key=api_key or key)

    return make


def split(target: str) -> tuple[str, str | None]:
    """Split `openai/gpt-4o` into model and provider; leave other names to `resolve`."""
    head, slash, rest = target.partition("/")
    if slash and rest and head in ENDPOINTS:
        return rest, head
    return target, None


# --------------------------------------------------------------------------- what is shown


def _line(paper: ConsoleOutput, finding: Finding, redactor: Redactor) -> None:
    detail = one_line(redactor.text(finding.detail), max(40, paper.width - 36))
    paper.line(f"{finding.name:<20}", (f"{finding.status:<13}", _TONE[finding.status]), detail)


def _close(paper: ConsoleOutput, report: Report, wrote: str | None, redactor: Redactor) -> None:
    price = words.money(report.cost_usd) if report.priced else "price unknown"
    facts = [words.count(report.calls, "call"), words.tokens(report.tokens), price]
    if report.first_s is not None:
        facts.append(f"first piece after {words.duration(report.first_s)}")
    skipped = [finding for finding in report.findings if finding.status == "skipped"]
    if skipped:
        paper.line((f"{words.count(len(skipped), 'probe')} skipped: {skipped[0].detail}", "dim"))
    paper.line("")
    paper.line((f"{' · '.join([*facts, words.duration(report.seconds)])}", "dim"))
    for line in report.contradictions:
        paper.line(("differs  ", "yellow"), words.one_line(redactor.text(line)))
    if report.row:
        paper.line("")
        for line in as_toml(report.provider, report.model, report.row).splitlines():
            paper.line(words.clean(line))
        paper.line("")
    if wrote is not None:
        paper.line(words.clean(wrote))
    if report.holds_a_loop:
        paper.line(("can hold a loop with tools", "green"))
    else:
        paper.line(("cannot hold a loop with tools", "red"), f": {_why(report)}")


def _why(report: Report) -> str:
    for finding in report.findings:
        if finding.name in (*NEEDED, "plain") and finding.status != "pass":
            return f"{finding.name}: {one_line(finding.detail, 120)}"
    return "not all of it was examined"


def _write_row(report: Report) -> str:
    if not report.row:
        return "nothing was found that a row could say; windlass.toml is as it was"
    path = loader.find() or Path.cwd() / loader.FILE
    done = write(path, report.provider, report.model, report.row)
    above = find_shadowing_glob(path, report.provider, report.model)
    wins = f"; your row for {above!r} stands above it and wins" if above else ""
    return f"row {done}: {os.path.relpath(path)}{wins}"


def _document(report: Report, wrote: str | None) -> JsonObject:
    return {
        **msgspec.to_builtins(report),
        "holds_a_loop": report.holds_a_loop,
        "written": wrote,
    }
