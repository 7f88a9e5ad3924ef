"""A Runtime that is asked uses what is its own, whichever Runtime is around."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import pytest

import windlass as w
from windlass.engine.environment import current_environment
from windlass.testing import call, scripted
from windlass.testing.providers import FakeOpenAI

pytestmark = pytest.mark.usefixtures("reachable")

CONFIG = """
[llm.aliases]
writer = "openai:gpt-{name}"
"""


class Place:
    """A Runtime with everything of its own: folder, server, key, alias, queue, store, resources."""

    def __init__(self, name: str, folder: Path, server: FakeOpenAI, **options: Any) -> None:
        self.name, self.server = name, server
        self.folder = folder / name
        self.folder.mkdir()
        config = self.folder / "windlass.toml"
        config.write_text(CONFIG.format(name=name))
        environ = {
            "OPENAI_API_KEY": f"key-of-{name}",
            "OPENAI_BASE_URL": server.url,
            "WINDLASS_LLM_TRANSCRIPT_DIR": str(self.folder / "transcripts"),
            "HOME": str(self.folder),
        }

        @w.tool(side_effect_level="read_only")
        async def where() -> str:
            """Where are we?"""
            return self.name

        self.rt = w.Runtime(
            self.folder / "s.db",
            config,
            environ=environ,
            tools=[where, *options.pop("tools", ())],
            **options,
        )

    @property
    def asked(self) -> list[tuple[str, str]]:
        """The models that its server was asked for, and the keys."""
        return [(r.json["model"], r.headers["authorization"]) for r in self.server.requests]

    @property
    def transcripts(self) -> int:
        found = self.folder / "transcripts" / "llm_transcript.jsonl"
        if not found.exists():
            return 0
        return len({json.loads(line)["session_id"] for line in found.read_text().splitlines()})

    async def sessions(self) -> int:
        return len(await self.rt.store.sessions())


@pytest.fixture
async def places(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[list[Place]]:
    monkeypatch.setenv("OPENAI_API_KEY", "key-of-the-process")
    monkeypatch.setenv("OPENAI_BASE_URL", "http://127.0.0.1:1")
    monkeypatch.setenv("WINDLASS_LLM_TRANSCRIPT_DIR", str(tmp_path / "nobody"))
    async with AsyncExitStack() as stack:
        made = [
            Place(name, tmp_path, await stack.enter_async_context(FakeOpenAI(f"I am {name}.")))
            for name in ("a", "b")
        ]
        yield made
        for place in made:
            await place.rt.aclose()
        assert not (tmp_path / "nobody").exists()


async def generated(rt: w.Runtime) -> str:
    return (await rt.models.generate("Who are you?", model="writer")).content


async def streamed(rt: w.Runtime) -> str:
    pieces = [
        c.delta_content or "" async for c in rt.models.generate_stream("Who?", model="writer")
    ]
    return "".join(pieces)


def only(place: Place, other: Place) -> None:
    name = f"gpt-{place.name}"
    assert set(place.asked) == {(name, f"Bearer key-of-{place.name}")}
    assert other.asked == [] and other.transcripts == 0


# --------------------------------------------------------------------------- a Runtime that is asked


@pytest.mark.parametrize("door", [generated, streamed])
async def test_a_runtime_is_asked_inside_the_block_of_another(places, door):
    a, b = places
    async with b.rt:
        assert await door(a.rt) == "I am a."
        assert current_environment() is b.rt
        only(a, b)
        assert (a.transcripts, await a.sessions(), await b.sessions()) == (1, 1, 0)
    await a.rt.aclose()


async def test_two_at_once_do_not_mix(places):
    a, b = places
    async with b.rt:
        said = await asyncio.gather(*(generated(p.rt) for p in (a, b, a, b, a)))
    assert said == ["I am a.", "I am b.", "I am a.", "I am b.", "I am a."]
    assert (a.transcripts, b.transcripts) == (3, 2)
    assert {key for _, key in a.asked} == {"Bearer key-of-a"}
    assert {key for _, key in b.asked} == {"Bearer key-of-b"}


async def test_the_mock_of_a_runtime_is_its_own(places):
    a, b = places
    async with a.rt:
        w.llm_mock(text="queued for a")
    async with b.rt:
        w.llm_mock(text="queued for b")
        out = await a.rt.models.generate("x", model="mock:m")
        assert out.content == "queued for a"
        assert (await w.llm_call("x", provider="mock")).text == "queued for b"


async def test_what_a_tool_looks_up_is_of_the_runtime_that_runs_it(tmp_path, places):
    a, b = places
    seen: list[Any] = []

    @w.tool
    async def look() -> str:
        """Look around."""
        seen.append(current_environment())
        return (await w.llm_call("Who?", model="writer")).text

    @w.tool
    def look_in_a_thread() -> str:
        """Look around from a thread."""
        seen.append(current_environment())
        return "ok"

    child = w.Agent("writer", name="child", tools=[look])
    model = scripted(call("look"), call("look_in_a_thread"), call("child", task="Who?"), "done")
    async with b.rt:
        out = await a.rt.models.generate(
            "go", model=model, tools=[look, look_in_a_thread, child.as_tool()]
        )
    assert out.content == "done"
    assert seen == [a.rt] * len(seen) and len(seen) == 2
    only(a, b)
    assert (await a.sessions(), await b.sessions()) == (2, 0)  # the child's beside its own


async def test_audit_and_resources_of_a_runtime_are_its_own(places):
    a, b = places
    async with b.rt:
        await a.rt.models.generate("go", model=scripted(call("where"), "done"))
        [entry] = (await a.rt.audit.query()).entries
        assert entry.tool == "where" and not (await b.rt.audit.query()).entries
        assert (await a.rt.audit.verify()).ok


# --------------------------------------------------------------------------- an agent in two places


async def test_an_agent_is_at_home_where_it_runs(places):
    a, b = places
    agent = w.Agent("writer")
    for place in (a, b, a):
        async with place.rt:
            assert (await agent.run("Who?")).output == f"I am {place.name}."
    assert [key for _, key in a.asked] == ["Bearer key-of-a"] * 2
    assert [key for _, key in b.asked] == ["Bearer key-of-b"]
    assert (a.transcripts, b.transcripts) == (2, 1)


async def test_a_stream_belongs_to_where_it_was_asked_for(places):
    a, b = places
    agent = w.Agent("writer")
    async with a.rt:
        stream = agent.stream("Who?")
        async with b.rt:
            async with stream as run:
                assert (await run.result()).output == "I am a."
            assert current_environment() is b.rt
        only(a, b)
        assert (await a.sessions(), await b.sessions()) == (1, 0)


async def test_a_model_object_has_the_key_of_whoever_asks(places):
    from windlass.models.wires.openai.chat import OpenAIChat

    a, b = places
    model = OpenAIChat("gpt-x", base_url=a.server.url)
    for place in (a, b):
        async with place.rt:
            await w.llm_call("x", model=model)
            await w.agent_loop("x", model=model)
    keys = [key for _, key in a.asked]
    assert keys == ["Bearer key-of-a"] * 2 + ["Bearer key-of-b"] * 2


async def test_an_empty_environment_has_no_keys(tmp_path, monkeypatch):
    monkeypatch.setenv("OPENAI_API_KEY", "key-of-the-process")
    async with w.Runtime(environ={}):
        for door in (
            w.llm_call("x", model="openai:gpt-5"),
            w.agent_loop("x", model="openai:gpt-5"),
            w.Agent("openai:gpt-5").run("x"),
        ):
            with pytest.raises(w.ConfigError, match="OPENAI_API_KEY"):
                await door
    async with FakeOpenAI("hi") as server:
        env = {"OPENAI_API_KEY": "mine", "OPENAI_BASE_URL": server.url}
        async with w.Runtime(environ=env):
            assert (await w.llm_call("x", model="openai:gpt-5")).text == "hi"
        assert server.requests[0].headers["authorization"] == "Bearer mine"


@pytest.mark.parametrize(
    ("environ", "url", "proxy"),
    [
        ({}, "https://api.test/v1", None),
        ({"HTTPS_PROXY": "http://p:1"}, "https://api.test/v1", "http://p:1"),
        (
            {"HTTPS_PROXY": "http://P:1", "https_proxy": "http://p:2"},
            "https://x.test",
            "http://p:2",
        ),
        ({"ALL_PROXY": "http://p:1"}, "http://api.test/v1", "http://p:1"),
        ({"ALL_PROXY": "http://p:1", "NO_PROXY": "other,.api.test"}, "http://x.api.test", None),
        ({"ALL_PROXY": "http://p:1", "NO_PROXY": "*"}, "http://x.api.test", None),
        ({"ALL_PROXY": "http://p:1"}, "http://127.0.0.1:8080/v1", None),
    ],
)
async def test_proxies_are_those_of_the_runtime(environ, url, proxy, monkeypatch):
    from windlass.models.transport.http import _Pool

    monkeypatch.setenv("HTTPS_PROXY", "http://of-the-process:1")
    pool = _Pool()
    try:
        async with w.Runtime(environ=environ):
            assert pool._proxy(url) == proxy
        assert pool._proxy("https://api.test/v1") == "http://of-the-process:1"
    finally:
        await pool.session.close()


# --------------------------------------------------------------------------- several tasks inside


async def test_several_tasks_may_be_inside_one_runtime(tmp_path):
    rt = w.Runtime(tmp_path / "s.db")
    inside, leave = asyncio.Event(), asyncio.Event()

    async def short() -> str:
        async with rt:
            inside.set()
            out = await w.Agent(scripted("short")).run("x")
        assert current_environment() is not rt
        return out.output

    async def long() -> str:
        async with rt:
            await leave.wait()
            return (await w.Agent(scripted("long")).run("x")).output

    waiting = asyncio.create_task(long())
    assert await short() == "short"
    leave.set()  # the first has left: the store is there for the second
    assert await waiting == "long"
    async with rt:  # and it may be entered again, also twice
        async with rt:
            assert len(await rt.store.sessions()) == 2
        assert len(await rt.store.sessions()) == 2


async def test_many_tasks_come_and_go(tmp_path):
    rt = w.Runtime(tmp_path / "s.db")

    async def one(n: int) -> str:
        for _ in range(n % 3):
            await asyncio.sleep(0)
        async with rt:
            out = await w.Agent(scripted(f"{n}")).run("x", session_id=f"s{n}")
            await asyncio.sleep(0)
            return out.output

    assert await asyncio.gather(*(one(n) for n in range(20))) == [f"{n}" for n in range(20)]
    async with rt:
        assert len(await rt.store.sessions()) == 20
