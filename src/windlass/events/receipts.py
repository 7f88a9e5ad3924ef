"""What the receipt of a question says to whoever answers it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from windlass.json_types import is_mapping, is_sequence


def details_of(receipt: Mapping[str, Any] | None) -> tuple[str, ...]:
    """Return the lines that explain a question: each value, its role and where it comes from."""
    return tuple([str(line) for one in _parts(receipt) for line in one.get("details") or ()])


def takes_session_answer(receipt: Mapping[str, Any] | None) -> bool:
    """Return whether an answer to the question may hold for the rest of the session."""
    return any(["session" in (one.get("offers") or ()) for one in _parts(receipt)])


def elicitation_of(receipt: Mapping[str, Any] | None) -> Mapping[str, Any] | None:
    """Return what an MCP server asks a person, if the question is one of those."""
    asked = [one.get("elicitation") for one in _parts(receipt)]
    return next((one for one in asked if is_mapping(one)), None)


def is_of_flow_control(receipt: Mapping[str, Any] | None) -> bool:
    """Return whether flow control asked, alone or with others."""
    return any([one.get("rule") == "flow" for one in _parts(receipt)])


def _parts(receipt: Mapping[str, Any] | None) -> Iterator[Mapping[str, Any]]:
    """Yield the receipt of each policy that asks."""
    if receipt is None:
        return
    several: object = receipt.get("decisions")
    if is_sequence(several):
        yield from [one for one in several if is_mapping(one)]
    else:
        yield receipt
