"""What a matcher may answer, and how much of a prompt is read."""

from __future__ import annotations

import itertools
from typing import Any

import pytest

import windlass as w
from windlass.policies.skills.match import Matcher, MatcherFailed

SKILLS = [w.skill_define("ship", description="release"), w.skill_define("review")]


async def scores(answer: Any) -> dict[str, float]:
    match = w.SkillMatch(strategy="host", matcher=lambda _: answer)
    ranked, _ = await Matcher(w.skill_registry(SKILLS), match, ()).call_matcher("x", ())
    return {one.name: one.score for one in ranked}


async def test_less_than_nothing_is_no_match():
    assert await scores({"ship": -0.1, "review": 0}) == {"review": 0.0}


async def test_the_first_word_on_a_skill_counts():
    assert await scores([("ship", 0.5), ("review", 0.4), ("ship", 0.1)]) == {
        "ship": 0.5,
        "review": 0.4,
    }


async def test_skills_themselves_may_be_named():
    assert await scores([SKILLS[1], (SKILLS[0], 0.5)]) == {"review": 1.0, "ship": 0.5}


async def test_an_answer_without_end_is_refused():
    with pytest.raises(MatcherFailed, match="no end"):
        await scores(str(n) for n in itertools.count())


def test_of_a_long_prompt_the_beginning_and_the_end_are_read():
    matcher = Matcher(w.skill_registry(SKILLS), w.SkillMatch(), ())
    filler = "word " * 20_000
    for prompt, there in (
        (f"release {filler}", True),
        (f"{filler} release", True),
        (f"{filler} release {filler}", False),
    ):
        assert bool(matcher.rank_skills(prompt)) is there
