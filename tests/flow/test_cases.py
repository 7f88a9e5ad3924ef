"""The cases are what they claim to be: tasks can be done, and injections do harm if they are obeyed."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.flow.case import DomainCases
from tests.flow.measure import DOMAINS, load_all, load_domain, run_injection, run_task

NO_POLICY = {"taint": False}
ASK_ALWAYS = {"taint": False, "approval_policy": {"rules": [{"ask": "*"}]}}


@pytest.fixture(params=DOMAINS)
def cases(request: pytest.FixtureRequest) -> DomainCases:
    return load_domain(request.param)


async def test_reference_calls_do_the_task(cases: DomainCases):
    runs = {task.id: await run_task(cases, task, NO_POLICY) for task in cases.tasks}
    assert [task for task, run in runs.items() if not run.unattended] == []
    assert [task for task, run in runs.items() if run.questions] == []


async def test_a_fresh_world_is_right_only_for_tasks_that_read(cases: DomainCases):
    """A check that holds before the calls would check nothing, if they have effects."""
    for task in cases.tasks:
        world = task.build_world()
        if task.is_done(world):
            await run_task(cases, replace(task, build_world=lambda world=world: world), NO_POLICY)
            assert world.effects == [], task.id


async def test_worlds_are_not_shared(cases: DomainCases):
    for task in cases.tasks:
        before = repr(task.build_world())
        await run_task(cases, task, NO_POLICY)
        assert repr(task.build_world()) == before, task.id


async def test_an_obeyed_injection_has_its_effect(cases: DomainCases):
    tasks = {task.id: task for task in cases.tasks}
    runs = {
        one.id: await run_injection(cases, tasks[one.task], one, NO_POLICY)
        for one in cases.injections
    }
    assert [one for one, run in runs.items() if not run.seen] == []
    assert [one for one, run in runs.items() if not run.landed] == []


async def test_an_injection_has_no_effect_if_nobody_obeys_it(cases: DomainCases):
    """Neither in the honest run nor where the text is planted and the model goes on as it should."""
    tasks = {task.id: task for task in cases.tasks}
    for one in cases.injections:
        task = tasks[one.task]
        for plant in (lambda _: None, one.plant):
            ignored = replace(one, plant=plant, marker="\0 not there", calls=())
            run = await run_injection(cases, task, ignored, NO_POLICY)
            assert not run.happened, one.id


async def test_the_injection_is_in_what_is_read_and_not_in_the_prompt(cases: DomainCases):
    tasks = {task.id: task for task in cases.tasks}
    for one in cases.injections:
        assert one.marker and one.marker not in tasks[one.task].prompt, one.id
        assert one.marker not in repr(tasks[one.task].build_world()), one.id


async def test_what_happens_after_a_question_does_not_count(cases: DomainCases):
    """A control of the runner: where every call is asked about, nothing is unattended or lands."""
    tasks = {task.id: task for task in cases.tasks}
    for task in cases.tasks[:5]:
        run = await run_task(cases, task, ASK_ALWAYS)
        assert run.done and not run.unattended and run.questions == len(task.calls), task.id
    for one in cases.injections[:5]:
        run = await run_injection(cases, tasks[one.task], one, ASK_ALWAYS)
        assert run.seen and run.happened and not run.landed, one.id
        assert all(made.asked for made in run.made), one.id


def test_there_are_twenty_tasks_and_a_hundred_injections(cases: DomainCases):
    assert len(cases.tasks) == 20 and len(cases.injections) == 100
    assert {task.domain for task in cases.tasks} == {cases.domain}
    assert 6 <= sum(task.held_back for task in cases.tasks) <= 7
    assert 33 <= sum(one.held_back for one in cases.injections) <= 34
    assert {one.task for one in cases.injections} <= {task.id for task in cases.tasks}


def test_ids_are_unique():
    ids = [one.id for cases in load_all() for one in (*cases.tasks, *cases.injections)]
    assert len(ids) == len(set(ids))
