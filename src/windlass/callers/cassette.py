"""`with_cassette`: recorded replies are played from a file.

The tape is read and written by request: model, system prompt, tools, settings and messages, with
call ids numbered, since those of two runs are never the same. How it looks: `tape.py`.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Literal, TypeAlias, get_args

from windlass.callers.caller import Layer
from windlass.callers.options import takes_a_dict
from windlass.callers.tape import Cassette, Tape, Way
from windlass.errors import ConfigError, nearest, safe_repr
from windlass.json_types import as_given
from windlass.models.base import Model

Record: TypeAlias = Literal["once", "new", "none", "all"]


class TapedModel(Cassette):
    """A model behind a tape; replies from the tape are marked `via="cassette"`."""

    via = "cassette"

    def __init__(self, tape: Tape, model: Model) -> None:
        super().__init__(tape, model)
        self.remote, self.retries_calls = model.remote, model.retries_calls

    @property
    def secrets(self) -> tuple[str, ...]:  # pyright: ignore[reportIncompatibleVariableOverride]
        """The keys of the model behind."""
        return self.model.secrets if self.model is not None else ()

    def check(self) -> None:
        """Check the model's key only where no tape exists yet."""
        if self.model is not None and self.asks and not self.tape.replies:
            self.model.check()


class Recording(Layer):
    """The layer of `with_cassette`; the models it wraps share its tape."""

    name = "with_cassette"

    def __init__(self, tape: Tape) -> None:
        self.tape = tape

    def wrap(self, model: Model) -> Model:
        """Wrap the model in the tape."""
        return TapedModel(self.tape, model)


@takes_a_dict
def with_cassette(path: str | os.PathLike[str], *, record: Record = "once") -> Layer:
    """Record the replies of a model, and replay them later: `with_cassette("tapes/a.jsonl")`.

    `record="once"` records if there is no such file, and else replays it; `"new"` replays what is
    recorded and records the rest; `"none"` never calls the model, which then needs no key; `"all"`
    records everything again. Each reply is replayed once, in order, with its usage. A request that
    is not recorded raises an error that names the nearest recording and the difference. Keys are
    never written.
    """
    if not isinstance(as_given(path), (str, os.PathLike)) or not str(path):
        raise ConfigError(f"path is the file of a tape, not {safe_repr(path)}")
    if record not in get_args(Record):
        hint = nearest(record, get_args(Record)) if isinstance(as_given(record), str) else ""
        raise ConfigError(
            f"record is 'once', 'new', 'none' or 'all', not {safe_repr(as_given(record))}{hint}"
        )
    file = Path(path)
    if record == "none" and not file.is_file():
        raise ConfigError(f"there is no tape {file}; record one with record='once'")
    ways: dict[Record, Way] = {
        "once": "play" if file.exists() else "record",
        "new": "both",
        "none": "play",
        "all": "record",
    }
    return Recording(Tape(file, ways[record], again="record='all'"))
