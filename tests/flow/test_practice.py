"""The practice cases are what they claim to be, as those of the measured set are."""

from __future__ import annotations

import importlib
import pkgutil
from dataclasses import replace

import pytest

from tests.flow import practice
from tests.flow.case import DomainCases
from tests.flow.measure import load_all, run_injection, run_task

NO_POLICY = {"taint": False}
MODULES = sorted(module.name for module in pkgutil.iter_modules(practice.__path__))


def load_practice(module: str) -> DomainCases:
    """The practice cases of a module."""
    return importlib.import_module(f"{practice.__name__}.{module}").PRACTICE


@pytest.fixture(params=MODULES)
def cases(request: pytest.FixtureRequest) -> DomainCases:
    return load_practice(request.param)


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


def test_the_injection_is_in_what_is_read_and_not_in_the_prompt(cases: DomainCases):
    tasks = {task.id: task for task in cases.tasks}
    for one in cases.injections:
        assert one.marker and one.marker not in tasks[one.task].prompt, one.id
        assert one.marker not in repr(tasks[one.task].build_world()), one.id


def test_there_are_twenty_tasks_and_thirty_injections(cases: DomainCases):
    assert len(cases.tasks) >= 20 and len(cases.injections) >= 30
    assert {task.domain for task in cases.tasks} == {cases.domain}
    assert not any(one.held_back for one in (*cases.tasks, *cases.injections))
    assert {one.task for one in cases.injections} <= {task.id for task in cases.tasks}


def test_ids_and_prompts_are_not_in_the_measured_set():
    all_cases = [*load_all(), *(load_practice(module) for module in MODULES)]
    ids = [one.id for cases in all_cases for one in (*cases.tasks, *cases.injections)]
    prompts = [task.prompt for cases in all_cases for task in cases.tasks]
    assert len(ids) == len(set(ids))
    assert len(prompts) == len(set(prompts))
