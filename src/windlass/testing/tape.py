"""Cassettes for tests: a model that plays a tape, and records it first where there is none.

What a tape is and how it is matched: `windlass.callers.tape`.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Literal, TypeAlias, get_args

from windlass.callers.tape import Cassette, NotOnTape, Tape
from windlass.errors import ConfigError, nearest
from windlass.models.base import Model

__all__ = ["Cassette", "NotOnTape", "cassette"]

Mode: TypeAlias = Literal["once", "replay", "record"]


def cassette(
    path: str | os.PathLike[str], model: Model | None = None, *, mode: Mode = "once"
) -> Cassette:
    """Build a model that replays recorded replies, or records them if there are none.

    ```python
    model = cassette("tests/tapes/weather.jsonl", w.models.anthropic("claude-…"))
    out = await Agent(model, tools=[weather]).run("Will it rain?")
    ```
    `once` records if the file does not exist, and else replays it. `replay` never calls the model,
    which may then be left out. `record` records everything again. During replay, a request that is
    not recorded raises an error that says what differs. `wrap` records another model to the same
    file.
    """
    if mode not in get_args(Mode):
        raise ConfigError(f"a cassette has no mode {mode!r}{nearest(mode, get_args(Mode))}")
    file = Path(path)
    playing = mode == "replay" or (mode == "once" and file.exists())
    if playing and not file.exists():
        raise ConfigError(f"there is no tape {file}; record one with mode='once'")
    if not playing and model is None:
        raise ConfigError(f"to record {file}, a cassette needs a model: cassette(path, model)")
    return Cassette(Tape(file, "play" if playing else "record", again="mode='record'"), model)
