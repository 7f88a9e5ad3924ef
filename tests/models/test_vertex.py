"""Gemini on Vertex AI: addresses, tokens, and an agent against a fake of it."""

from __future__ import annotations

import pytest

import windlass as w
from windlass.errors import AuthFailed, ConfigError
from windlass.messages import Message
from windlass.models.base import Frame, Request, Settings, silent
from windlass.models.registry.providers import resolve
from windlass.models.wires.anthropic.model import AnthropicMessages
from windlass.models.wires.gemini.model import GeminiGenerate
from windlass.models.wires.gemini.vertex import VertexGenerate
from windlass.testing.providers import (
    FakeAnthropic,
    FakeGemini,
    FakeVertex,
    Reply,
    conversation,
)

VARIABLES = (
    "VERTEX_ACCESS_TOKEN GOOGLE_CLOUD_PROJECT GOOGLE_CLOUD_LOCATION GEMINI_API_KEY GOOGLE_API_KEY"
).split()
ASK = Request([Message("user", "q")], Frame(settings=Settings(max_tokens=9)))
TURNS = [
    Reply("I look.", thinking="hm", tool_calls=[("look", {"order": "7"}), ("pay", {"cents": 5})]),
    Reply(tool_calls=[("look", {"order": "8"}), ("look", {"order": "9"})]),
    Reply("Done – 🌦", thinking="so"),
]


@pytest.fixture(autouse=True)
def bare(monkeypatch: pytest.MonkeyPatch) -> None:
    for variable in VARIABLES:
        monkeypatch.delenv(variable, raising=False)


@pytest.mark.parametrize(
    ("more", "start"),
    [
        ({"project": "p"}, "https://aiplatform.googleapis.com/v1beta1/projects/p/locations/global"),
        (
            {"project": "p", "location": "europe-west4"},
            "https://europe-west4-aiplatform.googleapis.com/v1beta1/projects/p/locations/europe-west4",
        ),
        (
            {"base_url": "https://h/v1/projects/a/locations/b"},
            "https://h/v1/projects/a/locations/b",
        ),
        (
            {"base_url": "https://gate/x", "project": "p"},
            "https://gate/x/projects/p/locations/global",
        ),
    ],
)
def test_addresses(more: dict[str, str], start: str) -> None:
    model = VertexGenerate("gemini-2.5-pro", token="t", **more)
    model.check()
    end = "/publishers/google/models/gemini-2.5-pro:generateContent"
    assert model.asks(stream=False) == start + end


def test_what_is_missing_is_named() -> None:
    with pytest.raises(ConfigError, match="GOOGLE_CLOUD_PROJECT"):
        VertexGenerate("m", token="t").check()
    with pytest.raises(ConfigError, match="VERTEX_ACCESS_TOKEN or pass token="):
        VertexGenerate("m", project="p").check()
    with pytest.raises(ConfigError, match="GEMINI_API_KEY or GOOGLE_API_KEY"):
        GeminiGenerate("m").check()


def test_from_a_name_and_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    env = {
        "VERTEX_ACCESS_TOKEN": "ya29.token",
        "GOOGLE_CLOUD_PROJECT": "mine",
        "GOOGLE_CLOUD_LOCATION": "us-east5",
    }
    model = resolve("vertex:gemini-2.5-pro", environ=env)
    assert isinstance(model, VertexGenerate) and model.secrets == ("ya29.token",)
    assert "/projects/mine/locations/us-east5/" in model.url
    for variable, value in env.items():
        monkeypatch.setenv(variable, value)
    assert VertexGenerate("gemini-2.5-pro").url == model.url
    gemini = resolve("gemini-2.5-flash", environ={"GOOGLE_API_KEY": "k2"})
    assert type(gemini) is GeminiGenerate and gemini.secrets == ("k2",)
    assert type(resolve("gemini-99-next", environ={})) is GeminiGenerate
    assert w.models.gemini is GeminiGenerate and w.models.vertex is VertexGenerate
    with pytest.raises(ConfigError, match="name one"):
        resolve("gemini", environ={})


@pytest.mark.parametrize("kind", ["plain", "async"])
async def test_a_token_is_fetched_before_every_request(kind: str) -> None:
    tokens = ["first-token", "second-token"]

    def fetch() -> str:
        return tokens.pop(0)

    async def fetch_later() -> str:
        return tokens.pop(0)

    async with FakeVertex("hi") as server:
        token = fetch if kind == "plain" else fetch_later
        model = VertexGenerate("gemini-2.5-pro", token=token, base_url=server.url)
        for _ in range(2):
            await model.respond(ASK, silent)
    sent = [asked.headers["authorization"] for asked in server.requests]
    assert sent == ["Bearer first-token", "Bearer second-token"]
    assert model.secrets == ("second-token",) and "second-token" not in repr(vars(model))


async def test_a_wrong_key_says_what_to_do() -> None:
    async with FakeVertex("hi", api_key="right") as server:
        model = VertexGenerate("m", token="wrong-token", base_url=server.url)
        with pytest.raises(AuthFailed, match="pass token="):
            await model.respond(ASK, silent)
    async with FakeGemini("hi", api_key="right") as server:
        gemini = GeminiGenerate("m", api_key="wrong-key", base_url=server.url)
        with pytest.raises(AuthFailed, match="GEMINI_API_KEY"):
            await gemini.respond(ASK, silent)


@pytest.mark.parametrize("stream", [True, False])
@pytest.mark.parametrize("door", ["gemini", "vertex"])
async def test_an_agent_with_two_tools(door: str, stream: bool) -> None:
    done: list[object] = []

    @w.tool
    async def look(order: str) -> dict[str, str]:
        """Look an order up."""
        done.append(order)
        return {"order": order}

    @w.tool
    async def pay(cents: int) -> str:
        """Pay an amount out."""
        done.append(cents)
        raise ValueError("no money")

    async with (FakeVertex if door == "vertex" else FakeGemini)(
        conversation(*TURNS, "Again."), api_key="k"
    ) as server:
        if door == "vertex":
            model = VertexGenerate("gemini-3-flash-preview", token="k", base_url=server.url)
        else:
            model = GeminiGenerate("gemini-3-flash-preview", api_key="k", base_url=server.url)
        agent = w.Agent(model, tools=[look, pay], stream=stream)
        out = await agent.run("Please.")
        more = await agent.run("And now?", session_id=out.session_id)
    assert not server.refused, server.refused[0].message
    assert (out.final_text, more.final_text) == ("Done – 🌦", "Again.")
    assert done == ["7", 5, "8", "9"]
    second, last = server.requests[1].json["contents"], server.requests[-1].json["contents"]
    results = [part["functionResponse"] for part in second[-1]["parts"]]
    assert results[0]["response"] == {"order": "7"}
    assert "no money" in results[1]["response"]["error"]
    # every turn went back with its signature, the words of the last one too
    assert [c["role"] for c in last] == ["user", "model", "user", "model", "user", "model", "user"]
    assert all(
        any("thoughtSignature" in part for part in content["parts"])
        for content in last
        if content["role"] == "model"
    )
    wanted = ":streamGenerateContent" if stream else ":generateContent"
    assert all(asked.path.endswith(wanted) for asked in server.requests)


async def test_a_session_moves_between_providers_and_loses_only_what_is_bound_to_one() -> None:
    @w.tool
    async def look(order: str) -> str:
        """Look an order up."""
        return f"{order} is here"

    said = [
        turn
        for number in range(6)
        for turn in (
            Reply(f"look {number}", thinking="hm", tool_calls=[("look", {"order": str(number)})]),
            Reply(f"found {number}", thinking="so"),
        )
    ]
    script = conversation(*said)
    async with (
        FakeAnthropic(script) as claude,
        FakeGemini(script) as gemini,
        FakeVertex(script) as vertex,
    ):
        models = [
            AnthropicMessages("claude-x", api_key="k", base_url=claude.url),
            GeminiGenerate("gemini-3-flash-preview", api_key="k", base_url=gemini.url),
            VertexGenerate("gemini-3-flash-preview", token="k", base_url=vertex.url),
        ]
        agent = w.Agent(models[0], tools=[look], max_tokens=500)
        session = None
        for number in range(6):
            out = await agent.with_(model=models[number % 3]).run("next", session_id=session)
            session = out.session_id
            assert out.final_text == f"found {number}", out.error
    for server in (claude, gemini, vertex):
        assert not server.refused, server.refused[0].message
    contents = gemini.requests[-1].json["contents"]
    signatures = [
        part["thoughtSignature"]
        for content in contents
        for part in content["parts"]
        if "functionCall" in part
    ]
    foreign = "skip_thought_signature_validator"
    # Claude's, its own, Vertex's, Claude's, and its own of this run
    assert [signature == foreign for signature in signatures] == [True, False, True, True, False]
