"""Tests of answers to questions, which every store must pass; part of `StoreKit`."""

from __future__ import annotations

import asyncio
from contextlib import AbstractAsyncContextManager
from pathlib import Path

import pytest

from windlass.errors import AlreadyAnswered
from windlass.events import InboxTaken, ToolDecided
from windlass.json_types import JsonObject
from windlass.store.base import Store
from windlass.testing.store_pieces import add


def question(call_id: str, ask: str) -> ToolDecided:
    """Build a question about a call."""
    return ToolDecided(call_id, "pay", "ask", "rules", "ann", "d", ask=ask)


def answer(call_id: str, action: str, by: str, ask: str | None) -> JsonObject:
    """Build an answer as it is posted."""
    fields = {"action": action, "reason": None, "by": by}
    return {call_id: fields if ask is None else {**fields, "ask": ask}}


class AnswersKit:
    """Tests that the first answer to a question counts."""

    def opened(self, folder: Path) -> AbstractAsyncContextManager[Store]:
        """Open a store that is closed at the end."""
        raise NotImplementedError

    async def test_first_answer_is_the_answer(self, tmp_path: Path) -> None:
        async with self.opened(tmp_path) as store:
            journal = await store.open("s")
            await add(journal, question("c1", "ask1"), question("c2", "ask2"))
            await journal.close()
            await store.post("s", "decision", answer("c1", "deny", "ann", "ask1"))
            for late in (
                answer("c1", "allow", "bea", "ask1"),
                answer("c1", "allow", "bea", None),
                {**answer("c2", "allow", "bea", "ask2"), **answer("c1", "allow", "bea", "ask1")},
            ):
                with pytest.raises(AlreadyAnswered, match="answered already, by ann: deny") as told:
                    await store.post("s", "decision", late)
                assert (told.value.by, told.value.action) == ("ann", "deny")
            await store.post("s", "decision", answer("c2", "allow", "bea", None))
            with pytest.raises(AlreadyAnswered, match="by bea: allow"):
                await store.post("s", "decision", answer("c2", "deny", "ann", "ask2"))
            assert [item.fields for item in await store.inbox("s")] == [
                answer("c1", "deny", "ann", "ask1"),
                answer("c2", "allow", "bea", None),
            ]

    async def test_answer_is_the_answer_once_a_run_has_taken_it(self, tmp_path: Path) -> None:
        async with self.opened(tmp_path) as store:
            journal = await store.open("s")
            await add(journal, question("c1", "ask1"))
            given = answer("c1", "allow", "ann", "ask1")
            await store.post("s", "decision", given)
            [item] = journal.mail
            journal.take(item)
            await add(journal, InboxTaken(item.id, "decision", given))
            assert await store.inbox("s") == []
            for ask in ("ask1", None):
                with pytest.raises(AlreadyAnswered, match="by ann: allow"):
                    await store.post("s", "decision", answer("c1", "deny", "bea", ask))
            # another question about the call has an answer of its own
            await add(journal, question("c1", "ask9"))
            await store.post("s", "decision", answer("c1", "deny", "bea", "ask9"))
            with pytest.raises(AlreadyAnswered, match="by bea: deny"):
                await store.post("s", "decision", answer("c1", "allow", "eve", None))
            await journal.close()

    async def test_of_many_answers_at_once_one_is_stored(self, tmp_path: Path) -> None:
        async with self.opened(tmp_path) as store:
            journal = await store.open("s")
            await add(journal, question("c1", "ask1"))
            await journal.close()
            given = [
                answer("c1", "allow" if n % 2 else "deny", f"u{n}", "ask1" if n % 3 else None)
                for n in range(12)
            ]
            told = await asyncio.gather(
                *(store.post("s", "decision", one) for one in given), return_exceptions=True
            )
            [stored] = await store.inbox("s")
            assert [type(one) for one in told].count(str) == 1
            assert all(isinstance(one, (str, AlreadyAnswered)) for one in told)
            assert told[given.index(stored.fields)] == stored.id
