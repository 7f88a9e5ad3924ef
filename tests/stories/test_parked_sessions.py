"""A parked run is nobody's to lose: a new prompt leaves it alone, and whoever resumes it finds its answer good."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path
from typing import Any

import pytest

import windlass as w
from windlass.engine.environment import current_store
from windlass.store.memory import MemoryStore
from windlass.testing import call, scripted

ASK: Any = {"rules": [{"ask": "pay"}]}


def pay_tool(ran: list[str]) -> w.Tool:
    return w.Tool(
        name="pay",
        description="Pay.",
        parameters={"to": {"type": "string"}},
        handler=lambda args: ran.append(args["to"]) or f"paid {args['to']}",
    )


async def park(ran: list[str], session: str = "s") -> w.Agent[Any, str]:
    agent: Any = w.Agent(
        scripted(call("pay", to="bob"), "Paid.", "More."),
        tools=[pay_tool(ran)],
        approval_policy=ASK,
    )
    out = await agent.run("go", session_id=session)
    assert out.status == "suspended"
    return agent


async def by_agent(agent: Any, **options: Any) -> Any:
    return await agent.run("more", session_id="s", **options)


async def by_stream(agent: Any, **options: Any) -> Any:
    async with agent.stream("more", session_id="s", **options) as run:
        return await run.result()


async def by_loop(agent: Any, **options: Any) -> Any:
    own = {name: agent.options[name] for name in ("model", "tools", "approval_policy")}
    return await w.agent_loop("more", session_id="s", **own, **options)


async def by_turn(agent: Any, **options: Any) -> Any:
    own = {name: agent.options[name] for name in ("model", "tools", "approval_policy")}
    judge = {"model": scripted('{"verdict": "done", "reasoning": "fine"}')}
    return await w.agent_turn("more", session_id="s", judge=judge, **own, **options)


DOORS = [by_agent, by_stream, by_loop, by_turn]


@pytest.mark.parametrize("door", DOORS)
async def test_prompt_on_a_parked_session_changes_nothing(door: Any):
    ran: list[str] = []
    agent = await park(ran)
    model = agent.options["model"]
    out = await door(agent)
    assert (out.status, [one.name for one in out.pending]) == ("suspended", ["pay"])
    assert (len(model.requests), ran) == (1, [])
    [waiting] = await w.approvals()
    assert waiting.answered is None
    out = await agent.resume("s", decisions={out.pending[0].id: True})
    assert (out.status, out.output, ran) == ("done", "Paid.", ["bob"])


@pytest.mark.parametrize("door", DOORS)
async def test_prompt_on_a_parked_session_goes_on_without_what_is_discarded(door: Any):
    ran: list[str] = []
    agent = await park(ran)
    [waiting] = await w.approvals()
    await w.approve(waiting.id)  # even an answer does not run it then
    out = await door(agent, on_pending="discard")
    assert (out.status, ran) == ("done", [])
    seen = agent.options["model"].requests[1].messages
    [result] = [block for m in seen for block in m.content if isinstance(block, w.ToolResult)]
    assert result.text == "Not run: discarded."
    assert seen[-1].text.startswith("more")
    assert await w.approvals() == []


async def test_on_pending_is_keep_or_discard():
    agent = await park([])
    with pytest.raises(w.ConfigError, match="on_pending"):
        await agent.run("more", session_id="s", on_pending="drop")  # pyright: ignore
    with pytest.raises(w.ConfigError, match="on_pending"):
        await w.agent_loop("more", model=scripted("x"), on_pending=True)  # pyright: ignore


async def test_session_that_is_not_parked_takes_prompts_whatever_is_said_about_pending():
    model = scripted("One.", "Two.", "Three.")
    agent = w.Agent(model)
    await agent.run("a", session_id="s")
    assert (await agent.run("b", session_id="s")).output == "Two."
    assert (await agent.run("c", session_id="s", on_pending="discard")).output == "Three."


async def test_session_that_was_reset_waits_for_nothing():
    agent = await park([])
    await w.agent_session_reset("s")
    again = agent.with_(model=scripted("Hello."))
    assert (await again.run("hi", session_id="s")).output == "Hello."


def test_resume_blocking():
    ran: list[str] = []
    agent: Any = w.Agent(
        scripted(call("pay", to="bob"), "Paid."), tools=[pay_tool(ran)], approval_policy=ASK
    )
    out = agent.run_sync("go", session_id="s")
    out = agent.resume_sync("s", decisions={out.pending[0].id: w.Allow()})
    assert (out.output, ran) == ("Paid.", ["bob"])


# --------------------------------------------------------------------------- generate


async def parked_generate(
    scope: w.Runtime, ran: list[str], *replies: Any, **options: Any
) -> w.Suspended:
    model = scripted(call("pay", to="bob"), *replies)
    with pytest.raises(w.Suspended) as told:
        await scope.models.generate(
            "Pay bob.", model=model, tools=[pay_tool(ran)], approval_policy=ASK, **options
        )
    assert [one.name for one in told.value.pending] == ["pay"]
    return told.value


async def roles_and_texts(scope: w.Runtime, caller: Any = None) -> list[tuple[str, str]]:
    page = await scope.conversations[w.ConversationTurn].search(
        {"conversation": "c"}, sort="number", caller=caller
    )
    return [(turn.role, turn.content) for turn in page]


@pytest.mark.parametrize("caller", [None, w.Caller("ann", tenant="acme")])
async def test_generate_resumes_to_its_answer_and_so_does_its_conversation(caller: Any):
    ran: list[str] = []
    own = {} if caller is None else {"caller": caller}
    async with w.Runtime(store=current_store(), resources=[]) as scope:
        await scope.models.generate("Hi.", model=scripted("Hello."), conversation="c", **own)
        parked = await parked_generate(scope, ran, conversation="c", **own)
        assert ran == [] and parked.session_id is not None
        out = await scope.models.resume(
            parked.session_id,
            decisions={parked.pending[0].id: w.Allow()},
            model=scripted("Bob has it."),
            tools=[pay_tool(ran)],
            include_tool_trace=True,
            **own,
        )
        assert (out.content, out.finish_reason, ran) == ("Bob has it.", "stop", ["bob"])
        assert out.session_id == parked.session_id and out.trace is not None
        assert await roles_and_texts(scope, caller) == [
            ("user", "Hi."),
            ("assistant", "Hello."),
            ("user", "Pay bob."),
            ("assistant", ""),
            ("tool", ""),
            ("assistant", "Bob has it."),
        ]
        model = scripted("Welcome.")
        await scope.models.generate("Thanks.", model=model, conversation="c", **own)
        assert [m.text for m in model.requests[0].messages][-2:] == ["Bob has it.", "Thanks."]


async def test_generate_resumed_by_the_host_is_the_callers():
    ran: list[str] = []
    ann = w.Caller("ann", tenant="acme")
    async with w.Runtime(store=current_store(), resources=[]) as scope:
        parked = await parked_generate(scope, ran, conversation="c", caller=ann)
        [waiting] = await w.approvals(scope.store)
        await w.approve(waiting.id, by=ann, store=scope.store)
        out = await scope.models.resume(
            parked.session_id or "", model=scripted("Paid."), tools=[pay_tool(ran)]
        )
        assert (out.content, ran) == ("Paid.", ["bob"])
        assert (await roles_and_texts(scope, ann))[-1] == ("assistant", "Paid.")


@pytest.mark.parametrize("tenant", ["acme", "evil"])
async def test_generate_of_somebody_else_is_resumed_by_nobody(tenant: str):
    ran: list[str] = []
    ann, eve = w.Caller("ann", tenant="acme"), w.Caller("eve", tenant=tenant)
    async with w.Runtime(store=current_store(), resources=[]) as scope:
        parked = await parked_generate(scope, ran, conversation="c", caller=ann, session_id="s")
        yes: Any = {"decisions": {parked.pending[0].id: True}, "tools": [pay_tool(ran)]}
        model = scripted("Paid.")
        with pytest.raises(w.NoSuchSession, match="no session 's'"):
            await scope.models.resume("s", model=model, caller=eve, **yes)
        with pytest.raises(w.NoSuchSession, match="no session 's'"):
            _ = [c async for c in scope.models.resume_stream("s", model=model, caller=eve, **yes)]
        assert ran == [] and model.requests == []
        out = await scope.models.resume("s", model=model, caller=ann, **yes)
        assert (out.content, ran) == ("Paid.", ["bob"])


async def test_generate_resumes_in_pieces():
    ran: list[str] = []
    async with w.Runtime(store=current_store(), resources=[]) as scope:
        parked = await parked_generate(scope, ran)
        chunks = [
            chunk
            async for chunk in scope.models.resume_stream(
                parked.session_id or "",
                decisions={parked.pending[0].id: True},
                model=scripted("Bob has it."),
                tools=[pay_tool(ran)],
            )
        ]
        assert "".join(chunk.delta_content or "" for chunk in chunks) == "Bob has it."
        assert chunks[-1].finish_reason == "stop" and ran == ["bob"]


async def test_generate_resumes_to_another_question():
    ran: list[str] = []
    async with w.Runtime(store=current_store(), resources=[]) as scope:
        parked = await parked_generate(scope, ran)
        with pytest.raises(w.Suspended) as again:
            await scope.models.resume(
                parked.session_id or "",
                decisions={parked.pending[0].id: False},
                model=scripted(call("pay", to="eve")),
                tools=[pay_tool(ran)],
                approval_policy=ASK,
            )
        assert again.value.pending[0].arguments == {"to": "eve"} and ran == []


async def test_generate_takes_no_prompt_where_its_session_or_conversation_waits():
    ran: list[str] = []
    async with w.Runtime(store=current_store(), resources=[]) as scope:
        parked = await parked_generate(scope, ran, conversation="c", session_id="s")
        model = scripted("Never.")
        for place in ({"session_id": "s"}, {"conversation": "c"}):
            with pytest.raises(w.Suspended) as told:
                await scope.models.generate("And now?", model=model, **place)
            assert told.value.session_id == "s"
            assert told.value.pending == parked.pending
        assert model.requests == []
        assert len(await roles_and_texts(scope)) == 2


async def test_generate_looks_for_what_waits_in_the_store_that_it_is_given():
    async with w.Runtime(store=current_store(), resources=[]) as scope:
        elsewhere: Any = {"conversation": "c", "store": MemoryStore()}
        parked = await parked_generate(scope, [], **elsewhere)
        model = scripted("Fine.")
        with pytest.raises(w.Suspended, match="the conversation waits") as told:
            await scope.models.generate("And now?", model=model, **elsewhere)
        assert told.value.pending == parked.pending and model.requests == []
        out = await scope.models.generate(
            "Forget it.", model=model, on_pending="discard", **elsewhere
        )
        assert out.content == "Fine."
        ended = await elsewhere["store"].info(parked.session_id)
        assert ended.status == "cancelled"


async def test_generate_goes_on_in_a_conversation_without_what_is_discarded():
    ran: list[str] = []
    async with w.Runtime(store=current_store(), resources=[]) as scope:
        parked = await parked_generate(scope, ran, conversation="c")
        [waiting] = await w.approvals(scope.store)
        await w.approve(waiting.id, store=scope.store)
        model = scripted("Fine.")
        out = await scope.models.generate(
            "Forget it.", model=model, conversation="c", on_pending="discard"
        )
        assert (out.content, ran) == ("Fine.", [])
        [result] = [
            b for m in model.requests[0].messages for b in m.content if isinstance(b, w.ToolResult)
        ]
        assert "discarded" in result.text
        roles = [role for role, _ in await roles_and_texts(scope)]
        assert roles == ["user", "assistant", "tool", "user", "assistant"]
        ended = await scope.store.info(parked.session_id or "")
        assert ended.status == "cancelled" and await w.approvals(scope.store) == []


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"conversation": "c"}, "conversation"),
        ({"decisions": []}, "decisions"),
        ({"decisions": {"x": 1}}, "decision"),
        ({"on_pending": "discard"}, "on_pending"),
    ],
)
async def test_generate_resume_says_what_is_wrong(options: Any, words: str):
    async with w.Runtime(store=current_store(), resources=[]) as scope:
        parked = await parked_generate(scope, [])
        with pytest.raises(w.ConfigError, match=words):
            await scope.models.resume(parked.session_id or "", model=scripted("x"), **options)
        with pytest.raises(w.WindlassError, match="no session"):
            await scope.models.resume("nobody", model=scripted("x"))


# --------------------------------------------------------------------------- parked between turns


async def test_run_that_was_suspended_between_turns_takes_no_prompt_either():
    async with w.Runtime(store=current_store(), environ={}) as runtime:
        await w.agent_session_open("s")
        await runtime.store.post("s", "suspend", {"reason": "lunch"})
        model = scripted("Hello.", "Again.")
        agent = w.Agent(model)
        assert (await agent.run("go", session_id="s")).status == "suspended"
        out = await agent.run("more", session_id="s")
        assert (out.status, out.stop_reason, out.pending) == ("suspended", "lunch", [])
        assert model.requests == []
        out = await agent.run("more", session_id="s", on_pending="discard")
        assert out.output == "Hello."
        assert [m.text for m in model.requests[0].messages] == ["go", "more"]


async def test_call_of_the_host_that_is_discarded_has_an_answer():
    ask = w.Tool(name="ask", description="Ask.", parameters={}, handler=None)
    agent = w.Agent(scripted(call("ask"), "Fine."), tools=[ask])
    out = await agent.run("go", session_id="s")
    out = await agent.run("never mind", session_id="s")
    assert (out.status, [one.name for one in out.pending]) == ("suspended", ["ask"])
    out = await agent.run("never mind", session_id="s", on_pending="discard")
    assert out.output == "Fine."


KILLED = """
import asyncio, os, sys
import windlass as w
from windlass.store.memory import MemoryStore
from windlass.testing import call, scripted

@w.tool(keyed=True)
async def look() -> str:
    os._exit(9)

async def main(folder):
    async with w.Runtime(store=f"sqlite:///{folder}/s.db", resources=[]) as scope:
        await scope.models.generate("Hi.", model=scripted("Hello."), conversation="c")
        await scope.models.generate(
            "Look.", model=scripted(call("look")), tools=[look], conversation="c", session_id="s"
        )

asyncio.run(main(sys.argv[1]))
"""


async def test_generate_that_was_killed_resumes_with_its_conversation(tmp_path: Path):
    killed = await asyncio.create_subprocess_exec(sys.executable, "-c", KILLED, str(tmp_path))
    assert await killed.wait() == 9

    @w.tool(keyed=True)
    async def look() -> str:
        return "a cat"

    async with w.Runtime(store=f"sqlite:///{tmp_path}/s.db", resources=[]) as scope:
        out = await scope.models.resume("s", model=scripted("A cat."), tools=[look])
        assert out.content == "A cat."
        assert await roles_and_texts(scope) == [
            ("user", "Hi."),
            ("assistant", "Hello."),
            ("user", "Look."),
            ("assistant", ""),
            ("tool", ""),
            ("assistant", "A cat."),
        ]
        again = await scope.models.resume("s", model=scripted(), tools=[look])  # it has ended
        assert again.content == "A cat." and len(await roles_and_texts(scope)) == 6


async def test_question_of_a_child_is_answered_and_its_parent_goes_on():
    """The child's rule is not repeated by the program that resumes the parent."""
    ran: list[str] = []
    child: Any = w.Agent(
        scripted(call("pay", to="bob"), "Paid bob."),
        tools=[pay_tool(ran)],
        name="clerk",
        approval_policy=ASK,
    )
    parent = w.Agent(scripted(call("clerk", task="pay"), "All paid."), tools=[child.as_tool()])
    assert (await parent.run("go", session_id="p")).status == "suspended"
    asked = await w.approvals()
    [waiting] = [one for one in asked if one.tool == "pay"]
    await w.approve(waiting.id)
    plain: Any = child.with_(approval_policy={"rules": []}, model=scripted("Paid bob."))
    again = w.Agent(scripted("All paid."), tools=[plain.as_tool()])
    out = await again.run("more", session_id="p")
    assert out.status == "suspended" and ran == []
    out = await again.resume("p")
    assert (out.status, out.output, ran) == ("done", "All paid.", ["bob"])
