"""What the pages list is what the code has: names, options, defaults, outcomes, errors, links."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any, get_args

import pytest

import windlass
from tests.conftest import STATED_LIMIT_SECONDS
from tests.docs.pages import ROOT, blocks_of, pages
from windlass import errors, testing
from windlass.config.loader import BUILT_IN, load
from windlass.engine import assemble
from windlass.engine.keywords import LoopOptions
from windlass.loop.plan import MAX_CALLS_PER_REPLY, create_plan
from windlass.loop.policy import Policy
from windlass.messages import Outcome
from windlass.models.registry.scope import ENDPOINTS
from windlass.models.transport.base import Timeouts
from windlass.models.wrappers.retry import Retrying
from windlass.policies.completion import SENTINEL, Completion
from windlass.policies.result_cap import ResultCap
from windlass.store import open as _registered  # noqa: F401 - brings the section [store]
from windlass.store.base import InboxKind
from windlass.store.transaction import SLOW_SECONDS
from windlass.testing import scripted
from windlass.tools.tool import OPTIONS

DOCS = ROOT / "docs"


def page(name: str) -> str:
    (path,) = DOCS.rglob(f"{name}.md")
    return path.read_text()


def table(name: str, heading: str) -> dict[str, list[str]]:
    """The first table below a heading: every `name` in its first column, with the other columns."""
    text = page(name)
    start = text.index(f"\n{heading}\n") if heading else 0
    rows: dict[str, list[str]] = {}
    for line in text[start:].splitlines()[1:]:
        if line.startswith("|"):
            cells = [cell.strip() for cell in line.strip("|").split("|")]
            for found in re.findall(r"`([^`]+)`", cells[0]):
                rows[found] = cells[1:]
        elif rows:
            break
    return rows


# --------------------------------------------------------------------------- names and links


def test_every_public_name_is_on_some_page():
    written = [path for path in pages() if path.name != "names.md"]  # which lists all of them
    words = set(re.findall(r"\w+", "\n".join(path.read_text() for path in written)))
    assert [name for name in [*windlass._HOME, *windlass._MODULES] if name not in words] == []


def test_every_name_for_tests_is_on_the_page_about_testing():
    words = set(re.findall(r"\w+", page("testing")))
    spoken = {"store_kit": "StoreKit"}
    later = {
        "CancelReport",
        "KillReport",
        "Cassette",
        "ScriptedModel",
        "Trial",
    }  # what calls return
    missing = [n for n in testing.__all__ if spoken.get(n, n) not in words]
    assert set(missing) <= later | {"Scene", "Seen", "EffectLog"}


def anchors(path: Path) -> set[str]:
    """The anchors that a page's headings have on GitHub."""
    text = re.sub(r"```.*?```", "", path.read_text(), flags=re.DOTALL)
    headings = re.findall(r"^#+ (.+)$", text, re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", head.lower()).replace(" ", "-") for head in headings}


PAGES = [*pages(), *sorted((ROOT / "design").glob("*.md")), ROOT / "examples" / "README.md"]


@pytest.mark.parametrize("path", PAGES, ids=lambda path: f"{path.parent.name}/{path.stem}")
def test_links_lead_somewhere(path: Path):
    text = re.sub(r"```.*?```", "", path.read_text(), flags=re.DOTALL)
    for link, anchor in re.findall(r"\]\(([^)#:\s]*)(?:#([^)]*))?\)", text):
        target = (path.parent / link).resolve() if link else path
        assert target.exists(), link
        if anchor and target.suffix == ".md":
            assert anchor in anchors(target), f"{link}#{anchor}"


# --------------------------------------------------------------------------- options and defaults


@pytest.mark.parametrize("path", pages(), ids=lambda path: path.stem)
def test_lines_of_code_fit_the_width_of_the_site(path: Path):
    blocks = [one for one in blocks_of(path.read_text("utf-8")) if one.kind == "python"]
    wide = [line for one in blocks for line in one.code.splitlines() if len(line) > 88]
    assert wide == [], f"{path.name}: break these lines; the site would cut them"


def test_every_option_of_the_loop_is_listed_and_no_other():
    assert set(table("loop", "## Options")) - {"max_turns", '"native"', '"text"'} == {
        *LoopOptions.__annotations__,
        "system",
    }


def test_the_defaults_are_the_code_s():
    rows = table("loop", "## Options")
    loop_turns, agent_turns = assemble._LOOP_TURNS, assemble._AGENT_TURNS
    assert rows["max_iterations"][0] == f"{loop_turns} (`max_turns`: {agent_turns})"
    loop_tools, agent_tools = assemble._LOOP_TOOLS_AT_ONCE, assemble._AGENT_TOOLS_AT_ONCE
    concurrency = f"{loop_tools} ({agent_tools})"
    assert rows["max_concurrent_tools"][0] == concurrency
    assert rows["max_calls_per_reply"][0] == str(MAX_CALLS_PER_REPLY)
    plan: Any = assemble.assemble({"model": scripted("x")}, None, "agent_loop")
    assert rows["tool_timeout"][0] == f"{plan.tool_timeout:g}"
    assert rows["tool_arg_validation"][0] == f'`"{plan.validation}"`'
    assert rows["eager_tools"][0] == "`True`" and create_plan.__kwdefaults__["eager"] is True
    assert rows["tool_result_max_bytes"][0] == str(ResultCap().max_bytes)
    assert rows["max_nudges"][0] == str(Completion.__init__.__kwdefaults__["max_nudges"])
    assert SENTINEL in rows["done_sentinel"][0]
    agents = table("agents", "## Options")
    assert agents["max_turns"][0] == str(agent_turns)
    assert agents["max_concurrent_tools"][0] == str(agent_tools)


def test_every_option_of_a_tool_is_listed():
    assert set(table("tools", "")) == {"name", "description", *OPTIONS}


def test_every_setting_is_listed_with_what_is_built_in():
    rows = table("configuration", "")
    settings = load(env={}, file=None, start_dir="/").explain()
    assert rows.keys() == {f"{one.section}.{one.key}" for one in settings}
    for one in settings:
        shown = rows[f"{one.section}.{one.key}"][0].strip('`"')
        assert one.origin == BUILT_IN
        assert shown == (
            "none"
            if one.value is None
            else f"{one.value:g}"
            if type(one.value) is float
            else str(one.value).lower()
            if type(one.value) is bool
            else one.value
        )


# --------------------------------------------------------------------------- what may happen


def test_every_outcome_of_a_call_is_explained():
    assert set(table("tools", "## What the model sees")) == set(get_args(Outcome))


def test_every_kind_of_mail_is_explained():
    assert set(table("durability", "## The inbox")) == set(get_args(InboxKind))


def test_every_moment_of_a_policy_is_listed():
    moments = {name for name, value in vars(Policy).items() if callable(value) and name[0] != "_"}
    assert {name.partition("(")[0] for name in table("loop", "## Policies")} == moments


def test_errors_are_tried_again_where_the_page_says_so():
    rows = table("models", "## Timeouts, retries, errors")
    kinds = {
        k for k in vars(errors).values() if isinstance(k, type) and issubclass(k, errors.ModelError)
    }
    assert set(rows) == {kind.__name__ for kind in kinds} - {"ModelError"}
    for kind in kinds - {errors.ModelError}:
        categories, again = rows[kind.__name__]
        assert f"`{kind.category}`" in categories
        # a circuit breaker answers at once, so that nobody waits for it
        assert (again == "yes") is (kind.transient and kind is not errors.CircuitOpen)


def test_every_provider_is_listed_with_its_variables():
    rows = table("models", "## By name")
    assert set(rows) == {*ENDPOINTS, "mock"}
    for name, endpoint in ENDPOINTS.items():
        key, wire, address = rows[name]
        assert re.findall(r"`(\w+)`", key) == list(endpoint.key_env)
        assert (wire == "Messages") is (endpoint.wire == "anthropic")
        also = {variable for names in endpoint.also_env.values() for variable in names}
        named = {*endpoint.base_env, endpoint.model_env, *also} - {None}
        assert set(re.findall(r"`(\w+)`", address)) == named


def test_the_numbers_are_the_code_s():
    limits, models, tools = Timeouts(), page("models"), page("tools")
    assert (
        f"{limits.connect:g} s to connect, {limits.idle:g} s between signs of life, and "
        f"{limits.total:g} s as a whole" in models
    )
    retrying = Retrying(scripted("x"))
    assert retrying.attempts == 3 and "up to three times" in models
    assert retrying.max_delay == 60 and "up to a minute" in models
    assert (
        f"over {SLOW_SECONDS * 1000:g} ms it is reported, over {STATED_LIMIT_SECONDS:g} s rolled back"
        in tools
    )
