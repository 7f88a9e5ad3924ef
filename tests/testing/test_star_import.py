"""`windlass.testing` for a user's tests: every name loads, also where pytest is not installed."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import windlass.testing as kit

ROOT = Path(__file__).parents[2]
WITHOUT_PYTEST = """
import sys
sys.modules["pytest"] = None
from windlass.testing import *
assert scripted("x") and FakeAnthropic and FakeGemini and kill_sweep and cassette
try:
    from windlass.testing import store_kit
except ImportError as error:
    print("needs pytest" if "pytest" in str(error) else error)
"""


def test_star_import_works_without_pytest():
    done = subprocess.run([sys.executable, "-c", WITHOUT_PYTEST], capture_output=True, text=True)
    assert done.stderr == ""
    assert done.stdout == "needs pytest\n"


def test_every_fake_that_the_docs_name_is_importable_from_the_kit():
    pages = [*(ROOT / "docs").rglob("*.md"), ROOT / "README.md"]
    named = {name for page in pages for name in re.findall(r"\bFake[A-Z]\w+", page.read_text())}
    assert "FakeGemini" in named
    for name in named:
        assert name in kit.__all__
        assert getattr(kit, name).__name__ == name
