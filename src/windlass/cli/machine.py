"""`windlass doctor`: what this machine can do for the sandbox."""

from __future__ import annotations

import sys

import click
import msgspec

from windlass.cli.console import out
from windlass.cli.main import debug_option
from windlass.cli.options import json_option
from windlass.cli.text import clean
from windlass.toolbox.sandbox.levels import describe_levels


@click.command()
@json_option
@debug_option
def doctor(as_json: bool) -> None:
    """Say which levels of the sandbox can be had on this machine, and what is missing.

    Exit code 0 when commands can be held (`workspace` or `isolated`), else 1.

    \b
      windlass doctor
      windlass doctor --json
    """
    facts = describe_levels()
    held = any(fact.problem is None and fact.level != "none" for fact in facts)
    if as_json:
        out().json({"platform": sys.platform, "sandbox": msgspec.to_builtins(facts)})
    else:
        paper = out()
        for fact in facts:
            can = ("can be had ", "green") if fact.problem is None else ("cannot     ", "red")
            paper.line(f"sandbox {fact.level:<10}", can, clean(fact.problem or fact.detail))
    click.get_current_context().exit(0 if held else 1)
