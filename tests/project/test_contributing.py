"""The contributor documents name files, names and packages that exist."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SOURCE = ROOT / "src" / "windlass"
TESTS = ROOT / "tests"

#: Each document, and the folders at which its paths may start.
DOCUMENTS = {
    "CONTRIBUTING.md": (ROOT, SOURCE),
    "AGENTS.md": (ROOT, SOURCE),
    "tests/README.md": (TESTS, ROOT),
}
#: Files of a user's project.
OF_USERS = frozenset({"windlass.toml", "SKILL.md"})
_FENCE = re.compile(r"^```.*?^```$", re.MULTILINE | re.DOTALL)
_PATH = re.compile(r"(?:[\w.-]+/)+[\w.-]*|[\w-]+\.(?:py|pyi|toml|md)")
_SENTENCE = re.compile(r"^- `(\w+)`: ([A-Z].+[.…])$", re.MULTILINE)


def find_paths(text: str) -> list[str]:
    """Find what is written in backticks as a file or a folder, outside fenced blocks."""
    quoted = re.findall(r"`([^`\n]+)`", _FENCE.sub("", text))
    return [one for one in quoted if _PATH.fullmatch(one) and one not in OF_USERS]


def find_missing(text: str, bases: tuple[Path, ...]) -> list[str]:
    """Find the paths of a text that exist below none of the folders."""
    return [path for path in find_paths(text) if not any(_exists(base / path) for base in bases)]


def _exists(path: Path) -> bool:
    return path.is_dir() or (path.is_file() and not str(path).endswith("/"))


def read_rows(text: str, title: str) -> list[list[str]]:
    """Read the cells of the first table below a title."""
    lines = text.partition(f"## {title}\n")[2].strip().splitlines()
    rows: list[list[str]] = []
    for line in lines:
        if line.startswith("|"):
            rows.append([cell.strip() for cell in line.strip("|").split(" | ")])
        elif rows:
            break
    return rows[2:]


@pytest.mark.parametrize("document", DOCUMENTS)
def test_contributor_documents_name_paths_that_exist(document: str):
    text = (ROOT / document).read_text("utf-8")
    assert len(find_paths(text)) > 5
    assert find_missing(text, DOCUMENTS[document]) == []


def test_contributor_documents_with_a_wrong_path_are_noticed():
    text = "`loop/kernel.py` `loop/nowhere.py` `nowhere/` `gone.md` `make test` `x/<name>.py` `a.b`"
    assert find_missing(text, (ROOT, SOURCE)) == ["loop/nowhere.py", "nowhere/", "gone.md"]
    assert find_missing("```sh\n`gone.md`\n```\n`.ci/run` `tests/`", (ROOT,)) == []


@pytest.mark.parametrize("document", DOCUMENTS)
def test_contributor_documents_have_short_lines(document: str):
    lines = (ROOT / document).read_text("utf-8").splitlines()
    assert [line for line in lines if len(line) > 120] == []


def test_contributing_table_of_places_names_what_is_in_the_files():
    rows = read_rows((ROOT / "CONTRIBUTING.md").read_text("utf-8"), "Where to find what")
    assert len(rows) >= 25
    for wanted, file, words in rows:
        text = (SOURCE / file.strip("`")).read_text("utf-8")
        for word in re.findall(r"`([^`]+)`", words):
            assert word in text, f"{wanted}: {word!r} is not in {file}"


def test_contributing_glossary_has_each_word_once():
    rows = read_rows((ROOT / "CONTRIBUTING.md").read_text("utf-8"), "Glossary")
    words = [word for row in rows for word in row[0].split(", ")]
    assert len(words) == len(set(words)) >= 25


def test_agents_document_has_one_sentence_for_each_package_and_module():
    sentences = _SENTENCE.findall((ROOT / "AGENTS.md").read_text("utf-8"))
    packages = {path.parent.name for path in SOURCE.glob("*/__init__.py")}
    modules = {path.stem for path in SOURCE.glob("*.py")} - {"__init__", "__main__"}
    assert sorted(name for name, _ in sentences) == sorted(packages | modules)
    assert all(sentence.count(". ") == 0 for _, sentence in sentences)


def test_tests_document_names_each_folder_with_tests():
    named = set(find_paths((TESTS / "README.md").read_text("utf-8")))
    folders = {f"{path.relative_to(TESTS).parts[0]}/" for path in TESTS.glob("*/**/test_*.py")}
    assert folders - named == set()


def test_readme_leads_to_the_contributor_documents():
    assert "(CONTRIBUTING.md)" in (ROOT / "README.md").read_text("utf-8")
