"""MCP servers: their tools in a run, in both eras of the protocol."""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import windlass as w
from tests.mcp_client.json_server import JsonServer
from tests.stories.helpers import kept, results, said
from windlass.cli.chat.server_prompts import ServerPrompts
from windlass.engine.assemble import parse_agent_options
from windlass.testing import scripted

SERVER = str(Path(__file__).parents[1] / "mcp_client" / "fake_server.py")
ERAS = pytest.mark.parametrize("era", ["2025-11-25", "2026-07-28"])


def entry(era: str = "2025-11-25", *args: str, **more: Any) -> dict[str, Any]:
    """Return the entry of the fake server."""
    modern = ["--modern"] if era == "2026-07-28" else []
    return {"command": sys.executable, "args": ["-I", "-S", SERVER, *modern, *args], **more}


@ERAS
async def test_mcp_tools_are_called_by_server_and_name(era: str):
    model = scripted(w.ToolCall("1", "calc__add", {"a": 2, "b": 3}), "five")
    out = await w.agent_loop("go", model=model, mcp_servers={"calc": entry(era)})
    assert out.status == "done", out.error
    assert results(out)["calc__add"] == ("ok", "5")
    offered = {tool.name: tool for tool in model.requests[0].tools}
    assert list(offered["calc__add"].parameters) == ["type", "properties", "required", "x-order"]
    await kept(out, model)


async def test_mcp_tools_are_offered_beside_those_of_the_agent():
    @w.tool
    async def look(what: str) -> str:
        """Look."""
        return f"{what} is fine"

    model = scripted(
        [w.ToolCall("1", "look", {"what": "it"}), w.ToolCall("2", "calc__add", {"a": 2, "b": 3})],
        "ok",
    )
    out = await w.agent_loop("go", model=model, tools=[look], mcp_servers={"calc": entry()})
    assert results(out) == {"look": ("ok", "it is fine"), "calc__add": ("ok", "5")}
    await kept(out, model)


async def test_mcp_server_is_started_once_and_shared(tmp_path: Path):
    log = tmp_path / "log"
    servers = {"calc": entry("2025-11-25", "--log", str(log))}
    async with w.Runtime():
        for number in range(3):
            model = scripted(w.ToolCall("1", "calc__add", {"a": number, "b": 1}), "ok")
            out = await w.Agent(model, mcp_servers=servers).run("go")
            assert results(out)["calc__add"] == ("ok", str(number + 1))
        assert log.read_text().count("started") == 1
        pid = int(log.read_text().split()[1])
        assert is_alive(pid)
    assert "end of input" in log.read_text() and not is_alive(pid)


async def test_mcp_server_without_a_runtime_block_ends_with_its_last_run(tmp_path: Path):
    log = tmp_path / "log"
    model = scripted(w.ToolCall("1", "calc__note", {}), "ok")
    await w.agent_loop("go", model=model, mcp_servers={"calc": entry("", "--log", str(log))})
    await until(lambda: "end of input" in log.read_text())


async def test_mcp_server_that_does_not_start_refuses_the_run_with_its_words():
    model = scripted("never")
    with pytest.raises(w.McpError, match="no such database") as raised:
        await w.Agent(model, mcp_servers={"db": entry("", "--bad", "start")}).run("go")
    assert raised.value.server == "db" and not model.requests


@pytest.mark.parametrize(
    ("status", "words"),
    [
        ("401 no", 'HTTP 401: it must know who asks; give the entry `auth: "oauth"`'),
        ("503 no", "HTTP 503"),
    ],
)
async def test_mcp_server_over_http_that_refuses_is_named_with_its_status(status: str, words: str):
    async def refuse(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        head = f"HTTP/1.1 {status}\r\ncontent-length: 0\r\nconnection: close\r\n\r\n"
        writer.write(head.encode())
        await writer.drain()
        writer.close()

    async with await asyncio.start_server(refuse, "127.0.0.1", 0) as server:
        url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/mcp"
        with pytest.raises(w.McpError) as error:
            await w.agent_loop("go", model=scripted(), mcp_servers={"calc": {"url": url}})
    assert words in str(error.value)


async def test_mcp_server_that_is_not_required_is_missed_on_record():
    servers = {"db": entry("", "--bad", "start", required=False), "calc": entry()}
    model = scripted(w.ToolCall("1", "calc__add", {"a": 1, "b": 1}), "two")
    out = await w.agent_loop("go", model=model, mcp_servers=servers)
    assert out.status == "done" and results(out)["calc__add"] == ("ok", "2")
    notes = [event for event in out.trace["events"] if event["kind"] == "note"]
    assert notes[0]["name"] == "mcp_server_unavailable" and notes[0]["data"]["server"] == "db"
    assert any("MCP server db is not available" in words for words in said(model.requests[0]))
    await kept(out, model)


async def test_mcp_server_gets_no_key_of_the_environment():
    environ = {"OPENAI_API_KEY": "sk-secret-of-the-host", "GIVEN_TOKEN": "given", "PATH": "/bin"}
    servers = {"calc": entry("", env={"TOKEN": "${env:GIVEN_TOKEN}", "MODE": "${MODE:-plain}"})}
    model = scripted(w.ToolCall("1", "calc__env", {}), "ok")
    async with w.Runtime(environ=environ):
        out = await w.agent_loop("go", model=model, mcp_servers=servers)
    seen = json.loads(results(out)["calc__env"][1])
    assert "OPENAI_API_KEY" not in seen and "GIVEN_TOKEN" not in seen
    assert seen["MODE"] == "plain" and "PATH" in seen and "TOKEN" in seen


async def test_mcp_secrets_of_an_entry_are_on_no_record():
    secret = "tok-of-the-entry-1234567"
    servers = {"calc": entry(env={"CALC_TOKEN": secret})}
    model = scripted(w.ToolCall("1", "calc__env", {}), f"it has {secret}")
    out = await w.agent_loop("go", model=model, mcp_servers=servers)
    assert out.status == "done" and "CALC_TOKEN" in str(results(out))
    assert secret not in str(out.entries) and secret not in out.final_text


@ERAS
async def test_mcp_roots_are_the_workspace_of_the_session(era: str, tmp_path: Path):
    one, two = tmp_path / "one", tmp_path / "two"
    one.mkdir()
    two.mkdir()
    await w.agent_session_open("opened", workspace=str(one))
    for session, more in (("opened", {}), ("begun", {"workspace": str(two)}), ("begun", {})):
        model = scripted(w.ToolCall(f"1{more}", "calc__roots", {}), "ok")
        agent = w.Agent(model, mcp_servers={"calc": entry(era)}, **more)
        out = await agent.run("go", session_id=session)
        wanted = one if session == "opened" else two
        roots = json.loads(out.tool_calls[0].result)["roots"]
        assert [root["uri"] for root in roots] == [wanted.as_uri()]


@ERAS
async def test_mcp_roots_are_the_workspace(era: str, tmp_path: Path):
    model = scripted(w.ToolCall("1", "calc__roots", {}), "ok")
    out = await w.agent_loop(
        "go", model=model, mcp_servers={"calc": entry(era)}, workspace=tmp_path
    )
    assert json.loads(results(out)["calc__roots"][1])["roots"][0]["uri"] == tmp_path.as_uri()


async def test_mcp_server_is_started_in_the_workspace_of_the_session(tmp_path: Path):
    place, log = tmp_path / "place", tmp_path / "log"
    place.mkdir()
    (place / "name.txt").write_text("the session's")
    await w.agent_session_open("opened", workspace=str(place))
    calls = [
        w.ToolCall("1", "calc__env", {}),
        w.ToolCall("2", "calc__change", {}),  # the plan is built again, in the same place
        w.ToolCall("3", "file_read", {"path": "name.txt"}),
        w.ToolCall("4", "calc__env", {}),
        "ok",
    ]
    agent = w.Agent(
        scripted(*calls),
        mcp_servers={"calc": entry("", "--log", str(log))},
        tool_preset="readonly",
    )
    out = await agent.run("go", session_id="opened")
    first, _, read, last = [one.result for one in out.tool_calls]
    assert [json.loads(one)["CWD"] for one in (first, last)] == [str(place)] * 2
    assert "the session's" in read
    (place / "sub").mkdir()
    servers = {"calc": entry("", "--log", str(log), cwd="sub")}
    again = w.Agent(scripted(w.ToolCall("5", "calc__env", {}), "ok"), mcp_servers=servers)
    out = await again.run("go", session_id="opened")
    assert json.loads(out.tool_calls[0].result)["CWD"] == str(place / "sub")
    await until(lambda: log.read_text().count("started") == log.read_text().count("end of input"))


async def test_mcp_progress_is_tool_progress():
    seen: list[Any] = []
    model = scripted(w.ToolCall("1", "calc__slow", {}), "ok")
    out = await w.agent_loop(
        "go", model=model, mcp_servers={"calc": entry()}, on_event=lambda e: seen.append(e)
    )
    told = [e.progress for e in seen if type(e).__name__ == "ToolCallUpdate" and e.progress]
    assert {"progress": 2.0, "total": 2.0, "message": "step 2"} in told, told
    await kept(out, model)


async def test_mcp_cancel_reaches_the_server(tmp_path: Path):
    log = tmp_path / "log"
    async with w.Runtime():
        model = scripted(w.ToolCall("1", "calc__hang", {}), "ok")
        agent = w.Agent(model, mcp_servers={"calc": entry("", "--log", str(log))})
        task = asyncio.create_task(agent.run("go"))
        await until(lambda: "call hang" in log.read_text() if log.exists() else False)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        await until(lambda: "cancelled" in log.read_text())


async def test_mcp_call_at_its_time_limit_is_a_result():
    servers = {"calc": entry("", timeout=5)}
    model = scripted(w.ToolCall("1", "calc__hang", {}), "ok")
    async with w.Runtime():
        await w.Agent(scripted("warm"), mcp_servers=servers).run("go")
        servers["calc"] = entry("", timeout=1)
        out = await w.Agent(model, mcp_servers=servers).run("go")
    assert out.status == "done" and results(out)["calc__hang"][0] == "timeout"


async def test_mcp_server_that_dies_in_a_call_leaves_an_unknown_outcome_and_is_started_again():
    model = scripted(
        w.ToolCall("1", "calc__die", {}), w.ToolCall("2", "calc__add", {"a": 1, "b": 2}), "ok"
    )
    servers = {"calc": entry("", trust="trusted")}
    out = await w.agent_loop("go", model=model, mcp_servers=servers)
    outcome, words = results(out)["calc__die"]
    assert outcome == "interrupted" and "not known whether it took effect" in words
    assert "something went wrong" in words
    assert results(out)["calc__add"] == ("ok", "3")
    await kept(out, model)


async def test_mcp_error_of_a_tool_is_an_error_result():
    model = scripted(w.ToolCall("1", "calc__fail", {}), "ok")
    out = await w.agent_loop("go", model=model, mcp_servers={"calc": entry()})
    assert results(out)["calc__fail"] == ("error", "no such order")


@ERAS
async def test_mcp_list_that_changes_holds_from_the_next_turn(era: str):
    model = scripted(
        w.ToolCall("1", "calc__change", {}),
        w.ToolCall("2", "calc__note", {}),
        w.ToolCall("3", "calc__extra", {}),
        "ok",
    )
    out = await w.agent_loop("go", model=model, mcp_servers={"calc": entry(era)})
    names = [{tool.name for tool in request.tools} for request in model.requests]
    assert "calc__note" in names[0] and "calc__extra" not in names[0]
    assert "calc__note" not in names[1] and "calc__extra" in names[1]
    assert "no longer offered" in results(out)["calc__note"][1]
    assert results(out)["calc__extra"] == ("ok", "called extra")
    await kept(out, model)


async def test_mcp_tool_whose_words_changed_is_asked_about():
    model = scripted(
        w.ToolCall("1", "calc__change", {}), w.ToolCall("2", "calc__add", {"a": 1, "b": 1}), "two"
    )
    async with w.Runtime() as scope:
        servers = {"calc": entry("", trust="trusted")}
        agent = w.Agent(model, mcp_servers=servers)
        out = await agent.run("go", session_id="s")
        assert out.status == "suspended", (out.status, out.error)
        (waiting,) = await w.approvals(scope.store)
        assert waiting.tool == "calc__add" and "has changed what it says" in (waiting.reason or "")
        out = await agent.resume("s", decisions={waiting.call_id: w.Allow()})
        assert out.status == "done" and results(out)["calc__add"] == ("ok", "2")
        again = scripted(w.ToolCall("3", "calc__add", {"a": 2, "b": 2}), "four")
        out = await w.Agent(again, mcp_servers=servers).run("go", session_id="s")
        assert out.status == "done"  # it is pinned as it was let through


@ERAS
async def test_mcp_question_parks_the_run_and_is_answered_from_elsewhere(era: str):
    model = scripted(w.ToolCall("1", "calc__ask", {}), "asked")
    async with w.Runtime() as scope:
        agent = w.Agent(model, mcp_servers={"calc": entry(era)})
        out = await agent.run("go", session_id="s")
        assert out.status == "suspended", (out.status, out.error)
        (waiting,) = await w.approvals(scope.store)
        assert waiting.receipt["elicitation"]["message"] == "Who is it for?"
        assert waiting.receipt["elicitation"]["schema"]["required"] == ["name"]
        await w.approve(waiting.id, content={"name": "Ann"})
        out = await agent.resume("s")
        assert out.status == "done", (out.status, out.error)
        answer = json.loads(results(out)["calc__ask"][1])
        assert answer["action"] == "accept"
        assert answer["content"] == {"name": "Ann", "size": "small"}


async def test_mcp_question_is_described_and_takes_only_what_its_form_takes():
    model = scripted(w.ToolCall("1", "calc__ask", {}), "asked")
    async with w.Runtime() as scope:
        agent = w.Agent(model, mcp_servers={"calc": entry()})
        out = await agent.run("go", session_id="s")
        fields = ("name: text, required", 'size: text, default "small"')
        assert out.pending[0].details == fields
        (waiting,) = await w.approvals(scope.store)
        assert waiting.details == fields
        for content in (None, {"name": 7}, {"size": "small"}):
            with pytest.raises(w.ConfigError, match="name: .*The form: name: text, required"):
                await w.approve(waiting.id, content=content)
            with pytest.raises(w.ConfigError, match="name: "):
                await agent.resume("s", decisions={waiting.call_id: w.Allow(content=content)})
        await w.approve(waiting.id, content={"name": "Ann", "size": "large"})
        out = await agent.resume("s")
        answer = json.loads(results(out)["calc__ask"][1])
        assert answer["content"] == {"name": "Ann", "size": "large"}


async def test_mcp_question_that_the_host_answers_wrongly_is_cancelled():
    async def permit(about: dict[str, Any]) -> object:
        return w.Allow(content={"name": 7}) if "elicitation" in about else True

    model = scripted(w.ToolCall("1", "calc__ask", {}), "ok")
    out = await w.agent_loop(
        "go",
        model=model,
        mcp_servers={"calc": entry()},
        approval_policy={"request_permission": permit},
    )
    assert json.loads(results(out)["calc__ask"][1])["action"] == "cancel"


@ERAS
async def test_mcp_question_that_is_denied_is_told_to_the_model(era: str):
    model = scripted(w.ToolCall("1", "calc__ask", {}), "not then")
    async with w.Runtime() as scope:
        agent = w.Agent(model, mcp_servers={"calc": entry(era)})
        await agent.run("go", session_id="s")
        (waiting,) = await w.approvals(scope.store)
        out = await agent.resume("s", decisions={waiting.call_id: w.Deny("not now")})
        assert out.status == "done"
        assert results(out)["calc__ask"] == ("denied", "Denied: not now")


@ERAS
async def test_mcp_question_is_answered_in_place_by_the_host(era: str):
    asked: list[Any] = []

    async def permit(about: dict[str, Any]) -> object:
        asked.append(about.get("elicitation"))
        return w.Allow(content={"name": "Bea"}) if "elicitation" in about else True

    model = scripted(w.ToolCall("1", "calc__ask", {}), "ok")
    out = await w.agent_loop(
        "go",
        model=model,
        mcp_servers={"calc": entry(era)},
        approval_policy={"request_permission": permit},
    )
    assert json.loads(results(out)["calc__ask"][1])["content"] == {"name": "Bea", "size": "small"}
    assert asked[-1]["message"] == "Who is it for?"


@ERAS
async def test_mcp_sampling_is_refused_unless_it_is_allowed(era: str):
    model = scripted(w.ToolCall("1", "calc__sample", {}), "four", "done")
    servers = {"calc": entry(era, sampling=True)}
    out = await w.agent_loop("go", model=model, mcp_servers=servers)
    assert json.loads(results(out)["calc__sample"][1])["content"]["text"] == "four"
    model = scripted(w.ToolCall("1", "calc__sample", {}), "done")
    out = await w.agent_loop("go", model=model, mcp_servers={"calc": entry(era)})
    assert out.status == "done" and results(out)["calc__sample"][0] == "error"


async def test_mcp_resources_are_listed_and_read():
    model = scripted(
        w.ToolCall("1", "mcp_resource_list", {}),
        w.ToolCall("2", "mcp_resource_read", {"server": "calc", "uri": "file:///notes.txt"}),
        "ok",
    )
    out = await w.agent_loop("go", model=model, mcp_servers={"calc": entry()})
    listed = results(out)["mcp_resource_list"][1]
    assert "file:///notes.txt" in listed and "file:///later.txt" in listed
    assert results(out)["mcp_resource_read"] == ("ok", "remember the milk")


@pytest.mark.parametrize("trust", ["trusted", "untrusted"])
async def test_mcp_results_of_an_untrusted_server_are_asked_about_when_they_would_be_used(
    trust: str,
):
    asked = w.ToolCall("1", "calc__note", {}), w.ToolCall("2", "calc__add", {"a": 5, "b": 7})
    model = scripted(*asked, "ok")
    out = await w.agent_loop("go", model=model, mcp_servers={"calc": entry("", trust=trust)})
    assert out.status == ("done" if trust == "trusted" else "suspended")


async def test_mcp_servers_of_a_runtime_are_in_its_registry_under_roles():
    ann = w.Caller("ann", roles=("clerk",))
    model = scripted(w.ToolCall("1", "calc__add", {"a": 2, "b": 2}), "four")
    grants = {"clerk": ["tool.calc__add"]}
    async with w.Runtime(mcp_servers={"calc": entry()}, roles=grants) as scope:
        await scope.models.generate("2 + 2?", model=model, caller=ann)
        assert [tool.name for tool in model.requests[0].tools] == ["calc__add"]
        out = await w.Agent(scripted("hi"), mcp_servers=["calc"]).run("go")
        assert out.status == "done"


async def test_mcp_json_of_an_editor_is_read_as_it_is(tmp_path: Path):
    file = tmp_path / "mcp.json"
    mine = {**entry(), "type": "stdio", "autoApprove": ["add"], "icon": "x"}
    file.write_text(json.dumps({"mcpServers": {"calc": mine, "off": {"disabled": True}}}))
    model = scripted(w.ToolCall("1", "calc__add", {"a": 1, "b": 3}), "four")
    out = await w.agent_loop("go", model=model, mcp_servers=file)
    assert results(out)["calc__add"] == ("ok", "4")
    with pytest.raises(w.ConfigError, match="did you mean 'command'"):
        await w.agent_loop("go", model=model, mcp_servers={"calc": {"comand": "x"}})


async def test_mcp_tools_are_filtered_by_the_entry_and_by_the_agent():
    servers = {"calc": entry("", allow=["add", "note"], deny=["note"])}
    model = scripted("ok")
    await w.agent_loop("go", model=model, mcp_servers=servers, await_resumption=False)
    found = [tool.name for tool in model.requests[0].tools]
    assert found == ["calc__add", "mcp_resource_list", "mcp_resource_read"]
    model = scripted("ok")
    agent = w.Agent(model, mcp_servers={"calc": entry()}, allowed_tools=["calc__add"])
    await agent.run("go")
    assert [tool.name for tool in model.requests[0].tools] == ["calc__add"]


BAD = {
    "json": ("ok", "after bad lines"),
    "big": ("error", "larger than 16 MB"),
    "shape": ("error", "its answer to bad is wrong"),
    "structure": ("error", "its answer to bad is wrong"),
    "surrogate": ("error", "its answer is no JSON-RPC"),
    "deep": ("error", "its answer is no JSON-RPC"),
    "parts": ("error", "more than 10,000 parts"),
    "stderr": ("ok", "quiet again"),
    "id": ("timeout", "did not answer within"),
}


@pytest.mark.parametrize("kind", BAD)
async def test_mcp_server_that_answers_wrongly_is_a_result_and_the_run_goes_on(kind: str):
    wanted, words = BAD[kind]
    model = scripted(
        w.ToolCall("1", "calc__bad", {}), w.ToolCall("2", "calc__add", {"a": 1, "b": 1}), "ok"
    )
    servers = {"calc": entry("", "--bad", kind, trust="trusted")}
    servers["calc"]["timeout"] = 1.5 if kind == "id" else 20
    out = await w.agent_loop("go", model=model, mcp_servers=servers)
    assert out.status == "done", out.error
    assert results(out)["calc__bad"][0] == wanted and words in results(out)["calc__bad"][1]
    assert results(out)["calc__add"] == ("ok", "2")


@pytest.mark.parametrize(
    ("way", "wanted", "words"),
    [
        ("well", "ok", "fine"),
        ("large", "error", "larger than 16 MB"),
        ("compressed", "error", "compressed"),
    ],
)
async def test_mcp_answer_over_http_is_limited_and_the_run_goes_on(
    way: str, wanted: str, words: str
):
    model = scripted(w.ToolCall("1", "calc__bad", {}), w.ToolCall("2", "calc__add", {}), "ok")
    async with JsonServer(way) as server:
        out = await w.agent_loop(
            "go", model=model, mcp_servers={"calc": {"url": server.url, "trust": "trusted"}}
        )
    assert out.status == "done", out.error
    assert results(out)["calc__bad"][0] == wanted and words in results(out)["calc__bad"][1]
    assert results(out)["calc__add"] == ("ok", "fine")


async def test_mcp_server_that_never_answers_is_refused_in_time():
    servers = {"calc": entry("", "--bad", "silent", timeout=0.5)}
    with pytest.raises(w.McpError, match="did not answer in time"):
        await w.agent_loop("go", model=scripted("never"), mcp_servers=servers)


@pytest.mark.parametrize("kind", ["schema", "restless"])
async def test_mcp_server_with_wrong_or_restless_lists_is_used_all_the_same(kind: str):
    model = scripted(w.ToolCall("1", "calc__fail", {}), w.ToolCall("2", "calc__hi", {}), "ok")
    out = await w.agent_loop("go", model=model, mcp_servers={"calc": entry("", "--bad", kind)})
    assert out.status == "done" and results(out)["calc__fail"][0] == "error"
    assert "calc__liar" not in {tool.name for tool in model.requests[0].tools}


@pytest.mark.parametrize(("kind", "count"), [("endless", 12), ("crowd", 1000)])
async def test_mcp_list_without_an_end_is_cut(kind: str, count: int):
    model = scripted(w.ToolCall("1", "calc__add", {"a": 1, "b": 1}), "ok")
    out = await w.agent_loop("go", model=model, mcp_servers={"calc": entry("", "--bad", kind)})
    assert out.status == "done" and results(out)["calc__add"] == ("ok", "2")
    offered = [tool.name for tool in model.requests[0].tools if tool.name.startswith("calc__")]
    assert len(offered) == count


async def test_mcp_list_is_filtered_before_it_is_cut():
    model = scripted(w.ToolCall("1", "calc__t5_299", {}), "ok")
    servers = {"calc": entry("", "--bad", "crowd", allow=["t5_299"])}
    out = await w.agent_loop("go", model=model, mcp_servers=servers)
    assert results(out)["calc__t5_299"] == ("ok", "called t5_299")


async def test_mcp_server_that_ignores_its_end_is_killed(tmp_path: Path):
    log = tmp_path / "log"
    async with w.Runtime():
        servers = {"calc": entry("", "--bad", "stays", "--log", str(log))}
        await w.Agent(scripted("ok"), mcp_servers=servers).run("go")
        pid = int(log.read_text().split()[1])
    assert not is_alive(pid)


@pytest.mark.parametrize("way", ["parked", "ended", "cancelled", "refused", "missed"])
async def test_mcp_server_of_a_run_that_does_not_begin_is_ended(
    way: str, tmp_path: Path, own_world: w.Runtime
):
    log = tmp_path / "log"
    servers: dict[str, Any] = {"calc": entry("", "--log", str(log))}
    rules = {"rules": [{"match": {"tool": "calc__note"}, "action": "ask"}]}

    def agent(*replies: Any) -> w.Agent:
        return w.Agent(scripted(*replies), mcp_servers=servers, approval_policy=rules)

    if way == "parked":
        call = w.ToolCall("1", "calc__note", {})
        assert (await agent(call).run("go", session_id="s")).status == "suspended"
        assert (await agent("no").run("more", session_id="s")).status == "suspended"
    elif way == "ended":
        assert (await agent("ok").run("go", session_id="s")).status == "done"
        assert (await agent("no").resume("s")).status == "done"
    elif way == "cancelled":
        servers["calc"]["args"] += ["--wait", "60"]
        run = asyncio.create_task(agent("no").run("go"))
        await until(log.exists)
        run.cancel()
        with pytest.raises(asyncio.CancelledError):
            await run
    elif way == "refused":
        servers["other"] = {"command": "/no/such/program"}
        with pytest.raises(w.McpError):
            await agent("no").run("go")
    else:
        servers["other"] = entry("", "--bad", "silent", "--log", str(log))
        servers["other"] |= {"required": False, "timeout": 0.5}
        assert (await agent("ok").run("go")).status == "done"
    pids = [int(line.split()[1]) for line in log.read_text().splitlines() if "started" in line]
    assert pids
    await until(lambda: not own_world.lingering)
    assert not any([is_alive(pid) for pid in pids])


def is_alive(pid: int) -> bool:
    """Check whether a process runs: neither gone nor a zombie."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] != "Z"
    except OSError:
        return False


async def until(holds: Callable[[], bool]) -> None:
    """Wait until something that another process does has happened."""
    async with asyncio.timeout(20):
        while not holds():  # noqa: ASYNC110 - of another process, which sets no event
            await asyncio.sleep(0.01)


async def test_mcp_servers_that_a_skill_names_are_started_with_the_run():
    skill = w.skill_define("sums", {"description": "Add numbers.", "mcp": ["calc", "unknown"]})
    model = scripted(w.ToolCall("1", "calc__add", {"a": 4, "b": 4}), "eight")
    async with w.Runtime(mcp_servers={"calc": entry(), "other": entry()}):
        out = await w.Agent(model, skills=skill).run("Add numbers.")
    assert results(out)["calc__add"] == ("ok", "8")
    assert not any(tool.name.startswith("other__") for tool in model.requests[0].tools)


async def test_mcp_prompts_of_a_server_are_messages_of_a_chat():
    async with w.Runtime() as scope:
        values = parse_agent_options({"mcp_servers": {"calc": entry()}})
        prompts = ServerPrompts(scope, values)
        assert list(await prompts.list()) == ["/calc:greet"]
        assert await prompts.write("/calc:greet who=Ann") == "Say hello to Ann."
        assert await prompts.write("/calc:greet 'Ann B'") == "Say hello to Ann B."
        assert await prompts.write("/cost") is None
        with pytest.raises(w.ConfigError, match="needs who"):
            await prompts.write("/calc:greet")
