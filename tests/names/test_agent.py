"""The walk over the names of the compact agent: its arguments, those of its runs, and what streams say."""

from __future__ import annotations

from inspect import signature
from typing import get_args

import pytest

import windlass as w
from tests.names import judgement
from tests.option_areas import AGENT
from windlass.engine.stream_events import Type
from windlass.options.index import OF_A_RUN
from windlass.options.parse import SUPERSEDED
from windlass.testing import scripted


@pytest.mark.parametrize("name", judgement.AGENT_OPTIONS)
def test_an_argument_of_an_agent(name: str):
    assert name in AGENT
    assert name in signature(w.Agent).parameters and name in signature(w.Agent.run).parameters
    with pytest.raises(w.ConfigError, match=name.removesuffix("s")):
        agent = w.Agent(scripted("x"), **{name: object() if name != "tools" else [object()]})
        assert agent.plan


@pytest.mark.parametrize("name", judgement.RUN_OPTIONS)
async def test_an_argument_of_a_run(name: str):
    assert name in OF_A_RUN | {"timeout"} and name in signature(w.Agent.run).parameters
    model = scripted("never")
    with pytest.raises(w.ConfigError, match=name):
        await w.Agent(model).run("go", **{name: object()})
    assert not model.requests


@pytest.mark.parametrize(
    ("document", "ours"),
    [
        ("system_prompt", "system"),
        ("agent_name", "name"),
        ("agent_role", "role"),
        ("abort_signal", "abort"),
    ],
)
def test_a_documents_name_leads_to_ours(document: str, ours: str):
    assert SUPERSEDED[document] == ours
    with pytest.raises(w.ConfigError, match=f"'{document}'; use '{ours}'"):
        w.Agent(scripted("x"), **{document: "x"})


def test_the_words_of_a_stream():
    assert set(get_args(Type)) == set(judgement.STREAM_TYPES)


def test_the_error_of_a_token_budget():
    error = w.TokenBudgetExceededError("clerk", 12, 10)
    assert isinstance(error, w.BudgetExceeded)
    assert (error.agent, error.tokens_used, error.budget) == ("clerk", 12, 10)
