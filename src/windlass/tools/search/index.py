"""A search among tools by purpose: `Index(specs).bm25("give the money back")`.

Ranked by Okapi BM25 over name, description and parameters. A word also finds its other forms, at a
discount words that mean much the same, and for want of anything better words that look like it.
Patterns are matched by an engine that takes time in proportion to the text, whatever the pattern.
"""

from __future__ import annotations

import functools
import math
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import msgspec

from windlass.json_types import is_mapping
from windlass.messages import ToolSpec
from windlass.tools.arguments.patterns import to_ecma_pattern
from windlass.tools.search.vocabulary import (
    FUNCTION_WORDS,
    related_stems,
    resemblance,
    stem,
    trigrams,
    words,
)

LIMIT = 5  # tools that a search finds, unless it is asked for more
MOST = 20  # and that it finds at all
LONGEST_QUERY = 2_000  # characters; a model that writes more has mistaken the tool
LONGEST_PATTERN = 500

_K1, _B = 1.5, 0.75
_RELATED, _ALIKE = 0.5, 0.4  # weights of matches that are not the word itself
_BEHIND = 1 / 3  # of the best score; what fits less is not worth its place in a prompt
_LIKENESS = 0.6  # shared pieces from which on two words look alike
_DEEPEST = 4  # levels of a schema whose descriptions are read
_PROGRAM = 100_000  # bytes of a compiled pattern: time is its size times the length of the text
_BEYOND = re.compile(r"\(\?<?[=!]|\\[1-9]|\(\?P=|\(\?>|\(\?\(")


class SearchResult(msgspec.Struct, frozen=True, omit_defaults=True):
    """The finds of a search, the best first; `diagnostic` gives advice if there are few."""

    tool_names: tuple[str, ...] = ()
    diagnostic: str | None = None


def text_of(spec: ToolSpec) -> str:
    """Return the searched text of a tool: name, description, parameters and namespace."""
    parts = [spec.name, spec.description, *_parameters(spec.parameters, _DEEPEST)]
    if spec.namespace:
        parts.append(spec.namespace)
    return "\n".join(parts)


def _parameters(schema: object, depth: int) -> Iterator[str]:
    if depth == 0 or not is_mapping(schema):
        return
    fields = schema
    properties = fields.get("properties")
    if is_mapping(properties):
        for name, value in properties.items():
            described: Mapping[str, Any] = value if is_mapping(value) else {}
            description = described.get("description")
            yield f"{name}: {description}" if isinstance(description, str) else name
            yield from _parameters(described, depth - 1)
    yield from _parameters(fields.get("items"), depth - 1)


class Index:
    """An immutable search index of tools: `Index([tool.spec for tool in tools])`."""

    def __init__(self, specs: Sequence[ToolSpec]) -> None:
        self.names = tuple(spec.name for spec in specs)
        self.texts = tuple(text_of(spec) for spec in specs)

    # ----------------------------------------------------------------- in words

    def bm25(self, query: str, limit: int = LIMIT) -> SearchResult:
        """Find the tools with the best BM25 score for the query."""
        wanted = _query_stems(query[:LONGEST_QUERY])
        if not wanted:
            return SearchResult(
                (), f"Say in a few words what the tool should do. {self._how_many()}"
            )
        scores: dict[int, float] = {}
        for term in wanted:
            for place, score in self._matches(term).items():
                scores[place] = scores.get(place, 0.0) + score
        ranked = sorted(scores, key=lambda place: (-scores[place], self.names[place]))
        if not ranked:
            return SearchResult(
                (),
                f"No tool fits these words. {self._how_many()} "
                "Try other words for what the tool should do or work on.",
            )
        least = scores[ranked[0]] * _BEHIND
        best = [place for place in ranked[: _cap_limit(limit)] if scores[place] >= least]
        return SearchResult(tuple(self.names[place] for place in best))

    def _matches(self, term: str) -> dict[int, float]:
        """Score each tool for one word by its best match, so that synonyms do not add up."""
        best: dict[int, float] = {}
        own = self._postings.get(term)
        ways = [(term, 1.0)] if own is not None else []
        ways += [(near, _RELATED) for near in sorted(related_stems(term))]
        if own is None and not any(near in self._postings for near, _ in ways):
            ways = [(near, _ALIKE) for near in self._lookalikes(term)]
        for way, weight in ways:
            for place, score in self._score_term(way):
                best[place] = max(best.get(place, 0.0), weight * score)
        return best

    def _score_term(self, term: str) -> Iterator[tuple[int, float]]:
        postings = self._postings.get(term)
        if postings is None:
            return
        total, with_it = len(self.names), len(postings)
        rarity = math.log((total - with_it + 0.5) / (with_it + 0.5) + 1)
        for place, often in postings:
            length = self._lengths[place] / self._average
            yield place, rarity * often * (_K1 + 1) / (often + _K1 * (1 - _B + _B * length))

    def _lookalikes(self, term: str) -> list[str]:
        if len(term) < 4:
            return []
        pieces = trigrams(term)
        return [w for w, own in self._pieces.items() if resemblance(pieces, own) >= _LIKENESS]

    @functools.cached_property
    def _terms(self) -> tuple[tuple[str, ...], ...]:
        return tuple(tuple(stem(word) for word in words(text)) for text in self.texts)

    @functools.cached_property
    def _lengths(self) -> tuple[int, ...]:
        return tuple(len(terms) for terms in self._terms)

    @functools.cached_property
    def _average(self) -> float:
        return sum(self._lengths) / max(1, len(self._lengths)) or 1.0

    @functools.cached_property
    def _postings(self) -> dict[str, tuple[tuple[int, int], ...]]:
        """For each word the tools that have it, and how often."""
        counts: dict[str, dict[int, int]] = {}
        for place, terms in enumerate(self._terms):
            for term in terms:
                tools = counts.setdefault(term, {})
                tools[place] = tools.get(place, 0) + 1
        return {term: tuple(tools.items()) for term, tools in counts.items()}

    @functools.cached_property
    def _pieces(self) -> dict[str, frozenset[str]]:
        return {term: trigrams(term) for term in sorted(self._postings)}

    # ----------------------------------------------------------------- by pattern

    def regex(self, pattern: str, limit: int = LIMIT) -> SearchResult:
        """Find the tools that match a pattern, ignoring case; names come first."""
        matches = _matcher(pattern)
        if isinstance(matches, str):
            return SearchResult((), matches)
        found = [
            (not matches(name), name)
            for name, text in zip(self.names, self.texts, strict=True)
            if matches(text)
        ]
        if not found:
            return SearchResult(
                (),
                f"No tool matches this pattern. {self._how_many()} It is matched against names, "
                "descriptions and parameters: try something shorter, such as a single word.",
            )
        return SearchResult(tuple(name for _, name in sorted(found)[: _cap_limit(limit)]))

    def _how_many(self) -> str:
        count = len(self.names)
        return f"There {'is' if count == 1 else 'are'} {count} to search."


def _query_stems(query: str) -> list[str]:
    """Return the stems of a query, each once; function words only if there are no others."""
    found = words(query)
    telling = [word for word in found if word not in FUNCTION_WORDS] or found
    return list(dict.fromkeys(stem(word) for word in telling))


def _cap_limit(limit: int) -> int:
    return max(1, min(limit, MOST))


def _matcher(pattern: str) -> Any:
    """Build a matcher of texts; for an invalid pattern return the reason."""
    import jsonschema_rs

    if not pattern.strip():
        return "The pattern is empty: give a regular expression such as 'git|commit'."
    if len(pattern) > LONGEST_PATTERN:
        return f"The pattern is longer than {LONGEST_PATTERN} characters: give a shorter one."
    try:
        return jsonschema_rs.validator_for(
            {"pattern": f"(?i){to_ecma_pattern(pattern)}"},
            offline=True,
            pattern_options=jsonschema_rs.RegexOptions(
                size_limit=_PROGRAM, dfa_size_limit=_PROGRAM
            ),
        ).is_valid
    except (jsonschema_rs.ValidationError, ValueError, RecursionError):
        if _BEYOND.search(pattern):
            return (
                "Backreferences and lookaround are not supported: write the pattern without them."
            )
        return "This is not a regular expression, or too large a one: give a simpler pattern."
