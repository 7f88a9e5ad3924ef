"""Commands that look at finished work: `verify_completion=["pytest -q"]`."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import Any, Final

from windlass.options.group import Values
from windlass.toolbox.bash import run_check
from windlass.toolbox.options import WorkspaceOptions
from windlass.toolbox.registry import open_workspace
from windlass.toolbox.sandbox.levels import check_level
from windlass.toolbox.sandbox.session import SandboxSettings

SECONDS: Final = 600.0


class CommandCheck:
    """A check that runs a command in the sandbox of the run; exit code 0 passes."""

    def __init__(self, command: str, settings: SandboxSettings) -> None:
        self.command, self.settings = command, settings
        self.__name__ = command  # what the record calls the check

    def __call__(self) -> None:
        """Refuse to run: a command needs the sandbox of a run."""
        raise TypeError("a command is checked within a run")

    def for_run(self, run: object) -> Callable[[], Awaitable[str | None]]:
        """Return the check within a run."""

        async def check() -> str | None:
            return await run_check(self.settings, run, self.command, SECONDS)

        return check


def build_checks(
    given: Sequence[Callable[..., Any] | str], values: Values
) -> tuple[Callable[..., Any], ...]:
    """Return the checks, with a `CommandCheck` for each command; `ConfigError` without a sandbox."""
    options = WorkspaceOptions.read(values)
    check_level(options.sandbox.level)
    settings = SandboxSettings(open_workspace(options), options.sandbox)
    return tuple([CommandCheck(one, settings) if isinstance(one, str) else one for one in given])
