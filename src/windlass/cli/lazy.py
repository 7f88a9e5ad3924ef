"""A group of commands, each imported when it is used."""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module
from typing import ClassVar

import click

from windlass.errors import nearest

_FEW = 3  # commands that fit into an error


class LazyGroup(click.Group):
    """A group with a table: name -> where the command is, and its help text."""

    table: ClassVar[Mapping[str, tuple[str, str]]]

    def list_commands(self, ctx: click.Context) -> list[str]:
        """List the names, in the table's order."""
        return list(self.table)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Import the command."""
        if cmd_name not in self.table:
            return None
        module, _, name = self.table[cmd_name][0].partition(":")
        return getattr(import_module(module), name)

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Find the command, or raise an error with the nearest one."""
        if args and args[0] not in self.table and not args[0].startswith("-"):
            hint = nearest(args[0], self.table, "commands")
            if not hint and len(self.table) <= _FEW:
                hint = f"; there is {' and '.join(self.table)}"
            raise click.UsageError(f"no command {args[0]!r}{hint}", ctx)
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the list of commands, without importing any."""
        with formatter.section("Commands"):
            formatter.write_dl([(name, words) for name, (_, words) in self.table.items()])
