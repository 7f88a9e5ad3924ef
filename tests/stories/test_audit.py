"""What did this agent do, and is the record of it whole: one query, one verification."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

import windlass as w
from windlass.audit.anchors import FileAnchor
from windlass.testing import no_model_requests, scripted

from .helpers import add, note

ANN = w.Caller("ann", ("clerk",), "acme")


class Order(w.Resource):
    """What somebody bought."""

    id: str
    item: str = ""


@pytest.fixture(autouse=True)
def offline() -> Iterator[None]:
    with no_model_requests():
        yield


def call(number: int, tool: str, **arguments: Any) -> w.ToolCall:
    return w.ToolCall(f"c{number}", tool, arguments)


def shop(folder: Path, **options: Any) -> w.Runtime:
    options.setdefault("store", f"sqlite:///{folder}/shop.db")
    options.setdefault("audit_anchor", folder / "anchor.jsonl")
    return w.Runtime(environ={}, resources=[Order], **options)


async def work(scope: w.Runtime, session: str, caller: w.Caller = ANN, **options: Any) -> None:
    model = scripted(
        [call(1, "create_order", id=f"{session}-o", item="pen"), call(2, "add", a=1, b=2)],
        call(3, "note", text="done"),
        "all done",
    )
    out = await w.agent_loop(
        "go",
        model=model,
        tools=[*scope.tools(), add, note],
        session_id=session,
        caller=caller,
        **options,
    )
    assert out.status == "done", out


def seals_in(folder: Path) -> list[w.Seal]:
    return list(FileAnchor(folder / "anchor.jsonl").get().seals)


async def test_what_an_agent_did_is_one_query(tmp_path):
    async with shop(tmp_path) as scope:
        await work(scope, "s1", request_id="r1", conversation_id="k1")
        await scope.resources[Order].create(id="by-hand", item="cup", caller=ANN)
        page = await scope.audit.query(tenant="acme")
    assert [one.tool for one in page.entries] == [
        "create_order",
        "note",
        "create_order",
        "add",
    ] or [one.tool for one in page.entries] == ["create_order", "note", "add", "create_order"]
    by_hand, noted = page.entries[:2]
    assert by_hand.session is None and by_hand.changes[0]["diff"]["item"] == [None, "cup"]
    assert (noted.caller, noted.roles, noted.tenant) == ("ann", ("clerk",), "acme")
    assert (noted.session, noted.request, noted.conversation) == ("s1", "r1", "k1")
    assert noted.action == "allow" and noted.rule and noted.digest and noted.outcome == "ok"
    made = next(one for one in page.entries if one.call == "c1")
    assert (made.resource, made.verb, made.row) == ("order", "create", "s1-o")
    assert made.rule and made.digest and made.changes[0]["diff"]["item"] == [None, "pen"]
    assert page.cursor is None


@pytest.mark.parametrize(
    ("which", "calls"),
    [
        ({"tenant": "acme"}, 4),
        ({"tenant": "evil"}, 3),
        ({"tenant": None}, 0),
        ({"caller": "ann"}, 4),
        ({"caller": "acme/ann"}, 4),
        ({"caller": "a_n"}, 0),
        ({"request": "r1"}, 3),
        ({"conversation": "k1"}, 3),
        ({"session": "s1"}, 3),
        ({"session": "s9"}, 0),
        ({"tool": "note"}, 2),
        ({"resource": "order"}, 3),
        ({"since": 0}, 7),
        ({"until": 1.0}, 0),
        ({"session": "s1' OR 1 = 1 --"}, 0),
    ],
)
@pytest.mark.parametrize("place", ["sqlite", "memory"])
async def test_the_log_can_be_asked_by_everything(tmp_path, place, which, calls):
    places = {"memory": {"store": "memory:", "audit_anchor": None}, "sqlite": {}}
    async with shop(tmp_path, **places[place]) as scope:
        await work(scope, "s1", request_id="r1", conversation_id="k1")
        await work(scope, "s2", w.Caller("eve", (), "evil"))
        await scope.resources[Order].create(id="by-hand", item="cup", caller=ANN)
        assert len((await scope.audit.query(**which)).entries) == calls


async def test_pages_hold_every_call_once(tmp_path):
    async with shop(tmp_path) as scope:
        for number in range(4):
            await work(scope, f"s{number}")
            await scope.resources[Order].create(id=f"h{number}", item="cup", caller=ANN)
        whole = (await w.audit_query()).entries
        seen: list[w.AuditEntry] = []
        cursor: dict[str, Any] = {}
        while True:
            page = await w.audit_query(limit=3, **cursor)
            seen += page.entries
            assert len(page.entries) <= 3
            if page.cursor is None:
                break
            cursor = {"cursor": page.cursor}
    assert seen == list(whole) and len(seen) == 16


async def test_a_fork_is_not_charged_with_what_its_parent_did(tmp_path):
    async with shop(tmp_path) as scope:
        await work(scope, "s1")
        await w.agent_session_fork("s1", "s2")
        assert {one.session for one in (await scope.audit.query()).entries} == {"s1"}
        assert (await scope.audit.verify()).ok


@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        ({"sesion": "s"}, "did you mean 'session'"),
        ({"limit": 0}, "above 0"),
        ({"since": "now"}, "seconds"),
        ({"cursor": "?"}, "no cursor"),
        ({"tool": 7}, "text"),
    ],
)
async def test_a_wrong_filter_is_refused(tmp_path, wrong, words):
    async with shop(tmp_path) as scope:
        with pytest.raises(w.ConfigError, match=words):
            await scope.audit.query(**wrong)


# --------------------------------------------------------------------------- seals


async def test_a_run_that_has_ended_is_sealed_and_anchored(tmp_path):
    async with shop(tmp_path) as scope:
        await work(scope, "s1")
        (seal,) = seals_in(tmp_path)
        assert seal.tenant == "acme" and seal.number == 1 and seal.sound
        head = await scope.store.head("s1")
        ends = {(end.kind, end.name): end for end in seal.ends}
        assert ends["journal", "s1"].hash == head.hash.hex()
        assert ends["audit", "session:s1"].rows == 1
        report = await scope.audit.verify()
    assert report.ok and not report.not_covered, report
    assert (report.sessions, report.seals, report.anchored) == (1, 1, 1)


async def test_what_a_host_did_is_sealed_when_it_closes(tmp_path):
    async with shop(tmp_path) as scope:
        await scope.resources[Order].create(id="o", item="cup", caller=ANN)
    (seal,) = seals_in(tmp_path)
    assert [end.kind for end in seal.ends] == ["audit"]
    async with shop(tmp_path) as scope:
        report = await scope.audit.verify()
        assert report.ok and report.chains == 1 and not report.not_covered


async def test_without_an_anchor_nothing_is_sealed_until_somebody_asks(tmp_path):
    async with shop(tmp_path, audit_anchor=None) as scope:
        await work(scope, "s1")
        report = await scope.audit.verify()
        assert report.ok and report.seals == 0
        assert any("no anchor" in line for line in report.not_covered)
        assert any("nothing was ever sealed" in line for line in report.not_covered)
        assert len(await w.audit_seal()) == 1 and await w.audit_seal() == []
        report = await w.audit_verify()
        assert report.ok and report.seals == 1 and len(report.not_covered) == 1


async def test_a_tenant_is_sealed_apart(tmp_path):
    async with shop(tmp_path) as scope:
        await work(scope, "s1")
        await work(scope, "s2", w.Caller("eve", (), "evil"))
        await work(scope, "s3")
        report = await scope.audit.verify(tenant="evil")
        assert report.ok and report.sessions == report.seals == report.chains == 1
        assert (await scope.audit.verify(session="s3")).sessions == 1
    assert [(one.tenant, one.number) for one in seals_in(tmp_path)] == [
        ("acme", 1),
        ("evil", 1),
        ("acme", 2),
    ]


async def test_runs_that_end_together_share_seals(tmp_path):
    async with shop(tmp_path) as scope:
        await asyncio.gather(*(work(scope, f"s{number}") for number in range(20)))
        report = await scope.audit.verify()
    assert report.ok and report.sessions == 20 and not report.not_covered
    assert report.seals <= 20


async def test_a_long_run_is_sealed_while_it_lasts(tmp_path, monkeypatch):
    (tmp_path / "windlass.toml").write_text("[audit]\nevery = 0.001\n")
    sealed = asyncio.Event()
    seen: list[w.Seal] = []

    def keep(seal: w.Seal) -> None:
        seen.append(seal)
        loop.call_soon_threadsafe(sealed.set)

    loop = asyncio.get_running_loop()

    @w.tool
    async def wait() -> str:
        """Until a seal was made."""
        await asyncio.wait_for(sealed.wait(), 10)
        return "sealed"

    config = tmp_path / "windlass.toml"
    async with shop(tmp_path, audit_anchor=keep, config=config) as scope:
        model = scripted(call(1, "wait"), "ok")
        out = await w.agent_loop("go", model=model, tools=[wait], session_id="s1")
        assert out.status == "done" and "sealed" in out.tool_calls[0].result
        assert len(seen) >= 2 and [one.number for one in seen] == list(range(1, len(seen) + 1))
        assert (await scope.audit.verify()).ok


# --------------------------------------------------------------------------- anchors


async def test_an_anchor_may_be_a_callable_or_an_object(tmp_path):
    class Shelf:
        def __init__(self) -> None:
            self.kept: list[w.Seal] = []

        async def put(self, seal: w.Seal) -> None:
            self.kept.append(seal)

        async def get(self) -> list[w.Seal]:
            return self.kept

    shelf, sent = Shelf(), list[w.Seal]()
    async with shop(tmp_path, audit_anchor=shelf) as scope:
        await work(scope, "s1")
        report = await scope.audit.verify()
        assert report.ok and report.anchored == 1 and not report.not_covered
    async with shop(tmp_path, audit_anchor=sent.append) as scope:
        await work(scope, "s2")
        report = await scope.audit.verify()
        assert report.ok and report.anchored is None and "no anchor" in report.not_covered[0]
        assert (await scope.audit.verify(anchor=shelf)).not_covered  # the second waits for it
        with pytest.raises(w.ConfigError, match="cannot be asked"):
            await scope.audit.verify(anchor=sent.append)
    assert [one.number for one in sent] == [1, 2] or [one.number for one in sent] == [2]


async def test_an_anchor_that_fails_loses_no_run_and_is_tried_again(tmp_path, caplog):
    kept: list[w.Seal] = []
    broken = True

    def put(seal: w.Seal) -> None:
        if broken:
            raise OSError("no network")
        kept.append(seal)

    with caplog.at_level(logging.WARNING, "windlass.audit"):
        async with shop(tmp_path, audit_anchor=put) as scope:
            await work(scope, "s1")
            assert "no network" in caplog.text and not kept
            broken = False
            await work(scope, "s2")
            assert [one.number for one in kept] == [1, 2]


async def test_what_an_earlier_process_could_not_anchor_is_anchored_by_the_next(tmp_path):
    folder = tmp_path / "not there yet"
    async with shop(tmp_path, audit_anchor=folder / "anchor.jsonl") as scope:
        await work(scope, "s1")
    folder.mkdir()
    async with shop(tmp_path, audit_anchor=folder / "anchor.jsonl") as scope:
        await work(scope, "s2")
        report = await scope.audit.verify()
        assert report.ok and report.anchored == 2 and not report.not_covered


async def test_a_write_that_was_cut_off_is_made_good(tmp_path):
    file = tmp_path / "anchor.jsonl"
    async with shop(tmp_path) as scope:
        await work(scope, "s1")
    whole = file.read_bytes()
    file.write_bytes(whole[:40])
    FileAnchor(file).put(msgspec.json.decode(whole, type=w.Seal))
    async with shop(tmp_path) as scope:
        assert (await scope.audit.verify()).ok
        file.write_bytes(file.read_bytes() + b'{"not": "a seal"}\n')
        (finding,) = (await scope.audit.verify()).findings
        assert finding.what == "anchor" and "line 3" in finding.problem


@pytest.mark.parametrize(("wrong", "words"), [(7, "a path, a callable"), ("", "no path")])
def test_an_anchor_of_a_wrong_kind_is_refused(wrong, words):
    with pytest.raises(w.ConfigError, match=words):
        w.Runtime(environ={}, audit_anchor=wrong)


async def test_a_file_outlives_a_store_in_memory(tmp_path):
    async with shop(tmp_path, store="memory:") as scope:
        with pytest.raises(w.ConfigError, match="name a store that lasts"):
            await work(scope, "s1")


async def test_a_store_in_memory_can_be_sealed(tmp_path):
    kept: list[w.Seal] = []
    async with shop(tmp_path, store="memory:", audit_anchor=kept.append) as scope:
        await work(scope, "s1")
        await w.agent_loop("hi", model=scripted("unnamed"))
        assert [end.name for end in kept[0].ends] == ["session:s1", "s1"] and len(kept) == 1
        assert (await scope.audit.verify()).ok


async def test_the_anchor_is_configured_in_the_file(tmp_path):
    (tmp_path / "windlass.toml").write_text('[audit]\nanchor = "kept/seals.jsonl"\n')
    (tmp_path / "kept").mkdir()
    config = tmp_path / "windlass.toml"
    async with shop(tmp_path, audit_anchor=None, config=config) as scope:
        await work(scope, "s1")
    assert len(FileAnchor(tmp_path / "kept" / "seals.jsonl").get().seals) == 1


# --------------------------------------------------------------------------- deletions


@pytest.mark.parametrize("again", [False, True])
async def test_who_deletes_by_the_rules_leaves_a_mark(tmp_path, again):
    async with shop(tmp_path) as scope:
        await work(scope, "s1")
        await work(scope, "s2")
        await scope.store.delete("s1")
        report = await scope.audit.verify()
        assert report.ok and [one.name for one in report.deleted] == ["s1"]
        if again:
            await w.agent_loop("hi", model=scripted("anew"), session_id="s1", caller=ANN)
        else:
            await work(scope, "s3")
        report = await scope.audit.verify()
        assert report.ok and [one.name for one in report.deleted] == ["s1"], report
        assert any(end.kind == "deleted" for seal in seals_in(tmp_path) for end in seal.ends)
        entries = (await scope.audit.query(session="s1")).entries
        assert [one.tool for one in entries] == ["create_order"]  # which the log still knows


async def test_what_was_undone_is_told_too(tmp_path):
    said: list[str] = []

    async def take_back(arguments: dict[str, Any], result: w.ToolResult, ctx: Any) -> str:
        said.append(arguments["to"])
        return "taken back"

    @w.tool(undo=take_back)
    async def pay(to: str) -> str:
        """Send money."""
        return "paid"

    async with shop(tmp_path) as scope:
        made = [call(1, "create_order", id="o1", item="pen"), call(2, "pay", to="bob")]
        tools = [*scope.tools(), pay]
        await w.agent_loop(
            "go", model=scripted(made, "ok"), tools=tools, session_id="s1", caller=ANN
        )
        await w.undo("s1", tools=tools, name="boss")
        found = {(one.call, one.verb): one for one in (await scope.audit.query()).entries}
        assert set(found) == {("c1", "create"), ("c1", "undo"), ("c2", None), ("c2", "undo")}
        assert found["c1", "undo"].changes[0]["diff"]["item"] == ["pen", None]
        assert found["c2", "undo"].caller == "boss" and found["c2", "undo"].outcome == "ok"
        assert said == ["bob"] and (await scope.audit.verify()).ok


async def test_what_generate_did_is_found_by_request_and_conversation(tmp_path):
    async with shop(tmp_path) as scope:
        await scope.conversations[w.ConversationResource].create(id="k1", caller=ANN)
        model = scripted(call(1, "create_order", id="o1"), "done")
        await scope.models.generate(
            "go", model=model, caller=ANN, conversation="k1", request_id="r1"
        )
        (by_request,) = (await scope.audit.query(request="r1", tool="create_order")).entries
        (by_conversation,) = (await scope.audit.query(conversation="k1", resource="order")).entries
        assert by_request == by_conversation and by_request.row == "o1"
        assert (await scope.audit.verify()).ok
