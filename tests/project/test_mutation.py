"""`make mutate-options` itself: it knows every option, changes what it says, and tells who survives."""

from __future__ import annotations

import ast
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from mutation.equivalent import EQUIVALENT
from mutation.hook import BadMutant, dropper, mutated, touched, without
from mutation.lines import SOURCE, Line
from mutation.mutants import BEFORE_THE_CHECKS, mutants
from mutation.stories import noticing, stories, told_in
from tests import option_areas
from windlass.policies.judges.options import Cadence, DoneJudge

ROOT = Path(__file__).parents[2]
NAMES = mutants()


def trees(mutant: str) -> dict[str, ast.Module]:
    return {
        module: ast.parse(SOURCE.joinpath(*module.split(".")).with_suffix(".py").read_text("utf-8"))
        for module in touched(mutant)
    }


def test_every_option_of_every_door_has_a_mutant():
    assert (option_areas.LOOP | option_areas.AGENT | option_areas.CALL) - BEFORE_THE_CHECKS <= set(
        NAMES
    )
    for name in (
        "done_judge.cadence.every",
        "stall_diagnostics.max_feedback",
        "budget.usd",
        "tool_search.budget_tokens",
        "thinking.effort",
        "tools@llm.request:prepare",
    ):
        assert name in NAMES
    assert len(NAMES) == len(set(NAMES))


def test_what_is_the_same_either_way_is_still_there_and_has_a_reason():
    assert set(EQUIVALENT) <= set(NAMES)
    assert all(len(reason) > 20 for reason in EQUIVALENT.values())


def test_a_line_that_is_taken_out_is_one_expression_of_the_source():
    for mutant in [name for name in NAMES if "@" in name]:
        [(module, tree)] = trees(mutant).items()
        mutated(tree, module, mutant)
        assert ast.unparse(tree).count(f"__default__('{Line.of(mutant).option}')") == 1, mutant


def test_an_option_is_taken_out_where_all_options_pass():
    for module, tree in trees("seed").items():
        mutated(tree, module, "seed")
        assert ast.unparse(tree).count("__dropped__(") == 1


def test_a_mutant_whose_place_is_gone_is_no_mutant():
    for mutant in ("seed@engine.model:nowhere", "seed@engine.model:build_settings#2"):
        [(module, tree)] = trees(mutant).items()
        with pytest.raises(BadMutant, match="no line"):
            mutated(tree, module, mutant)
    with pytest.raises(BadMutant, match="no function"):
        mutated(ast.parse("x = 1"), "options.parse", "seed")


def test_what_was_given_is_gone_and_the_rest_is_not():
    def left(mutant: str, options: dict[str, Any], typed: dict[str, Any] | None = None) -> Any:
        return dropper(mutant)(options, options if typed is None else typed)

    assert left("seed", {"seed": 1, "top_k": 2}) == {"top_k": 2}
    assert left("seed", {"top_k": 2}) == {"top_k": 2}
    assert left("persistent", {"loop_until_done": True}, {"persistent": True}) == {}
    same = {"loop_until_done": True}
    assert left("persistent", same, same) == same
    judge = DoneJudge(system="s", cadence=Cadence(every=3, min_iterations_before_first=2))
    cut = left("done_judge.cadence.every", {"done_judge": judge})["done_judge"]
    assert cut == DoneJudge(system="s", cadence=Cadence(min_iterations_before_first=2))
    assert without(judge, ["cadence"]) == DoneJudge(system="s")
    assert judge.cadence.every == 3, "somebody else may hold it"
    assert without({"mode": "effort", "effort": "low"}, ["effort"]) == {"mode": "effort"}
    assert without("adaptive", ["mode"]) == "adaptive"


def test_the_stories_of_an_option_are_those_that_give_it():
    source = """
from tests.stories.helpers import one_call
BOTH = {"seed": 7, "top_k": 3}
def helper(): return go(judge={"cadence": {"every": 2}})
async def test_one(): await go(seed=7)
async def test_table(): await go(**BOTH)
async def test_helped(): helper()
async def test_none(): "seeds"
"""
    told = list(told_in("t.py", source))
    options = frozenset({"seed", "top_k", "judge"})
    assert noticing("seed", told, options) == ["t.py::test_one", "t.py::test_table"]
    assert noticing("top_k@engine.model:SAME", told, options) == ["t.py::test_table"]
    assert noticing("judge.cadence.every", told, options) == ["t.py::test_helped"]
    assert noticing("stop", told, options) == []


def test_lines_of_the_command_line_are_for_stories_that_call_commands():
    calls = 'def test_run(): run("--take-over")\ndef test_list(): run("list")\n'
    stories = 'def test_flag(): run("--take-over")\ndef test_option(): run(take_over=True)\n'
    told = [*told_in("tests/cli/test_a.py", calls), *told_in("tests/stories/test_b.py", stories)]
    assert noticing("take_over@cli.session_run:Work.open", told, frozenset()) == [
        "tests/cli/test_a.py::test_run",
        "tests/stories/test_b.py::test_flag",
        "tests/cli/test_a.py::test_list",
    ]
    assert noticing("take_over@chat.loop:run", told, frozenset()) == [
        "tests/stories/test_b.py::test_flag",
        "tests/stories/test_b.py::test_option",
    ]


def test_stories_whose_file_is_named_like_the_module_come_first():
    source = "def test_it(): run(store=1)"
    told = [*told_in("t/test_a.py", source), *told_in("t/test_daemons.py", source)]
    assert [id.split("::")[0] for id in noticing("store@daemons.start:go", told, frozenset())] == [
        "t/test_daemons.py",
        "t/test_a.py",
    ]


def test_every_option_is_given_in_some_story():
    told = stories()
    never = [name for name in NAMES if "@" not in name and not noticing(name, told, frozenset())]
    assert not never, f"write a story in tests/stories for each of {', '.join(never)}"


def tried(*folders: Path | str, only: str) -> tuple[int, str]:
    done = subprocess.run(
        [sys.executable, "-m", "mutation.run", *map(str, folders)],
        env={**os.environ, "ONLY": only, "JOBS": "1"},
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=300,
    )
    return done.returncode, done.stdout + done.stderr


STORIES = """
import pytest
import windlass as w
from windlass.testing import scripted

async def test_that_looks():
    model = scripted("x")
    await w.llm_call("go", model=model, seed=7, top_k=3)
    assert model.requests[0].settings.seed == 7

async def test_that_always_fails():
    assert not {"top_k": 3}
"""


def test_who_is_noticed_and_who_is_not(tmp_path: Path):
    (tmp_path / "test_some.py").write_text(STORIES)
    code, out = tried(tmp_path, only="seed,top_k,stop")
    assert code == 1 and "3 mutants, 2 survivors" in out, out
    assert "test_some.py::test_that_looks" in out
    assert "SURVIVES: top_k: 1 story gives it and none fails" in out
    assert "SURVIVES: stop: no story gives it" in out
    assert "fails without a mutant, so it proves nothing" in out


def test_a_name_that_is_no_option_is_said():
    code, out = tried(only="dun_judge")
    assert code == 2 and "there is no option 'dun_judge'" in out


@pytest.mark.deep
def test_a_few_of_them_for_real():
    code, out = tried(only="max_nudges,temperature")
    assert code == 0 and ", 0 survivors" in out, out
