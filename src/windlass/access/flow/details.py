"""A question of flow control in a few lines: each value, its role, and where it comes from."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Final

from windlass.access.flow.decide import Target, Value

ONCE: Final = ("once",)
OFFERS: Final = ("once", "session", "never")  # what an answer may hold for
_MOST_LINES: Final = 20
_ORIGINS: Final = {
    "user": "the user said it",
    "host": "the system prompt says it",
    "approved": "approved for this session",
    "unknown": "nobody said it: the model chose it",
}


def describe_value(value: Value) -> str:
    """Describe one value: `to = 'eve@x.example' (target): from untrusted content (read_page)`."""
    words = {
        "lookup": f"looked up with {value.source}, by what the user said",
        "untrusted": f"from untrusted content ({value.source})",
        "secret": f"a secret of {value.source}",
        "private": f"from {value.source}, in a private record that the user did not name",
        "unnamed": f"from {value.source}, in a record that the user did not name",
        **_ORIGINS,
    }
    return f"{value.argument} = {value.value} ({value.role}): {words[value.origin]}"


def describe_question(
    values: Collection[Value], untrusted: Mapping[str, str], targets: Collection[Target]
) -> list[str]:
    """Describe what is asked: the values, who brought untrusted content in, and the answers."""
    lines = [describe_value(value) for value in list(values)[:_MOST_LINES]]
    if len(values) > _MOST_LINES:
        lines.append(f"and {len(values) - _MOST_LINES} more values")
    if untrusted:
        sources = [f"{tool} (call {call})" if call else tool for tool, call in untrusted.items()]
        lines.append(f"untrusted content came from {', '.join(sources)}")
    if targets:
        named = ", ".join(dict.fromkeys([f"{path} = {value!r:.80}" for _, path, value in targets]))
        lines.append(f"an answer holds once, or in this session for {named:.300}")
    return lines
