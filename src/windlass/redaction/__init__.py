"""Secrets, and how they are kept out of what is written."""

from __future__ import annotations

from typing import TYPE_CHECKING

from windlass.lazy import load_names

if TYPE_CHECKING:
    from windlass.redaction.redactor import Secret as Secret
else:  # a checker that saw it would take every name for one of the package
    __getattr__ = load_names(
        __name__,
        {
            "Secret": "redaction.redactor",
        },
    )

# Written by scripts/make_stub.py.
__all__ = ["Secret"]
