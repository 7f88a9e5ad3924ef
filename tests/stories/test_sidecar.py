"""The file beside a run, and a session made from it."""

from __future__ import annotations

import json
import os
import stat
from pathlib import Path
from typing import Any

import pytest

import windlass as w
from tests.stories.helpers import add, kept, note
from windlass.testing import call, scripted

seed = w.agent_session_seed_from_jsonl


def lines(folder: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (folder / "llm_transcript.jsonl").read_text().splitlines()]


async def recorded(folder: Path, *replies: Any, **options: Any) -> Any:
    """A run with a sidecar."""
    replies = replies or ([w.Text("I add."), call("add", a=1, b=2), call("note", text="x")], "3")
    model = scripted(*replies, provider="acme", name="one")
    options.setdefault("tools", [add, note])
    out = await w.agent_loop(
        "What is 1 + 2?", "Be brief.", model=model, llm_transcript_dir=str(folder), **options
    )
    await kept(out, model)
    return out


# --------------------------------------------------------------------------- the file


async def test_the_sidecar_says_what_the_model_saw_and_said(tmp_path: Path):
    folder = tmp_path / "runs" / "one"
    out = await recorded(folder)
    written = lines(folder)
    assert {line["session_id"] for line in written} == {out.session_id}
    run, frame = written[0], next(line for line in written if line["type"] == "frame")
    assert (run["type"], run["provider"], run["model"]) == ("run", "acme", "one")
    assert frame["system"] == "Be brief."
    assert frame["tools"] == ["add", "note", "agent_await_resumption"]
    messages = [line["message"] for line in written if line["type"] == "message"]
    assert [message["role"] for message in messages] == ["user", "assistant", "tool", "assistant"]
    replies = [line for line in written if line["type"] == "response"]
    assert [reply["iteration"] for reply in replies] == [1, 2]
    assert replies[0]["stop_reason"] and replies[0]["usage"]["input_tokens"] == 10
    path = folder / "llm_transcript.jsonl"
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


async def test_without_the_option_there_is_no_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.chdir(tmp_path)
    await w.agent_loop("go", model=scripted("x"), llm_transcript_dir=None)
    assert os.listdir(tmp_path) == []


async def test_the_environment_may_say_where(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("WINDLASS_LLM_TRANSCRIPT_DIR", str(tmp_path / "a"))
    async with w.Runtime():  # it looks at the environment once
        await w.Agent(scripted("x")).run("go")
        assert len(lines(tmp_path / "a")) > 2
        await w.agent_loop("go", model=scripted("x"), llm_transcript_dir=str(tmp_path / "b"))
        assert len({line["session_id"] for line in lines(tmp_path / "a")}) == 1
        before = len(lines(tmp_path / "a"))
        await w.agent_loop("go", model=scripted("x"), llm_transcript_dir=None)
        assert len(lines(tmp_path / "a")) == before  # None is a word too


async def test_secrets_do_not_get_there(tmp_path: Path):
    async with w.Runtime(store="memory:", environ={}, secrets=("hunter22",)):
        model = scripted(call("note", text="hunter22"), "it is hunter22")
        agent = w.Agent(model, tools=[note], llm_transcript_dir=str(tmp_path))
        await agent.run("the password is hunter22")
    text = (tmp_path / "llm_transcript.jsonl").read_text()
    assert "hunter22" not in text and "the password is" in text


async def test_a_folder_that_cannot_be_is_refused_before_any_call(tmp_path: Path):
    (tmp_path / "file").write_text("x")
    model = scripted("never")
    for folder in (tmp_path / "file", tmp_path / "file" / "below"):
        with pytest.raises(w.ConfigError, match="llm_transcript_dir"):
            await w.agent_loop("go", model=model, llm_transcript_dir=str(folder))
    for value in (3, "", "a\0b"):
        with pytest.raises(w.ConfigError, match="llm_transcript_dir"):
            await w.agent_loop("go", model=model, llm_transcript_dir=value)
    assert not model.requests


async def test_a_file_that_goes_away_harms_nobody(tmp_path: Path, caplog: pytest.LogCaptureFixture):
    folder = tmp_path / "runs"

    @w.tool
    async def wipe() -> str:
        """Remove the folder."""
        (folder / "llm_transcript.jsonl").unlink()
        folder.rmdir()
        return "gone"

    out = await w.agent_loop(
        "go", model=scripted(call("wipe"), "ok"), tools=[wipe], llm_transcript_dir=str(folder)
    )
    assert out.status == "done" and "the run goes on" in caplog.text


# --------------------------------------------------------------------------- a session from it


async def test_a_run_its_sidecar_and_a_session_with_the_same_history(tmp_path: Path):
    out = await recorded(tmp_path)
    session = await seed(tmp_path / "llm_transcript.jsonl")
    assert session.id != out.session_id
    assert session.messages == list(out.all_messages)
    assert session.metadata["seeded_from"] == {
        "file": "llm_transcript.jsonl",
        "provider": "acme",
        "model": "one",
    }
    model = scripted(call("add", a=3, b=4), "7")
    more = await w.agent_loop("And 3 + 4?", model=model, tools=[add], session_id=session.id)
    assert list(model.requests[0].messages)[:-1] == list(out.all_messages)
    assert more.status == "done"
    await kept(more, model)


async def test_calls_of_the_old_history_and_new_ones_are_told_apart(tmp_path: Path):
    await recorded(tmp_path, w.ToolCall("c1", "add", {"a": 1, "b": 2}), "3")
    session = await seed(tmp_path / "llm_transcript.jsonl")
    model = scripted(w.ToolCall("c1", "add", {"a": 5, "b": 6}), "11")
    out = await w.agent_loop("More.", model=model, tools=[add], session_id=session.id)
    assert (out.status, out.tool_calls[0].result) == ("done", "11")
    await kept(out, model)


async def test_a_history_that_was_changed_on_the_way_is_seeded_as_it_was_last_seen(tmp_path: Path):
    class Forget(w.Policy[None]):
        async def before_turn(self, run: w.Run) -> None:
            if len(run.messages) == 3:
                run.reshape((0, 3), (w.Message("user", "Short: 1 + 2 = 3."),), "test")

    out = await recorded(tmp_path, call("add", a=1, b=2), "3", policies=[Forget()])
    assert [m.text for m in out.all_messages] == ["Short: 1 + 2 = 3.", "3"]
    session = await seed(tmp_path / "llm_transcript.jsonl")
    assert session.messages == list(out.all_messages)


async def test_a_session_that_goes_on_is_whole_in_the_file(tmp_path: Path):
    first = await w.Agent(scripted("one")).run("a", session_id="s")
    assert first.status == "done"
    agent = w.Agent(scripted("two", "three"), llm_transcript_dir=str(tmp_path))
    await agent.run("b", session_id="s")
    out = await agent.run("c", session_id="s")
    session = await seed(tmp_path / "llm_transcript.jsonl")
    assert session.messages == list(out.all_messages) and len(session.messages) == 6


async def test_a_parked_run_and_its_resume_are_one_history(tmp_path: Path):
    model = scripted([w.Text("May I?"), call("note", text="x")], "ok")
    agent = w.Agent(
        model, tools=[note], consent=lambda asked: "ask", llm_transcript_dir=str(tmp_path)
    )
    out = await agent.run("go", session_id="s")
    path = tmp_path / "llm_transcript.jsonl"
    with pytest.raises(w.ConfigError, match="has no result"):
        await seed(path)
    mended = await seed(path, {"validate": False})
    assert mended.messages[-1].content[0].outcome == "interrupted"
    out = await agent.resume("s", decisions={out.pending[0].id: True})
    assert (await seed(path)).messages == list(out.all_messages)


async def test_one_file_may_hold_many_sessions(tmp_path: Path):
    one = await recorded(tmp_path)
    two = await recorded(tmp_path, "hi")
    path = tmp_path / "llm_transcript.jsonl"
    assert (await seed(path)).messages == list(two.all_messages)
    session = await seed(path, {"session_id": one.session_id, "new_id": "mine"})
    assert (session.id, session.messages) == ("mine", list(one.all_messages))
    with pytest.raises(w.ConfigError, match=one.session_id):
        await seed(path, {"session_id": "nope"})
    with pytest.raises(w.ConfigError, match="'mine' already"):
        await seed(path, {"new_id": "mine"})


async def test_provider_and_model_are_checked(tmp_path: Path):
    await recorded(tmp_path)
    path = tmp_path / "llm_transcript.jsonl"
    await seed(path, {"provider": "acme", "model": "one"})
    with pytest.raises(w.ConfigError, match="provider 'acme', not with 'openai'"):
        await seed(path, {"provider": "openai"})
    with pytest.raises(w.ConfigError, match="model 'one', not with 'two'"):
        await seed(path, {"model": "two"})


async def test_a_long_history_is_cut_between_rounds(tmp_path: Path):
    replies = [call("add", a=n, b=1) for n in range(3)]
    out = await recorded(tmp_path, *replies, "3")
    path = tmp_path / "llm_transcript.jsonl"
    await w.agent_loop(
        "And now?",
        model=scripted(call("add", a=1, b=1), "2"),
        tools=[add],
        session_id=out.session_id,
        llm_transcript_dir=str(tmp_path),
    )
    whole = (await seed(path)).messages
    assert len(whole) == 12
    for most in range(4, 13):
        kept_messages = (await seed(path, {"truncate_to_last": most})).messages
        assert kept_messages == whole[-len(kept_messages) :] and len(kept_messages) <= most
        assert kept_messages[0].role == "user"
    assert len((await seed(path, {"truncate_to_last": 100})).messages) == 12
    with pytest.raises(w.ConfigError, match="nothing"):
        await seed(path, {"truncate_to_last": 1})


async def test_calls_may_be_left_out(tmp_path: Path):
    await recorded(tmp_path)
    session = await seed(tmp_path / "llm_transcript.jsonl", {"drop_tool_calls": True})
    assert [(m.role, m.text) for m in session.messages] == [
        ("user", "What is 1 + 2?"),
        ("assistant", "I add."),
        ("assistant", "3"),
    ]
    model = scripted("ok")
    out = await w.agent_loop("go", model=model, session_id=session.id)
    await kept(out, model)


# --------------------------------------------------------------------------- files of others


def file(tmp_path: Path, *given: Any) -> Path:
    path = tmp_path / "other.jsonl"
    path.write_text(
        "".join((one if isinstance(one, str) else json.dumps(one)) + "\n" for one in given)
    )
    return path


USER = {"role": "user", "content": "hi"}


async def test_full_request_snapshots_are_understood(tmp_path: Path):
    path = file(
        tmp_path,
        {"type": "request", "provider": "p", "model": "m", "messages": [USER]},
        {"type": "response", "message": {"role": "assistant", "content": "ho"}},
        {
            "type": "provider_call_request",
            "provider": "p",
            "model": "m",
            "request": {"messages": [USER, {"role": "assistant", "content": "ho"}, USER]},
        },
        {"type": "provider_call_response", "message": {"role": "assistant", "content": "he"}},
        {"type": "response", "purpose": "judge", "message": {"role": "assistant", "content": "no"}},
    )
    session = await seed(path, {"provider": "p", "model": "m"})
    assert [m.text for m in session.messages] == ["hi", "ho", "hi", "he"]


async def test_replies_alone_are_taken_only_when_one_insists(tmp_path: Path):
    path = file(tmp_path, {"type": "response", "message": {"role": "assistant", "content": "ho"}})
    with pytest.raises(w.ConfigError, match="replies only.*validate=False"):
        await seed(path)
    session = await seed(path, {"validate": False})
    assert [m.text for m in session.messages] == ["ho"]


async def test_a_line_that_was_cut_off_by_a_crash_is_left_out(tmp_path: Path):
    path = file(tmp_path, {"type": "message", "message": USER})
    path.write_text(path.read_text() + '{"type": "mess')
    assert [m.text for m in (await seed(path)).messages] == ["hi"]


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ((), "is empty"),
        (("", " "), "is empty"),
        (("hello", "{}"), "line 1 is not JSON"),
        (("[1]",), "line 1 is no line of a transcript"),
        (('{"kind": "x"}',), "line 1"),
        (('{"type": 3}',), "line 1"),
        (({"type": "message"},), "line 1: this is no message"),
        (({"type": "message", "message": {"role": "king", "content": "x"}},), "line 1"),
        (({"type": "message", "message": [1]},), "line 1"),
        (({"type": "view", "messages": "all"},), "line 1: messages are a list"),
        (({"type": "frame"},), "holds no messages"),
        (
            (
                {
                    "type": "message",
                    "message": {
                        "role": "tool",
                        "content": [{"type": "tool_result", "id": "c", "content": "x"}],
                    },
                },
            ),
            "cannot be sent",
        ),
        (({"type": "message", "session_id": ["x"]},), "line 1: session_id is a text"),
        (({"type": "run", "provider": 3},), "line 1: provider is a text"),
        (({"type": "run", "model": 3},), "line 1: model is a text"),
        (('{"type": "request", "request": 3}',), "line 1: a request is a dict"),
        (({"type": "message", "message": {"role": "user", "content": []}},), "holds no messages"),
        (("[" * 100_000,), "is empty|JSON|transcript"),
        (({"type": "message", "message": USER}, "\udc80"), "line 2|JSON"),
    ],
    ids=range(19),
)
async def test_a_hostile_file_gives_a_clear_error(tmp_path: Path, given: Any, words: str):
    path = tmp_path / "other.jsonl"
    text = "".join((one if isinstance(one, str) else json.dumps(one)) + "\n" for one in given)
    path.write_bytes(text.encode("utf-8", "surrogateescape"))
    with pytest.raises(w.ConfigError, match=words) as caught:
        await seed(path)
    assert "\n" not in str(caught.value) and len(str(caught.value)) < 600
    assert not await w.agent_session_list()


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (3, "dict"),
        ({"providr": "x"}, "'provider'"),
        ({"truncate_to_last": 0}, "truncate_to_last"),
        ({"truncate_to_last": True}, "truncate_to_last"),
        ({"drop_tool_calls": 1}, "drop_tool_calls"),
        ({"validate": None}, "validate"),
        ({"provider": ""}, "provider"),
        ({3: 3}, "3"),
    ],
)
async def test_impossible_options_are_refused(tmp_path: Path, options: Any, words: str):
    path = file(tmp_path, {"type": "message", "message": USER})
    with pytest.raises(w.ConfigError, match=words):
        await seed(path, options)


async def test_a_file_that_is_not_there(tmp_path: Path):
    for path in (tmp_path / "no.jsonl", tmp_path, "a\0b"):
        with pytest.raises(w.ConfigError, match="cannot be read"):
            await seed(path)
