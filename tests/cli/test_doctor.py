"""`windlass models doctor` against servers with one thing wrong: it finds that, and nothing else."""

from __future__ import annotations

import json
import signal
import tomllib
from pathlib import Path
from typing import Any

import msgspec
import pytest

from windlass.errors import ConfigError
from windlass.models.doctor import examine
from windlass.models.doctor.row import (
    as_toml,
    find_shadowing_glob,
    merge_row,
    write,
)
from windlass.models.doctor.run import PROBES
from windlass.models.registry.capabilities import Rule
from windlass.models.registry.providers import resolve
from windlass.testing.providers import (
    FAULTS,
    Asked,
    Body,
    FakeAnthropic,
    FakeBedrock,
    FakeGemini,
    FakeOllama,
    FakeOpenAI,
    FakeResponses,
    Pieces,
    Rejected,
    Reply,
    Silence,
    Status,
    Twist,
    applies,
)

from .conftest import start

KEY = "sk-canary-0123456789abcdef"


def words_of(body: dict[str, Any]) -> str:
    return json.dumps(body.get("messages"))


class Bright:
    """A model that does what it is asked, but for what it `lacks`."""

    def __init__(self, *lacks: str) -> None:
        self.lacks = frozenset(lacks)

    def __call__(self, body: dict[str, Any], _headers: Any) -> Reply:
        said, tools = words_of(body), body.get("tools")
        if "long poem" in said:
            cut = None if "finish_reason" in self.lacks else "max_tokens"
            return Reply("The sea", stop_reason=cut)
        if "59.90" in said:
            return Reply("" if "loop" in self.lacks else "It costs 59.90.")
        if tools and (reply := self.called(body, said)):
            return reply
        if "json_schema" in json.dumps(body.get("response_format") or {}):
            right = '{"colour": "teal", "count": 3}'
            return Reply('{"fruit": "apple"}' if "schema" in self.lacks else right)
        if body.get("response_format"):
            return Reply("An apple." if "json" in self.lacks else '{"name": "apple"}')
        if "password" in said:
            return Reply("PLUM")
        if "17 * 23" in said:
            asked = body.get("reasoning_effort") or body.get("chat_template_kwargs")
            thinks = "thinking" not in self.lacks and asked
            off = asked in ("none", {"enable_thinking": False})
            return Reply("391", thinking="17 times 23 is 391" if thinks and not off else "")
        return Reply("red hello, one, two, three, four, five")

    def called(self, body: dict[str, Any], said: str) -> Reply | None:
        choice = body.get("tool_choice")
        if "tools" in self.lacks:
            return Reply("I have no tools.")
        if isinstance(choice, dict):
            wrong = "choice_named" in self.lacks
            return Reply(tool_calls=[("look_up", {"order": "A-1"}) if wrong else ("clock", {})])
        if "Say hello" in said:
            if choice != "required" or "choice_required" in self.lacks:
                return None
            return Reply(tool_calls=[("clock", {})])
        orders = ["A-1", "A-2"] if "at once" in said and "parallel" not in self.lacks else ["A-1"]
        arguments = [{"nr": o} if "arguments" in self.lacks else {"order": o} for o in orders]
        return Reply(tool_calls=[("look_up", a) for a in arguments])


class Picky(FakeOpenAI):
    """An OpenAI that knows its model's name, and refuses what it is told to."""

    refuses: tuple[str, ...] = ()

    def check(self, asked: Asked) -> None:
        super().check(asked)
        if asked.json["model"] != "gpt-4o":
            raise Rejected("The model does not exist.", status=404, code="model_not_found")
        for word in self.refuses:
            if word in asked.body.decode():
                raise Rejected(f"'{word}' is not supported by this model.")


async def doctor(script, *, server=Picky, faults=None, refuses=(), model="openai:gpt-4o", **more):
    async with server(
        script, faults=faults, api_key=KEY, also=["chat_template_kwargs", "reasoning", "thinking"]
    ) as fake:
        fake.refuses = refuses

        def make(name=None, api_key=None):
            provider, _, named = model.partition(":")
            return resolve(name or named, provider, base_url=fake.url, api_key=api_key or KEY)

        report = await examine(make, **{"max_usd": 100, **more})
        return report, fake


def not_right(report) -> set[str]:
    return {finding.name for finding in report.findings if finding.status != "pass"}


#: What no fake OpenAI has: Chat Completions has neither, and gpt-4o does not think.
NEVER = {"count_tokens", "completion", "thinking", "thinking_off", "effort"}


async def test_a_model_that_can_do_everything_holds_a_loop():
    report, fake = await doctor(Bright("thinking"))
    assert not_right(report) <= NEVER
    assert report.holds_a_loop
    assert [finding.name for finding in report.findings] == list(PROBES)
    assert report.row["native_tools"] is True
    assert report.row["structured"] == ["schema", "json", "tool", "prompt"]
    msgspec.convert({"model_match": "gpt-4o", **report.row}, Rule)  # as the matrix reads it
    assert report.calls <= 30 and report.cost_usd > 0 and report.priced
    assert not [it for it in fake.refused if it.status not in (401, 404)]


def if_streamed(fault):
    return lambda _index, asked: fault if asked.streamed else None


def if_called(fault, *, streamed):
    def choose(_index, asked):
        return fault if asked.json.get("tools") and asked.streamed is streamed else None

    return choose


@pytest.mark.parametrize(
    ("lacks", "faults", "refuses", "found", "holds"),
    [
        (("parallel",), None, (), {"parallel": "unsupported"}, True),
        (("choice_required",), None, (), {"choice_required": "unsupported"}, True),
        (("choice_named",), None, (), {"choice_named": "unsupported"}, True),
        (("json",), None, (), {"json": "unsupported"}, True),
        (("schema",), None, (), {"schema": "unsupported"}, True),
        (("finish_reason",), None, (), {"finish_reason": "unsupported"}, True),
        (("loop",), None, (), {"loop": "fail"}, False),
        ((), None, ("image_url",), {"image": "unsupported"}, True),
        ((), None, ("json_schema",), {"schema": "unsupported"}, True),
        ((), None, ("json_object",), {"json": "unsupported"}, True),
        ((), None, ('"tool"',), {"loop": "fail"}, False),
        ((), if_streamed(Twist("no_usage")), (), {"stream_usage": "unsupported"}, True),
        (
            (),
            if_called(Twist("call_cut_short"), streamed=True),
            (),
            {"streamed_arguments": "unsupported"},
            True,
        ),
        (
            (),
            if_called(Twist("no_arguments"), streamed=True),
            (),
            {"streamed_arguments": "fail"},
            True,
        ),
        ((), if_streamed(Body("ignores_stream")), (), {"stream": "unsupported"}, True),
        (
            (),
            if_streamed(Status(500)),
            (),
            {
                "stream": "fail",
                "stream_usage": "fail",
                "streamed_arguments": "fail",
                "system": "fail",
                "loop": "fail",
            },
            False,
        ),
    ],
)
async def test_it_finds_exactly_what_is_broken(lacks, faults, refuses, found, holds):
    report, _ = await doctor(Bright("thinking", *lacks), faults=faults, refuses=refuses)
    status = {it.name: it.status for it in report.findings}
    assert {name: status[name] for name in not_right(report) - NEVER} == found
    assert report.holds_a_loop is holds


async def test_a_model_without_tools_cannot_hold_a_loop_and_the_row_says_so():
    report, _ = await doctor(Bright("tools", "thinking"))
    status = {it.name: it.status for it in report.findings}
    assert status["tools"] == "unsupported" and not report.holds_a_loop
    assert report.row["native_tools"] is False
    assert any("native_tools" in line for line in report.contradictions)
    refused, _ = await doctor(Bright("thinking"), refuses=('"tools"',))
    assert {it.name: it.status for it in refused.findings}["tools"] == "unsupported"
    assert refused.row["native_tools"] is False


async def test_what_is_refused_is_in_the_row():
    refuses = ("image_url", '"tool_choice":"required"')
    report, _ = await doctor(Bright("thinking"), refuses=refuses)
    assert report.row["images"] is False and report.row["forces_calls"] is False
    told = " ".join(report.contradictions)
    assert "images: the row says true" in told and "forces_calls: the row says true" in told


async def test_arguments_that_do_not_fit_are_a_failure():
    report, _ = await doctor(Bright("arguments", "thinking"))
    tools = next(it for it in report.findings if it.name == "tools")
    assert tools.status == "fail" and "do not fit the schema" in tools.detail


async def test_a_wrong_key_is_found_at_once_and_nothing_else_is_asked():
    async with Picky("hello", api_key="another") as fake:
        report = await examine(
            lambda name=None, api_key=None: resolve("openai:gpt-4o", base_url=fake.url, api_key=KEY)
        )
    assert report.findings[0].status == "fail" and "key" in report.findings[0].detail
    assert {it.status for it in report.findings[1:]} == {"skipped"}
    assert (len(fake.requests), report.holds_a_loop, report.row) == (1, False, {})
    assert KEY not in str(report)


async def test_nobody_there():
    report = await examine(
        lambda name=None, api_key=None: resolve("x", base_url="http://127.0.0.1:1/v1")
    )
    assert report.findings[0].status == "fail" and "cannot reach" in report.findings[0].detail


async def test_money_and_time_are_bounded():
    report, fake = await doctor(Bright("thinking"), max_usd=0.0)
    assert not fake.requests and {it.status for it in report.findings} == {"skipped"}
    report, fake = await doctor(Bright("thinking"), max_usd=0.008)
    assert 0 < len(fake.requests) < 15 and report.cost_usd <= 0.008
    assert "could pass $0.008" in report.findings[-1].detail
    report, fake = await doctor(Bright(), faults=Silence("before_headers"), timeout=0.05)
    assert report.findings[0].status == "fail"


async def test_a_busy_provider_is_asked_again():
    busy = [Status(429, retry_after=0.001, dialect="ms"), *([None] * 60)]
    report, _ = await doctor(Bright("thinking"), faults=busy)
    assert report.holds_a_loop


@pytest.mark.parametrize("name", [it for it in FAULTS if applies(it, "openai", stream=True)])
async def test_whatever_goes_wrong_there_is_a_report(name):
    """A lying, broken or silent server is a finding, never an exception."""
    fault = FAULTS[name]
    quiet = isinstance(
        fault, (Silence, Status, Pieces)
    )  # waits until the time is used up, or is told to

    def if_it_can(_index, asked):
        return fault if applies(name, "openai", stream=asked.streamed) else None

    report, _ = await doctor(Bright("thinking"), faults=if_it_can, timeout=0.05 if quiet else 30)
    assert [it.name for it in report.findings] == list(PROBES)
    assert KEY not in str(report)


async def test_one_probe_alone_and_a_misspelt_one():
    report, _ = await doctor(Bright(), only=["parallel"])
    assert [it.name for it in report.findings] == ["reach", "parallel"]
    assert not report.holds_a_loop
    with pytest.raises(ConfigError, match="did you mean 'parallel'"):
        await doctor(Bright(), only=["paralell"])


class Nine(Picky):
    """Takes ids of nine characters only, as Mistral does."""

    def check(self, asked: Asked) -> None:
        super().check(asked)
        for message in asked.json["messages"]:
            if len(message.get("tool_call_id", "123456789")) != 9:
                raise Rejected("Tool call id must be a-z, A-Z, 0-9, with a length of 9.")


async def test_what_a_server_wants_of_ids_and_signatures_is_in_the_row():
    report, _ = await doctor(Bright("thinking"), server=Nine)
    assert report.holds_a_loop and report.row["call_ids"] == "9"
    assert any(line.startswith("call_ids") for line in report.contradictions)
    async with FakeGemini(bright_anywhere) as fake:  # it wants calls signed, as Gemini 3 does
        report = await examine(
            lambda name=None, api_key=None: resolve(
                name or "gemini-2.5-flash", "gemini", base_url=fake.url, api_key=KEY
            ),
            max_usd=100,
        )
    assert report.holds_a_loop and report.row["signs_calls"] is True


def bright_anywhere(body: dict[str, Any], _headers: Any) -> Reply:
    """The same on every wire: what is asked is found by its words."""
    said = json.dumps([body.get(key) for key in ("messages", "contents", "input")])
    whole = json.dumps(body)
    if "long poem" in said:
        return Reply("The sea", stop_reason="max_tokens")
    if "Describe an apple" in said:
        return Reply('{"colour": "teal", "count": 3}')
    if '"clock"' in whole:
        return Reply(tool_calls=[("clock", {})])
    if '"look_up"' in whole and "59.90" not in said:
        both = ["A-1", "A-2"] if "at once" in said else ["A-1"]
        return Reply(tool_calls=[("look_up", {"order": order}) for order in both])
    return Reply("PLUM, red, hello, 391, 59.90", thinking="hm" if "17 * 23" in said else "")


WIRES = [
    (FakeAnthropic, "anthropic", "claude-sonnet-4-5"),
    (FakeResponses, "openai-responses", "gpt-5"),
    (FakeGemini, "gemini", "gemini-2.5-flash"),
    (FakeOllama, "ollama", "qwen3"),
    (FakeBedrock, "bedrock", "anthropic.claude-sonnet-4-5-20250929-v1:0"),
]


@pytest.mark.parametrize(("server", "provider", "model"), WIRES, ids=lambda it: str(it)[:20])
async def test_every_wire(server, provider, model, monkeypatch):
    monkeypatch.setenv("AWS_REGION", "us-east-1")
    async with server(bright_anywhere, api_key=KEY) as fake:

        def make(name=None, api_key=None):
            return resolve(name or model, provider, base_url=fake.url, api_key=api_key or KEY)

        report = await examine(make, max_usd=100)
    status = {it.name: it.status for it in report.findings}
    assert report.holds_a_loop, report.findings
    for name in (
        "plain",
        "stream",
        "stream_usage",
        "system",
        "parallel",
        "streamed_arguments",
        "choice_named",
        "finish_reason",
        "thinking",
        "image",
        "bad_key",
    ):
        assert status[name] == "pass", report.findings
    assert report.row["thinking"] is True and report.row["native_tools"] is True
    assert "fail" not in status.values(), report.findings
    msgspec.convert({"model_match": "m", **report.row}, Rule)


# --------------------------------------------------------------------------- the file

ROW = {"native_tools": True, "structured": ["schema", "json"], "call_ids": "9"}
FILE = Path("windlass.toml")


def test_a_row_is_toml_that_says_the_same():
    text = as_toml("openai", 'odd "name"\\n', ROW)
    read = tomllib.loads(text)["capabilities"]["provider"]["openai"]
    assert read == [{"model_match": 'odd "name"\\n', **ROW}]
    assert "my own" in tomllib.loads(as_toml("my own", "m", {}))["capabilities"]["provider"]
    with pytest.raises(ConfigError, match="no row can be about"):
        as_toml("openai", "gpt-*", ROW)


@pytest.mark.parametrize(
    "before",
    [
        "",
        "# mine\n[store]\nurl = 'memory:'  # kept",
        "# mine\r\n[store]\r\nurl = 'memory:'\r\n",
        "[[capabilities.provider.openai]]\nmodel_match = 'gpt-4o'\n\n\n",
    ],
)
def test_the_user_s_text_is_never_lost(before):
    once, done = merge_row(before, "openai", "gpt-4o", ROW, FILE)
    assert done == "added" and once.startswith(before)
    assert ("\r\n" in before) is ("\r\n" in once.removeprefix(before))
    again, done = merge_row(once, "openai", "gpt-4o", ROW, FILE)
    assert (again, done) == (once, "unchanged")
    after = once + "# and this\n"
    changed, done = merge_row(after, "openai", "gpt-4o", {"native_tools": False}, FILE)
    assert done == "replaced" and changed.startswith(before) and changed.endswith("# and this\n")
    rows = tomllib.loads(changed)["capabilities"]["provider"]["openai"]
    assert rows[-1] == {"model_match": "gpt-4o", "native_tools": False}
    other, done = merge_row(changed, "openai", "gpt-4o-mini", ROW, FILE)
    assert done == "added" and other.startswith(changed)


def test_a_row_of_the_user_s_above_it_wins_and_that_is_told(project: Path):
    file = project / "windlass.toml"
    file.write_text("[[capabilities.provider.openai]]\nmodel_match = 'gpt-*'\n")
    write(file, "openai", "gpt-4o", ROW)
    assert find_shadowing_glob(file, "openai", "gpt-4o") == "gpt-*"
    assert find_shadowing_glob(file, "openai", "o3") is None
    write(file, "mistral", "x", ROW)
    assert find_shadowing_glob(file, "mistral", "x") is None


def test_a_row_that_was_changed_by_hand_is_left_alone():
    once, _ = merge_row("", "openai", "gpt-4o", ROW, FILE)
    mine = once.replace('call_ids = "9"', 'call_ids = "40"  # I know better')
    with pytest.raises(ConfigError, match=r"windlass.toml:1: .* changed by hand"):
        merge_row(mine, "openai", "gpt-4o", {}, FILE)


def test_a_file_that_would_break_stays_as_it_was(project: Path):
    file = project / "windlass.toml"
    text = "capabilities.provider.openai = []\n"
    file.write_text(text)
    with pytest.raises(ConfigError, match="add the row by hand"):
        write(file, "openai", "gpt-4o", ROW)
    assert file.read_text() == text and list(project.iterdir()) == [file]
    file.write_bytes(b"\xff\xfe")
    with pytest.raises(ConfigError, match="not UTF-8"):
        write(file, "openai", "gpt-4o", ROW)


def test_a_link_is_not_written_through_and_a_file_keeps_its_mode(project: Path):
    real = project / "real.toml"
    real.write_text("# mine\n")
    real.chmod(0o640)
    (project / "windlass.toml").symlink_to(real)
    with pytest.raises(ConfigError, match="symbolic link.*by hand"):
        write(project / "windlass.toml", "openai", "gpt-4o", ROW)
    assert (project / "windlass.toml").is_symlink() and real.read_text() == "# mine\n"
    assert write(real, "openai", "gpt-4o", ROW) == "added"
    assert real.stat().st_mode & 0o777 == 0o640


# --------------------------------------------------------------------------- the command


@pytest.fixture
async def server():
    async with Picky(Bright("thinking"), api_key=KEY) as fake:
        fake.also = frozenset({"chat_template_kwargs"})
        yield fake


async def doctored(*args: str, **more: Any) -> tuple[int, str, str]:
    import asyncio

    process = start("models", "doctor", *args, **more)
    out, err = await asyncio.to_thread(process.communicate)
    return process.returncode, out, err


async def test_the_command_prints_a_table_a_price_and_a_row(server, monkeypatch, project: Path):
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    (project / "windlass.toml").write_text("# mine\n")
    code, out, err = await doctored("openai/gpt-4o", "--base-url", server.url, "--write")
    assert (code, err) == (0, "")
    lines = out.splitlines()
    assert lines[0].split()[:2] == ["reach", "pass"]
    assert any(line.startswith("parallel") and "2 calls in one reply" in line for line in lines)
    assert "[[capabilities.provider.openai]]" in lines and 'model_match = "gpt-4o"' in lines
    assert lines[-1] == "can hold a loop with tools" and "row added: windlass.toml" in lines
    assert "$0." in out and KEY not in out
    text = (project / "windlass.toml").read_text()
    assert text.startswith("# mine\n")
    rows = tomllib.loads(text)["capabilities"]["provider"]["openai"]
    assert rows[0]["native_tools"] is True


async def test_a_row_that_was_written_is_the_one_that_applies(monkeypatch, project: Path, windlass):
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    args = ("openai/gpt-4o", "--write", "--only", "tools", "--json")
    async with Picky(Bright("tools"), api_key=KEY) as fake:
        code, out, _ = await doctored(*args, "--base-url", fake.url)
        first = json.loads(out)
        assert code == 1 and "native_tools" in str(first["contradictions"])
        code, out, _ = await doctored(*args, "--base-url", fake.url)
    again = json.loads(out)
    assert again["contradictions"] == [] and again["written"] == "row unchanged: windlass.toml"
    assert again["row"] == first["row"]
    assert "right" in windlass("config", "check").stdout
    assert windlass("lint").stdout == "nothing to mend\n"


async def test_json_and_a_failure(server, monkeypatch):
    monkeypatch.setenv("MY_KEY", "wrong")
    code, out, err = await doctored(
        "gpt-4o", "--base-url", server.url, "--key-env", "MY_KEY", "--json"
    )
    report = json.loads(out)
    assert code == 1 and report["holds_a_loop"] is False
    assert report["findings"][0]["status"] == "fail"
    assert "reach" in err


def test_mistakes_are_one_line(windlass):
    assert "OPENAI_API_KEY" in windlass("models", "doctor", "openai/gpt-4o", code=2).stderr
    bad = windlass("models", "doctor", "x", "--base-url", "u", "--key-env", "NO", code=2).stderr
    assert "--key-env NO: the variable is not set" in bad
    assert "windlass: error" in windlass("models", "doctor", "opnai/gpt", code=2).stderr


async def test_nobody_there_is_two_lines_and_not_twenty():
    code, out, _ = await doctored("x", "--base-url", "http://127.0.0.1:1/v1")
    lines = out.splitlines()
    assert code == 1 and lines[0].startswith("reach               fail         cannot reach")
    assert lines[1] == f"{len(PROBES) - 1} probes skipped: it was not reached"
    assert lines[-1].startswith("cannot hold a loop with tools: reach: cannot reach")


async def test_ctrl_c_is_clean(monkeypatch):
    import asyncio

    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    async with Picky("hello", api_key=KEY, faults=Silence("before_headers")) as fake:
        process = start("models", "doctor", "openai/gpt-4o", "--base-url", fake.url)
        await fake.arrived()
        process.send_signal(signal.SIGINT)
        out, err = await asyncio.to_thread(process.communicate)
    assert (process.returncode, err.strip(), out) == (130, "windlass: cancelled", "")
