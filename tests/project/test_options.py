"""What is written from the option groups is up to date, and every group has its place."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from windlass.engine.features import FEATURES, Feature
from windlass.options.index import GROUPS, NAMES
from windlass.options.parse import find_group, find_option

ROOT = Path(__file__).parents[2]


def test_index_keywords_and_page_are_up_to_date():
    command = [sys.executable, str(ROOT / "scripts" / "make_options.py"), "--check"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, f"{done.stdout}{done.stderr}\nrun make options"


def test_every_option_of_the_index_is_declared_with_a_check_and_given_somewhere():
    elsewhere = {"parallel_tool_calls"}  # in llm_options
    for name in GROUPS:
        assert callable(find_option(name).check), name
        assert name in elsewhere or any(name in names for names in NAMES.values()), name


def test_every_group_of_a_policy_is_built_by_a_feature():
    built = {name for each in FEATURES if isinstance(each, Feature) for name in each.options()}
    not_policies = {"tool_search", "plan", "prompts", "mcp_servers"}  # built before the policies
    not_policies |= {"handoffs", "handoffs_back", "max_handoffs"}
    policies = {name for name, group in GROUPS.items() if group.startswith("policies.")}
    assert policies - not_policies <= built


def test_features_that_are_not_asked_for_have_names_of_modules_that_exist():
    for each in FEATURES:
        if isinstance(each, Feature):
            assert callable(each.load()), each.path


def test_groups_have_docstrings_that_the_page_can_show():
    for name in GROUPS:
        assert (find_group(name).__doc__ or "").endswith("."), find_group(name)
