"""The script that measures the source tree counts what it says."""

from __future__ import annotations

from pathlib import Path

import pytest

from scripts import tree_figures
from scripts.tree_figures import Figure, measure, read_tree

TREE = {
    "__init__.py": "",
    "loop/__init__.py": "",
    "loop/run.py": """
class Run:
    __slots__ = ("model", "tools", "__weakref__")

    def __init__(self):
        self.model = self.tools = None
        self.turn = 0
""",
    "agents/__init__.py": "",
    "agents/reaching.py": """
from typing import Any, cast

def told(options: Any):
    from windlass.agents import model
    return options.get("model") or options["tools"] or model.get("model")

def feed(): ...

def _asked(self, options):
    import asyncpg
    import msgspec
    return cast(Any, options.get(self))

class Box:
    @property
    def closed(self): ...
    def say_asked(self): ...
    def said(self): ...

NAMES = ("a",
         "b")  # fmt: skip
""",
    "agents/model.py": "from windlass.agents.reaching import told\n",
    "cli/run.py": 'def f(options):\n    return options.get("model")\n',
}


@pytest.fixture
def figures(tmp_path: Path) -> dict[str, Figure]:
    for name, text in TREE.items():
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return {figure.key: figure for figure in measure(read_tree(tmp_path), journeys=False)}


def test_tree_figures_count_names(figures: dict[str, Figure]):
    assert list(figures["gerunds"].places) == ["agents/reaching.py"]
    names = [str(place).split()[1] for place in figures["participles"].places]
    assert names == ["told", "_asked", "Box.said"]


def test_tree_figures_count_imports_inside_functions(figures: dict[str, Figure]):
    found = [str(place).partition(" ")[2] for place in figures["imports"].places]
    assert found == ["from windlass.agents import model", "import msgspec"]


def test_tree_figures_count_cycles_with_lazy_imports(figures: dict[str, Figure]):
    assert figures["cycles"].places == [["windlass.agents.model", "windlass.agents.reaching"]]
    assert figures["cycle"].now == 2


def test_tree_figures_count_option_lookups_behind_the_front_door(figures: dict[str, Figure]):
    found = [str(place).partition(" ")[2] for place in figures["options"].places]
    assert sorted(found) == ["options.get('model')", "options['tools']"]


def test_tree_figures_count_attributes_types_and_formatting(figures: dict[str, Figure]):
    assert figures["run"].places == ["model", "tools", "turn"]
    assert figures["skips"].now == 1
    assert len(list(figures["any"].places)) == 3
    assert len(list(figures["cast"].places)) == 1
    assert figures["modules"].now == len(TREE)


@pytest.mark.parametrize("now, code", [(6, 0), (7, 1)])
def test_tree_figures_check_fails_above_a_ceiling(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], now: int, code: int
):
    figure = Figure("gerunds", "modules named by a gerund", 70, now, 6)
    monkeypatch.setattr(tree_figures, "read_tree", dict)
    monkeypatch.setattr(tree_figures, "measure", lambda files: [figure])
    assert tree_figures.main(["--check"]) == code
    out, err = capsys.readouterr()
    assert f"| 70 | {now}" in out
    assert ("modules named by a gerund" in err) == bool(code)


def test_tree_figures_of_this_tree_are_complete_and_within_their_ceilings():
    figures = measure(read_tree())
    above = [
        f"{figure.key}: {figure.now}, at most {figure.ceiling}"
        for figure in figures
        if not figure.is_held
    ]
    assert not above, f"python scripts/tree_figures.py --list KEY names the places of {above}"
    table = tree_figures.to_table(figures)
    assert all(f"| {figure.key} |" in table for figure in figures)
    assert {"scripted", "wire", "run", "participles"} <= {figure.key for figure in figures}
    assert all(figure.now for figure in figures if figure.key in ("run", "scripted", "wire"))
