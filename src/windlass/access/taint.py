"""The three legs of a leak: private data, content of strangers, and a way out.

One call or two of these do no harm. All three in one session let whoever wrote the content send the
data away, so the third leg is not taken without somebody's yes. What was read stays read: labels are
only ever added.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any, Final, Literal, TypeAlias, cast

import msgspec

from windlass.access.facts import strings
from windlass.access.flow.actions import is_action
from windlass.errors import ConfigError, safe_repr
from windlass.json_types import is_mapping, is_sequence

Label: TypeAlias = Literal["reads_private", "reads_untrusted", "sends_out"]
LABELS: Final[tuple[Label, ...]] = ("reads_private", "reads_untrusted", "sends_out")
_ALL: Final = frozenset(LABELS)
_WORDS: Final[dict[Label, str]] = {
    "reads_private": "has read private data",
    "reads_untrusted": "has read what strangers wrote",
    "sends_out": "has sent something out",
}
#: Kinds that touch nothing themselves; what a sub-agent touches, its own tools say.
_HARMLESS: Final = frozenset({"think", "progress", "session_control", "approval", "agent"})
_PLAIN = (bool, type(None))
_REST_OF_WORD: Final = re.compile(r"\w++")
_READ_AGAIN, _ALWAYS_READ = 2, 65_536  # times what was said, and characters that are always read
_MOST_VALUES: Final = 500  # of a call; nobody says more of them word for word
_SEARCH: Final = 40  # characters that a search counts beside the text it looks for


def labels_of(annotations: Mapping[str, Any]) -> frozenset[Label] | None:
    """What a tool says of itself; None: nothing."""
    said: list[Label] = [label for label in LABELS if label in annotations]
    if not said:
        return None
    for label in said:
        if not isinstance(annotations[label], bool):
            raise ConfigError(
                f"a tool's {label} is True or False, not {safe_repr(annotations[label])}"
            )
    return frozenset([label for label in said if annotations[label]])


def has_labels(annotations: Iterable[Mapping[str, Any]]) -> bool:
    """Return whether any of these tools, by its annotations, says what it reads or sends."""
    return any([labels_of(each) is not None for each in annotations if not _ALL.isdisjoint(each)])


def assume_labels(name: str, annotations: Mapping[str, Any]) -> frozenset[Label]:
    """What is taken to be true of a tool that says nothing of this, from what else it says."""
    level, kind = annotations.get("side_effect_level"), annotations.get("kind")
    if level == "none" or kind in _HARMLESS:
        return frozenset()
    if level == "read_only":
        return frozenset({"reads_private"})  # of this machine or this shop, most likely
    if level == "workspace_write":
        return frozenset()
    if is_action(name):
        return frozenset({"sends_out"})  # what it answers is its own
    return frozenset({"reads_untrusted", "sends_out"})  # it may talk to anybody


class TaintState(msgspec.Struct, frozen=True):
    """What a session has touched: label -> the tool that did so first."""

    by: dict[str, str] = {}

    def with_(self, labels: Iterable[Label], tool: str) -> TaintState:
        """The same with more; itself, where nothing is new."""
        new = {label: tool for label in sorted(labels) if label not in self.by}
        return TaintState({**self.by, **new}) if new else self

    def merge(self, other: TaintState) -> TaintState:
        """What both have touched."""
        new = {label: tool for label, tool in other.by.items() if label not in self.by}
        return TaintState({**self.by, **new}) if new else self

    def third_leg(self, labels: frozenset[Label]) -> bool:
        """Would such a call give the session all three, or use the way out once it has the others?"""
        before = frozenset(cast("Iterable[Label]", self.by))
        if before | labels != _ALL:
            return False
        return before != _ALL or "sends_out" in labels

    def story(self, tool: str, labels: frozenset[Label]) -> str:
        """Why somebody is asked, in one line."""
        known = [f"{_WORDS[label]} ({self.by[label]})" for label in LABELS if label in self.by]
        does = {
            "reads_private": "reads private data",
            "reads_untrusted": "reads what strangers write",
            "sends_out": "can send it out",
        }
        adds = [does[label] for label in LABELS if label in labels]
        told = " and ".join(known)
        return (
            f"this session {told}, and {tool} {' and '.join(adds)}"
            if told
            else (f"{tool} {' and '.join(adds)}")
        )


def from_the_prompt(
    arguments: Mapping[str, Any], spoken: str, parameters: Mapping[str, Any]
) -> bool:
    """Does every value come word for word from what the caller said? Choices of a schema may too.

    Such a call does what it was asked to do, whatever else the session has seen.
    """
    if not arguments:
        return False  # what it would send is not in its arguments
    fields: Mapping[str, Any] = parameters.get("properties") or {}
    left = _MOST_VALUES
    for name, value in arguments.items():
        if value in _choices(fields.get(name)):
            continue
        for one in _leaves(value):
            left -= 1
            if left < 0 or not _contains_words(one, spoken):
                return False
    return True


def _choices(schema: object) -> tuple[object, ...]:
    if not is_mapping(schema):
        return ()
    known = schema
    return tuple(known.get("enum") or ()) + ((known["const"],) if "const" in known else ())


def _leaves(value: object) -> Iterable[str]:
    if is_mapping(value):
        for key, inner in value.items():
            yield str(key)
            yield from _leaves(inner)
    elif is_sequence(value):
        for inner in value:
            yield from _leaves(inner)
    elif isinstance(value, _PLAIN):
        return
    elif isinstance(value, str):
        yield from strings(value)
    elif isinstance(value, float) and value.is_integer():
        yield str(int(value))
    else:
        yield str(value)


def _contains_words(text: str, spoken: str) -> bool:
    """Whole words only: a letter out of a longer word was not said."""
    if not text:
        return True
    begins_word, ends_word = text[0].isalnum(), text[-1].isalnum()
    left = _READ_AGAIN * len(spoken) + _ALWAYS_READ
    place = spoken.find(text)
    while place >= 0:
        end = place + len(text)
        cut_before = begins_word and _is_word(spoken[max(place - 1, 0) : place])
        if not cut_before and not (ends_word and _is_word(spoken[end : end + 1])):
            return True
        # a search reads all of the text it looks for; whoever repeats it without end is asked about
        left -= len(text) + _SEARCH
        if left < 0:
            return False
        # within this word no other begins
        following = _REST_OF_WORD.match(spoken, place) if begins_word else None
        place = spoken.find(text, place + 1 if following is None else following.end())
    return False


def _is_word(letter: str) -> bool:
    return letter == "_" or letter.isalnum()
