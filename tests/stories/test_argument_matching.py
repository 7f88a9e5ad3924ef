"""Permissions by argument: an allow holds for every value, a deny for any, whatever the spelling."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import windlass as w
from windlass.testing import call, scripted


@w.tool
async def write_file(path: str, text: str = "") -> str:
    """Write a file."""
    return f"wrote {path}"


@w.tool
async def write_files(paths: list[Any]) -> str:
    """Write several files."""
    return "wrote them"


@w.tool(annotations={"path_args": ["target"]})
async def save(target: Any, title: str = "") -> str:
    """Save under a declared path argument."""
    return "saved"


@w.tool(annotations={"path_args": ["source", "target"]})
async def copy(target: str, source: str | None = None) -> str:
    """Copy a file."""
    return "copied"


@w.tool
async def pay(to: str, cents: int, memo: str = "", extra: dict[str, Any] | None = None) -> str:
    """Pay somebody."""
    return "paid"


@w.tool
async def fetch(url: str, method: str = "GET") -> str:
    """Fetch a page."""
    return "page"


@w.tool
async def shell(command: Any) -> str:
    """Run a command."""
    return "ran"


@w.tool
async def connect(peer: Any) -> str:
    """Connect to a peer."""
    return "connected"


TOOLS = [write_file, write_files, save, copy, pay, fetch, shell, connect]


@pytest.fixture(autouse=True)
def workspace(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "notes" / "deep").mkdir(parents=True)
    (tmp_path / "notes" / "leak").symlink_to("/etc")
    (tmp_path / "alias").symlink_to("notes")
    (tmp_path / "secret").mkdir()
    (tmp_path / "open").symlink_to("secret")
    monkeypatch.setenv("UP", "..")
    monkeypatch.chdir(tmp_path)
    return tmp_path


async def runs(permissions: Any, tool: str, **arguments: Any) -> bool:
    model = scripted(call(tool, **arguments), "ok")
    out = await w.Agent(model, tools=TOOLS, permissions=permissions).run("go")
    assert out.status == "done", out.error
    [record] = out.tool_calls
    assert record.outcome in ("ok", "denied"), record
    return record.outcome == "ok"


# --------------------------------------------------------------------------- allow: every value

NOTES: Any = {"allow": {"write_*": "notes/*", "save": "notes/*", "copy": "notes/*"}}


@pytest.mark.parametrize(
    ("tool", "arguments", "allowed"),
    [
        ("write_file", {"path": "notes/a", "text": "anything /etc/passwd"}, True),
        ("write_file", {"path": "./notes//a"}, True),
        ("write_file", {"path": "notes/deep/../a"}, True),
        ("write_file", {"path": "/etc/cron.d/x", "text": "notes/hello"}, False),
        ("write_file", {"path": "notes/../../etc/passwd"}, False),
        ("write_file", {"path": "notes/.."}, False),
        ("write_file", {"path": "notes/."}, False),
        ("write_file", {"path": "notes"}, False),
        ("write_file", {"path": ""}, False),
        ("write_file", {"path": "notes/leak/passwd"}, False),
        ("write_file", {"path": "notes/leak"}, False),
        ("write_file", {"path": "notes/deep/a"}, False),  # `*` stays within a folder
        ("write_file", {"path": "notes\\..\\..\\x"}, False),
        ("write_file", {"path": "notes/a\0/../../x"}, False),
        ("write_file", {"path": "~/notes/a"}, False),
        ("write_file", {"path": "\uff0e\uff0e/notes/a"}, False),
        ("write_file", {"path": "x" * 5000}, False),
        ("write_files", {"paths": ["notes/a", "notes/b"]}, True),
        ("write_files", {"paths": ["notes/a", "/etc/passwd"]}, False),
        ("write_files", {"paths": [["notes/a"], [["/etc/passwd"]]]}, False),
        ("write_files", {"paths": [{"notes/a": "notes/b"}]}, True),
        ("write_files", {"paths": [{"/etc/passwd": "notes/b"}]}, False),
        ("write_files", {"paths": ["notes/a", None]}, False),
        ("write_files", {"paths": ["notes/a", 3]}, False),
        ("write_files", {"paths": []}, False),
        ("save", {"target": "notes/a", "title": "../x"}, True),
        ("save", {"target": "x", "title": "notes/a"}, False),
        ("save", {"target": None, "title": "notes/a"}, False),
        ("copy", {"source": "notes/a", "target": "notes/b"}, True),
        ("copy", {"source": "/etc/passwd", "target": "notes/b"}, False),
        ("copy", {"target": "notes/b"}, False),
        ("write_file", {"path": "notes/%2e%2e/%2e%2e/x"}, False),
        ("write_file", {"path": "notes/$UP/x"}, False),
        ("write_file", {"path": "file:///etc/passwd"}, False),
        ("write_file", {"path": "https://notes/a"}, False),
        ("write_file", {"path": "notes/100% a$ b.txt"}, True),
    ],
)
async def test_allow_needs_every_path_inside(tool: str, arguments: Any, allowed: bool):
    assert await runs(NOTES, tool, **arguments) is allowed


@pytest.mark.parametrize(
    ("pattern", "path", "allowed"),
    [
        ("notes/**", "notes/deep/a", True),
        ("notes/**", "notes/leak/a", False),
        ("notes/*", "alias/a", True),
        ("notes/*", "alias/../x", False),
        ("**", "notes/deep/a", True),
        ("**", "/etc/passwd", False),
        ("**", "../x", False),
        ("**", "file:///etc/passwd", False),
        ("**", "s3://bucket/x", False),
        ("*", "/etc/passwd", True),  # alone it stands for anything
        ("*.md", "a.md", True),
        ("*.md", "notes/a.md", False),
        ("*.md", "/etc/a.md", False),
        ("./notes/*", "notes/a", True),
        ("alias/*", "alias/a", False),  # a link leads where it leads
        ("/etc/*", "/etc/passwd", True),
        ("/etc/*", "/etc/../root/x", False),
        ("/etc/*", "notes/leak/passwd", True),
    ],
)
async def test_allow_by_path_patterns(pattern: str, path: str, allowed: bool):
    assert await runs({"allow": {"write_file": pattern}}, "write_file", path=path) is allowed


async def test_allow_takes_absolute_spellings_of_the_workspace(workspace: Path):
    assert await runs(NOTES, "write_file", path=str(workspace / "notes" / "a"))
    assert not await runs(NOTES, "write_file", path=str(workspace / "a"))
    lists = {"allow": {"write_file": f"{workspace}/notes/*"}}
    assert await runs(lists, "write_file", path="notes/a")
    assert not await runs(lists, "write_file", path="notes/leak/passwd")


@pytest.mark.parametrize(
    ("matcher", "arguments", "allowed"),
    [
        ("bob", {"to": "bob", "cents": 5}, True),
        ("bob", {"to": "eve", "cents": 5, "memo": "bob"}, False),
        ("bob", {"to": "bob", "cents": 5, "memo": "also eve"}, False),
        (["bob", "rent*"], {"to": "bob", "cents": 5, "memo": "rent of May"}, True),
        ("bob", {"to": "bob", "cents": 5, "extra": {"eve": "bob"}}, False),
        ({"arg_key": "to", "patterns": "bob"}, {"to": "bob", "cents": 5, "memo": "x"}, True),
        ({"arg_key": "to", "patterns": "bob"}, {"to": "eve", "cents": 5, "memo": "bob"}, False),
        ({"arg_key": "cents", "patterns": ["5", "10"]}, {"to": "eve", "cents": 5}, True),
        ({"arg_key": "cents", "patterns": ["5", "10"]}, {"to": "eve", "cents": 50}, False),
        ({"arg_key": "memo", "patterns": "*"}, {"to": "bob", "cents": 5}, False),
        ({"arg_key": "memo"}, {"to": "bob", "cents": 5, "memo": "x"}, True),
    ],
)
async def test_allow_without_declared_arguments(matcher: Any, arguments: Any, allowed: bool):
    assert await runs({"allow": {"pay": matcher}}, "pay", **arguments) is allowed


@pytest.mark.parametrize(
    ("command", "allowed"),
    [
        ("git status", True),
        ("git status; rm -rf /", False),
        ("git log | sh", False),
        ("git log $(rm x)", False),
        ("git log\nrm x", False),
        (["git status", "git log"], True),
        (["git status", "rm -rf /"], False),
    ],
)
async def test_allow_by_command(command: Any, allowed: bool):
    assert await runs({"allow": {"shell": "git *"}}, "shell", command=command) is allowed


# --------------------------------------------------------------------------- deny: any value


@pytest.mark.parametrize(
    ("path", "denied"),
    [
        ("secret/x", True),
        ("./secret/x", True),
        ("secret//x", True),
        ("notes/../secret/x", True),
        ("open/x", True),
        ("secret/a/b", True),
        ("secret", True),
        ("secret/", True),
        ("secret\\x", True),
        ("notes/deep/../../secret/x", True),
        ("se\u200dcret/x", False),
        ("\uff53ecret/x", True),
        ("secret/x\0", True),
        ("notes/secret", False),
        ("secrets/x", False),
    ],
)
async def test_deny_by_path_whatever_its_spelling(path: str, denied: bool):
    for name in ("path", "text"):  # any value, anywhere
        arguments = {"path": "a", name: path}
        got = await runs({"deny": {"write_file": "secret/*"}}, "write_file", **arguments)
        assert got is not denied or (name == "text" and "\0" in path), name


@pytest.mark.parametrize(
    "text", ["", " ", "\n", "a\0b", "%00", "\ud800", "x" * 9000, "https://a@b/", "file:///x"]
)
async def test_deny_by_path_leaves_other_text_alone(text: str):
    assert await runs({"deny": {"write_file": "secret/*"}}, "write_file", path="a", text=text)
    rules: Any = {"rules": [{"deny": {"path": "secret/*"}}, {"deny": {"path": "*.pem"}}]}
    assert await decided(rules, "write_file", path="a", text=text) == "ok"


async def test_deny_by_absolute_path(workspace: Path):
    lists = {"deny": {"write_file": "/etc/**"}}
    for path in (
        "/etc/passwd",
        "//etc/passwd",
        "notes/leak/passwd",
        "/etc/../etc/x",
        "/ETC/../etc",
    ):
        assert not await runs(lists, "write_file", path=path), path
    assert await runs(lists, "write_file", path="etc/passwd")
    lists = {"deny": {"write_file": f"{workspace}/secret/*"}}
    assert not await runs(lists, "write_file", path="open/x")
    assert await runs({"deny": {"write_file": f"*{workspace.name}*"}}, "write_file", path="a")


@pytest.mark.parametrize(
    ("matcher", "arguments", "denied"),
    [
        ("eve", {"to": "bob", "cents": 5, "extra": {"cc": [{"eve": 1}]}}, True),
        ("eve", {"to": "bob", "cents": 5, "extra": {"cc": [["x", "eve"]]}}, True),
        ("1000000", {"to": "bob", "cents": 1_000_000}, True),
        ("1000000", {"to": "bob", "cents": 5, "extra": {"more": [1e6]}}, True),
        ("true", {"to": "bob", "cents": 5, "extra": {"force": True}}, True),
        ("True", {"to": "bob", "cents": 5, "extra": {"force": True}}, True),
        ("null", {"to": "bob", "cents": 5, "extra": {"limit": None}}, True),
        ("to", {"to": "bob", "cents": 5}, False),  # the name of a parameter is no value
        ({"arg_key": "cents", "patterns": "1000*"}, {"to": "bob", "cents": 1000}, True),
        ({"arg_key": "to", "patterns": "1000*"}, {"to": "bob", "cents": 1000}, False),
        ("*", {"to": "bob", "cents": 5}, True),
    ],
)
async def test_deny_looks_at_keys_and_numbers(matcher: Any, arguments: Any, denied: bool):
    assert await runs({"deny": {"pay": matcher}}, "pay", **arguments) is not denied


async def test_path_scope_denies_any_path_inside_and_allows_only_when_all_are():
    scope = w.path_scope("paths")
    mixed = ["a", "/etc/passwd"]
    assert not await runs({"allow": {"write_files": scope}}, "write_files", paths=mixed)
    assert not await runs({"deny": {"write_files": scope}}, "write_files", paths=mixed)
    assert await runs({"allow": {"write_files": scope}}, "write_files", paths=["a", "b"])
    assert await runs({"deny": {"write_files": scope}}, "write_files", paths=["/etc/x"])
    assert not await runs({"allow": {"write_files": scope}}, "write_files", paths=["a", 3])
    keyed = [{"/etc/passwd": "a"}]
    assert not await runs({"allow": {"write_files": scope}}, "write_files", paths=keyed)


# --------------------------------------------------------------------------- hosts

EVIL = [
    "https://evil.com/x",
    "https://EVIL.com",
    "HTTPS://evil.com./x",
    "https://evil.com:443/x",
    "https://evil\u3002com/x",
    "https://\u24d4vil.com/",
    "//evil.com/x",
    "evil.com",
    "evil.com/x",
    "evil\uff0ecom",
    "https://user@evil.com/",
    "https://good.com\\@evil.com",
    "https:\\\\evil.com",
    "https://ev\til.com",
    "https://evil.com\n",
    " https://evil.com",
    "https://ev%69l.com/",
    "http:evil.com",
    "http:/evil.com",
    "http:///evil.com",
    "https://evil.com:x/",
    "https://evil..com",
    "https://evil.com#@good.com/",
]
LOOPBACK = [
    "http://127.0.0.1/",
    "http://0177.0.0.1/",
    "http://0x7f.1/",
    "http://2130706433/",
    "http://127.1",
    "http://[::ffff:127.0.0.1]/",
    "http://[::ffff:7f00:1]:80/",
    "http://\uff11\uff12\uff17.0.0.1/",
    "http://127.0.0.1./",
    "http://0x7f000001",
]


@pytest.mark.parametrize("url", EVIL)
async def test_deny_by_host_whatever_its_spelling(url: str):
    assert not await runs({"deny": {"fetch": ["evil.com", "*.evil.com"]}}, "fetch", url=url)
    rules: Any = {"rules": [{"deny": {"domain": "evil.com"}}]}
    assert await decided(rules, "fetch", url=url) == "denied"
    asked: Any = {"rules": [{"ask": {"domain": "evil.com"}}]}
    assert await decided(asked, "fetch", url=url) == "suspended"


@pytest.mark.parametrize("url", LOOPBACK)
async def test_deny_by_address_whatever_its_spelling(url: str):
    assert not await runs({"deny": {"fetch": "127.0.0.1"}}, "fetch", url=url)
    rules: Any = {"rules": [{"deny": {"domain": "127.0.0.*"}}]}
    assert await decided(rules, "fetch", url=url) == "denied"


@pytest.mark.parametrize(
    "url",
    [
        "https://good.com/evil.com",
        "https://evil.com.good.com/",
        "https://notevil.com",
        "good.com/x",
        "https://good.com/?next=https://evil.com",
        "mailto:evil",
        "http://10.0.0.1/",
    ],
)
async def test_other_hosts_are_not_denied(url: str):
    assert await runs({"deny": {"fetch": ["evil.com", "127.0.0.1"]}}, "fetch", url=url)
    rules: Any = {"rules": [{"deny": {"domain": ["evil.com", "127.*"]}}]}
    assert await decided(rules, "fetch", url=url) == "ok"


@pytest.mark.parametrize(
    ("url", "allowed"),
    [
        ("https://api.example.com/v1/x?y=1", True),
        ("https://API.Example.com:443/v1/x", True),
        ("https://api.example.com/v1/../admin", False),
        ("https://api.example.com/v1/%2e%2e/admin", False),
        ("https://api.example.com/v1/%2e%2e%2fadmin", False),
        ("https://api.example.com.evil.com/v1/x", False),
        ("https://api.example.com@evil.com/v1/x", False),
        ("https://evil.com/https://api.example.com/v1/x", False),
        ("https://evil.com/?x=.example.com/v1/", False),
        ("http://api.example.com/v1/x", False),
        ("https://api.example.com:8443/v1/x", False),
        ("https://api\u3002example.com/v1/x", False),  # refused: it is not what it looks like
        ("api.example.com/v1/x", False),
        ("//api.example.com/v1/x", False),
        ("https://a.sub.example.org/v1/x", True),
        ("https://example.org/v1/x", False),
        ("https://evil.com/.example.org/v1/x", False),
        ("https://b\u00fccher.example/x", True),
        ("https://xn--bcher-kva.example/x", True),
        ("https://bucher.example/x", False),
    ],
)
async def test_allow_by_url(url: str, allowed: bool):
    patterns = [
        "https://api.example.com/v1/*",
        "https://*.example.org/v1/*",
        "https://b\u00fccher.example/*",
    ]
    assert await runs({"allow": {"fetch": patterns}}, "fetch", url=url) is allowed


@pytest.mark.parametrize(
    ("pattern", "url", "denied"),
    [
        ("https://evil.com/*", "https://evil.com:8443/x", True),
        ("https://evil.com", "https://evil.com/x", True),
        ("https://evil.com:8443", "https://evil.com/x", False),
        ("https://evil.com/*", "http://evil.com/x", False),
        ("https://evil.com/admin*", "https://evil.com/x/%2e%2e/admin", True),
        ("https://evil.com/admin*", "https://evil.com/x", False),
        ("/etc/*", "file:///etc/passwd", True),
        ("/etc/*", "file:///home/x", False),
        ("b\u00fccher.example", "https://xn--bcher-kva.example/x", True),
        ("xn--bcher-kva.example", "https://B\u00dcCHER.example/x", True),
        ("[::1]", "http://[0:0:0:0:0:0:0:1]:80/", True),
        ("*.EVIL.com", "https://a.evil.com", True),
    ],
)
async def test_deny_by_url(pattern: str, url: str, denied: bool):
    assert await runs({"deny": {"fetch": pattern}}, "fetch", url=url) is not denied


async def test_deny_finds_a_host_in_any_argument():
    lists = {"deny": {"connect": "evil.com"}}
    for peer in (
        "evil.com",
        "EVIL.com.",
        "evil\u3002com",
        ["x", {"evil.com": 1}],
        "wss://evil.com/x",
    ):
        assert not await runs(lists, "connect", peer=peer), peer
    assert await runs(lists, "connect", peer=["good.com", "evil com"])
    assert not await runs({"deny": {"connect": "10.0.0.1"}}, "connect", peer=167772161)


# --------------------------------------------------------------------------- the other users


async def decided(rules: Any, tool: str, **arguments: Any) -> str:
    policy = {"guards": False, **rules}
    agent = w.Agent(scripted(call(tool, **arguments), "ok"), tools=TOOLS, approval_policy=policy)
    out = await agent.run("go")
    return "suspended" if out.status == "suspended" else out.tool_calls[0].outcome


async def test_rules_see_every_command_and_every_key():
    rules: Any = {"rules": [{"deny": {"command": "rm *"}}]}
    for command in ("rm -rf x", ["ls", "rm -rf x"], "  rm   -rf x", "ls; rm -rf x", "ls && rm x"):
        assert await decided(rules, "shell", command=command) == "denied", command
    assert await decided(rules, "shell", command="ls rm") == "ok"
    rules = {"rules": [{"deny": {"path": "secret/*"}}]}
    for paths in (["a", "secret/x"], [{"secret/x": "text"}], ["open/x"], ["secret\\x"], ["a\0"]):
        assert await decided(rules, "write_files", paths=paths) == "denied", paths
    assert await decided(rules, "write_files", paths=["a", "notes/x"]) == "ok"


async def test_an_allowing_rule_is_on_the_receipt_only_where_every_value_fits():
    rules = w.ApprovalPolicy(rules=(w.Rule("allow", {"path": ("notes/*",)}),), guards=False)
    agent = w.Agent(
        scripted(
            call("write_files", paths=["notes/a"]),
            call("write_files", paths=["notes/a", "b"]),
            "ok",
        ),
        tools=TOOLS,
        approval_policy=rules,
    )
    out = await agent.run("go", session_id="s")
    entries = [entry for entry in out.entries if type(entry).__name__ == "ToolDecided"]
    assert [entry.rule for entry in entries] == ["approval_policy", "default"]


async def test_ceilings_roles_and_skills_use_the_same_globs():
    async def outcome(**options: Any) -> str:
        agent = w.Agent(scripted(call("save", target="a"), "ok"), tools=[save, copy], **options)
        return (await agent.run("go")).tool_calls[0].outcome

    for globs, expected in (
        (["s*"], "ok"),
        (["?ave"], "ok"),
        (["[st]ave"], "ok"),
        (["S*"], "denied"),
    ):
        assert await outcome(policy={"tools": globs}) == expected
        assert await outcome(permissions={"allow": globs}) == expected
        skill = w.skill_define("one", description="x", prompt="y", allowed_tools=globs)
        match = w.SkillMatch(invoke=("one",))
        assert await outcome(skills=[skill], skill_match=match) == expected
        roles = w.Roles({"clerk": [f"tool.{glob}" for glob in globs]})
        assert roles.allows(w.Caller("ann", ("clerk",)), "tool.save") is (expected == "ok")
        refusing = w.Roles({"clerk": ["*.*", *[f"!tool.{glob}" for glob in globs]]})
        assert refusing.allows(w.Caller("ann", ("clerk",)), "tool.save") is (expected != "ok")


async def test_a_parents_lists_look_at_the_arguments_of_its_sub_agents():
    for path, expected in (("notes/a", "ok"), ("/etc/x", "denied"), ("notes/../x", "denied")):
        child_model = scripted(call("write_file", path=path, text="notes/hello"), "done")
        child = w.Agent(child_model, name="helper", tools=[write_file])
        lists: Any = {"allow": {"helper": True, "write_file": "notes/*"}}
        parent = scripted(call("helper", task="notes/a"), "ok")
        await w.Agent(parent, tools=[child.as_tool()], permissions=lists).run("go")
        [answer] = [m for m in child_model.requests[1].messages if m.role == "tool"]
        assert answer.content[0].outcome == expected


async def test_a_predicate_cannot_change_what_the_next_line_sees():
    def changes(args: dict[str, Any]) -> bool:
        args["path"] = "notes/a"
        args["paths"] = []
        return False

    lists: Any = {"allow": [{"write_file": changes}, {"write_file": "notes/*"}]}
    assert not await runs(lists, "write_file", path="/etc/x")
    assert await runs(lists, "write_file", path="notes/b")
    denied: Any = {"deny": [{"write_files": changes}, {"write_files": "secret/*"}]}
    assert not await runs(denied, "write_files", paths=["secret/x"])
    assert await runs(denied, "write_files", paths=["x"])
