"""Session ids and tenants are plain names at every entry point; odd files are not read."""

from __future__ import annotations

import os

import pytest
from click.testing import CliRunner

import windlass as w
from windlass.cli.main import cli
from windlass.errors import ConfigError
from windlass.identifiers import call_of_child, check_identifier, child_session_id
from windlass.messages import ToolCall
from windlass.store import open_store
from windlass.testing import scripted

ODD = [
    "a b", "a\nb", "a\0b", "$(touch x)", "`x`", "a'b", 'a"b', "a\\b", "../x", "a/../b", "a/..", "-x", ".x",
    "/etc", "a;b", "a|b", "a\u202eb", "a/", "x" * 1001, "", "a*b",
]  # fmt: skip
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
        assert call_of_child("s", child) == call_id


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
