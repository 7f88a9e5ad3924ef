"""Sizes of the kill sweeps: a sample in CI, every place with `make prove-kills`."""

from __future__ import annotations

import os
from typing import TypeVar

T = TypeVar("T")

PROVE_KILLS = os.environ.get("WINDLASS_PROVE_KILLS") == "1"


def pick_size(sample: T, whole: T) -> T:
    """Return `whole` under WINDLASS_PROVE_KILLS=1, else `sample`."""
    return whole if PROVE_KILLS else sample
