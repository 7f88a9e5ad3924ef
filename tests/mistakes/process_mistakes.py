"""Mistakes in commands, settings, providers and requests, and the line that answers each."""

from __future__ import annotations

from typing import Any, NamedTuple


class Command(NamedTuple):
    """A command line, with the `windlass.toml` and the tools of its folder."""

    line: str
    answer: str
    toml: str = ""
    shop: str = 'def refund(order: str) -> str:\n    """Refund."""\n    return order\n'


COMMANDS = (
    Command(
        'windlass rnu "Hi."',
        "windlass: error: no command 'rnu'; did you mean 'run'? (see: windlass --help)",
    ),
    Command(
        "windlass approve",
        "windlass: error: no command 'approve'; it is windlass approvals approve (see: windlass --help)",
    ),
    Command(
        "windlass run",
        'windlass: error: a TASK is missing: windlass run "…" (see: windlass run --help)',
    ),
    Command(
        'windlass run "Hi." --modle mock',
        "windlass: error: no option '--modle'; did you mean '--model'? (see: windlass run --help)",
    ),
    Command(
        'windlass run "Hi." --budget 5',
        "windlass: error: no option '--budget'; use '--max-cost' (see: windlass run --help)",
    ),
    Command(
        'windlass run "Hi." --model opnai:gpt-4o',
        "windlass: error: provider 'opnai' is not known; did you mean 'openai'?",
    ),
    Command(
        'windlass run "Hi." --model openai:gpt-4o',
        "windlass: error: openai needs an API key: set OPENAI_API_KEY or pass api_key=",
    ),
    Command(
        'windlass run "Hi." --model mock --max-turns zero',
        "windlass: error: Invalid value for '--max-turns': 'zero' is not a valid whole number (see: windlass run --help)",
    ),
    Command(
        'windlass run "Hi." --model mock --tools shop',
        "windlass: error: --tools 'shop': write it as module:function",
    ),
    Command(
        'windlass run "Hi." --model mock --tools store:refund',
        "windlass: error: --tools store:refund: there is no module 'store' here or installed",
    ),
    Command(
        'windlass run "Hi." --model mock --tools shop:refnd',
        "windlass: error: --tools shop:refnd: shop has no 'refnd'; did you mean 'refund'?",
    ),
    Command(
        'windlass run "Hi." --model mock --tools shop:refund',
        "windlass: error: --tools shop:refund: importing shop failed: SyntaxError: '(' was never closed (shop.py, line 1)",
        shop="def refund(order: str\n",
    ),
    Command(
        'windlass run "Hi." --model mock --store mysql://host/agents',
        "windlass: error: store 'mysql://host/agents' is not an address; use 'memory:', 'sqlite:///name.db', 'postgresql://user@host/name' or a path that ends in .db",
    ),
    Command(
        'windlass run "Hi." --model mock --store notes.db',
        "windlass: error: notes.db: this is not a SQLite database; name another file (file is not a database)",
    ),
    Command(
        'windlass run "Hi." --model mock --resume nope',
        "windlass: error: no session 'nope': nothing is kept in .windlass/sessions.db",
    ),
    Command(
        "windlass trace nope --store agents.db",
        "windlass: error: no session 'nope': nothing is kept in agents.db",
    ),
    Command(
        "windlass approvals approve call_1 --store agents.db",
        "windlass: error: nothing waits for an answer under 'call_1'; it was answered, discarded, or never asked (approvals lists what waits)",
    ),
    Command(
        "windlass config check",
        "windlass: error: windlass.toml:1: [agnet] is no section; did you mean 'agent'? (known: agent, audit, capabilities, llm, roles, store, telemetry)",
        "[agnet]\nmax_turns = 3\n",
    ),
    Command(
        "windlass config check",
        "windlass: error: windlass.toml:2: agent.max_tuns is no setting; did you mean 'max_turns'?",
        "[agent]\nmax_tuns = 3\n",
    ),
    Command(
        "windlass config check",
        "windlass: error: windlass.toml:2: agent.max_turns: expected an integer, got a string ('three')",
        '[agent]\nmax_turns = "three"\n',
    ),
    Command(
        "windlass config check",
        "windlass: error: windlass.toml:1: it is not TOML: Expected ']' at the end of a table declaration",
        "[agent\n",
    ),
    Command(
        "windlass config check",
        "windlass: error: windlass.toml:2: llm.model: provider 'opnai' is not known; did you mean 'openai'?",
        '[llm]\nmodel = "opnai:gpt-4o"\n',
    ),
    Command(
        "windlass config check",
        "windlass: error: windlass.toml:1: [providers] is no section; it is a key of [llm] (known: agent, audit, capabilities, llm, roles, store, telemetry)",
        '[providers.mine]\nwire = "openai_chat"\n',
    ),
    Command(
        'windlass run "Hi." --model mock',
        "windlass: error: windlass.toml:2: agent.max_tuns is no setting; did you mean 'max_turns'?",
        "[agent]\nmax_tuns = 3\n",
    ),
)


class Failure(NamedTuple):
    """What a provider answers, and what a program is told."""

    status: int
    message: str
    answer: str


PROVIDERS = (
    Failure(
        401,
        "Incorrect API key provided: sk-12**.",
        "OutputMissing: the run ended as provider_error (auth): Incorrect API key provided: sk-12**.; set OPENAI_API_KEY or pass api_key=; check the key; `windlass models doctor openai:gpt-4oo` tries it",
    ),
    Failure(
        403,
        "Project has no access to the model.",
        "OutputMissing: the run ended as provider_error (auth): Project has no access to the model.; set OPENAI_API_KEY or pass api_key=; check the key; `windlass models doctor openai:gpt-4oo` tries it",
    ),
    Failure(
        404,
        "The model 'gpt-4oo' does not exist.",
        "OutputMissing: the run ended as provider_error (bad_request): The model 'gpt-4oo' does not exist.; `windlass models doctor openai:gpt-4oo` shows what the model takes",
    ),
    Failure(
        429,
        "Rate limit reached.",
        "OutputMissing: the run ended as provider_error (rate_limit): Rate limit reached.; run it again later, or add a second model: llm_caller=w.with_fallback([…])",
    ),
    Failure(
        500,
        "The server had an error.",
        "OutputMissing: the run ended as provider_error (server_error): The server had an error.; run it again later, or add a second model: llm_caller=w.with_fallback([…])",
    ),
)


class Request(NamedTuple):
    """A body that a client posts to the server, and its answer."""

    body: Any
    answer: str


REQUESTS = (
    Request({"promt": "Hi."}, "400: there is no field 'promt'; use 'input'"),
    Request({"prompt": "Hi."}, "400: there is no field 'prompt'; use 'input'"),
    Request(
        {"input": "Hi.", "temperature": 1},
        "400: there is no field 'temperature'; there is conversation, decisions, include_tool_trace, input, max_cost_usd, max_output_tokens, max_tokens, max_tool_iterations, on_pending, resume, stream, tool_mode, tools",
    ),
    Request({}, "400: say what you want as `input`"),
    Request(
        "{no json",
        "400: the body is no JSON object: JSON is malformed: object keys must be strings (byte 1)",
    ),
    Request({"input": "Hi.", "stream": "yes"}, "400: stream is true or false"),
    Request({"input": "Hi.", "max_cost_usd": "cheap"}, "400: max_cost_usd is a number here"),
)
