"""A small repository with a failing test, and the script of the model that mends it."""

from __future__ import annotations

import shlex
import sys
from importlib.util import find_spec
from pathlib import Path
from typing import Final, Literal, TypeAlias

from windlass.cli.demo.shop import Script
from windlass.json_types import JsonObject
from windlass.toolbox.names import BUILTIN_NAMES
from windlass.toolbox.options import Level
from windlass.toolbox.sandbox.levels import find_problem

SESSION: Final = "fix-cart"
TASK: Final = "The tests fail. Make them pass."
CORRECTION: Final = "I took that back: the test is right. Mend the code."

#: How a process of the demo ends: by a kill in the middle of something, or by itself.
Moment: TypeAlias = Literal["never", "in-edit", "in-bash"]

CODE: Final = '''"""A shopping cart."""


class Cart:
    def __init__(self, prices):
        self.prices = prices

    def total(self, discount=0):
        """Sum the prices, less a discount in percent."""
        return sum(self.prices) - discount
'''
TEST: Final = """import unittest

from cart import Cart


class CartTest(unittest.TestCase):
    def test_discount_is_in_percent(self):
        self.assertEqual(Cart([30, 20]).total(discount=10), 45)


if __name__ == "__main__":
    unittest.main()
"""
MENDED: Final = CODE.replace(
    "sum(self.prices) - discount", "sum(self.prices) * (100 - discount) / 100"
)
_METHOD: Final = MENDED[MENDED.index("    def total") :].rstrip()
_WRONG: Final = "self.assertEqual(Cart([30, 20]).total(discount=10), 40)"
_RIGHT: Final = "self.assertEqual(Cart([30, 20]).total(discount=10), 45)"


def build_repository(folder: Path) -> None:
    """Write the repository into a folder."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "cart.py").write_text(CODE)
    (folder / "test_cart.py").write_text(TEST)


def build_script() -> Script:
    """Return what the model says and does, with the tools that this machine has."""
    test: JsonObject = {"command": f"{shlex.quote(sys.executable)} -B -m unittest 2>&1"}
    return (
        ("I look for the code that the tests are about.", *_search()),
        ("I look at the test.", "file_read", {"path": "test_cart.py"}),
        ("It expects 45 and gets 40. I change what it expects.", "file_edit", _edit_test()),
        ("The test expects what the code does now.", "", {}),
        ("Then it is the code. I look at it.", "file_read", {"path": "cart.py"}),
        ("The discount is in percent. I replace the method.", *_mend()),
        ("Now the tests.", "bash", test),
        ("I cannot know how that ended. I run the tests again.", "bash", test),
        ("Mended: the discount is taken in percent, and the tests pass.", "", {}),
    )


def _search() -> tuple[str, JsonObject]:
    if "grep" in BUILTIN_NAMES:
        return "grep", {"pattern": "discount"}
    return "bash", {"command": "grep -n discount *.py"}


def _edit_test() -> JsonObject:
    return {"path": "test_cart.py", "old_string": _RIGHT, "new_string": _WRONG}


def _mend() -> tuple[str, JsonObject]:
    if find_spec("tree_sitter_python") is not None:
        node = "class:Cart/function:total"
        return "edit_apply_node", {"path": "cart.py", "node": node, "text": _METHOD}
    old = CODE[CODE.index("sum(self.prices)") :].strip()
    new = MENDED[MENDED.index("sum(self.prices)") :].strip()
    return "file_edit", {"path": "cart.py", "old_string": old, "new_string": new}


def name_tools() -> list[str]:
    """Return the built-in tools that the script uses."""
    return list(dict.fromkeys([name for _, name, _ in build_script() if name]))


def choose_level() -> Level:
    """Return the sandbox for the commands: the default one, if this machine has it."""
    return "workspace" if find_problem("workspace") is None else "none"
