"""The match of skills to a prompt: by words, names and files, or by your own matcher.

Whole words count, once each; function words are ignored. A repeated word counts once, and `art` in
`start` does not match.
"""

from __future__ import annotations

import asyncio
import functools
import inspect
import math
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final, NamedTuple, cast

from windlass.errors import TestBroken, error_text, safe_repr
from windlass.events.policy import SkillScore
from windlass.policies.skills.globs import Glob, tidy
from windlass.policies.skills.skill import Scoring, Skill, SkillMatch, SkillQuery, SkillRegistry

NAMED: Final = 2.0  # for a skill that the prompt names
PATH: Final = 1.5  # for every glob that fits a file at hand
_SATURATION: Final = 1.5
_SHORT: Final = 2  # length of words that are ignored
_HALF: Final = 20_000  # characters of a long prompt that are read, at its beginning and at its end
_WORD = re.compile(r"[^\W_]+")
_COMMON = frozenset(
    "about after all also and any are because been before being but can could did does doing done each "
    "every few for from get give had has have help her here him his how into its just let like make many "
    "may more most much must need needs not now off one only other our out over own please same shall she "
    "should some such than that the their them then there these they this those too under until use used "
    "user users uses using very via want wants was way were what when where whether which while who whom "
    "why will with within without would you your yours".split()
)


class _MatchedSkill(NamedTuple):
    """A skill, prepared for matching."""

    skill: Skill
    description: frozenset[str]
    when_to_use: frozenset[str]
    name: str  # its words, a blank on either side
    paths: tuple[str, ...]  # its globs that fit a file at hand


class Matcher:
    """A ranking of a registry's skills for one prompt after another."""

    def __init__(
        self, registry: SkillRegistry, match: SkillMatch, working_files: Sequence[str]
    ) -> None:
        self.match = match
        self.working_files = tuple(map(tidy, working_files))
        self.skills = [one for one in registry if not one.disable_model_invocation]

    @functools.cached_property
    def known(self) -> list[_MatchedSkill]:
        """The prepared skills, the same for every prompt."""
        return [
            _MatchedSkill(
                skill,
                frozenset(_words(skill.description)),
                frozenset(_words(skill.when_to_use)),
                f" {' '.join(_tokens(skill.name))} ",
                self._fitting(skill),
            )
            for skill in self.skills
        ]

    def _fitting(self, skill: Skill) -> tuple[str, ...]:
        if not self.working_files:
            return ()
        globs = [Glob(pattern) for pattern in skill.paths]
        return tuple([g.pattern for g in globs if any(map(g.matches, self.working_files))])

    def rank_skills(self, prompt: str) -> list[SkillScore]:
        """Rank the skills with a score above zero, the best first."""
        if len(prompt) > 2 * _HALF:
            prompt = f"{prompt[:_HALF]} {prompt[-_HALF:]}"
        tokens = _tokens(prompt)
        words, line = frozenset(_telling(tokens)), f" {' '.join(tokens)} "
        scores = [one for known in self.known if (one := _score(known, words, line)) is not None]
        return sorted(scores, key=lambda one: -one.score)

    async def call_matcher(
        self, prompt: str, active: tuple[str, ...]
    ) -> tuple[list[SkillScore], str]:
        """Call the user's matcher; return its scores and a note on unknown names."""
        assert self.match.matcher is not None
        shown_ = tuple(
            [Scoring(s.name, s.description, s.when_to_use, s.paths) for s in self.skills]
        )
        query = SkillQuery(prompt, shown_, self.working_files, active, self.match.top_n)
        try:
            answer = self.match.matcher(query)
            if inspect.isawaitable(answer):
                answer = await answer
            return _read(answer, {skill.name for skill in self.skills})
        except asyncio.CancelledError as error:
            task = asyncio.current_task()
            if task is None or task.cancelling():
                raise
            raise MatcherFailed("it was cancelled") from error
        except (TestBroken, MatcherFailed):
            raise
        except Exception as error:
            raise MatcherFailed(error_text(error)) from error


class MatcherFailed(Exception):
    """A matcher failed, or gave no answer that makes sense."""


def _score(known: _MatchedSkill, words: frozenset[str], line: str) -> SkillScore | None:
    hits = len(words & known.description) + len(words & known.when_to_use)
    score, reasons = 0.0, list[str]()
    if hits:
        score += hits / (hits + _SATURATION)
        reasons.append(f"{hits} word{'s' if hits > 1 else ''} in common")
    if known.name.strip() and known.name in line:
        score += NAMED
        reasons.append("named in the prompt")
    for pattern in known.paths:
        score += PATH
        reasons.append(f"path {pattern}")
    if not reasons:
        return None
    return SkillScore(known.skill.name, round(score, 6), "; ".join(reasons))


def _tokens(text: str) -> list[str]:
    return _WORD.findall(text.casefold())


def _telling(tokens: Iterable[str]) -> list[str]:
    return [one for one in tokens if len(one) > _SHORT and one not in _COMMON]


def _words(text: str) -> list[str]:
    return _telling(_tokens(text))


# --------------------------------------------------------------------------- a matcher's answer


def _read(answer: object, names: set[str]) -> tuple[list[SkillScore], str]:
    """Parse the answer of a matcher: a name, names, or scores by name."""
    if answer is None:
        return [], ""
    items: Iterable[Any]
    if isinstance(answer, str):
        items = [answer]
    elif isinstance(answer, Mapping):
        items = cast("Mapping[Any, Any]", answer).items()
    elif isinstance(answer, Iterable):
        items = cast("Iterable[Any]", answer)
    else:
        raise MatcherFailed(f"it answered {safe_repr(answer)}, not scores by name")
    found: dict[str, SkillScore] = {}
    unknown: list[str] = []
    for item in items:
        one = _one(item)
        if one.name not in names:
            unknown.append(one.name)
        elif one.score >= 0:
            found.setdefault(one.name, one)
        if len(found) + len(unknown) > 10_000:
            raise MatcherFailed("its answer has no end")
    warning = (
        f"the matcher named {safe_repr(unknown[0])}, which is no skill here" if unknown else ""
    )
    return sorted(found.values(), key=lambda one: -one.score), warning


def _one(item: Any) -> SkillScore:
    """Parse one item of a matcher's answer."""
    given: Any = item
    name, score, reason = given, cast("Any", 1.0), cast("Any", "the matcher")
    if isinstance(item, SkillScore):
        name, score, reason = item.name, item.score, item.reason
    elif isinstance(item, Mapping):
        fields = cast("Mapping[str, Any]", item)
        name, score, reason = (
            fields.get("name"),
            fields.get("score", 1.0),
            fields.get("reason") or reason,
        )
    elif isinstance(item, (tuple, list)) and len(pair := cast("Sequence[Any]", item)) == 2:
        name, score = pair
    if isinstance(name, (Skill, Scoring)):
        name = name.name
    if not isinstance(name, str) or not isinstance(reason, str):
        raise MatcherFailed(f"it answered {safe_repr(given)}, not scores by name")
    number = isinstance(score, (int, float)) and not isinstance(score, bool)
    if not number or not abs(score) < math.inf:
        raise MatcherFailed(f"its score for {safe_repr(name)} is {safe_repr(score)}, not a number")
    return SkillScore(name, float(score), reason)
