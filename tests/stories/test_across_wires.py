"""One conversation of sixty turns, each asked of another provider: nothing said is lost on the way.

Every fake refuses what its provider would. What only one provider understands goes back to it and
to nobody else; everything else goes to all.
"""

from __future__ import annotations

import base64
import json
import re
from contextlib import AsyncExitStack
from typing import Any

import msgspec
import pytest

import windlass as w
from tests.stories.helpers import kept
from tests.stories.wire_fakes import servers
from windlass.loop.requests import requests_of
from windlass.models.history import audit
from windlass.models.wires.base import HttpModel
from windlass.models.wires.gemini.rules import FOREIGN
from windlass.testing.providers import Asked, Reply, conversation

TURNS = 60
PNG = base64.b64encode(b"\x89PNG\r\n\x1a\n" + bytes(16)).decode()
NOTES = base64.b64encode("Größe: 7 µm – 東京".encode()).decode()


pytestmark = pytest.mark.usefixtures("reachable")


# --------------------------------------------------------------------------- what is said


@w.tool(name="shop.look:up")  # a name that no provider takes as it is
async def look_up(order: str, deep: dict[str, Any] | None = None) -> dict[str, Any]:
    """Look an order up."""
    return {"order": order, "deep": deep, "where": "Zürich – 東京 🚚"}


@w.tool
async def now() -> str:
    """The time."""
    return "12:00"


@w.tool
async def broken(order: str) -> str:
    """Fails."""
    raise RuntimeError(f"no such order {order}")


@w.tool
async def picture(order: str) -> Any:
    """Show it."""
    return w.ToolResult(content=(w.Text(f"pic {order}"), w.Image(data=PNG)))


def prompt(turn: int) -> Any:
    words = f'[u{turn}] Wie geht’s? 你好 🌦 \\n "{turn}"'
    match turn % 7:
        case 3:
            return [w.Text(words), w.Image(data=PNG)]
        case 5:
            return [w.Text(words), w.Document(NOTES, "text/plain", title=f"Notes {turn}")]
        case _:
            return words


def replies(turn: int) -> list[Reply]:
    """What the model does in a turn: calls of several kinds, and its last words."""
    number, thought = str(turn), f"[t{turn}] hm – ü"
    deep = {"a": [1, 2.5, None, True], "b": '"ü"\n'}
    last = Reply(f"[a{turn}] fertig ✓", f"[t{turn}b] so")
    match turn % 8:
        case 1:
            return [Reply(f"[c{turn}]", thought, [("shop.look:up", {"order": number})]), last]
        case 2:
            calls = [
                ("shop.look:up", {"order": "1", "deep": deep}),
                ("now", {}),
                ("shop.look:up", {"order": "2"}),
            ]
            return [Reply(f"[c{turn}]", thought, calls), last]
        case 4:
            return [Reply("", thought, [("broken", {"order": number}), ("now", {})]), last]
        case 5:
            return [Reply(f"[c{turn}]", "", [("picture", {"order": number})]), last]
        case 6:
            again = Reply(f"[d{turn}]", f"[t{turn}a]", [("no_such_tool", {"order": number})])
            return [Reply("", thought, [("now", {})]), again, last]
        case _:
            return [last]


SCRIPT = [reply for turn in range(TURNS) for reply in replies(turn)]


def wire_names(reply: Reply, tools: dict[str, str]) -> Reply:
    """The reply as a model makes it, which knows tools by the names that it was told."""
    calls = [(tools.get(name, name), arguments) for name, arguments in reply.tool_calls]
    return msgspec.structs.replace(reply, tool_calls=calls)


def offered(body: Any) -> dict[str, str]:
    """Our names of the tools in a request, by their descriptions, to the names they have there."""
    found = re.findall(r'"name":\s*"([^"]+)",\s*"description":\s*"([^"]+)"', json.dumps(body))
    ours = {one.description: one.name for one in (look_up, now, broken, picture)}
    return {ours[about]: name for name, about in found if about in ours}


def script(body: dict[str, Any], headers: Any) -> Reply:
    spoken = body
    if "messages" in body:  # without what a wire puts between a result and a user's picture
        heard = [m for m in body["messages"] if m.get("content") != "OK."]
        spoken = {**body, "messages": heard}
    return wire_names(conversation(*SCRIPT)(spoken, headers), offered(body))


# --------------------------------------------------------------------------- the story


def marks(text: str, kind: str) -> list[str]:
    return re.findall(rf"\[({kind}\d+[ab]?)\]", text)


async def test_sixty_turns_across_every_wire() -> None:
    doors = servers(script)
    sent: list[tuple[str, HttpModel, Asked]] = []
    async with AsyncExitStack() as stack:
        models: dict[str, HttpModel] = {}
        for wire, (server, make) in doors.items():
            await stack.enter_async_context(server)
            models[wire] = make(server.url)
        agent = w.Agent("mock", tools=[look_up, now, broken, picture], max_tokens=4000)
        session, out = None, None
        for turn in range(TURNS):
            wire = list(doors)[turn % len(doors)]
            server, model = doors[wire][0], models[wire]
            before = len(server.requests)
            thinks = True if model.caps.thinking else None
            asks = agent.with_(
                model=model, stream=(turn + turn // len(doors)) % 2 == 0, thinking=thinks
            )
            out = await asks.run(prompt(turn), session_id=session)
            session = out.session_id
            assert not server.refused, f"{turn} {wire}: {server.refused[0].message}"
            assert (out.status, out.final_text) == ("done", f"[a{turn}] fertig ✓"), out.error
            assert [r.name for r in out.tool_calls] == [
                name for reply in replies(turn) for name, _ in reply.tool_calls
            ]
            new = server.requests[before:]
            assert len(new) == len(replies(turn))
            sent += [(wire, model, asked) for asked in new]
    assert out is not None
    await kept(out)
    told(sent)
    entries = await out._run.store.read(session)
    for (_wire, model, asked), request in zip(sent, requests_of(entries), strict=True):
        assert not audit(request.messages, tail=request.tail), "I1"
        assert b"".join(model.encode(request)) == asked.body, "I6: the same bytes from the journal"


BESIDE = ("openai", "azure")  # where a thought goes back beside calls only
SIGNS = ("gemini", "vertex")  # which sign a call, and want to see it again


def signed(body: Any) -> int:
    """How many calls carry a signature that Google made."""
    calls = [p for c in body.get("contents", ()) for p in c["parts"] if "functionCall" in p]
    return sum(p.get("thoughtSignature") not in (None, FOREIGN) for p in calls)


def told(sent: list[tuple[str, HttpModel, Asked]]) -> None:
    """Every request holds all that was said before it, in order, and no state of anybody else's."""
    said: list[str] = []
    thought: dict[str, list[str]] = {wire: [] for wire, _, _ in sent}
    signatures = dict.fromkeys(thought, 0)
    streamed = {wire: set[bool]() for wire, _, _ in sent}
    flat = [(turn, reply) for turn in range(TURNS) for reply in replies(turn)]
    heard = -1
    for (wire, _, asked), (turn, reply) in zip(sent, flat, strict=True):
        if turn != heard:
            said += marks(str(prompt(turn)), "u")
            heard = turn
        text = json.dumps(asked.json, ensure_ascii=False)
        assert marks(text, "[uacd]") == said, f"{turn} {wire}: something was lost or moved"
        echoed = marks(text, "t")
        assert echoed == thought[wire], f"{turn} {wire}: other thoughts than its own"
        assert signed(asked.json) == signatures[wire], f"{turn} {wire}: not its own signatures"
        said += marks(reply.text, "[acd]")
        if reply.tool_calls or wire not in BESIDE:
            thought[wire] += marks(reply.thinking, "t")
        signatures[wire] += wire in SIGNS and bool(reply.tool_calls)
        streamed[wire].add(asked.json.get("stream", "stream" in asked.path))
    assert all(modes == {True, False} for modes in streamed.values()), streamed
