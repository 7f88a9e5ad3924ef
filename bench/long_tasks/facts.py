"""Forty facts that are said once in the course of a task, and how somebody would ask for them later."""

from __future__ import annotations

from collections.abc import Sequence
from random import Random
from typing import NamedTuple

COUNT = 40
_THINGS = ("port", "retry limit", "owner", "timeout", "region", "build number", "quota", "bucket")
_OF = ("billing worker", "search index", "ledger service", "mail gateway", "audit log")


class Fact(NamedTuple):
    """Something with a value that occurs nowhere else."""

    thing: str
    of: str
    value: str

    def told(self) -> str:
        """The fact as it is said, once."""
        return f"The {self.thing} of the {self.of} is {self.value}."

    def mentioned(self, random: Random) -> str:
        """Talk of it that does not tell it: whoever looks for the fact meets this too."""
        one, two = random.choices(_WORDS, k=2)
        return f"The {one} may depend on the {self.thing} of the {self.of}, as the {two} does."

    @property
    def query(self) -> str:
        """How it is looked for: by what it is about, and in other words than it was told."""
        return f"{self.of} {self.thing}"


def forty(random: Random) -> list[Fact]:
    """Every thing of everybody, in any order."""
    values = random.sample(range(10_000, 99_999), COUNT)
    pairs = [(thing, of) for thing in _THINGS for of in _OF]
    random.shuffle(pairs)
    return [Fact(*pair, f"kv-{value}") for pair, value in zip(pairs, values, strict=True)]


def told(facts: Sequence[Fact]) -> str:
    """These facts in words."""
    return " ".join([fact.told() for fact in facts])


# --------------------------------------------------------------------------- what stands around them

_WORDS = (
    "request handler cache value index record error path test module field count queue worker "
    "session buffer parser token stream window branch commit figure table column report source "
    "letter harbour engine winter market garden station bridge measure signal method season"
).split()


def prose(random: Random, characters: int) -> str:
    """Sentences that say nothing in particular."""
    sentences: list[str] = []
    size = 0
    while size < characters:
        words = " ".join(random.choices(_WORDS, k=random.randint(6, 14)))
        sentences.append(words.capitalize() + ".")
        size += len(words) + 2
    return " ".join(sentences)


def lines(random: Random, characters: int) -> list[str]:
    """Lines of a program, a log or a page."""
    found: list[str] = []
    size = 0
    while size < characters:
        one, two, three = random.choices(_WORDS, k=3)
        found.append(f"    {one}_{two} = {three}({random.randint(0, 9_999)}, {one!r})")
        size += len(found[-1]) + 1
    return found


def among(random: Random, plain: list[str], facts: Sequence[Fact]) -> str:
    """The lines with these facts somewhere among them."""
    for fact in facts:
        plain.insert(random.randint(0, len(plain)), f"    # {fact.told()}")
    return "\n".join(plain)
