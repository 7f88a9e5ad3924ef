"""A canary: a key that was given in any way is never written, shown, raised or logged."""

from __future__ import annotations

import json
import logging
from pathlib import Path
from typing import Any

import pytest

import windlass as w
from tests.stories.helpers import kept
from windlass.events import TextDelta, ThinkingDelta, ToolCallUpdate
from windlass.models.base import Emit
from windlass.testing import call, scripted

CANARY = "sk-canary-4f9a8b7c6d5e"
MARK = "[redacted]"


class Leaky(w.Model):
    """A model that repeats the key everywhere a model can."""

    provider, name = "leaky", "leaky"

    def __init__(self, *, secrets: tuple[str, ...] = (), fail: bool = False) -> None:
        self.secrets, self.fail, self.requests = secrets, fail, []

    async def respond(self, request: w.Request, emit: Emit) -> w.Response:
        self.requests.append(request)
        if self.fail:
            cause = RuntimeError(f"header x-api-key: {CANARY}")
            raise w.AuthFailed(f"wrong key {CANARY}", body=f'{{"key": "{CANARY}"}}') from cause
        for letter in f"the key is {CANARY}, sk-canary-no":
            emit(TextDelta(letter))
            emit(ThinkingDelta(letter))
        if len(self.requests) > 1:
            blocks: tuple[Any, ...] = (w.Thinking(CANARY), w.Text(f"the key is {CANARY}"))
            return w.Response(w.Message("assistant", blocks))
        asked = w.ToolCall("a", "leak", {"key": CANARY})
        emit(w.ToolCallReady(asked))
        return w.Response(w.Message("assistant", (w.Text(CANARY), asked)), stop_reason="tool_use")


@w.tool
async def leak(ctx: w.ToolContext[None], key: str) -> str:
    """Say the key."""
    ctx.progress({"key": CANARY})
    return json.dumps({"key": CANARY})


class Chatters(w.Policy[None]):
    """A policy that says, remembers, notes and reminds of the key."""

    async def before_turn(self, run: w.Run) -> None:
        run.say(f"psst: {CANARY}", "hint")
        run.say(f"reminder: {CANARY}", "hint", ttl=1)
        run.note("key", {"is": CANARY})
        run.remember(self, {"key": CANARY})

    async def before_tool(self, run: w.Run, call: w.ToolCall) -> w.ToolResult | None:
        return None


async def everything(model: w.Model, file: Path, **options: Any) -> tuple[str, w.LoopResult]:
    """All that can be seen of a run with this model, as one text."""
    seen: list[w.Event] = []
    out = await w.agent_loop(
        f"my key is {CANARY}",
        model=model,
        tools=[leak],
        policies=[Chatters()],
        on_event=seen.append,
        session_id="s",
        store=f"sqlite:///{file}",
        **options,
    )
    shown = "".join(e.text for e in seen if isinstance(e, TextDelta))
    thought = "".join(e.text for e in seen if isinstance(e, ThinkingDelta))
    result = json.dumps(out.to_dict()) + repr(out) + out._repr_html_() + out.text
    return shown + thought + repr(seen) + result, out


def on_disk(folder: Path) -> bytes:
    return b"".join(file.read_bytes() for file in folder.iterdir() if file.is_file())


# --------------------------------------------------------------------------- ways to give a key


async def test_a_key_of_the_model(tmp_path: Path):
    async with w.Runtime(environ={}, store="memory:"):
        seen, out = await everything(Leaky(secrets=(CANARY,)), tmp_path / "s.db")
        assert CANARY not in seen
        assert MARK in seen and "sk-canary-no" in seen, "only what is secret is taken out"
        await kept(out)
    assert CANARY.encode() not in on_disk(tmp_path)
    assert MARK.encode() in on_disk(tmp_path)


async def test_a_key_in_the_environment(tmp_path: Path):
    async with w.Runtime(environ={"ACME_API_KEY": CANARY}, store="memory:"):
        seen, _ = await everything(Leaky(), tmp_path / "s.db")
        assert CANARY not in seen
    assert CANARY.encode() not in on_disk(tmp_path)


async def test_a_secret_of_the_runtime(tmp_path: Path):
    async with w.Runtime(environ={}, secrets=(w.Secret(CANARY),), store="memory:"):
        seen, _ = await everything(Leaky(), tmp_path / "s.db")
        assert CANARY not in seen
    assert CANARY.encode() not in on_disk(tmp_path)


async def test_a_secret_in_the_configuration(tmp_path: Path):
    folder = tmp_path / "project"
    folder.mkdir()
    file = folder / "windlass.toml"
    file.write_text(f'[store]\nurl = "postgresql://ann:{CANARY}@host/db"\n')
    store = tmp_path / "store"
    store.mkdir()
    async with w.Runtime(environ={}, config=file, store="memory:"):
        seen, _ = await everything(Leaky(), store / "s.db")
        assert CANARY not in seen
    assert CANARY.encode() not in on_disk(store)


async def test_a_header_of_the_model(tmp_path: Path):
    model = w.models.openai_chat(
        "any",
        api_key="sk-other-123456",
        base_url="http://127.0.0.1:9",
        headers={"X-Auth-Token": CANARY},
    )
    assert CANARY in model.secrets and "sk-other-123456" in model.secrets
    async with w.Runtime(environ={}, store="memory:") as runtime:
        runtime.learn(model)
        seen, _ = await everything(Leaky(), tmp_path / "s.db")
        assert CANARY not in seen


async def test_a_key_of_a_model_that_writes_its_tools(tmp_path: Path):
    async with w.Runtime(environ={}, store="memory:"):
        seen, _ = await everything(Leaky(secrets=(CANARY,)), tmp_path / "s.db", tool_format="text")
        assert CANARY not in seen


async def test_a_secret_does_not_show_itself():
    secret = w.Secret(CANARY)
    assert CANARY not in f"{secret} {secret!r}"
    with pytest.raises(TypeError):
        json.dumps(secret)
    with pytest.raises(w.ConfigError) as caught:
        await w.agent_loop("go", model=scripted("x"), name=secret)
    assert CANARY not in str(caught.value)


# --------------------------------------------------------------------------- ways to lose one


async def test_errors_do_not_carry_it(tmp_path: Path):
    async with w.Runtime(environ={}, store="memory:"):
        model = Leaky(secrets=(CANARY,), fail=True)
        out = await w.Agent(model).run("go", store=f"sqlite:///{tmp_path}/s.db")
        assert out.status == "provider_error"
        assert CANARY not in json.dumps(out.trace)
        with pytest.raises(w.AuthFailed) as caught:
            out.raise_for_status()
        _nowhere_in(caught.value)
        with pytest.raises(w.AuthFailed) as caught:
            await w.llm_call("go", model=model)
        _nowhere_in(caught.value)
    assert CANARY.encode() not in on_disk(tmp_path)


def _nowhere_in(error: w.ModelError) -> None:
    import traceback

    assert CANARY not in "".join(traceback.format_exception(error))
    assert CANARY not in str(error.body)
    assert MARK in str(error)


async def test_a_tool_or_a_policy_that_fails_with_it_does_not_log_it(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
):
    class Breaks(w.Policy[None]):
        async def after_turn(self, run: w.Run, turn: w.Turn) -> None:
            raise RuntimeError(f"no {CANARY}")

    def bad_sink(_event: w.Event) -> None:
        raise ValueError(CANARY)

    @w.tool
    async def broken() -> str:
        raise ValueError(CANARY)

    model = scripted(call("broken"))
    model.secrets = (CANARY,)
    with caplog.at_level(logging.DEBUG):
        async with w.Runtime(environ={}, store="memory:"):
            out = await w.agent_loop(
                "go", model=model, tools=[broken], policies=[Breaks()], on_event=bad_sink
            )
    assert out.status == "failed"
    assert out.tool_calls[0].result == f"ValueError: {MARK}"
    assert CANARY not in json.dumps(out.trace)
    formatter = logging.Formatter()
    logged = "\n".join(formatter.format(record) for record in caplog.records)
    assert "a sink failed" in logged and "failed" in logged
    assert CANARY not in logged


async def test_a_stream_does_not_show_it_however_it_is_cut():
    async with w.Runtime(environ={}, store="memory:"):
        agent = w.Agent(Leaky(secrets=(CANARY,)), tools=[leak])
        async with agent.stream("go") as run:
            text = "".join([piece async for piece in run.text()])
            out = await run.result()
    assert CANARY not in text and text.count(MARK) == 2
    assert text.startswith(f"the key is {MARK}, sk-canary-no")
    assert out.status == "done"


async def test_progress_is_clean():
    seen: list[w.Event] = []
    async with w.Runtime(environ={}, store="memory:", secrets=(CANARY,)):
        await w.agent_loop(
            "go", model=scripted(call("leak", key="x"), "ok"), tools=[leak], on_event=seen.append
        )
    updates = [e.progress for e in seen if isinstance(e, ToolCallUpdate) and e.progress]
    assert updates == [{"key": MARK}]


async def test_the_model_does_not_read_it_either():
    """What is in the journal is what was sent: a key in a prompt or a result goes no further."""
    model = Leaky(secrets=(CANARY,))
    async with w.Runtime(environ={}, store="memory:"):
        out = await w.agent_loop(
            f"my key is {CANARY}", model=model, tools=[leak], policies=[Chatters()]
        )
        assert CANARY not in repr([list(r.messages) for r in model.requests])
        assert CANARY not in repr([r.tail for r in model.requests])
        await kept(out, model)
