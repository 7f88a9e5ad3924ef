"""Sizes of the largest tests: a sample in CI, the whole with a `make prove-…` target."""

from __future__ import annotations

import os
from typing import TypeVar

T = TypeVar("T")


def pick_size(sample: T, whole: T, *, proof: str = "KILLS") -> T:
    """Return `whole` under `WINDLASS_PROVE_<proof>=1`, else `sample`."""
    return whole if os.environ.get(f"WINDLASS_PROVE_{proof}") == "1" else sample
