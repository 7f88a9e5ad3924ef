"""The search among tools: what it finds, in which order, and what no query can do to it."""

from __future__ import annotations

import random

import pytest

from tests.vault.queries import QUERIES
from tests.vault.questions import QUESTIONS
from tests.vault.tools import NAMES, tools
from windlass.messages import ToolSpec
from windlass.tools.search.index import (
    LIMIT,
    MOST,
    Index,
    text_of,
)
from windlass.tools.search.vocabulary import stem, words

FORTY = Index([tool.spec for tool in tools()])


def spec(name: str, description: str = "", **parameters: str) -> ToolSpec:
    properties = {key: {"type": "string", "description": said} for key, said in parameters.items()}
    return ToolSpec(name, description, {"type": "object", "properties": properties})


def few(*names: str) -> Index:
    return Index([spec(name) for name in names])


# --------------------------------------------------------------------------- in words


def test_38_of_40_questions_find_their_tool() -> None:
    missed = [name for name, asked in QUESTIONS.items() if name not in FORTY.bm25(asked).tool_names]
    assert len(missed) <= 2, missed
    assert all(len(FORTY.bm25(asked).tool_names) <= LIMIT for asked in QUESTIONS.values())


def test_short_queries_find_their_tool_first() -> None:
    found = {name: FORTY.bm25(query).tool_names for name, query in QUERIES.items()}
    assert tuple(found) == NAMES
    assert sum(name in names for name, names in found.items()) >= 37
    assert sum(names[:1] == (name,) for name, names in found.items()) >= 36
    assert sum(map(len, found.values())) / 40 <= 3.5, "and little else"


@pytest.mark.parametrize("name", ["open_file", "openFile", "open-file", "OpenFile", "open.file"])
def test_a_name_is_found_by_its_words(name: str) -> None:
    index = few(name, "close_window", "send_mail")
    assert index.bm25("open file").tool_names[0] == name
    assert index.bm25(name).tool_names[0] == name


def test_description_parameters_and_namespace_are_searched_too() -> None:
    index = Index(
        [
            spec("one", "Brews coffee"),
            spec("two", flavour="vanilla or chocolate"),
            ToolSpec("three", "", {"type": "object", "properties": {}}, namespace="plumbing"),
        ]
    )
    assert index.bm25("coffee").tool_names == ("one",)
    assert index.bm25("chocolate").tool_names == ("two",)
    assert index.bm25("flavour").tool_names == ("two",)
    assert index.bm25("plumbing").tool_names == ("three",)


def test_parameters_within_parameters_are_searched() -> None:
    inner = {"type": "object", "properties": {"iban": {"description": "bank account"}}}
    schema = {"type": "object", "properties": {"rows": {"type": "array", "items": inner}}}
    assert Index([ToolSpec("t", "", schema), spec("u")]).bm25("bank").tool_names == ("t",)


def test_equals_stand_in_the_order_of_their_names() -> None:
    index = Index([spec(name, "Paints a wall") for name in ("c", "a", "b")])
    assert index.bm25("wall").tool_names == ("a", "b", "c")


def test_a_rare_word_counts_more_than_a_common_one() -> None:
    index = Index([spec(f"t{n}", "manage data") for n in range(9)] + [spec("u", "manage llamas")])
    assert index.bm25("manage llamas").tool_names[0] == "u"


def test_other_forms_of_a_word_find_it() -> None:
    index = Index([spec("t", "Refunds a charge"), spec("u", "Deletes an entry")])
    for said in ("refund", "refunded", "refunding"):
        assert index.bm25(said).tool_names == ("t",)
    assert index.bm25("entries").tool_names == ("u",)


def test_a_word_counts_more_than_one_that_means_the_same() -> None:
    index = Index([spec("t", "Prints an invoice"), spec("u", "Prints a bill")])
    assert index.bm25("bill").tool_names == ("u", "t")


def test_a_misspelt_word_finds_what_looks_like_it() -> None:
    assert few("translate_text", "send_mail").bm25("translat").tool_names == ("translate_text",)
    assert few("kubernetes_scale", "send_mail").bm25("kuberntes").tool_names == (
        "kubernetes_scale",
    )


def test_nothing_found_says_how_to_go_on() -> None:
    found = FORTY.bm25("xylophone zzz")
    assert found.tool_names == ()
    assert "other words" in (found.diagnostic or "") and "40" in (found.diagnostic or "")


@pytest.mark.parametrize("query", ["", "   ", "!?!", "__"])
def test_an_empty_query_says_what_is_wanted(query: str) -> None:
    found = FORTY.bm25(query)
    assert found.tool_names == () and "few words" in (found.diagnostic or "")


def test_words_that_say_nothing_count_when_there_are_no_others() -> None:
    index = Index([spec("who_is", "Who is it?"), spec("other", "Something else entirely")])
    assert index.bm25("who is").tool_names[0] == "who_is"


def test_a_search_finds_five_and_twenty_at_most() -> None:
    index = Index([spec(f"t{n:03}", "paint") for n in range(1000)])
    assert len(index.bm25("paint").tool_names) == LIMIT == 5
    assert len(index.bm25("paint", 12).tool_names) == 12
    assert len(index.bm25("paint", 10**9).tool_names) == MOST == 20
    assert len(index.bm25("paint", -3).tool_names) == 1
    assert len(index.regex("paint", 10**9).tool_names) == 20


def test_the_same_tools_in_any_order_are_found_in_the_same_order() -> None:
    specs = [tool.spec for tool in tools()]
    for seed in range(5):
        random.Random(seed).shuffle(specs)
        index = Index(specs)
        for asked in QUESTIONS.values():
            assert index.bm25(asked) == FORTY.bm25(asked)


def test_words_of_other_scripts() -> None:
    index = Index([spec("suche", "Löscht eine Datei für immer"), spec("t", "翻訳 する")])
    assert index.bm25("LÖSCHT datei").tool_names == ("suche",)
    assert index.bm25("翻訳").tool_names == ("t",)


def test_an_index_of_nothing() -> None:
    assert Index([]).bm25("anything").tool_names == ()
    assert Index([]).regex("anything").tool_names == ()


@pytest.mark.parametrize(
    "schema",
    [
        {},
        {"properties": None},
        {"properties": {"a": True}},
        {"properties": {"a": {"description": 7}}},
    ],
)
def test_odd_schemas_are_read_as_far_as_they_go(schema: dict[str, object]) -> None:
    assert text_of(ToolSpec("t", "d", schema)).startswith("t\nd")


def test_a_huge_query_is_cut() -> None:
    assert FORTY.bm25("refund " * 1_000_000).tool_names[0] == "stripe_create_refund"


def test_words_and_stems() -> None:
    assert words("getHTTPResponse_v2") == ["get", "http", "response", "gethttpresponse", "v2"]
    assert stem("stopped") == stem("stops") == stem("stopping") == "stop"
    assert stem("translation") == stem("translate") == stem("translating")
    assert stem("news") != stem("new")
    assert stem("wrote") == stem("writing") == stem("write")


# --------------------------------------------------------------------------- by pattern


def test_a_pattern_is_matched_in_any_case_over_the_same_text() -> None:
    assert FORTY.regex("REFUND").tool_names == ("stripe_create_refund",)
    assert FORTY.regex(r"^git_\w+").tool_names == ("git_blame", "git_commit")
    assert "gdocs_export_pdf" in FORTY.regex("A4 or Letter").tool_names
    assert FORTY.regex("(?i)zendesk|datadog").tool_names == (
        "datadog_query_metrics",
        "zendesk_update_ticket",
    )


def test_a_match_in_the_name_comes_first() -> None:
    index = Index([spec("a", "about mail"), spec("z_mail", "sends")])
    assert index.regex("mail").tool_names == ("z_mail", "a")


@pytest.mark.parametrize("pattern", [r"(a)\1", "(?=a)b", "(?<!a)b", "(?P<x>a)(?P=x)"])
def test_what_looks_around_or_back_is_refused_in_words(pattern: str) -> None:
    found = FORTY.regex(pattern)
    assert found.tool_names == () and "lookaround" in (found.diagnostic or "")


@pytest.mark.parametrize("pattern", ["(", "[", "a{9999999}", "*", "(a{1000}){1000}"])
def test_a_broken_pattern_says_so(pattern: str) -> None:
    found = FORTY.regex(pattern)
    assert found.tool_names == () and "simpler" in (found.diagnostic or "")


@pytest.mark.parametrize("pattern", ["", "  ", "a" * 501])
def test_no_pattern_and_too_much_of_one(pattern: str) -> None:
    found = FORTY.regex(pattern)
    assert found.tool_names == () and found.diagnostic


def test_no_match_says_how_to_go_on() -> None:
    assert "shorter" in (FORTY.regex("xylophone").diagnostic or "")


@pytest.mark.parametrize(
    "pattern",
    ["(a+)+$", "(a|a)*b", "(.*)*x", "(a|aa)+$", "(.*a){12}$", r"(\w+\s?)+!", "(?:a?){30}a{30}"],
)
def test_a_hostile_pattern_does_not_hang(pattern: str) -> None:
    """Python's own engine would need longer than the universe for some of these."""
    index = Index([spec("t", "a" * 20_000 + "b"), *(tool.spec for tool in tools())])
    index.regex(pattern)


def test_every_tool_can_be_found_by_its_own_name() -> None:
    for name in NAMES:
        assert FORTY.bm25(name).tool_names[0] == name
        assert FORTY.regex(f"^{name}").tool_names == (name,)
