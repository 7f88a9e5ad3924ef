"""The server that the conformance kit asks for: tools, resources and prompts of fixed names, on our server.

python -m scripts.conformance_server 3001
"""

from __future__ import annotations

import asyncio
import json
import sys
from base64 import b64decode, b64encode

import mcp_types as types
import uvicorn

import windlass as w
from windlass.json_types import JsonObject
from windlass.mcp.server import McpPeer, McpService, mcp_peer, mcp_prompt, mcp_resource

PNG = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mP8z8DwHwAFBQIAX8jx0gAAAABJRU5ErkJggg=="
WAV = "UklGRiYAAABXQVZFZm10IBAAAAABAAEAQB8AAAB9AAACABAAZGF0YQIAAAA="
NAME: JsonObject = {
    "type": "object",
    "properties": {"name": {"type": "string"}},
    "required": ["name"],
}
CONFIRM: JsonObject = {
    "type": "object",
    "properties": {"ok": {"type": "boolean"}},
    "required": ["ok"],
}
DEFAULTS: JsonObject = {
    "type": "object",
    "properties": {
        "name": {"type": "string", "default": "John Doe"},
        "age": {"type": "integer", "default": 30},
        "score": {"type": "number", "default": 95.5},
        "status": {
            "type": "string",
            "enum": ["active", "inactive", "pending"],
            "default": "active",
        },
        "verified": {"type": "boolean", "default": True},
    },
}
ENUMS: JsonObject = {
    "type": "object",
    "properties": {
        "untitledSingle": {"type": "string", "enum": ["option1", "option2", "option3"]},
        "titledSingle": {
            "type": "string",
            "oneOf": [
                {"const": "value1", "title": "First Option"},
                {"const": "value2", "title": "Second Option"},
                {"const": "value3", "title": "Third Option"},
            ],
        },
        "legacyEnum": {
            "type": "string",
            "enum": ["opt1", "opt2", "opt3"],
            "enumNames": ["Option One", "Option Two", "Option Three"],
        },
        "untitledMulti": {
            "type": "array",
            "items": {"type": "string", "enum": ["option1", "option2", "option3"]},
        },
        "titledMulti": {
            "type": "array",
            "items": {
                "anyOf": [
                    {"const": "value1", "title": "First Choice"},
                    {"const": "value2", "title": "Second Choice"},
                    {"const": "value3", "title": "Third Choice"},
                ]
            },
        },
    },
}
SCHEMA_2020_12: JsonObject = {
    "$schema": "https://json-schema.org/draft/2020-12/schema",
    "type": "object",
    "$defs": {
        "address": {
            "$anchor": "addressDef",
            "type": "object",
            "properties": {"street": {"type": "string"}, "city": {"type": "string"}},
        }
    },
    "properties": {
        "name": {"type": "string"},
        "address": {"$ref": "#/$defs/address"},
        "contactMethod": {"type": "string", "enum": ["phone", "email"]},
        "phone": {"type": "string"},
        "email": {"type": "string"},
    },
    "allOf": [{"anyOf": [{"required": ["phone"]}, {"required": ["email"]}]}],
    "if": {"properties": {"contactMethod": {"const": "phone"}}, "required": ["contactMethod"]},
    "then": {"required": ["phone"]},
    "else": {"required": ["email"]},
    "additionalProperties": False,
}


def peer() -> McpPeer:
    """Return the client of the call."""
    found = mcp_peer()
    assert found is not None
    return found


def form(message: str, schema: JsonObject) -> types.ElicitRequest:
    """Build a form to be filled in."""
    params = types.ElicitRequestFormParams(message=message, requested_schema=schema)
    return types.ElicitRequest(params=params)


def sample(prompt: str) -> types.CreateMessageRequest:
    """Build a prompt for the client's model."""
    message = types.SamplingMessage(role="user", content=types.TextContent(text=prompt))
    return types.CreateMessageRequest(
        params=types.CreateMessageRequestParams(messages=[message], max_tokens=100)
    )


def text_document(uri: str, text: str, media_type: str = "text/plain") -> w.Document:
    """Build a document of text, under its address."""
    data = b64encode(text.encode()).decode()
    return w.Document(data=data, media_type=media_type, title=uri)


# --------------------------------------------------------------------------- tools


@w.tool
def test_simple_text() -> str:
    """Answer with a text."""
    return "This is a simple text response for testing."


@w.tool
def test_image_content() -> w.Image:
    """Answer with an image."""
    return w.Image(data=PNG)


@w.tool
def test_audio_content() -> w.Document:
    """Answer with a sound."""
    return w.Document(data=WAV, media_type="audio/wav")


@w.tool
def test_embedded_resource() -> w.Document:
    """Answer with a resource."""
    return text_document("test://embedded-resource", "This is an embedded resource content.")


@w.tool
def test_multiple_content_types() -> list[object]:
    """Answer with a text, an image and a resource."""
    data = '{"test": "data", "value": 123}'
    return [
        w.Text("Multiple content types test:"),
        w.Image(data=PNG),
        text_document("test://mixed-content-resource", data, "application/json"),
    ]


@w.tool
async def test_tool_with_logging() -> str:
    """Send three log messages."""
    for step in ("Tool execution started", "Tool processing data", "Tool execution completed"):
        peer().log("info", step)
        await asyncio.sleep(0.05)
    return "Tool with logging executed successfully"


@w.tool
async def test_tool_with_progress(ctx: w.ToolContext[None]) -> str:
    """Report progress three times."""
    for step in (0, 50, 100):
        ctx.progress({"progress": step, "total": 100, "message": f"Completed step {step} of 100"})
        await asyncio.sleep(0.05)
    return "done"


@w.tool
def test_error_handling() -> str:
    """Fail."""
    raise RuntimeError("This tool intentionally returns an error for testing")


@w.tool
async def test_sampling(prompt: str) -> str:
    """Ask the client's model."""
    return f"LLM response: {await peer().sample(prompt, max_tokens=100)}"


@w.tool
async def test_elicitation(message: str) -> str:
    """Ask the person at the client."""
    schema: JsonObject = {"response": {"type": "string", "description": "User's response"}}
    return f"User response: {await peer().elicit(message, schema)}"


@w.tool
async def test_elicitation_sep1034_defaults() -> str:
    """Ask with a form that has defaults."""
    answer = await peer().elicit("Please review and update the form fields with defaults", DEFAULTS)
    return f"Elicitation completed: action={'accept' if answer else 'decline'}, content={json.dumps(answer)}"


@w.tool
async def test_elicitation_sep1330_enums() -> str:
    """Ask with a form that has all kinds of choices."""
    answer = await peer().elicit("Please select options from the enum fields", ENUMS)
    return f"Elicitation completed: action={'accept' if answer else 'decline'}, content={json.dumps(answer)}"


@w.tool
async def test_missing_capability() -> str:
    """Need a client that can sample."""
    peer().require("sampling")
    return "Client declared sampling capability; proceeding."


@w.tool
async def test_streaming_elicitation(ctx: w.ToolContext[None]) -> str:
    """Report progress, and ask then."""
    ctx.progress("about to ask")
    return f"Hello, {await peer().elicit('What is your name?', NAME)}"


@w.tool
async def test_logging_tool() -> str:
    """Send a log message."""
    peer().log("info", "a message for whoever asked for it")
    return "done"


@w.tool
async def test_input_required_result_elicitation() -> str:
    """Ask for a name."""
    answers = await peer().ask({"user_name": form("What is your name?", NAME)})
    answer = answers["user_name"]
    content = answer.content if isinstance(answer, types.ElicitResult) else None
    return f"Hello, {(content or {}).get('name', 'stranger')}!"


@w.tool
async def test_input_required_result_sampling() -> str:
    """Ask the client's model for a capital."""
    answers = await peer().ask({"capital_question": sample("What is the capital of France?")})
    answer = answers["capital_question"]
    return f"Model said: {answer.model_dump_json()}"


@w.tool
async def test_input_required_result_list_roots() -> str:
    """Ask for the client's folders."""
    answers = await peer().ask({"client_roots": types.ListRootsRequest()})
    answer = answers["client_roots"]
    return f"Client exposed {len(answer.roots) if isinstance(answer, types.ListRootsResult) else 0} root(s)."


@w.tool
async def test_input_required_result_request_state() -> str:
    """Ask for a confirmation."""
    await peer().ask({"confirm": form("Please confirm", CONFIRM)})
    return "state-ok: confirmation received"


@w.tool
async def test_input_required_result_multiple_inputs() -> str:
    """Ask for three things at once."""
    await peer().ask(
        {
            "user_name": form("What is your name?", NAME),
            "greeting": sample("Generate a greeting"),
            "client_roots": types.ListRootsRequest(),
        }
    )
    return "All inputs received."


@w.tool
async def test_input_required_result_multi_round() -> str:
    """Ask twice."""
    first = (await peer().ask({"step1": form("Step 1: What is your name?", NAME)}))["step1"]
    color: JsonObject = {
        "type": "object",
        "properties": {"color": {"type": "string"}},
        "required": ["color"],
    }
    second = (await peer().ask({"step2": form("Step 2: What is your favorite color?", color)}))[
        "step2"
    ]
    return f"{first.model_dump_json()} {second.model_dump_json()}"


@w.tool
async def test_input_required_result_tampered_state() -> str:
    """Ask for a confirmation, with a state that is not to be changed."""
    await peer().ask({"confirm": form("Please confirm", CONFIRM)})
    return "state-ok"


@w.tool
async def test_input_required_result_capabilities() -> str:
    """Ask for what the client can do, and nothing else."""
    asks: dict[str, types.ElicitRequest | types.CreateMessageRequest] = {}
    if peer().can("sampling"):
        asks["sample"] = sample("Say hello")
    if peer().can("elicitation"):
        asks["ask"] = form("What is your name?", NAME)
    return str(len(await peer().ask(asks)))


def _schema_tool(_arguments: JsonObject) -> str:
    return "json_schema_2020_12_tool"


json_schema_2020_12_tool = w.Tool(
    name="json_schema_2020_12_tool",
    description="Show every keyword of JSON Schema 2020-12.",
    parameters=SCHEMA_2020_12,
    handler=_schema_tool,
)


def _header_tool(arguments: JsonObject) -> str:
    return f"region={arguments.get('region')}"


test_x_mcp_header = w.Tool(
    name="test_x_mcp_header",
    description="Repeat an argument in a header.",
    parameters={
        "type": "object",
        "properties": {"region": {"type": "string", "x-mcp-header": "Region"}},
    },
    handler=_header_tool,
)


# --------------------------------------------------------------------------- resources, prompts


@mcp_resource("test://static-text", mime_type="text/plain")
def static_text() -> str:
    """A text."""
    return "This is the content of the static text resource."


@mcp_resource("test://static-binary", mime_type="image/png")
def static_binary() -> bytes:
    """An image."""
    return b64decode(PNG)


@mcp_resource("test://template/{id}/data", mime_type="application/json")
def template(id: str) -> str:
    """A text for each id."""
    return json.dumps({"id": id, "templateTest": True, "data": f"Data for ID: {id}"})


@mcp_resource("test://watched-resource", mime_type="text/plain")
def watched() -> str:
    """A text that clients subscribe to."""
    return "Watched resource content"


@mcp_prompt
def test_simple_prompt() -> str:
    """A prompt without arguments."""
    return "This is a simple prompt for testing."


@mcp_prompt
def test_prompt_with_arguments(arg1: str, arg2: str) -> str:
    """A prompt with arguments."""
    return f"Prompt with arguments: arg1='{arg1}', arg2='{arg2}'"


@mcp_prompt
def test_prompt_with_embedded_resource(resourceUri: str) -> list[object]:
    """A prompt with a resource."""
    document = text_document(resourceUri, "Embedded resource content for testing.")
    return [w.Message("user", (document,)), "Please process the embedded resource above."]


@mcp_prompt
def test_prompt_with_image() -> list[object]:
    """A prompt with an image."""
    return [w.Message("user", (w.Image(data=PNG),)), "Please analyze the image above."]


@mcp_prompt
async def test_input_required_result_prompt() -> str:
    """A prompt that asks."""
    schema: JsonObject = {
        "type": "object",
        "properties": {"context": {"type": "string"}},
        "required": ["context"],
    }
    asks = {"user_context": form("What context should the prompt use?", schema)}
    answer = (await peer().ask(asks))["user_context"]
    return f"Use the following context: {answer.model_dump_json()}"


TOOLS = [one for name, one in list(globals().items()) if isinstance(one, w.Tool) and name[0] != "_"]
service = McpService(
    w.Runtime(tools=TOOLS, store="memory:"),
    name="windlass-conformance",
    caller=w.Caller("tester"),
    resources=[static_text, static_binary, template, watched],
    prompts=[
        test_simple_prompt,
        test_prompt_with_arguments,
        test_prompt_with_embedded_resource,
        test_prompt_with_image,
        test_input_required_result_prompt,
    ],
)


def main() -> None:
    """Serve on a port of the loopback."""
    port = int(sys.argv[1]) if len(sys.argv) > 1 else 3001
    uvicorn.run(service.app(), host="127.0.0.1", port=port, log_level="warning")


if __name__ == "__main__":
    main()
