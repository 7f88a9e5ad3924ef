"""Tests of records of model calls, which every store must pass."""

from __future__ import annotations

import asyncio
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import Any

import msgspec
import pytest

from windlass.errors import ConfigError, StoreError
from windlass.events import Replied, ReplyFailed, RunStarted
from windlass.messages import Message, Text, ToolCall
from windlass.store.base import Store
from windlass.store.model_calls import ModelCall, SpendingLimit
from windlass.testing.store_pieces import add, note
from windlass.usage import Usage

ANN = RunStarted(
    "r1", "agent", "acme/ann", "p", "m", tenant="acme", request_id="q1", conversation_id="c1"
)
BOB = RunStarted("r2", "agent_loop", "bob", "p", "m")


def reply(usage: Usage, *, model: str = "m", **more: Any) -> Replied:
    """Build a reply that asks for two calls."""
    blocks = (Text("x"), ToolCall("a", "t", {}), ToolCall("b", "t", {}))
    made = Replied(Message("assistant", blocks), usage, "tool_use", "p", model, 1, "f")
    return msgspec.structs.replace(made, **more)


class BooksKit:
    """The part of `StoreKit` that is about model calls."""

    def opened(self, folder: Path) -> AbstractAsyncContextManager[Store]:
        """Open a store that is closed at the end."""
        raise NotImplementedError

    async def test_a_call_is_on_the_books_as_its_entry_says(self, tmp_path: Path) -> None:
        usage = Usage(100, 20, 60, 30, 7, None, 12.5)
        entry = reply(
            usage, cost_usd=0.25, duration_ms=80.5, purpose="judge", via="fallback", attempts=3
        )
        async with self.opened(tmp_path) as store:
            journal = await store.open("s")
            await add(journal, ANN, entry)
            [call] = await store.calls()
            at = (await store.rows("s"))[-1].at
            await journal.close()
        assert call.usage == usage
        assert call == ModelCall(
            at=at,
            provider="p",
            model="m",
            input_tokens=100,
            output_tokens=20,
            cache_read_tokens=60,
            cache_write_tokens=30,
            reasoning_tokens=7,
            gpu_ms=12.5,
            cost_usd=0.25,
            latency_ms=80.5,
            attempts=3,
            tool_calls=2,
            purpose="judge",
            via="fallback",
            door="agent",
            tenant="acme",
            caller="acme/ann",
            request="q1",
            conversation="c1",
            session="s",
            run="r1",
        )

    async def test_plain_and_failed_calls_are_on_the_books_too(self, tmp_path: Path) -> None:
        failed = ReplyFailed("rate_limit", "slow down", "q", "n", duration_ms=3.0, attempts=4)
        async with self.opened(tmp_path) as store:
            journal = await store.open("s")
            await add(journal, note(0), ANN, note(1))
            await add(journal, reply(Usage(5, 6), cost_usd=0.5, duration_ms=2.5))
            await add(journal, failed, note(2), reply(Usage(1, 1), model="m-2026"))
            calls = await store.calls()
            spent = [await store.spent(since) for since in (0.0, calls[-1].at + 1)]
            await journal.close()
        shown = [
            (c.provider, c.model, c.input_tokens, c.outcome, c.attempts, c.tool_calls, c.run)
            for c in calls
        ]
        assert sorted(shown) == [
            ("p", "m", 5, "ok", 1, 2, "r1"),
            ("p", "m-2026", 1, "ok", 1, 2, "r1"),
            ("q", "n", 0, "rate_limit", 4, 0, "r1"),
        ]
        assert calls[0].cost_usd == 0.5 and calls[0].latency_ms == 2.5
        assert spent == [(13, 0.5), (0, 0.0)]

    async def test_a_call_belongs_to_the_run_that_was_under_way(self, tmp_path: Path) -> None:
        async with self.opened(tmp_path) as store:
            journal = await store.open("s")
            await add(journal, reply(Usage(1)), ANN, reply(Usage(2)), BOB, reply(Usage(3)))
            await journal.close()
            journal = await store.open("s")  # another writer goes on with the same run
            await add(journal, reply(Usage(4)))
            await journal.close()
            calls = await store.calls(session="s")
        owners = {call.input_tokens: (call.run, call.caller) for call in calls}
        assert owners == {
            1: (None, None),
            2: ("r1", "acme/ann"),
            3: ("r2", "bob"),
            4: ("r2", "bob"),
        }

    async def test_what_is_not_stored_is_not_on_the_books(self, tmp_path: Path) -> None:
        async with self.opened(tmp_path) as store:
            journal = await store.open("s")
            journal.append(ANN)
            journal.append(reply(Usage(1)))
            assert await store.calls() == []
            await journal.close()
            assert len(await store.calls()) == 1

    async def test_a_fork_pays_only_for_what_it_adds(self, tmp_path: Path) -> None:
        async with self.opened(tmp_path) as store:
            journal = await store.open("a")
            await add(journal, ANN, reply(Usage(1)))
            await store.fork("a", "b", await store.read("a"), None)
            assert len(await store.calls()) == 1
            fork = await store.open("b")
            await add(fork, reply(Usage(2)))
            calls = await store.calls(session="b")
            assert [(c.input_tokens, c.run, c.tenant) for c in calls] == [(2, "r1", "acme")]
            await fork.close()
            await journal.close()

    async def test_the_books_outlive_the_session(self, tmp_path: Path) -> None:
        async with self.opened(tmp_path) as store:
            for name in ("deleted", "pruned"):
                journal = await store.open(name)
                await add(journal, ANN, reply(Usage(1), cost_usd=0.5))
                await journal.close()
            before = await store.calls()
            assert await store.delete("deleted")
            assert await store.prune(float("inf")) == ["pruned"]
            assert await store.calls() == before and len(before) == 2
            journal = await store.open("deleted")  # the name is used again
            await add(journal, BOB, reply(Usage(2)))
            await journal.close()
            assert [c.run for c in await store.calls(session="deleted")] == ["r1", "r2"]

    async def test_calls_without_a_journal(self, tmp_path: Path) -> None:
        first = ModelCall(at=10.0, provider="p", model="m", input_tokens=3, tenant="acme")
        later = ModelCall(
            at=20.0,
            provider="p",
            model="n",
            outcome="timeout",
            caller="bob",
            attempts=2,
            gpu_ms=1.5,
            cost_usd=0.125,
            door="llm_call",
        )
        async with self.opened(tmp_path) as store:
            await store.record_calls([later, first])
            await store.record_calls([])
            assert await store.calls() == [first, later]

    async def test_calls_are_chosen_by_time_and_by_name(self, tmp_path: Path) -> None:
        calls = [
            ModelCall(at=float(at), provider=provider, model=model, tenant=tenant)
            for at, (provider, model, tenant) in enumerate(
                [("p", "m", None), ("p", "n", "acme"), ("q", "m", "acme"), ("p", "m", "acme")]
            )
        ]
        async with self.opened(tmp_path) as store:
            await store.record_calls(calls)
            assert await store.calls(since=1, until=3.0) == calls[1:3]
            assert await store.calls(model="m", tenant="acme") == calls[2:]
            assert await store.calls(provider="p", since=3) == calls[3:]
            assert await store.calls(tenant=None, until=1) == calls[:1]
            assert await store.calls(tenant="nobody") == []
            with pytest.raises(ConfigError, match="tenant"):
                await store.calls(tenants="acme")  # pyright: ignore[reportCallIssue]
            with pytest.raises(ConfigError, match="since is a time"):
                await store.calls(since="yesterday")  # pyright: ignore[reportArgumentType]

    async def test_half_a_character_is_refused_before_it_is_on_the_books(
        self, tmp_path: Path
    ) -> None:
        async with self.opened(tmp_path) as store:
            with pytest.raises(StoreError, match="cannot be written"):
                await store.record_calls([ModelCall(at=0.0, provider="p", model="\ud800")])
            assert await store.calls() == []

    async def test_who_counts_without_end_stops_nobody(self, tmp_path: Path) -> None:
        async with self.opened(tmp_path) as store:
            journal = await store.open("s")
            await add(journal, ANN, reply(Usage(2**63, 2**64 - 1, 2**63)))
            assert len(await store.calls()) == 1
            await journal.close()

    async def test_reserved_calls_count_until_they_are_replaced(self, tmp_path: Path) -> None:
        limit = SpendingLimit(since=5.0, tokens=100)
        old = ModelCall(at=1.0, provider="p", model="m", input_tokens=90)
        async with self.opened(tmp_path) as store:
            await store.record_calls([old])  # of an earlier period
            first = await store.reserve_call(reserved_call(60), limit)
            assert first.place is not None and first.tokens == 0
            assert [call.outcome for call in await store.calls()] == ["ok", "reserved"]
            refused = await store.reserve_call(reserved_call(50), limit)
            assert refused == (None, 60, 0.0)
            # a further request of the same call has the room of the one before
            again = await store.reserve_call(reserved_call(90), limit, first.place)
            assert again.place is not None and again.tokens == 0
            assert (await store.reserve_call(reserved_call(20), limit)).place is None
            assert (await store.reserve_call(reserved_call(101), limit, again.place)).place is None
            assert (await store.reserve_call(reserved_call(11), limit)).tokens == 90  # he keeps it
            made = ModelCall(at=11.0, provider="p", model="m", input_tokens=30)
            await store.record_calls([made], [again.place])
            await store.record_calls([], [again.place, first.place])  # gone already
            assert await store.calls() == [old, made]
            assert (await store.reserve_call(reserved_call(70), limit)).place is not None
            assert await store.spent(5.0) == (30, 0.0)  # what is reserved is not spent yet

    async def test_reserved_calls_count_in_dollars(self, tmp_path: Path) -> None:
        limit = SpendingLimit(since=0.0, usd=0.3)
        async with self.opened(tmp_path) as store:
            for _ in range(3):
                assert (await store.reserve_call(reserved_call(1, 0.1), limit)).place is not None
            refused = await store.reserve_call(reserved_call(1, 0.1), limit)
            assert refused.place is None and round(refused.usd, 9) == 0.3
            assert (await store.reserve_call(reserved_call(1, 0.1), None)).place is not None

    async def test_reserved_calls_of_a_session_are_released(self, tmp_path: Path) -> None:
        async with self.opened(tmp_path) as store:
            for session in ("s", "s", "t"):
                call = msgspec.structs.replace(reserved_call(10), session=session)
                await store.reserve_call(call, None)
            await store.record_calls([ModelCall(at=1.0, provider="p", model="m", session="s")])
            await store.release_calls("s")
            assert {(c.session, c.outcome) for c in await store.calls()} == {
                ("s", "ok"),
                ("t", "reserved"),
            }
            await store.release_calls("nobody")

    async def test_of_calls_at_once_as_many_are_reserved_as_fit(self, tmp_path: Path) -> None:
        limit = SpendingLimit(since=0.0, tokens=100)
        async with self.opened(tmp_path) as store:
            answers = await asyncio.gather(
                *[store.reserve_call(reserved_call(30), limit) for _ in range(12)]
            )
            assert sum(answer.place is not None for answer in answers) == 3
            assert [call.input_tokens for call in await store.calls()] == [30, 30, 30]


def reserved_call(tokens: int, usd: float = 0.0) -> ModelCall:
    """Build a call that is reserved."""
    return ModelCall(
        at=10.0, provider="p", model="m", input_tokens=tokens, cost_usd=usd, outcome="reserved"
    )
