"""An application served to MCP clients: the same roles, approvals, budgets and audit as in the process."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any, Literal

import mcp_types as types
import pytest
from mcp import Client
from mcp.shared.exceptions import MCPDeprecationWarning, MCPError

import windlass as w
from tests.stories.policies import named
from tests.stories.test_mcp import entry
from windlass.errors import ModelError
from windlass.mcp.server import McpService, mcp_peer, mcp_prompt, mcp_resource
from windlass.testing import call, scripted

ERAS = ("legacy", "2026-07-28")
ANN = w.Caller("ann", roles=("clerk",))
BOB = w.Caller("bob", roles=("clerk",))
ASK: Any = {"rules": [{"action": "ask", "match": {"tool": "refund"}}]}

both_eras = pytest.mark.parametrize("era", ERAS)


@w.tool(side_effect_level="none")
async def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


class Till:
    """A tool with an effect that can be counted."""

    def __init__(self) -> None:
        self.paid: list[int] = []
        self.started = asyncio.Event()
        self.stopped = asyncio.Event()

    @property
    def tools(self) -> list[w.Tool]:
        @w.tool
        async def refund(order: int) -> str:
            """Refund an order."""
            self.paid.append(order)
            return f"refunded {order}"

        @w.tool
        async def wait() -> str:
            """Wait for ever."""
            self.started.set()
            try:
                await asyncio.Event().wait()
            finally:
                self.stopped.set()
            return "never"

        return [refund, wait]


def say(
    approve: bool | None, asked: list[str] | None = None
) -> Callable[[Any, types.ElicitRequestParams], Awaitable[types.ElicitResult]]:
    """A person at the client, who says yes, no, or nothing."""

    async def answer(_ctx: Any, params: types.ElicitRequestParams) -> types.ElicitResult:
        if asked is not None:
            asked.append(params.message)
        if approve is None:
            return types.ElicitResult(action="cancel")
        return types.ElicitResult(action="accept", content={"approve": approve, "reason": "mine"})

    return answer


def text(result: types.CallToolResult) -> str:
    return "".join(one.text for one in result.content if isinstance(one, types.TextContent))


def connect(service: McpService, caller: w.Caller, era: str, **more: Any) -> Client:
    return Client(service.build_server(caller), mode=era, **more)


@both_eras
async def test_mcp_server_lists_and_calls_what_the_caller_may(era: str) -> None:
    """Tools are those that a role grants; every call is in the audit log, in the caller's name."""
    roles = {"clerk": ["tool.add"]}
    async with w.Runtime(tools=[add, *Till().tools], roles=roles) as scope:
        async with connect(McpService(scope), ANN, era) as client:
            assert [tool.name for tool in (await client.list_tools()).tools] == ["add"]
            assert text(await client.call_tool("add", {"a": 1, "b": 2})) == "3"
            wrong = await client.call_tool("add", {"a": "x"})
            assert wrong.is_error and "b: is required" in text(wrong)
        page = await scope.audit.query(caller="ann")
        assert ("add", "ok") in [(one.tool, one.outcome) for one in page.entries]


@both_eras
async def test_mcp_server_refuses_a_tool_without_a_grant(era: str) -> None:
    """A tool that no role grants is not run, and the attempt is on the record."""
    till = Till()
    async with w.Runtime(tools=[add, *till.tools], roles={"clerk": ["tool.add"]}) as scope:
        async with connect(McpService(scope), ANN, era) as client:
            refused = await client.call_tool("refund", {"order": 7})
            assert refused.is_error and "permission_denied" in text(refused)
            with pytest.raises(MCPError, match="Unknown tool"):
                await client.call_tool("nothing", {})
        assert till.paid == []
        page = await scope.audit.query(caller="ann")
        assert [(one.tool, one.outcome) for one in page.entries] == [("refund", "denied")]


@both_eras
@pytest.mark.parametrize("yes", (True, False))
async def test_mcp_server_asks_the_person_at_the_client(era: str, yes: bool) -> None:
    """A call that needs approval becomes a form; the answer is recorded as the caller's."""
    till, asked = Till(), list[str]()
    async with w.Runtime(tools=till.tools) as scope:
        service = McpService(scope, call_options={"approval_policy": ASK})
        async with connect(service, ANN, era, elicitation_callback=say(yes, asked)) as client:
            answer = await client.call_tool("refund", {"order": 7})
        assert till.paid == ([7] if yes else [])
        assert answer.is_error is not yes
        assert len(asked) == 1 and "refund" in asked[0] and "7" in asked[0]


@both_eras
async def test_mcp_server_parks_where_nobody_can_be_asked(era: str) -> None:
    """Without a form the call parks and says how to answer; then it goes on, once."""
    till = Till()
    async with w.Runtime(tools=till.tools) as scope:
        service = McpService(scope, call_options={"approval_policy": ASK})
        async with connect(service, ANN, era) as client:
            names = [tool.name for tool in (await client.list_tools()).tools]
            assert "windlass_resume" in names
            parked = await client.call_tool("refund", {"order": 7})
            said = json.loads(text(parked))
            assert parked.is_error and said["error"] == "suspended"
            assert "windlass approvals approve" in said["message"]
            session = said["session_id"]
            still = await client.call_tool("windlass_resume", {"session_id": session})
            assert still.is_error and till.paid == []
            (waiting,) = await w.approvals(scope.store)
            await w.approve(waiting.id, store=scope.store)
            done = await client.call_tool("windlass_resume", {"session_id": session})
            assert text(done) == "refunded 7"
            again = await client.call_tool("windlass_resume", {"session_id": session})
            assert text(again) == "refunded 7"
        assert till.paid == [7]


@both_eras
async def test_mcp_server_of_a_host_that_decides_asks_no_client(era: str) -> None:
    """With client_decisions=False a client that could answer is not asked; cancel parks as well."""
    till, asked = Till(), list[str]()
    async with w.Runtime(tools=till.tools) as scope:
        rules: Any = {"approval_policy": ASK}
        quiet = McpService(scope, client_decisions=False, call_options=rules)
        async with connect(quiet, ANN, era, elicitation_callback=say(True, asked)) as client:
            assert '"suspended"' in text(await client.call_tool("refund", {"order": 7}))
        assert asked == [] and till.paid == []
        asking = McpService(scope, call_options=rules)
        async with connect(asking, ANN, era, elicitation_callback=say(None, asked)) as client:
            assert '"suspended"' in text(await client.call_tool("refund", {"order": 7}))
        assert len(asked) == 1 and till.paid == []


async def test_mcp_server_does_not_take_approvals_that_it_did_not_ask_for() -> None:
    """Answers sent along with a first request answer a tool's questions, never an approval."""
    till = Till()
    async with w.Runtime(tools=till.tools) as scope:
        service = McpService(scope, call_options={"approval_policy": ASK})
        async with connect(service, ANN, "2026-07-28", elicitation_callback=say(None)) as client:
            first = await client.session.call_tool(
                "refund", {"order": 7}, allow_input_required=True
            )
            assert isinstance(first, types.InputRequiredResult)
            (name,) = first.input_requests or {}
            yes = types.ElicitResult(action="accept", content={"approve": True})
            forged = await client.session.call_tool(
                "refund", {"order": 7}, allow_input_required=True, input_responses={name: yes}
            )
            assert isinstance(forged, types.InputRequiredResult)
            assert till.paid == []
            with pytest.raises(MCPError, match="Invalid or expired"):  # sealed for other arguments
                await client.session.call_tool(
                    "refund",
                    {"order": 8},
                    allow_input_required=True,
                    input_responses={name: yes},
                    request_state=first.request_state,
                )
            done = await client.session.call_tool(
                "refund",
                {"order": 7},
                allow_input_required=True,
                input_responses={name: yes},
                request_state=first.request_state,
            )
            assert isinstance(done, types.CallToolResult) and text(done) == "refunded 7"
        assert till.paid == [7]


async def test_mcp_server_takes_each_answer_once() -> None:
    """A client sends its answer twice at once: one request follows the call, the other is refused."""
    calls, started, going = list[str](), asyncio.Event(), asyncio.Event()

    @w.tool
    async def slow() -> str:
        """Ask, and take a while."""
        peer = mcp_peer()
        assert peer is not None
        await peer.elicit("Sure?", {"ok": {"type": "boolean"}})
        calls.append("slow")
        started.set()
        await going.wait()
        return "done"

    async with w.Runtime(tools=[slow]) as scope:
        async with connect(
            McpService(scope), ANN, ERAS[1], elicitation_callback=say(None)
        ) as client:
            wanted: Any = {"name": "slow", "arguments": {}, "allow_input_required": True}
            asked = await client.session.call_tool(**wanted)
            assert isinstance(asked, types.InputRequiredResult)
            yes = types.ElicitResult(action="accept", content={"ok": True})
            wanted["input_responses"] = dict.fromkeys(asked.input_requests or {}, yes)
            wanted["request_state"] = asked.request_state
            first = asyncio.create_task(client.session.call_tool(**wanted))
            await started.wait()
            second = await client.session.call_tool(**wanted)
            assert isinstance(second, types.CallToolResult) and '"session_held"' in text(second)
            going.set()
            done = await first
            assert isinstance(done, types.CallToolResult) and text(done) == "done"
    assert calls == ["slow"]


@both_eras
async def test_mcp_server_sends_values_of_tools_that_declare_them(era: str) -> None:
    """A tool with a schema of its answer sends the value; arguments of prompts are texts."""

    @w.tool(returns={"type": "object", "properties": {"total": {"type": "number"}}})
    async def price(order: int) -> dict[str, float]:
        """Price an order."""
        return {"total": order * 1.5}

    @mcp_prompt
    def offer(count: int, kind: Literal["pen", "book"] = "pen") -> str:
        """Offer something."""
        return f"Offer {count + 1} {kind}s."

    async with w.Runtime(tools=[price, add]) as scope:
        async with connect(McpService(scope, prompts=[offer]), ANN, era) as client:
            tools = {tool.name: tool for tool in (await client.list_tools()).tools}
            assert tools["price"].output_schema is not None
            assert tools["add"].output_schema is None
            hints = tools["add"].annotations
            assert hints is not None and hints.read_only_hint
            done = await client.call_tool("price", {"order": 4})
            assert done.structured_content == {"total": 6.0}
            got = await client.get_prompt("offer", {"count": "2"})
            content = got.messages[0].content
            assert isinstance(content, types.TextContent) and content.text == "Offer 3 pens."
            reference = types.PromptReference(name="offer")
            found = await client.complete(reference, {"name": "kind", "value": "b"})
            assert found.completion.values == ["book"]


@both_eras
async def test_mcp_server_takes_the_first_of_two_answers(era: str) -> None:
    """Two people answer one question: the first holds, and the effect happens once."""
    till = Till()
    async with w.Runtime(tools=till.tools) as scope:
        service = McpService(scope, call_options={"approval_policy": ASK})

        async def late(_ctx: Any, params: types.ElicitRequestParams) -> types.ElicitResult:
            (waiting,) = await w.approvals(scope.store)
            await w.deny(waiting.id, reason="no", store=scope.store)
            return types.ElicitResult(action="accept", content={"approve": True})

        async with connect(service, ANN, era, elicitation_callback=late) as client:
            answer = await client.call_tool("refund", {"order": 7})
        assert answer.is_error and till.paid == []


@both_eras
async def test_mcp_server_goes_on_after_its_process_was_killed(era: str, tmp_path: Path) -> None:
    """A parked call is in the store: another process resumes it for its caller, and for nobody else."""
    till, place = Till(), f"sqlite:///{tmp_path}/a.db"
    options: Any = {"approval_policy": ASK}
    async with w.Runtime(store=place, tools=till.tools) as scope:
        async with connect(McpService(scope, call_options=options), ANN, era) as client:
            said = json.loads(text(await client.call_tool("refund", {"order": 7})))
    async with w.Runtime(store=place, tools=till.tools) as scope:
        service = McpService(scope, call_options=options)
        arguments = {"session_id": said["session_id"]}
        async with connect(service, BOB, era, elicitation_callback=say(True)) as client:
            foreign = await client.call_tool("windlass_resume", arguments)
            assert '"not_found"' in text(foreign) and till.paid == []
        async with connect(service, ANN, era, elicitation_callback=say(True)) as client:
            assert text(await client.call_tool("windlass_resume", arguments)) == "refunded 7"
        assert till.paid == [7]


async def test_mcp_server_takes_an_answer_to_a_question_of_another_process(tmp_path: Path) -> None:
    """With the same state_keys any process takes the answer that a client sends back."""
    till, place, keys = Till(), f"sqlite:///{tmp_path}/a.db", ["k" * 32]
    options: Any = {"approval_policy": ASK}
    wanted: Any = {"name": "refund", "arguments": {"order": 7}, "allow_input_required": True}
    async with w.Runtime(store=place, tools=till.tools) as scope:
        service = McpService(scope, call_options=options, state_keys=keys)
        async with connect(service, ANN, ERAS[1], elicitation_callback=say(None)) as client:
            asked = await client.session.call_tool(**wanted)
            assert isinstance(asked, types.InputRequiredResult)
    async with w.Runtime(store=place, tools=till.tools) as scope:
        service = McpService(scope, call_options=options, state_keys=keys)
        yes = types.ElicitResult(action="accept", content={"approve": True})
        wanted["input_responses"] = dict.fromkeys(asked.input_requests or {}, yes)
        wanted["request_state"] = asked.request_state
        async with connect(service, BOB, ERAS[1], elicitation_callback=say(None)) as client:
            with pytest.raises(MCPError, match="Invalid or expired"):
                await client.session.call_tool(**wanted)
        async with connect(service, ANN, ERAS[1], elicitation_callback=say(None)) as client:
            done = await client.session.call_tool(**wanted)
            assert isinstance(done, types.CallToolResult) and text(done) == "refunded 7"
    assert till.paid == [7]


@both_eras
async def test_mcp_server_cancels_a_call_that_its_client_gives_up(era: str) -> None:
    """A client that cancels, or leaves, ends the run; the journal says so."""
    till = Till()
    async with w.Runtime(tools=till.tools) as scope:
        async with connect(McpService(scope), ANN, era) as client:
            asking = asyncio.create_task(client.call_tool("wait", {}))
            await till.started.wait()
            asking.cancel()
            await asyncio.gather(asking, return_exceptions=True)
            await till.stopped.wait()
        (session,) = await scope.store.sessions()
        assert session.status == "cancelled"


async def test_mcp_server_ends_a_call_at_its_time_limit() -> None:
    """A call that takes too long is cancelled and answered."""
    till = Till()
    async with w.Runtime(tools=till.tools) as scope:
        async with connect(McpService(scope, call_timeout=0.05), ANN, ERAS[1]) as client:
            late = await client.call_tool("wait", {})
        assert late.is_error and '"timeout"' in text(late) and till.stopped.is_set()


async def test_mcp_server_applies_policies_of_its_host_to_each_call() -> None:
    """A policy among `call_options` decides about calls of clients."""

    async def before_tool(self: Any, run: w.Run, call: w.ToolCall) -> w.ToolResult | None:
        if call.name != "refund":
            return None
        return w.ToolResult(content="not today", is_error=True, outcome="denied")

    till = Till()
    closed = named("Closed", before_tool=before_tool)
    async with w.Runtime(tools=[add, *till.tools]) as scope:
        service = McpService(scope, call_options={"policies": [closed]})
        async with connect(service, ANN, ERAS[1]) as client:
            assert text(await client.call_tool("add", {"a": 1, "b": 2})) == "3"
            refused = await client.call_tool("refund", {"order": 7})
        assert refused.is_error and "not today" in text(refused) and till.paid == []


@both_eras
async def test_mcp_server_hides_what_a_tool_raised(era: str) -> None:
    """Paths and texts of failures stay in the log, under the id that the client reads."""

    @w.tool
    async def broken() -> str:
        """Fail."""
        raise OSError("/srv/secret.db is locked")

    @w.tool
    async def choosy() -> str:
        """Refuse in its own words."""
        raise w.Retry("order 7 is closed")

    async with w.Runtime(tools=[broken, choosy]) as scope:
        async with connect(McpService(scope), ANN, era) as client:
            hidden = await client.call_tool("broken", {})
            assert hidden.is_error and "secret" not in text(hidden) and "id error_" in text(hidden)
            assert "order 7 is closed" in text(await client.call_tool("choosy", {}))
        async with connect(McpService(scope, expose_errors=True), ANN, era) as client:
            assert "secret.db" in text(await client.call_tool("broken", {}))


@both_eras
async def test_mcp_server_serves_an_agent_as_a_tool(era: str) -> None:
    """An agent takes a task; its own calls run in the caller's name; its failure shows no provider's text."""
    helper = w.Agent(scripted(call("add", a=2, b=3), "It is 5."), name="helper", tools=[add])
    broken = w.Agent(
        scripted(ModelError("upstream 10.0.0.7 said no")),
        name="broken",
        llm_caller=w.with_retry(max_attempts=1),
    )
    async with w.Runtime(roles={"clerk": ["tool.helper", "tool.broken"]}) as scope:
        service = McpService(scope, agents=[helper, broken])
        steps = list[str | None]()

        async def note(_progress: float, _total: float | None, message: str | None) -> None:
            steps.append(message)

        async with connect(service, ANN, era) as client:
            done = await client.call_tool("helper", {"task": "2+3"}, progress_callback=note)
            assert text(done) == "It is 5."
            failed = await client.call_tool("broken", {"task": "x"})
            assert failed.is_error and "10.0.0.7" not in text(failed)
        assert steps[0] == "helper: turn 1"
        page = await scope.audit.query(caller="ann")
        assert "add" in [one.tool for one in page.entries]


@both_eras
@pytest.mark.parametrize("asked_at", ("client", "host"))
async def test_mcp_server_asks_about_the_calls_of_an_agent(era: str, asked_at: str) -> None:
    """A call inside of an agent needs approval: the person at the client answers, or the host does later."""
    till = Till()
    model = scripted(call("refund", order=7), "Refunded.")
    helper = w.Agent(model, name="helper", tools=till.tools, approval_policy=ASK)
    async with w.Runtime() as scope:
        service = McpService(scope, agents=[helper])
        more: Any = {"elicitation_callback": say(True)} if asked_at == "client" else {}
        async with connect(service, ANN, era, **more) as client:
            answer = await client.call_tool("helper", {"task": "refund 7"})
            if asked_at == "host":
                said = json.loads(text(answer))
                assert said["error"] == "suspended" and "May refund run" in said["message"]
                (waiting,) = await w.approvals(scope.store)
                await w.approve(waiting.id, store=scope.store)
                arguments = {"session_id": said["session_id"]}
                answer = await client.call_tool("windlass_resume", arguments)
        assert text(answer) == "Refunded." and till.paid == [7]
        assert len(model.requests) == 2


@both_eras
async def test_mcp_server_shows_the_form_of_a_server_that_its_agent_uses(era: str) -> None:
    """A question of another server goes to the person at the client as it is; an answer must fit."""
    model = scripted(call("calc__ask"), "Asked.")
    helper = w.Agent(model, name="helper", mcp_servers={"calc": entry()})
    answers = [{"name": 7}, {"name": "Ann"}]
    shown: list[types.ElicitRequestParams] = []

    async def fill(_ctx: Any, params: types.ElicitRequestParams) -> types.ElicitResult:
        shown.append(params)
        return types.ElicitResult(action="accept", content=answers.pop(0))

    async with w.Runtime() as scope:
        service = McpService(scope, agents=[helper])
        async with connect(service, ANN, era, elicitation_callback=fill) as client:
            said = text(await client.call_tool("helper", {"task": "ask"}))
            if era == "legacy":  # the other era sends a question that was not answered once more
                parked = json.loads(said)
                assert parked["error"] == "suspended" and "Who is it for?" in parked["message"]
                arguments = {"session_id": parked["session_id"]}
                said = text(await client.call_tool("windlass_resume", arguments))
    assert said == "Asked."
    assert "calc asks: Who is it for?" in shown[0].message
    form = shown[0]
    assert isinstance(form, types.ElicitRequestFormParams)
    assert list(form.requested_schema["properties"]) == ["name", "size"]
    blocks = [block for one in model.requests[-1].messages for block in one.content]
    (result,) = [one for one in blocks if isinstance(one, w.ToolResult)]
    assert json.loads(result.text)["content"] == {"name": "Ann", "size": "small"}


@both_eras
async def test_mcp_server_keeps_the_budget_of_the_runtime(era: str) -> None:
    """What agents spend counts against the host's limit; then calls are refused with a code."""
    model = scripted("done", "done", "done", price=1.0, usage={"input_tokens": 400_000})
    helper = w.Agent(model, name="helper")
    async with w.Runtime(budget=w.Budget(usd=0.5)) as scope:
        async with connect(McpService(scope, agents=[helper]), ANN, era) as client:
            assert text(await client.call_tool("helper", {"task": "a"})) == "done"
            answers = [await client.call_tool("helper", {"task": "b"}) for _ in range(2)]
        assert answers[-1].is_error
        assert len(model.requests) <= 2


class Product(w.Resource):
    """A thing on sale."""

    id: str
    name: str
    price: float = 0.0


@both_eras
async def test_mcp_server_reads_rows_of_exported_resources(era: str) -> None:
    """Rows have addresses; reading one is a call of its verb, under the caller's grants."""
    roles = {
        "clerk": ["product.get", "product.search", "product.update"],
        "guest": [],
        "owner": ["product.*"],
    }
    updated = list[str]()

    async def hear(message: Any) -> None:
        if isinstance(message, types.ResourceUpdatedNotification):
            updated.append(str(message.params.uri))

    async with w.Runtime(resources=[Product], roles=roles) as scope:
        owner = w.Caller("olga", roles=("owner",))
        pen = await scope.resources[Product].create({"id": "p 1/x", "name": "Pen"}, caller=owner)
        uri = "windlass://product/p%201%2Fx"
        service = McpService(scope)
        async with connect(service, ANN, era, message_handler=hear) as client:
            assert [str(one.uri) for one in (await client.list_resources()).resources] == [
                "windlass://product"
            ]
            templates = (await client.list_resource_templates()).resource_templates
            assert [one.uri_template for one in templates] == ["windlass://product/{id}"]
            row = (await client.read_resource(uri)).contents[0]
            assert isinstance(row, types.TextResourceContents) and '"Pen"' in row.text
            listed = (await client.read_resource("windlass://product")).contents[0]
            assert isinstance(listed, types.TextResourceContents) and '"Pen"' in listed.text
            for missing in (
                "windlass://product/none",
                "windlass://nothing/1",
                "file:///etc/passwd",
            ):
                with pytest.raises(MCPError, match="not found"):
                    await client.read_resource(missing)
            if era == "legacy":
                with pytest.warns(MCPDeprecationWarning):  # of the client's own era
                    await client.subscribe_resource(uri)
                await client.call_tool("update_product", {"id": pen.id, "values": {"price": 2.0}})
                assert updated == [uri]
            else:
                async with client.listen(resource_subscriptions=[uri]) as heard:
                    await client.call_tool(
                        "update_product", {"id": pen.id, "values": {"price": 2.0}}
                    )
                    async for event in heard:
                        assert getattr(event, "uri", None) == uri
                        break
        async with connect(service, w.Caller("eve", roles=("guest",)), era) as client:
            assert (await client.list_resources()).resources == []
            if era == "legacy":
                with pytest.raises(MCPError, match="nothing to read"):
                    with pytest.warns(MCPDeprecationWarning):
                        await client.subscribe_resource(uri)
            with pytest.raises(MCPError, match="permission_denied"):
                await client.read_resource(uri)


@mcp_prompt
def review(path: str) -> list[str | w.Message]:
    """Review a file."""
    return [f"Review {path}.", w.Message("assistant", "Gladly.")]


@mcp_resource("doc://{name}", mime_type="text/markdown")
async def page(name: str) -> str:
    """A page of the manual."""
    return f"# {name}"


@both_eras
async def test_mcp_server_offers_prompts_and_resources_of_the_host(era: str) -> None:
    """Functions become prompts and resources; each has its own grant."""
    roles = {"clerk": ["prompt.review", "resource.page"], "guest": []}
    async with w.Runtime(roles=roles) as scope:
        service = McpService(scope, prompts=[review], resources=[page])
        async with connect(service, ANN, era) as client:
            (listed,) = (await client.list_prompts()).prompts
            assert listed.name == "review" and listed.arguments is not None
            assert [(one.name, one.required) for one in listed.arguments] == [("path", True)]
            got = await client.get_prompt("review", {"path": "a.py"})
            assert [one.role for one in got.messages] == ["user", "assistant"]
            with pytest.raises(MCPError, match="path: is required"):
                await client.get_prompt("review", {})
            read = (await client.read_resource("doc://setup")).contents[0]
            assert isinstance(read, types.TextResourceContents) and read.text == "# setup"
            with pytest.raises(MCPError, match="not found"):
                await client.read_resource("doc://..%2f..%2fetc")
        async with connect(service, w.Caller("eve", roles=("guest",)), era) as client:
            assert (await client.list_prompts()).prompts == []
            with pytest.raises(MCPError, match="permission_denied"):
                await client.get_prompt("review", {"path": "a.py"})
            with pytest.raises(MCPError, match="permission_denied"):
                await client.read_resource("doc://setup")


@both_eras
async def test_mcp_server_lets_a_tool_ask_its_client(era: str) -> None:
    """A tool asks, logs and reports in both eras; its effects before the question happen once."""
    effects = list[str]()

    @w.tool
    async def greet(ctx: w.ToolContext[None]) -> str:
        """Greet by name."""
        peer = mcp_peer()
        assert peer is not None and not peer.can("sampling")
        effects.append("begun")
        ctx.progress({"progress": 1, "total": 2, "message": "asking"})
        peer.log("info", "about to ask")
        answer = await peer.elicit("Who are you?", {"name": {"type": "string"}})
        return f"Hello, {answer and answer['name']}."

    async def name(_ctx: Any, _params: Any) -> types.ElicitResult:
        return types.ElicitResult(action="accept", content={"name": "Ann"})

    logs, steps = list[object](), list[float]()

    async def log(params: types.LoggingMessageNotificationParams) -> None:
        logs.append(params.data)

    async def note(progress: float, _total: float | None, _message: str | None) -> None:
        steps.append(progress)

    assert mcp_peer() is None
    async with w.Runtime(tools=[greet]) as scope:
        async with connect(
            McpService(scope), ANN, era, elicitation_callback=name, logging_callback=log
        ) as client:
            done = await client.call_tool(
                "greet",
                {},
                progress_callback=note,
                meta={"io.modelcontextprotocol/logLevel": "info"},
            )
            assert text(done) == "Hello, Ann."
        async with connect(McpService(scope), ANN, era) as client:
            if era == "legacy":
                assert (await client.call_tool("greet", {})).is_error
            else:
                with pytest.raises(MCPError, match="does not offer elicitation"):
                    await client.call_tool("greet", {})
    assert effects == ["begun", "begun"]
    assert steps == [1.0] and logs == ["about to ask"]


def test_mcp_server_refuses_wrong_settings() -> None:
    """A mistake of the host's is one of now."""
    scope = w.Runtime(tools=[add])
    McpService(scope)
    wrong: list[Any] = [
        {"call_options": {"model": "x"}},
        {"call_options": {"max_cots_usd": 1}},
        {"state_keys": ["short"]},
        {"state_keys": "k" * 40},
        {"identify": "who"},
        {"agents": ["helper"]},
        {"prompts": [review, review]},
        {"resources": [add]},
    ]
    for options in wrong:
        with pytest.raises(w.ConfigError):
            McpService(scope, **options)
    with pytest.raises(w.ConfigError, match="windlass_resume"):
        own = w.Tool(name="windlass_resume", description="x", parameters={}, handler=None)
        McpService(w.Runtime(tools=[own]))
    with pytest.raises(w.ConfigError, match="who asks"):
        McpService(scope).app()
