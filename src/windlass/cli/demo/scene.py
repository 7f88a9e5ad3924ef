"""How a process of a demo is shown: its events, indented, on one output."""

from __future__ import annotations

from typing import TYPE_CHECKING

from windlass.cli.views import Plain

if TYPE_CHECKING:
    from windlass.cli.console import ConsoleOutput

PACE = 0.025  # seconds between the model's words, on a terminal


def build_scene(paper: ConsoleOutput) -> Plain:
    """Build the view of one process: everything on one output, indented."""

    class Scene(Plain):
        def __init__(self) -> None:
            super().__init__()
            self.answer = self.progress = paper

        def words(self, text: str) -> None:
            super().words(f"  {text}" if self.at_start else text)

    return Scene()
