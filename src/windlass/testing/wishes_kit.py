"""Tests of wishes, and of sessions and mail in the transaction of a body, for every store."""

from __future__ import annotations

from contextlib import AbstractAsyncContextManager
from pathlib import Path

import pytest

from windlass.errors import NoSuchSession
from windlass.store.base import InboxKind, Store
from windlass.store.body_sessions import create_session, post_item
from windlass.store.wishes import (
    Transaction,
    Wish,
    begin_drive,
    clear_wish,
    due_wishes,
    end_request,
    find_key,
    next_due,
    park_wish,
    postpone_wish,
    raise_wish,
    read_wish,
)


async def _read(store: Store, session: str) -> Wish:
    found = await store.consult(lambda tx: read_wish(tx, session))
    assert found is not None
    return found


class WishesKit:
    """A base for test classes of stores."""

    def opened(self, folder: Path) -> AbstractAsyncContextManager[Store]:
        """Open a store that is closed at the end."""
        raise NotImplementedError

    async def test_wish_comes_with_its_session_or_not_at_all(self, tmp_path: Path) -> None:
        async with self.opened(tmp_path) as store:

            def submit(tx: Transaction, fails: bool = False) -> int:
                assert create_session(tx, "s", metadata={"team": "blue"})
                number = raise_wish(tx, "s", agent="a@1", due=5.0, request={"prompt": "go"})
                if fails:
                    raise ValueError("late")
                return number

            with pytest.raises(ValueError, match="late"):
                await store.commit(lambda tx: submit(tx, True))
            with pytest.raises(NoSuchSession):
                await store.info("s")
            assert await store.consult(lambda tx: read_wish(tx, "s")) is None
            assert await store.commit(submit) == 1
            wish = await _read(store, "s")
            assert (wish.agent, wish.queue, wish.due) == ("a@1", "a@1", 5.0)
            assert wish.requests == ({"prompt": "go"},)
            info = await store.info("s")
            assert info.metadata == {"team": "blue"} and info.state == "new" and not info.alive
            assert await store.verify("s") == 1
            assert not await store.commit(lambda tx: create_session(tx, "s"))
            journal = await store.open("s")
            assert len(journal.entries) == 1
            await journal.close()

    async def test_session_of_a_body_has_the_lineage_of_its_parent(self, tmp_path: Path) -> None:
        async with self.opened(tmp_path) as store:
            for name, above in (("top", None), ("top.a", "top")):
                journal = await store.open(name, parent_id=above)
                await journal.close()
            await store.commit(lambda tx: create_session(tx, "top.a.b", parent_id="top.a"))
            info, opened = await store.info("top.a.b"), (await store.read("top.a.b"))[0]
            assert (info.parent_id, info.root_id) == ("top.a", "top")
            assert (opened.parent_id, opened.root_id) == ("top.a", "top")  # type: ignore[union-attr]
            assert (await store.info("top.a")).child_ids == ("top.a.b",)
            assert await store.verify("top.a.b") == 1

    async def test_held_session_does_not_use_up_the_tries(self, tmp_path: Path) -> None:
        async with self.opened(tmp_path) as store:
            await store.commit(lambda tx: raise_wish(tx, "s", agent="a", due=1.0))
            wish = await _read(store, "s")
            assert await store.commit(lambda tx: begin_drive(tx, wish, "h/1/w", 4))
            await store.commit(lambda tx: postpone_wish(tx, "s", 1, 5.0, "held", tries=3))
            assert (await _read(store, "s")).tries == 3
            await store.commit(lambda tx: postpone_wish(tx, "s", 1, 6.0, "again"))
            found = await _read(store, "s")
            assert (found.tries, found.due, found.error) == (3, 6.0, "again")

    async def test_wish_is_cleared_only_by_its_own_number(self, tmp_path: Path) -> None:
        async with self.opened(tmp_path) as store:
            await store.commit(lambda tx: raise_wish(tx, "s", agent="a", due=9.0, priority=2))
            await store.commit(lambda tx: raise_wish(tx, "s", due=7.0))
            assert not await store.commit(lambda tx: clear_wish(tx, "s", 1))
            wish = await _read(store, "s")
            assert (wish.number, wish.due, wish.priority, wish.is_wanted) == (2, 7.0, 2, True)
            assert await store.commit(lambda tx: clear_wish(tx, "s", 2))
            assert not (await _read(store, "s")).is_wanted
            # Raised again, it has a number that no earlier driver can clear.
            assert await store.commit(lambda tx: raise_wish(tx, "s", due=20.0)) == 3
            assert not await store.commit(lambda tx: clear_wish(tx, "s", 2))
            assert (await _read(store, "s")).due == 20.0

    async def test_wish_of_a_session_run_by_hand_is_not_raised(self, tmp_path: Path) -> None:
        async with self.opened(tmp_path) as store:
            await (await store.open("by-hand")).close()
            assert await store.commit(lambda tx: raise_wish(tx, "by-hand")) == 0
            assert await store.consult(lambda tx: due_wishes(tx, 1e12, 10)) == []

    async def test_due_wishes_come_by_priority_then_time(self, tmp_path: Path) -> None:
        async with self.opened(tmp_path) as store:

            def submit(tx: Transaction) -> None:
                raise_wish(tx, "late", agent="a", due=3.0)
                raise_wish(tx, "early", agent="a", due=1.0)
                raise_wish(tx, "urgent", agent="b", due=4.0, priority=5)
                raise_wish(tx, "tomorrow", agent="a", due=99.0)

            await store.commit(submit)

            async def names(limit: int, queues: list[str] | None = None) -> list[str]:
                found = await store.consult(lambda tx: due_wishes(tx, 4.0, limit, queues))
                return [wish.session for wish in found]

            assert await names(10) == ["urgent", "early", "late"]
            assert await names(1) == ["urgent"]
            assert await names(10, ["a"]) == ["early", "late"]
            assert await names(10, []) == []
            assert await store.consult(lambda tx: next_due(tx, 4.0)) == 99.0
            assert await store.consult(lambda tx: next_due(tx, 99.0)) is None

    async def test_requests_queue_up_and_keys_are_found_by_tenant(self, tmp_path: Path) -> None:
        async with self.opened(tmp_path) as store:
            for prompt in ("one", "two"):
                await store.commit(
                    lambda tx, prompt=prompt: raise_wish(
                        tx, "s", agent="a", key="k", tenant="t", request={"prompt": prompt}
                    )
                )
            wish = await store.consult(lambda tx: find_key(tx, "k", "t"))
            assert wish is not None
            assert [request["prompt"] for request in wish.requests] == ["one", "two"]
            assert await store.consult(lambda tx: find_key(tx, "k")) is None
            await store.commit(lambda tx: raise_wish(tx, "other", agent="a", key="k"))
            found = await store.consult(lambda tx: find_key(tx, "k"))
            assert found is not None and found.session == "other"

    @pytest.mark.parametrize(("kind", "wakes"), [("resume", True), ("steer", False)])
    async def test_mail_wakes_a_session_that_has_had_a_wish(
        self, tmp_path: Path, kind: InboxKind, wakes: bool
    ) -> None:
        async with self.opened(tmp_path) as store:
            for session in ("s", "by-hand"):
                await store.commit(lambda tx, session=session: create_session(tx, session))
            await store.commit(lambda tx: raise_wish(tx, "s", agent="a", request={"id": "r"}))
            assert await store.commit(lambda tx: park_wish(tx, "s", 1))
            for session in ("s", "by-hand"):
                await store.post(session, kind, "go on")
            wish = await _read(store, "s")
            assert (wish.is_wanted, wish.number) == ((True, 2) if wakes else (False, 1))
            assert wish.requests == ({"id": "r"},)
            assert await store.consult(lambda tx: read_wish(tx, "by-hand")) is None
            # The same in the transaction of a body.
            await store.commit(lambda tx: post_item(tx, "s", kind))
            assert (await _read(store, "s")).number == (3 if wakes else 1)

    async def test_mail_wakes_those_who_wait_for_the_session(self, tmp_path: Path) -> None:
        async with self.opened(tmp_path) as store:
            parents = {"s": None, "s.w1.2": "s", "s.w1.2.c": "s.w1.2", "worker": "s", "s2": "s"}
            for session, parent in parents.items():
                await (await store.open(session, parent_id=parent)).close()
                await store.commit(lambda tx, one=session: raise_wish(tx, one, agent="a"))
                await store.commit(lambda tx, one=session: park_wish(tx, one, 1))

            async def list_wanted() -> set[str]:
                return {one for one in parents if (await _read(store, one)).is_wanted}

            # Neither a worker in the background nor a fork is what its parent waits for.
            await store.post("worker", "resume")
            await store.commit(lambda tx: post_item(tx, "s2", "resume"))
            assert await list_wanted() == {"worker", "s2"}
            await store.post("s.w1.2.c", "steer", "not a reason")
            assert await list_wanted() == {"worker", "s2"}
            await store.post("s.w1.2", "resume")
            assert await list_wanted() == {"worker", "s2", "s", "s.w1.2"}
            await store.commit(lambda tx: post_item(tx, "s.w1.2.c", "decision", {}))
            assert await list_wanted() == set(parents)

    async def test_drive_is_on_record_and_requests_end_one_by_one(self, tmp_path: Path) -> None:
        async with self.opened(tmp_path) as store:
            for name in ("one", "two"):
                await store.commit(
                    lambda tx, name=name: raise_wish(tx, "s", agent="a", request={"id": name})
                )
            wish = await _read(store, "s")
            assert await store.commit(lambda tx: begin_drive(tx, wish, "w1", 1))
            driven = await _read(store, "s")
            assert (driven.worker, driven.tries, driven.since is not None) == ("w1", 1, True)
            left = await store.commit(lambda tx: end_request(tx, "s", "one"))
            assert left is not None and left.requests == ({"id": "two"},)
            assert await store.commit(lambda tx: postpone_wish(tx, "s", 2, 1e12, "busy"))
            late = await _read(store, "s")
            assert (late.due, late.error, late.since) == (1e12, "busy", None)
            await store.commit(lambda tx: raise_wish(tx, "s"))
            assert not await store.commit(lambda tx: postpone_wish(tx, "s", 2, 1e12))
            assert not await store.commit(lambda tx: begin_drive(tx, wish, "w2", 1))

    async def test_wish_goes_with_its_session(self, tmp_path: Path) -> None:
        async with self.opened(tmp_path) as store:
            for session in ("a", "b"):
                await store.commit(lambda tx, session=session: create_session(tx, session))
                await store.commit(
                    lambda tx, session=session: raise_wish(tx, session, agent="x", due=1.0)
                )
            assert await store.delete("a")
            left = await store.consult(lambda tx: due_wishes(tx, 9e12, 10))
            assert [wish.session for wish in left] == ["b"]
            assert await store.prune(9e12) == ["b"]
            assert await store.consult(lambda tx: due_wishes(tx, 9e12, 10)) == []

    async def test_mail_of_a_body_arrives_with_its_commit(self, tmp_path: Path) -> None:
        async with self.opened(tmp_path) as store:
            journal = await store.open("s")

            def post(tx: Transaction, fails: bool = False) -> str:
                posted = post_item(tx, "s", "resume", {"why": "due"})
                raise_wish(tx, "s", agent="a")
                if fails:
                    raise ValueError("late")
                return posted

            with pytest.raises(ValueError, match="late"):
                await store.commit(lambda tx: post(tx, True))
            assert await store.inbox("s") == []
            posted = await store.commit(post)
            found = await store.inbox("s")
            assert [(item.id, item.kind, item.payload) for item in found] == [
                (posted, "resume", {"why": "due"})
            ]
            with pytest.raises(NoSuchSession, match="nobody"):
                await store.commit(lambda tx: post_item(tx, "nobody", "resume"))
            await journal.close()
            again = await store.open("s")
            assert [item.id for item in again.mail] == [posted]
            await again.close()
