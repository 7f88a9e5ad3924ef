"""The scripted model, and the guard against real requests."""

from __future__ import annotations

import asyncio
import socket

import pytest

import windlass as w
from windlass import errors
from windlass.events import TextDelta, ToolCallReady
from windlass.messages import Message, Text, Thinking, ToolCall, ToolResult
from windlass.models.base import Request, Response, silent
from windlass.models.wires import base as wires_base
from windlass.testing import call, no_model_requests, run_virtual, scripted
from windlass.testing.script import RequestForbidden, ScriptEnded
from windlass.usage import Usage


def asking(*said: str | Message) -> Request:
    return Request([Message("user", item) if isinstance(item, str) else item for item in said])


async def ask(model, *said: str | Message) -> Response:
    return await model.respond(asking(*(said or ("go",))), silent)


async def test_text_calls_and_lists_are_replies():
    model = scripted("Let me look.", call("add", a=1, b=2), ["Both.", call("x"), call("y")])
    assert (await ask(model)).message == Message("assistant", "Let me look.")
    second = await ask(model)
    assert second.message.content == (ToolCall("call_1", "add", {"a": 1, "b": 2}),)
    assert second.stop_reason == "tool_use"
    third = await ask(model)
    assert third.message.text == "Both."
    assert [asked.id for asked in third.message.tool_calls] == ["call_2", "call_3"]
    assert model.left == 0


async def test_a_tool_may_have_an_argument_called_name():
    assert call("greet", name="Ada").arguments == {"name": "Ada"}


async def test_messages_blocks_and_responses_are_replies():
    whole = Response(Message("assistant", "as is"), Usage(1, 2), "max_tokens")
    model = scripted(
        whole,
        Message("assistant", (Thinking("hm"), call("a"))),
        Thinking("only this"),
        ToolCall("mine", "a", {}),
    )
    assert await ask(model) is whole
    assert (await ask(model)).message.content == (Thinking("hm"), ToolCall("call_1", "a", {}))
    assert (await ask(model)).message.content == (Thinking("only this"),)
    assert (await ask(model)).message.tool_calls[0].id == "mine"


async def test_exceptions_are_raised_as_instance_or_class():
    mine = errors.RateLimited("slow down", retry_after=3)
    model = scripted(mine, errors.Overloaded, ZeroDivisionError, "ok")
    with pytest.raises(errors.RateLimited) as caught:
        await ask(model)
    assert caught.value is mine
    with pytest.raises(errors.Overloaded):
        await ask(model)
    with pytest.raises(ZeroDivisionError):
        await ask(model)
    assert (await ask(model)).message.text == "ok"


async def test_a_function_of_the_request_says_any_reply():
    async def later(request):
        await asyncio.sleep(0)
        return [request.messages[-1].text, call("a")]

    def fails(request):
        raise errors.Refused("no")

    model = scripted(lambda request: request.messages[-1].text.upper(), later, fails)
    assert (await ask(model, "hi")).message.text == "HI"
    assert (await ask(model, "hi")).message.content == (Text("hi"), ToolCall("call_1", "a", {}))
    with pytest.raises(errors.Refused):
        await ask(model)


async def test_then_answers_for_ever():
    model = scripted("first", then=lambda request: str(len(request.messages)))
    replies = [(await ask(model, *["x"] * n)).message.text for n in (1, 2, 3)]
    assert replies == ["first", "2", "3"]


async def test_requests_are_kept_as_they_came():
    model = scripted("a", "b")
    request = asking("hi")
    await model.respond(request, silent)
    assert model.requests == [request]
    assert model.requests[0] is request


async def test_running_out_says_how_many_there_were_and_what_was_asked():
    model = scripted("only one")
    await ask(model)
    with pytest.raises(ScriptEnded, match=r"has 1 reply and was asked 2 times.*'and now\?'"):
        await ask(model, "and now?")
    with pytest.raises(AssertionError, match="the answer is 3"):
        await ask(model, Message("tool", (ToolResult("c", "the answer is 3"),)))


async def test_ids_go_on_after_those_of_an_earlier_process():
    old = Message("assistant", (ToolCall("call_4", "a", {}), ToolCall("other_9", "a", {})))
    model = scripted(call("a"), call("a"))
    assert (await ask(model, "go", old)).message.tool_calls[0].id == "call_5"
    assert (await ask(model, "go")).message.tool_calls[0].id == "call_6"


async def test_usage_name_provider_and_native_tools_are_as_told():
    model = scripted("a", usage={"input_tokens": 7}, name="n", provider="p", native_tools=False)
    assert (await ask(model)).usage == Usage(7)
    assert (model.name, model.provider, model.native_tools) == ("n", "p", False)


async def test_streaming_shows_the_reply_word_by_word():
    seen = []
    model = scripted(["one two", call("a")], stream=True)
    reply = await model.respond(asking("go"), seen.append)
    assert seen == [
        TextDelta("one"),
        TextDelta(" two"),
        ToolCallReady(reply.message.tool_calls[0]),
    ]


def test_delay_and_pace_pass_on_the_clock_of_the_loop():
    async def main() -> float:
        model = scripted("one two", stream=True, delay=30, pace=5)
        await ask(model)
        return asyncio.get_running_loop().time() - 1000

    assert run_virtual(main()) == 40


@pytest.mark.parametrize("reply", [3, {"text": "x"}, [1], ["a", errors.Refused("x")], object])
async def test_what_is_no_reply_is_refused(reply):
    with pytest.raises(errors.ConfigError, match="reply"):
        await ask(scripted(reply))


@pytest.fixture
def nobody():
    """An address at which nobody answers."""
    with socket.socket() as bound:
        bound.bind(("127.0.0.1", 0))
        yield f"http://127.0.0.1:{bound.getsockname()[1]}/v1/messages"


async def test_no_model_requests_stops_a_real_transport(nobody):
    with no_model_requests(), pytest.raises(RequestForbidden, match="scripted"):
        await wires_base.shared_transport().send("POST", nobody, {}, [b"{}"])
    with pytest.raises(errors.ConnectionFailed):
        await wires_base.shared_transport().send("POST", nobody, {}, [b"{}"])
    await wires_base.aclose()


async def test_no_model_requests_may_be_nested(nobody):
    with no_model_requests():
        with no_model_requests():
            pass
        with pytest.raises(RequestForbidden):
            await wires_base.shared_transport().send("GET", nobody, {})


async def test_no_model_requests_lets_scripted_models_answer():
    with no_model_requests():
        assert (await ask(scripted("fine"))).message.text == "fine"


async def test_a_run_whose_script_ends_raises_instead_of_returning_a_status():
    tool = w.Tool("add", parameters={"a": {"type": "integer"}}, handler=lambda args: args["a"])
    agent = w.Agent(scripted(call("add", a=1)), tools=[tool])
    with pytest.raises(ScriptEnded, match="has 1 reply and was asked 2 times") as caught:
        await agent.run("go", session_id="s")
    assert caught.value.session_id == "s"
    with pytest.raises(ScriptEnded):
        await w.agent_loop("go", model=scripted())
    async with w.Agent(scripted()).stream("go") as run:
        with pytest.raises(ScriptEnded):
            await run.result()


async def test_it_is_on_record_as_failed_all_the_same():
    async with w.Runtime(store="memory:", environ={}) as runtime:
        with pytest.raises(ScriptEnded):
            await w.agent_loop("go", model=scripted(), session_id="s")
        assert (await runtime.store.info("s")).status == "failed"


@pytest.mark.parametrize("kind", ["agent", "async", "sync"])
async def test_a_script_that_ends_inside_a_tool_raises_through_the_run_that_called_it(kind: str):
    child = w.Agent(scripted(), name="child")

    @w.tool
    async def ask() -> str:
        """Ask."""
        return (await child.run("go")).output

    @w.tool
    def wait() -> str:
        """Ask and wait."""
        return child.run_sync("go").output

    tool = {"agent": child.as_tool(), "async": ask, "sync": wait}[kind]
    asked = call(tool.name, task="x") if kind == "agent" else call(tool.name)
    with pytest.raises(ScriptEnded):
        await w.Agent(scripted(asked, "ok"), tools=[tool]).run("go")
