"""A canary through every door that writes without a run, and through the layers that write."""

from __future__ import annotations

import asyncio
import gc
import json
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest

import windlass as w
from windlass.callers import with_cassette
from windlass.engine.environment import current_environment
from windlass.redaction.redactor import Redactor
from windlass.testing import call, scripted

CANARY, PLAIN = "sk-canary-4f9a8b7c6d5e", "nothing-secret-4f9a8b7c"


async def leak(args: dict[str, Any], result: w.ToolResult, ctx: w.ToolContext[Any]) -> str:
    """Take it back."""
    if args["how"] == "raise":
        raise ValueError(f"the key is {WORD[0]}")
    return f"the key is {WORD[0]}"


async def leak_in_commit(
    args: dict[str, Any], result: w.ToolResult, ctx: w.ToolContext[Any]
) -> Any:
    """Take it back, in a transaction."""
    return await ctx.commit(lambda tx: f"the key is {WORD[0]}")


@w.tool(undo=leak)
async def pay(how: str) -> str:
    """Send money."""
    return "paid"


@w.tool(transactional=True, undo=leak_in_commit)
async def book(ctx: w.ToolContext[Any]) -> str:
    """Book it."""
    return await ctx.commit(lambda tx: "booked")


WORD = [CANARY]  # what is said: the secret, or in the control something else
Write = Callable[[Path, str], Awaitable[Any]]


async def session_metadata(folder: Path, word: str) -> None:
    await w.agent_session_open("s", metadata={"note": f"key {word}", word: 1})


async def reminder(folder: Path, word: str) -> None:
    await w.agent_session_open("s")
    await w.agent_session_remind("s", f"the key is {word}")


async def mail(folder: Path, word: str) -> None:
    await w.agent_session_open("s")
    await w.agent_session_post("s", "steer", f"the key is {word}")


async def seeded(folder: Path, word: str) -> None:
    lines = [
        {"type": "message", "session_id": "a", "message": w.Message("user", f"key {word}")},
        {"type": "message", "session_id": "a", "message": w.Message("assistant", word)},
    ]
    file = folder.parent / f"{word}.jsonl"
    file.write_bytes(b"".join(msgspec.json.encode(line) + b"\n" for line in lines))
    await w.agent_session_seed_from_jsonl(file)


async def answer(folder: Path, word: str) -> None:
    rules: Any = {"rules": [{"ask": "pay"}]}
    agent = w.Agent(scripted(call("pay", how="x"), "ok"), tools=[pay], approval_policy=rules)
    out = await agent.run("go", session_id="s")
    await w.deny(out.pending[0].id, reason=f"because of {word}")


async def decision(folder: Path, word: str) -> None:
    rules: Any = {"rules": [{"ask": "pay"}]}
    agent = w.Agent(scripted(call("pay", how="x"), "ok"), tools=[pay], approval_policy=rules)
    out = await agent.run("go", session_id="s")
    no = w.Deny(f"because of {word}")
    await agent.resume("s", decisions={out.pending[0].id: no})


async def undo_result(folder: Path, word: str) -> None:
    await w.Agent(scripted(call("pay", how="return"), "ok"), tools=[pay]).run("go", session_id="s")
    (step,) = await w.undo("s", tools=[pay], name=word)
    assert step.outcome == "ok" and (word in (step.detail or "")) is (word == PLAIN)


async def undo_exception(folder: Path, word: str) -> None:
    await w.Agent(scripted(call("pay", how="raise"), "ok"), tools=[pay]).run("go", session_id="s")
    (step,) = await w.undo("s", tools=[pay])
    assert step.outcome == "error" and (word in (step.detail or "")) is (word == PLAIN)


async def undo_in_a_transaction(folder: Path, word: str) -> None:
    await w.Agent(scripted(call("book"), "ok"), tools=[book]).run("go", session_id="s")
    (step,) = await w.undo("s", tools=[book])
    assert step.outcome == "ok" and (word in (step.detail or "")) is (word == PLAIN)


async def approved_plan(folder: Path, word: str) -> None:
    out = await w.Agent(scripted(call("pay", how="x"), "ok"), tools=[pay]).run("go", dry_run="plan")
    await w.approve_plan(out.plan, name=word)


async def cache(folder: Path, word: str) -> None:
    layer = w.with_cache(f"sqlite:///{folder}/cache.db")
    await w.agent_loop("go", model=scripted(f"the key is {word}"), llm_caller=layer)


async def cache_of_one_call(folder: Path, word: str) -> None:
    layer = w.with_cache(f"sqlite:///{folder}/cache.db")
    await w.llm_call("go", model=layer(scripted(f"the key is {word}")))


async def cassette(folder: Path, word: str) -> None:
    layer = with_cassette(folder / "tape.jsonl")
    model = scripted(f"the key is {word}")
    await w.agent_loop(f"my key {word}", model=model, llm_caller=layer, system=f"sys {word}")


async def cassette_of_an_error(folder: Path, word: str) -> None:
    layer = with_cassette(folder / "tape.jsonl")
    await w.agent_loop("go", model=scripted(w.AuthFailed(f"wrong key {word}")), llm_caller=layer)


async def steering(folder: Path, word: str) -> None:
    stream = w.Agent(scripted("one", "two")).stream("go", session_id="s")
    async with stream:
        await stream.follow_up(f"the key is {word}")
        await stream.result()


WRITES = [
    session_metadata,
    reminder,
    mail,
    seeded,
    answer,
    decision,
    undo_result,
    undo_exception,
    undo_in_a_transaction,
    approved_plan,
    cache,
    cache_of_one_call,
    cassette,
    cassette_of_an_error,
    steering,
]


@pytest.mark.parametrize("write", WRITES, ids=lambda write: write.__name__)
@pytest.mark.parametrize("word", [CANARY, PLAIN], ids=["secret", "control"])
async def test_nothing_that_is_written_holds_a_secret(
    write: Write, word: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(f"{__name__}.WORD", [word])
    folder = tmp_path / "store"
    folder.mkdir()
    scope = w.Runtime(store=f"sqlite:///{folder}/s.db", environ={"SOME_API_KEY": CANARY})
    async with scope:
        await write(folder, word)
    await scope.aclose()
    disk = b"".join(path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file())
    assert (word.encode() in disk) is (word == PLAIN)


# --------------------------------------------------------------------------- ids


async def open_session(name: str) -> None:
    await w.agent_session_open(name)


async def run_on(name: str) -> None:
    await w.Agent(scripted("ok")).run("go", session_id=name)


async def fork_to(name: str) -> None:
    await run_on("first")
    await w.agent_session_fork("first", name)


@pytest.mark.parametrize("door", [open_session, run_on, fork_to], ids=lambda door: door.__name__)
async def test_a_session_is_not_named_after_a_secret(door: Any):
    async with w.Runtime(store="memory:", environ={"SOME_API_KEY": CANARY}) as scope:
        with pytest.raises(w.ConfigError, match="holds a secret") as raised:
            await door(f"s-{CANARY}")
        assert CANARY not in str(raised.value)
        await door(f"s-{PLAIN}")  # control
        assert f"s-{PLAIN}" in [info.id for info in await scope.store.sessions()]


async def test_a_conversation_is_not_named_after_a_secret():
    ann = w.Caller("ann")
    async with w.Runtime(store="memory:", environ={"SOME_API_KEY": CANARY}) as scope:
        for name in (f"c-{CANARY}", f"c-{PLAIN}"):
            asked = scope.models.generate("go", model=scripted("ok"), conversation=name, caller=ann)
            if CANARY in name:
                with pytest.raises(w.ConfigError, match="holds a secret"):
                    await asked
            else:
                await asked
        found = await scope.conversations[w.ConversationResource].search(caller=ann)
        assert [one.id for one in found.rows] == [f"c-{PLAIN}"]


async def test_a_session_of_before_goes_on(tmp_path: Path):
    place = f"sqlite:///{tmp_path}/s.db"
    async with w.Runtime(store=place, environ={}) as scope:
        await run_on(f"s-{CANARY}")
    await scope.aclose()
    async with w.Runtime(store=place, environ={"SOME_API_KEY": CANARY}) as scope:
        await run_on(f"s-{CANARY}")
    await scope.aclose()


# --------------------------------------------------------------------------- names of callers


class Item(w.Resource):
    """A row."""

    id: str


async def begun_by(caller: w.Caller) -> None:
    await w.Agent(scripted("ok")).run("go", caller=caller)


async def begun_on_a_session_by(caller: w.Caller) -> None:
    await w.Agent(scripted("ok")).run("go", session_id="s", caller=caller)


async def opened_by(caller: w.Caller) -> None:
    await w.agent_session_open("s", caller=caller)


async def streamed_by(caller: w.Caller) -> None:
    async with w.Agent(scripted("ok")).stream("go", caller=caller) as stream:
        await stream.result()


async def generated_by(caller: w.Caller) -> None:
    await current_environment().models.generate("go", model=scripted("ok"), caller=caller)


async def conversation_of(caller: w.Caller) -> None:
    asked = current_environment().models.generate(
        "go", model=scripted("ok"), caller=caller, conversation="c"
    )
    await asked


async def called_once_by(caller: w.Caller) -> None:
    await w.llm_call("go", model=scripted("ok"), caller=caller)


async def row_made_by(caller: w.Caller) -> None:
    await current_environment().resources[Item].create(id="a", caller=caller)


async def answered_by(caller: w.Caller) -> None:
    rules: Any = {"rules": [{"ask": "pay"}]}
    agent = w.Agent(scripted(call("pay", how="x"), "ok"), tools=[pay], approval_policy=rules)
    out = await agent.run("go", session_id="s", caller=w.Caller("ann", (), "acme"))
    await w.approve(out.pending[0].id, by=caller)


def read_all(folder: Path) -> bytes:
    """Everything that is on disk."""
    return b"".join(path.read_bytes() for path in folder.rglob("*") if path.is_file())


OWNED = [begun_by, begun_on_a_session_by, opened_by, streamed_by, generated_by, conversation_of]


@pytest.mark.parametrize(
    "write", [*OWNED, called_once_by, row_made_by, answered_by], ids=lambda write: write.__name__
)
@pytest.mark.parametrize("word", [CANARY, PLAIN], ids=["secret", "control"])
async def test_no_name_of_a_caller_brings_a_secret_on_record(write: Any, word: str, tmp_path: Path):
    scope = w.Runtime(
        store=f"sqlite:///{tmp_path}/s.db",
        environ={"SOME_API_KEY": CANARY},
        resources=[Item],
        roles={"boss": ["agent_session.answer"]} if write is answered_by else None,
    )
    async with scope:
        caller = w.Caller(f"u-{word}", ("boss", f"r-{word}"), "acme")
        if write in OWNED and word == CANARY:
            with pytest.raises(w.ConfigError, match="holds a secret") as raised:
                await write(caller)
            assert CANARY not in str(raised.value)
        else:
            await write(caller)
    await scope.aclose()
    disk = read_all(tmp_path)
    assert (word.encode() in disk) is (word == PLAIN)


async def test_a_session_of_a_caller_of_before_goes_on(tmp_path: Path):
    place, caller = f"sqlite:///{tmp_path}/s.db", w.Caller(f"u-{CANARY}", (), "acme")
    for environ in ({}, {"SOME_API_KEY": CANARY}):
        async with w.Runtime(store=place, environ=environ) as scope:
            await begun_on_a_session_by(caller)
            await opened_by(caller)
            with pytest.raises(w.NoSuchSession):
                await w.agent_session_read("s", caller=w.Caller("u-[redacted]", (), "acme"))
        await scope.aclose()


# --------------------------------------------------------------------------- keys and their models


class Keyed(w.Model):
    """A model with a key."""

    def __init__(self, *secrets: str) -> None:
        self.secrets = secrets

    async def respond(self, request: w.Request, emit: Any) -> w.Response:
        return w.Response(w.Message("assistant", "ok"))


def known(secret: str) -> bool:
    redactor = current_environment().redactor
    return redactor is not None and secret not in redactor.text(f"it is {secret}")


async def ask_by_run(model: w.Model) -> None:
    await w.agent_loop("go", model=model)


async def ask_by_call(model: w.Model) -> None:
    await w.llm_call("go", model=model)


async def ask_behind_layers(model: w.Model) -> None:
    await w.agent_loop("go", model=model, llm_caller=w.compose([w.with_retry(), w.with_logging()]))


@pytest.mark.parametrize(
    "ask", [ask_by_run, ask_by_call, ask_behind_layers], ids=lambda a: a.__name__
)
async def test_a_key_is_forgotten_with_its_model(ask: Any):
    one, other = (
        Keyed("sk-one-111111", "sk-both-333333"),
        Keyed("sk-other-222222", "sk-both-333333"),
    )
    await ask(one)
    await ask(one)
    await ask(other)
    gc.collect()
    assert known("sk-one-111111") and known("sk-other-222222") and known("sk-both-333333")
    del one
    await _collected()
    assert not known("sk-one-111111")
    assert known("sk-other-222222") and known("sk-both-333333")  # control: the other one is there
    del other
    await _collected()
    assert not known("sk-both-333333")


async def _collected() -> None:
    await asyncio.sleep(0)
    gc.collect()


async def test_a_key_of_the_environment_stays():
    async with w.Runtime(store="memory:", environ={"SOME_API_KEY": CANARY}):
        model = Keyed(CANARY)
        await ask_by_run(model)
        del model
        await _collected()
        assert known(CANARY)


async def test_a_key_that_a_model_has_later_is_learned_too():
    model = Keyed("sk-early-111111")
    await ask_by_run(model)
    model.secrets = ("sk-late-222222",)
    await ask_by_run(model)
    assert known("sk-early-111111") and known("sk-late-222222")


def test_what_two_have_added_one_does_not_take_away():
    redactor = Redactor(["sk-canary-1"])
    redactor.add("sk-canary-1")
    redactor.forget("sk-canary-1")
    assert redactor.text("sk-canary-1") == "[redacted]"
    redactor.forget("sk-canary-1")
    redactor.forget("sk-canary-1")
    assert redactor.text("sk-canary-1") == "sk-canary-1" and len(redactor) == 0
    redactor.add("sk-canary-1")
    assert redactor.text(json.dumps("sk-canary-1")) == '"[redacted]"'
