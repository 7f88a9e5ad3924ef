"""Functions on sessions take the address of a store, as an agent does."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import windlass as w
from windlass.testing import call, scripted


@w.tool(requires_approval=True)
def refund(amount: int) -> str:
    """Refund a customer."""
    return f"refunded {amount}"


async def test_a_question_is_answered_by_the_address_of_its_store(tmp_path: Path):
    place = f"sqlite:///{tmp_path}/shop.db"
    agent = w.Agent(scripted(call("refund", amount=5), "Done."), tools=[refund], store=place)
    assert (await agent.run("Refund 5.", session_id="r")).status == "suspended"
    (question,) = await w.approvals(store=place)
    await w.approve(question.id, store=place)
    out = await agent.resume("r")
    assert out.output == "Done." and out.tool_calls[0].result == "refunded 5"
    assert [info.id for info in await w.agent_session_list(store=tmp_path / "shop.db")] == ["r"]


@pytest.mark.parametrize("store", [5, ["x"], object(), w.Agent])
async def test_what_is_no_store_is_refused(store: Any):
    with pytest.raises(w.ConfigError, match=r"store is 'memory:', 'sqlite:///name.db' or a store"):
        await w.approvals(store=store)
