"""Make the mistakes and return what is said: a program, a command, a provider's refusal, a request."""

from __future__ import annotations

import ast
import inspect
import re
import shlex
from pathlib import Path
from typing import Any

from click.testing import CliRunner

import windlass as w
from tests.mistakes.process_mistakes import Command, Failure, Request
from tests.mistakes.python_mistakes import SETUP
from tests.server.asgi import app_of, post
from windlass.cli.main import cli
from windlass.testing import FakeOpenAI, Status, scripted

NO_DATABASE = "this is no database; " * 20


async def run_program(code: str) -> str:
    """Run a program, and return the message of the error that ends it."""
    namespace: dict[str, Any] = {}
    exec(SETUP, namespace)
    compiled = compile(code, "<program>", "exec", flags=ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)
    try:
        ended = eval(compiled, namespace)
        if inspect.iscoroutine(ended):
            await ended
    except Exception as error:
        return shorten(f"{type(error).__name__}: {error}")
    return "nothing"


def run_command(command: Command) -> str:
    """Run a command in this folder, and return what it writes."""
    Path("windlass.toml").write_text(command.toml)
    Path("shop.py").write_text(command.shop)
    done = CliRunner().invoke(cli, shlex.split(command.line)[1:])
    assert done.exit_code in (1, 2), f"{done.exit_code}: {done.output}{done.exception!r}"
    return shorten(done.stderr.strip())


async def refuse_request(failure: Failure) -> str:
    """Run an agent whose provider refuses every request, and return what `out.output` says."""
    fault = Status(failure.status, message=failure.message)
    async with FakeOpenAI("hello", faults=fault) as server:
        model = w.models.openai_chat("gpt-4oo", base_url=server.url, api_key="sk-1234")
        out = await w.Agent(model).run("Hi.")
        try:
            return f"nothing but {out.output!r}"
        except w.WindlassError as error:
            return shorten(f"{type(error).__name__}: {error}")


async def post_request(request: Request) -> str:
    """Post a body to the server, and return its error."""
    raw = request.body.encode() if isinstance(request.body, str) else None
    reply = await post(app_of(w.Runtime(), scripted("hello")), request.body, raw=raw)
    return f"{reply.status}: {reply.error['message']}"


def shorten(text: str) -> str:
    """Leave out what differs from run to run: folders, ports, line breaks of a parser."""
    text = text.replace(f"{Path.cwd()}/", "").replace(str(Path.cwd()), ".")
    return re.sub(r"127\.0\.0\.1:(?!9\b)\d+", "127.0.0.1:…", text)
