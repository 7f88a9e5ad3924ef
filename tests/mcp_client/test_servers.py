"""The forms of `mcp_servers`, and what is refused."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import windlass as w
from windlass.files import write_private
from windlass.mcp.client.auth import TokenFile
from windlass.mcp.client.servers import McpServer, check_servers
from windlass.mcp.client.stdio import LineBuffer
from windlass.mcp.client.tools import build_name

ENTRY: dict[str, Any] = {"command": "npx", "args": ["-y", "x"]}


@pytest.mark.parametrize(
    "given",
    [
        {"files": ENTRY},
        {"mcpServers": {"files": ENTRY}},
        {"servers": {"files": {**ENTRY, "type": "stdio"}}},
        [{"name": "files", **ENTRY}],
        [w.McpServer(name="files", command="npx", args=["-y", "x"])],
        w.McpServer(name="files", command="npx", args=["-y", "x"]),
    ],
)
def test_mcp_servers_take_the_forms_that_editors_use(given: Any):
    (server,) = check_servers("mcp_servers", given)
    assert server == McpServer(name="files", command="npx", args=("-y", "x"))


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"a": {"comand": "x"}}, "did you mean 'command'"),
        ({"a": {"command": "x", "url": "http://y"}}, "a command or a url"),
        ({"a": {"url": "file:///etc"}}, "http:// or https://"),
        ({"a": {"command": "x", "headers": {"A": "b"}}}, "headers and auth are for a url"),
        ({"a b": ENTRY}, "letters, digits"),
        ({"a__b": ENTRY}, "no `__`"),
        ({"a": {"command": "x", "type": "sse"}}, "'stdio' or 'http'"),
        ({"a": {"url": "http://y", "auth": {"clientid": "x"}}}, "client_id"),
        ([{"name": "a", **ENTRY}, {"name": "a", **ENTRY}], "two servers"),
        ("no/such/mcp.json", "cannot be read"),
    ],
)
def test_mcp_servers_that_are_wrong_are_refused_with_their_fix(given: Any, words: str):
    with pytest.raises(w.ConfigError, match=words):
        check_servers("mcp_servers", given)


def test_mcp_variables_are_filled_in_and_a_missing_one_is_named():
    server = McpServer(name="a", url="https://${HOST}/", headers={"Key": "${env:KEY:-none}"})
    found = server.expand({"HOST": "x.example"}, "/srv/app")
    assert found.url == "https://x.example/" and found.headers == {"Key": "none"}
    with pytest.raises(w.ConfigError, match="needs the variable HOST"):
        server.expand({}, "/srv/app")


def test_mcp_tool_names_are_clean_short_and_unlike():
    assert build_name("files", "read.file/x") == "files__read_file_x"
    long = [build_name("files", "x" * 80 + end) for end in "ab"]
    assert all([len(name) == 64 for name in long]) and long[0] != long[1]


def test_mcp_message_that_is_too_large_is_the_error_of_its_request():
    lines = LineBuffer(most=100)
    head = b'{"jsonrpc": "2.0", "id": 7, "result": {"text": "'
    found = [one for part in (head, b"x" * 200, b'"}}\n') for one in lines.feed(part)]
    assert found[0].message.id == 7 and "larger than" in found[0].message.error.message
    (after,) = lines.feed(b'{"jsonrpc": "2.0", "id": 8, "result": {}}\n')
    assert after.message.id == 8


async def test_mcp_tokens_are_private_and_a_link_is_not_followed(tmp_path: Path):
    server = McpServer(name="a", url="https://x.example/mcp")
    file = TokenFile(tmp_path / "mcp", server, None)
    assert await file.get_tokens() is None
    file._write("tokens", {"access_token": "t", "token_type": "Bearer"})
    assert file.path.stat().st_mode & 0o777 == 0o600
    tokens = await file.get_tokens()
    assert tokens is not None and tokens.access_token == "t"
    other = tmp_path / "other.json"
    write_private(other, json.dumps({"tokens": {"access_token": "evil"}}).encode())
    file.path.unlink()
    file.path.symlink_to(other)
    assert await file.get_tokens() is None
