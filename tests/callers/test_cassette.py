"""`with_cassette`: recorded once, played from then on, alone and among other callers."""

from __future__ import annotations

import pytest

import windlass as w
from windlass import errors
from windlass.callers import compose, default_llm_caller, with_cassette, with_retry
from windlass.callers.tape import NotOnTape
from windlass.messages import Message, Text
from windlass.models.base import Completion, Model, Request, Response, silent
from windlass.testing import call, scripted
from windlass.usage import Usage

KEY = "sk-canary-0123456789abcdef"


@pytest.fixture
def path(tmp_path):
    return tmp_path / "tapes" / "one.jsonl"


@w.tool(side_effect_level="read_only")
def price(item: str) -> str:
    """The price of an item."""
    return f"{item} costs 5"


def run(model: Model, layer, words: str = "How much?"):
    return w.agent_loop(words, tools=[price], model=model, llm_caller=layer)


async def test_a_run_is_recorded_and_then_played_without_asking(path):
    model = scripted(call("price", item="kettle"), "It costs 5.")
    first = await run(model, with_cassette(path))
    asked = len(model.requests)
    silent_model = scripted()
    again = await run(silent_model, with_cassette(path))
    assert (again.status, again.final_text) == (first.status, "It costs 5.")
    assert again.llm.output_tokens == first.llm.output_tokens
    assert (asked, len(silent_model.requests)) == (2, 0)


async def test_what_came_from_the_tape_says_so(path):
    ask = {"model": scripted("hi")}
    assert (await w.llm_call("Hello", llm_caller=with_cassette(path), **ask)).via is None
    assert (await w.llm_call("Hello", llm_caller=with_cassette(path), **ask)).via == "cassette"


async def test_new_plays_what_there_is_and_records_the_rest(path):
    model = scripted("one", "two")
    await w.llm_call("1", model=model, llm_caller=with_cassette(path, record="new"))
    layer = with_cassette(path, record="new")
    for words in ("1", "2"):
        await w.llm_call(words, model=model, llm_caller=layer)
    assert len(model.requests) == 2
    only = with_cassette({"path": path, "record": "none"})
    replies = [await w.llm_call(it, model=scripted(), llm_caller=only) for it in ("2", "1")]
    assert [reply.text for reply in replies] == ["two", "one"]


async def test_all_records_anew_and_the_old_tape_stands_until_then(path):
    await w.llm_call("1", model=scripted("old"), llm_caller=with_cassette(path))
    before = path.read_bytes()
    layer = with_cassette(path, record="all")
    with pytest.raises(ValueError, match="no answer"):
        await layer(Failing()).respond(Request([Message("user", (Text("1"),))]), silent)
    assert path.read_bytes() == before
    await w.llm_call("1", model=scripted("fresh"), llm_caller=layer)
    played = await w.llm_call("1", model=scripted(), llm_caller=with_cassette(path, record="none"))
    assert played.text == "fresh"


class Failing(Model):
    async def respond(self, request, emit):
        raise ValueError("no answer")


async def test_what_is_missing_names_the_nearest_and_the_difference(path):
    await w.llm_call("Hello", model=scripted("hi"), llm_caller=with_cassette(path))
    layer = with_cassette(path, record="none")
    with pytest.raises(NotOnTape) as caught:
        await w.llm_call("Goodbye", model=scripted(), llm_caller=layer)
    said = str(caught.value)
    assert "the nearest is reply 1 of 1: message 1 differs" in said
    assert "'Hello' on tape" in said and "'Goodbye' asked" in said and "record='all'" in said


async def test_inside_a_retry_the_failed_attempt_is_on_tape_too(path):
    model = scripted(errors.Overloaded("busy"), "hi")

    def caller():
        layers = [with_retry(max_attempts=2, backoff_ms=0), with_cassette(path)]
        return compose(layers)(default_llm_caller())

    assert (await w.llm_call("Hello", model=model, llm_caller=caller())).text == "hi"
    played = await w.llm_call("Hello", model=scripted(), llm_caller=caller())
    assert played.text == "hi"
    assert path.read_text().count('"line":"reply"') == 2


class Secretive(Model):
    """Knows a key, and lets it slip."""

    secrets = (KEY,)
    remote = True

    def check(self):
        raise errors.ConfigError("no key")

    async def respond(self, request, emit):
        return Response(Message("assistant", (Text(f"my key is {KEY}"),)), Usage(1, 1))

    async def complete(self, completion, emit):
        return Response(Message("assistant", (Text(completion.prefix[::-1]),)), Usage(1, 1))

    async def count_tokens(self, request):
        return 7


async def test_a_key_is_never_written_and_a_tape_needs_none(path):
    request = Request([Message("user", (Text(f"use {KEY}"),))])
    layer = with_cassette(path)
    recording = layer(Secretive())
    with pytest.raises(errors.ConfigError, match="no key"):
        recording.check()
    await recording.respond(request, silent)
    assert KEY not in path.read_text()
    playing = with_cassette(path, record="none")(Secretive())
    playing.check()
    assert playing.remote and playing.secrets == (KEY,)
    assert "my key is" in (await playing.respond(request, silent)).text
    assert await playing.count_tokens(request) is None
    assert await recording.count_tokens(request) == 7


async def test_a_completion_is_on_tape_and_is_no_question(path):
    recording = with_cassette(path)(Secretive())
    first = await recording.complete(Completion("abc", "xyz"), silent)
    assert first is not None and first.text == "cba"
    playing = with_cassette(path, record="none")(Model())
    playing.provider, playing.name = "custom", "custom"
    again = await playing.complete(Completion("abc", "xyz"), silent)
    assert again is not None and again.text == "cba"
    with pytest.raises(NotOnTape):
        await playing.respond(
            Request([Message("user", (Text("abc"),)), Message("user", (Text("xyz"),))]), silent
        )


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ({"path": "x.jsonl", "record": "ones"}, "did you mean 'once'"),
        ({"path": "x.jsonl", "record": None}, "not None"),
        ({"path": "", "record": "once"}, "the file of a tape"),
        ({"path": "gone.jsonl", "record": "none"}, "there is no tape gone.jsonl"),
        ({"path": "x.jsonl", "mode": "once"}, "has no option 'mode'"),
        ({}, "needs path"),
    ],
)
def test_what_cannot_be_is_refused_at_once(given, says, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(errors.ConfigError, match=says):
        with_cassette(given)
    assert not list(tmp_path.iterdir())


def test_a_torn_tape_is_one_line(path):
    path.parent.mkdir()
    path.write_text('{"line":"reply","model"')
    with pytest.raises(errors.ConfigError, match="one.jsonl, line 1"):
        with_cassette(path)
