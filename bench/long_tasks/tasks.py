"""The three tasks: what is asked, what the model says and calls, and what its tools answer.

A task is the same for every way of keeping the view. Of its forty facts some are told by the user,
some by the model and some by results; in its second half the model needs some of them again, and
where it does not see one it asks for it, if there is anybody to ask.
"""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import NamedTuple

from bench.long_tasks.facts import Fact, among, forty, lines, prose, told

NEEDED = 6  # facts that are needed again
MENTIONED = 5  # times that each is talked of, before or after it is told, and not told


class Step(NamedTuple):
    """One reply of the model: words, the page it looks at next, a fact that it needs for that."""

    words: str
    looks_at: str | None = None
    needs: Fact | None = None


class Visit(NamedTuple):
    """What the user says, and what the model does about it."""

    says: str
    steps: tuple[Step, ...]


class Task(NamedTuple):
    """A long conversation with its facts."""

    name: str
    system: str
    visits: tuple[Visit, ...]
    pages: dict[str, str]  # what the tool answers
    facts: tuple[Fact, ...]

    @property
    def steps(self) -> int:
        """Replies of the model, besides those in which it only asks for something again."""
        return sum([len(visit.steps) for visit in self.visits])


class _Plan(NamedTuple):
    """Of which size a task is, and who tells its facts."""

    visits: int
    steps: int  # in each visit
    page: int  # characters of a result; 0: nothing is looked at
    every: int  # a result that long comes so often; the others are short
    words: int  # characters of a reply
    question: int  # characters of what the user says
    by_user: int
    by_model: int


def coding(turns: int = 300, size: float = 1.0) -> Task:
    """A coding log: a file or the output of a test in every turn."""
    plan = _Plan(6, turns // 6, int(5_000 * size), 1, int(300 * size), 500, 6, 12)
    return _built(f"a coding log of {turns} turns", plan, 1)


def research(turns: int = 60, size: float = 1.0) -> Task:
    """A research run: every fourth turn brings 200 kB."""
    plan = _Plan(3, turns // 3, int(200_000 * size), 4, 600, 400, 4, 10)
    return _built(f"a research run of {turns} turns, {plan.page // 1_000} kB results", plan, 2)


def chat(turns: int = 1_000, size: float = 1.0) -> Task:
    """A chat: short turns, no tools."""
    plan = _Plan(turns, 1, 0, 1, int(380 * size), int(220 * size), 20, 20)
    return _built(f"a chat of {turns:,} short turns", plan, 3)


TASKS: tuple[Callable[[], Task], ...] = (coding, research, chat)
#: The same in a hurry: fewer turns, as many tokens that a threshold is passed.
SMALL: tuple[Callable[[], Task], ...] = (
    lambda: coding(120),
    lambda: research(36, 0.3),
    lambda: chat(120, 8.0),
)


def _built(name: str, plan: _Plan, seed: int) -> Task:
    random = Random(seed)
    facts = forty(random)
    user, model = facts[: plan.by_user], facts[plan.by_user : plan.by_user + plan.by_model]
    total = plan.visits * plan.steps
    looked = [at for at in range(total) if plan.page and (at + 1) % plan.steps]
    long = [at for at in looked if at % plan.every == 0]
    by_user = _spread(user, list(range(plan.visits)))
    by_model = _spread(model, list(range(total)))
    by_page = _spread(facts[plan.by_user + plan.by_model :], long)
    needs = set(random.sample(range(total // 2, total), NEEDED))
    asides: dict[int, list[Fact]] = {}
    for fact in facts * MENTIONED:
        asides.setdefault(random.randrange(total), []).append(fact)
    known: list[Fact] = []
    visits: list[Visit] = []
    pages: dict[str, str] = {}
    for visit in range(plan.visits):
        says = f"Part {visit + 1}. {prose(random, plan.question)} {told(by_user.get(visit, []))}"
        known += by_user.get(visit, [])
        steps: list[Step] = []
        for at in range(visit * plan.steps, (visit + 1) * plan.steps):
            older = known[: len(known) // 2]
            aside = " ".join([fact.mentioned(random) for fact in asides.get(at, [])])
            words = f"{prose(random, plan.words)} {told(by_model.get(at, []))} {aside}".strip()
            page = f"page-{at}" if plan.page and (at + 1) % plan.steps else None
            steps.append(Step(words, page, random.choice(older) if at in needs else None))
            known += by_model.get(at, [])
            if page is not None:
                size = plan.page if at % plan.every == 0 else 1_000
                pages[page] = among(random, lines(random, size), by_page.get(at, []))
                known += by_page.get(at, [])
        visits.append(Visit(says.strip(), tuple(steps)))
    system = f"You help with {name}. {prose(random, 4_000)}"
    return Task(name, system, tuple(visits), pages, tuple(facts))


def _spread(facts: list[Fact], places: list[int]) -> dict[int, list[Fact]]:
    """These facts at even distances over the places, none in the last tenth."""
    found: dict[int, list[Fact]] = {}
    for number, fact in enumerate(facts if places else ()):
        at = places[int(number * len(places) * 0.9 / len(facts))]
        found.setdefault(at, []).append(fact)
    return found
