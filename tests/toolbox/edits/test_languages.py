"""The tables of languages name nodes that the pinned grammars have."""

from __future__ import annotations

import importlib

import pytest

from windlass.errors import ConfigError
from windlass.toolbox.edits.languages import LANGUAGES, Language, find_language
from windlass.toolbox.edits.scopes.resolver import Resolver
from windlass.toolbox.edits.scopes.table import RESOLVERS
from windlass.toolbox.edits.source import Source, load_parser


def known(language: Language) -> set[str]:
    grammar = load_parser(language.grammar).language
    assert grammar is not None
    kinds = {grammar.node_kind_for_id(number) for number in range(grammar.node_kind_count)}
    return {kind for kind in kinds if kind}


@pytest.mark.parametrize("language", LANGUAGES, ids=lambda one: one.name)
def test_language_tables_name_nodes_of_the_grammar(language: Language) -> None:
    kinds = known(language)
    named = {*language.declared, *language.wrappers, *language.prefixes, *language.lists}
    named |= {*language.containers, *language.comments, *language.strings}
    assert named - kinds == set()


@pytest.mark.parametrize("name", RESOLVERS)
def test_scope_tables_name_nodes_of_some_grammar(name: str) -> None:
    resolver: type[Resolver] = RESOLVERS[name]
    family = [one for one in LANGUAGES if RESOLVERS.get(one.name) is resolver]
    kinds = set().union(*[known(one) for one in family])
    named = {*resolver.scopes, *resolver.identifiers, *[kind for kind, _ in resolver.ignored]}
    assert named - kinds == set()


def test_every_suffix_belongs_to_one_language() -> None:
    suffixes = [suffix for one in LANGUAGES for suffix in one.suffixes]
    assert len(suffixes) == len(set(suffixes))
    assert find_language("a/B.TSX") is not None and find_language("README") is None


def test_missing_grammar_is_an_error_that_names_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    whole = importlib.import_module

    def without(name: str, package: str | None = None) -> object:
        if name == "tree_sitter_go":
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)
        return whole(name, package)

    from windlass.toolbox.edits import source as module

    module._load_language.cache_clear()
    monkeypatch.setattr(importlib, "import_module", without)
    go = find_language("a.go")
    assert go is not None
    with pytest.raises(ConfigError, match=r"pip install 'windlass\[edit\]'"):
        Source(b"package p\n", go)
    python = find_language("a.py")
    assert python is not None and not Source(b"x = 1\n", python).faults
