"""Chats, simulated users, tasks side by side and approvals in a tree, to be killed anywhere.

The models answer by what they are shown, so a process that goes on needs nothing but the store.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import msgspec

import windlass as w
from windlass.agents.fan_out import fan_out  # loaded before the fork
from windlass.chat.loop import agent_chat_loop
from windlass.errors import NoSuchSession
from windlass.events import Replied, ToolResulted
from windlass.simulated_users.agentic import agentic_user
from windlass.simulated_users.tools import simulated_user_post_turn, user_tools
from windlass.store import open_store
from windlass.store.sqlite import store as sqlite_store
from windlass.testing import EffectLog
from windlass.testing.kill import Scene, Seen

assert sqlite_store.SqliteStore
SESSION = "s"
LINES = ("pay ann", "pay bob", "that is all")


class Speaker(w.Model):
    """Answers by what it is shown, as a function of the request says."""

    provider, name = "speaker", "speaker"

    def __init__(self, say: Callable[[w.Request], str | w.ToolCall]) -> None:
        self._say = say

    def price(self, usage: w.Usage) -> float:
        return 0.001 * (usage.input_tokens + usage.output_tokens)

    async def respond(self, request: w.Request, emit: Any) -> w.Response:
        said = self._say(request)
        content: Any = (said,) if isinstance(said, w.ToolCall) else said
        reason: Any = "tool_use" if isinstance(said, w.ToolCall) else "end_turn"
        return w.Response(w.Message("assistant", content), w.Usage(10, 5), reason)


def build_charge(scene: Scene, **more: Any) -> w.Tool:
    """Build a tool whose effect counts once for each key."""

    @w.tool(keyed=True, **more)
    async def charge(ctx: w.ToolContext[None], who: str) -> str:
        """Charge a card."""
        book = EffectLog(scene.folder / "charges.jsonl")
        line = f"{who} {ctx.idempotency_key}"
        if line not in book.counts():
            book.write(line)
        return f"charged {who}"

    return charge


def charge_what_is_asked(request: w.Request) -> str | w.ToolCall:
    """Charge whom the last line of the user names, once, and say so."""
    said = [m.text for m in request.messages if m.role == "user"]
    last = request.messages[-1]
    if last.role != "user":
        return "done"
    if "pay" not in last.text:
        return f"Heard {last.text}."
    return w.ToolCall(f"c{len(said)}", "charge", {"who": last.text.split()[-1]})


# --------------------------------------------------------------------------- scenes


async def chat(scene: Scene) -> None:
    """Chat three lines; the state knows how many turns were seen."""

    def ask(state: dict[str, Any]) -> Any:
        seen = state.get("seen", 0)
        return LINES[seen] if seen < len(LINES) else {"kind": "exit"}

    await agent_chat_loop(
        model=Speaker(charge_what_is_asked),
        tools=[build_charge(scene)],
        session_id=SESSION,
        on_user_input=ask,
        on_model_turn=lambda turn, state: {"state": {"seen": state.get("seen", 0) + 1}},
        show=None,
    )


def talk_to_the_desk(request: w.Request) -> str | w.ToolCall:
    """Ask whom to charge, by the tool and then in words, and charge each."""
    results = sum(message.role == "tool" for message in request.messages)
    last = request.messages[-1]
    if results == 0:
        return w.ToolCall("q1", "ask_user", {"question": "Whom shall I charge?"})
    if results == 1:
        return w.ToolCall("c1", "charge", {"who": "ann"})
    if last.role == "tool":
        return "Charged. Anything else?"
    return w.ToolCall("c2", "charge", {"who": "bob"}) if results == 2 else "Bye."


def play_the_user(request: w.Request) -> str | w.ToolCall:
    """Answer both questions, and end the conversation at the third."""
    asked = request.messages[-1].text
    if "Whom" in asked:
        return "Ann, please."
    if asked.count("Charged") < 2:
        return "Bob, too."
    return w.ToolCall("e", "end_conversation", {"reason": "done"})


async def user(scene: Scene) -> None:
    """Serve a simulated user who is asked by the tool and after turns."""
    person = agentic_user("Charge Ann and Bob.", None, None, Speaker(play_the_user))
    desk = w.Agent(
        Speaker(talk_to_the_desk),
        tools=[build_charge(scene), *user_tools(person)],
        post_turn_callback=simulated_user_post_turn(person),
        name="desk",
    )
    await _begin_or_go_on(desk)


def _build_tree(scene: Scene, *, asks: bool) -> w.Agent[Any, str]:
    clerk = w.Agent(
        Speaker(charge_what_is_asked),
        tools=[build_charge(scene, requires_approval=asks)],
        name="clerk",
    )

    @w.tool(keyed=True)
    async def pay_all(ctx: w.ToolContext[None]) -> Any:
        """Pay all of them."""
        out = await fan_out(clerk, ["pay ann", "pay bob"], limit=1, parent=ctx)
        return out.parked or ", ".join(out.outputs)

    def lead(request: w.Request) -> str | w.ToolCall:
        if request.messages[-1].role == "user":
            return w.ToolCall("p", "pay_all", {})
        return "All paid."

    def boss(request: w.Request) -> str | w.ToolCall:
        if request.messages[-1].role == "user":
            return w.ToolCall("l", "lead", {"task": "pay"})
        return "The end."

    leader = w.Agent(Speaker(lead), tools=[pay_all], name="lead")
    return w.Agent(Speaker(boss), agents=[leader], name="boss", budget=w.Budget(usd=500))


async def tasks(scene: Scene) -> None:
    """Hand two tasks to a clerk, two levels below the boss."""
    await _begin_or_go_on(_build_tree(scene, asks=False))


async def pending(scene: Scene) -> None:
    """Answer what the clerks wait for through the boss, until all is paid."""
    boss = _build_tree(scene, asks=True)
    out = await _begin_or_go_on(boss)
    while out.status == "suspended":
        out = await boss.resume(SESSION, decisions={out.pending[0].id: True})
    assert out.output == "The end.", out


async def _begin_or_go_on(agent: w.Agent[Any, str]) -> w.AgentResult[str]:
    try:
        return await agent.resume(SESSION)
    except NoSuchSession:
        return await agent.run("go", session_id=SESSION)


SCENES: dict[str, Callable[[Scene], Awaitable[None]]] = {
    "chat": chat,
    "user": user,
    "tasks": tasks,
    "pending": pending,
}


def scenario(scene: Scene) -> None:
    """Play a scene, or go on with what a killed process left of it."""

    async def play() -> None:
        async with w.Runtime(store=f"sqlite:///{scene.folder / 'runs.db'}"):
            await SCENES[scene.params["scene"]](scene)

    asyncio.run(play())


def check(scene: Scene) -> Seen:
    """Compare the conversations of all sessions, their replies and the charges."""

    async def look() -> Seen:
        store = open_store(f"sqlite:///{scene.folder / 'runs.db'}")
        state: list[Any] = []
        for info in sorted(await store.sessions(), key=lambda one: one.id):
            name = info.id.replace(await _find_run(store, info.parent_id), "RUN")
            entries = await store.read(info.id)
            replies = [e.message.text for e in entries if type(e) is Replied]
            results = [e.result.text for e in entries if type(e) is ToolResulted]
            state.append([name, replies, results])
        await store.aclose()
        charges = EffectLog(scene.folder / "charges.jsonl").counts()
        paid = sorted([line.split()[0] for line in charges])
        problems = () if paid == ["ann", "bob"] else (f"charges: {charges}",)
        return Seen(state=msgspec.to_builtins(state), problems=problems)

    return asyncio.run(look())


async def _find_run(store: Any, session_id: str | None) -> str:
    """Return the id of a session's run, which names the children that no call asked for."""
    if session_id is None:
        return "RUN"
    entries = await store.read(session_id)
    return next((e.run_id for e in entries if hasattr(e, "run_id")), "RUN")
