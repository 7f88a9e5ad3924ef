"""Session ids and tenants are plain names at every entry point; odd files are not read."""

from __future__ import annotations

import os

import pytest
from click.testing import CliRunner

import windlass as w
from windlass.cli.main import cli
from windlass.errors import ConfigError
from windlass.identifiers import CallIndex, check_identifier, child_session_id, to_title
from windlass.messages import ToolCall
from windlass.store import open_store
from windlass.testing import scripted

ODD = [
    "a b",
    "a\nb",
    "a\0b",
    "$(touch x)",
    "`x`",
    "a'b",
    'a"b',
    "a\\b",
    "../x",
    "a/../b",
    "a/..",
    "-x",
    ".x",
    "/etc",
    "a;b",
    "a|b",
    "a\u202eb",
    "a/",
    "x" * 1001,
    "",
    "a*b",
]
PLAIN = [
    "s",
    "review-7",
    "@acme/review",
    "parent.call_1",
    "a:b",
    "ann@example.org",
    "größe",
    "7",
    "_x",
]


@pytest.mark.parametrize("name", ODD)
async def test_an_odd_session_id_is_refused_everywhere(name, tmp_path):
    agent = w.Agent(scripted("ok"))
    with pytest.raises(ConfigError):
        await agent.run("hi", session_id=name or " ")
    for address in ("memory:", str(tmp_path / "a.db")):
        store = open_store(address)
        with pytest.raises(ConfigError, match="plain name"):
            await store.open(name)
        await (await store.open("s")).close()
        with pytest.raises(ConfigError, match="plain name"):
            await store.fork("s", name, [], None)
        assert [info.id for info in await store.sessions()] == ["s"]
        await store.aclose()
    if name:
        with pytest.raises(ConfigError, match="plain name"):
            w.Caller("ann", tenant=name)


@pytest.mark.parametrize("name", PLAIN)
async def test_a_plain_one_is_taken(name, tmp_path):
    assert check_identifier(name, "session_id") == name
    assert (await w.Agent(scripted("ok")).run("hi", session_id=name)).status == "done"
    assert w.Caller("ann", tenant=name).tenant == name
    store = open_store(str(tmp_path / "a.db"))
    await (await store.open(name)).close()
    await store.aclose()


@pytest.mark.parametrize(
    "call_id", ["call_1", "a b", "$(x)", "..", "a/../b", "é", "%41", "x" * 500, "a."]
)
async def test_the_session_of_an_agent_that_a_call_asked_has_a_plain_id(call_id):
    store = open_store("memory:")
    inner = w.Agent(scripted("inner"), name="inner")
    model = scripted(ToolCall(call_id, "inner", {"task": "go"}), "done")
    out = await w.Agent(model, tools=[inner.as_tool()]).run("go", session_id="s", store=store)
    assert out.status == "done"
    [child] = [info.id for info in await store.sessions() if info.parent_id == "s"]
    assert child == child_session_id("s", call_id) == check_identifier(child, "session_id")
    if len(call_id) < 100 and not call_id.endswith("."):
        assert CallIndex("s", [call_id]).find(child) == call_id


@pytest.mark.parametrize("name", [name for name in ODD if name])
async def test_an_odd_agent_name_is_refused(name):
    with pytest.raises(ConfigError, match="^name .* is no plain name"):
        w.Agent(scripted("ok"), name=name)
    with pytest.raises(ConfigError, match="trace_agent .* is no plain name"):
        await w.Agent(scripted("ok")).run("hi", trace_agent=name)
    with pytest.raises(ConfigError, match="is no plain name"):
        await w.agent_loop("hi", model=scripted("ok"), name=name)


@pytest.mark.parametrize("name", PLAIN)
async def test_a_plain_agent_name_is_taken(name):
    assert w.Agent(scripted("ok"), name=name).name == name
    assert (await w.Agent(scripted("ok"), name=name).run("hi", trace_agent=name)).status == "done"


@pytest.mark.parametrize("option", ["run_id", "request_id", "conversation_id", "task_id"])
async def test_an_id_of_others_is_one_line_of_text(option):
    for odd in ("a\nb", "a\0b", "a\x1b[2Jb", "a\u202eb", "a\u2028b", "x" * 1001):
        with pytest.raises(ConfigError, match=f"{option} .* is not one line of text: leave out"):
            await w.Agent(scripted("ok")).run("hi", **{option: odd})
    for taken in ("order 7 of Ann's", "größe", "$(x)", "+abc=", "👩\u200d💻"):
        assert (await w.Agent(scripted("ok")).run("hi", **{option: taken})).status == "done"


@pytest.mark.parametrize("address", ["memory:", "a.db"])
async def test_a_title_is_one_bounded_line_without_control_characters(address, tmp_path):
    store = open_store(address, folder=tmp_path)
    hostile = "Hi\x1b]0;owned\x07 \u202e\x9b2J there\n\nagain 👩\u200d💻" + " x" * 500
    await w.Agent(scripted("ok")).run(hostile, session_id="s", store=store)
    [info] = await store.sessions()
    assert info.title is not None and len(info.title) == 80
    assert info.title.startswith("Hi\ufffd]0;owned\ufffd \ufffd\ufffd2J there again 👩\u200d💻 x")
    assert to_title("a plain one", 80) == "a plain one"
    await store.aclose()


def test_children_of_different_calls_differ():
    odd = ["a b", "a%20b", "a.b", "a/b", "a%2Fb", "~x", "x" * 300, "x" * 301]
    assert len({child_session_id("s", each) for each in odd}) == len(odd)


def test_odd_files_are_not_waited_for(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    monkeypatch.chdir(tmp_path)
    os.mkfifo("pipe")
    os.mkfifo("pipe.py")
    (tmp_path / "prompt").write_text("You are brief.")

    def run(*args: str):
        return CliRunner().invoke(cli, args)

    assert "not a regular file" in run("run", "hi", "--provider", "mock", "-s", "@pipe").output
    assert "not a regular file" in run("lint", "--transcript", "pipe").output
    assert "not a regular file" in run("lint", ".").output
    assert run("run", "hi", "--provider", "mock", "-s", "@prompt").exit_code == 0
