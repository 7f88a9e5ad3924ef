"""Sessions of workflows: usage, fork, archive, open again, persist and restore."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import windlass as w
from windlass.testing import scripted

FLOW = {
    "name": "notes",
    "nodes": {"plan": {"mode": "llm"}, "write": {"mode": "llm"}},
    "edges": [{"from": "plan", "to": "write"}],
}


def check_file(path: Path) -> None:
    assert path.stat().st_mode & 0o777 == 0o600
    assert json.loads(path.read_bytes())["session"]["usage"]["call_count"] == 2


def spoil(path: Path, content: bytes) -> None:
    path.write_bytes(content)


async def test_session_of_a_result_has_its_usage():
    result = await w.task_run("Write a note", FLOW, {"model": scripted("a plan", "a note")})
    session = w.workflow_session(result)
    usage = session.usage
    assert (usage.input_tokens, usage.output_tokens, usage.call_count) == (20, 10, 2)
    assert usage.total_duration_ms >= 0 and session.run.status == "done"
    alone = w.workflow_session(await w.Agent(scripted("hi")).run("hello"))
    assert (alone.usage.call_count, alone.usage.input_tokens) == (1, 10)
    with pytest.raises(w.ConfigError, match="takes a result"):
        w.workflow_session({})  # pyright: ignore[reportArgumentType]


async def test_archived_session_takes_no_workflow_until_it_is_resumed():
    result = await w.task_run("Write", FLOW, model=scripted("1", "2"), session_id="s")
    session = w.workflow_session(result)
    forked = await w.workflow_session_fork(session, "s2")
    assert (forked.id, forked.parent_id) == ("s2", "s")
    archived = await w.workflow_session_archive(forked)
    assert archived.is_archived and archived.status == "archived"
    kinds = [event["kind"] for event in w.transcript_events(archived.transcript)]
    assert kinds.count("transcript_archive") == 1
    with pytest.raises(w.ConfigError, match="is archived"):
        await w.task_run("More", FLOW, model=scripted(), session_id="s2")
    resumed = await w.workflow_session_resume(archived)
    assert resumed.status == "done"
    kinds = [event["kind"] for event in w.transcript_events(resumed.transcript)]
    assert kinds[-1] == "transcript_resume"
    again = await w.task_run("More", FLOW, model=scripted("3", "4"), session_id="s2")
    assert again.output == "4" and len(again.steps) == 2
    assert await w.workflow_session_resume(session) == session
    with pytest.raises(w.ConfigError, match="takes what workflow_session returns"):
        await w.workflow_session_fork("s")  # pyright: ignore[reportArgumentType]


async def test_session_is_written_to_a_file_and_restored_in_another_store(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.chdir(tmp_path)
    result = await w.task_run("Write", FLOW, model=scripted("1", "a note"), session_id="s")
    persisted = await w.workflow_session_persist(result)
    assert persisted.run.persisted_path == str(Path(".windlass-runs") / "s.json")
    path = Path(persisted.run.persisted_path)
    check_file(path)
    async with w.Runtime():
        restored = await w.workflow_session_restore(path)
        assert restored.usage == persisted.usage and restored.run.name == "notes"
        known = await w.sessions.agent_session_read("s")
        assert known.messages[-1].text == "a note"
        forked = await w.workflow_session_fork(restored)
        assert forked.transcript["messages"] == restored.transcript["messages"]
        same = await w.workflow_session_restore(path)
        assert same.id == "s"
    for content in (b"{}", b"[1]", b'{"format": 1, "session": {"id": 3}}', b"\xff"):
        spoil(path, content)
        with pytest.raises(w.ConfigError, match="no session of a workflow"):
            await w.workflow_session_restore(path)
    with pytest.raises(w.ConfigError, match="cannot be read"):
        await w.workflow_session_restore(tmp_path / "none.json")
