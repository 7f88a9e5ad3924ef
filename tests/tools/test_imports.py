"""Heavy libraries are loaded by whoever needs them, when they need them."""

import subprocess
import sys

import pytest


def run(code: str) -> None:
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60)


def test_making_tools_loads_neither_pydantic_nor_a_validator() -> None:
    run("""
import sys
from dataclasses import dataclass
from typing import Annotated
from windlass.tools.function import as_tool, tool
from windlass.tools.registry import tool_registry
@dataclass
class Point:
    x: int
@tool(side_effect_level="read_only")
def f(p: Point, n: Annotated[int, "how many"] = 1) -> int:
    '''Do it.'''
    return n
for name in ("pydantic", "jsonschema", "jsonschema_rs", "docstring_parser", "aiohttp", "rich"):
    assert name not in sys.modules, name
assert not f.prepare({"p": {"x": 1}}).problems
for name in ("pydantic", "jsonschema", "docstring_parser"):
    assert name not in sys.modules, name
""")


def test_a_users_pydantic_model_is_used_without_more_ado() -> None:
    run("""
import asyncio
from pydantic import BaseModel
from windlass.tools.function import as_tool
class M(BaseModel):
    x: int
def f(m: M) -> int:
    return m.x + 1
t = as_tool(f)
assert not t.prepare({"m": {"x": 1}}).problems
assert t.prepare({"m": {"x": "a"}}).problems
""")


@pytest.mark.parametrize("module", ["tool", "function", "registry", "render"])
def test_each_module_can_be_imported_first(module: str) -> None:
    run(f"import windlass.tools.{module}")
