"""Text that goes on, or fills a gap."""

from __future__ import annotations

from typing import Any

import pytest

import windlass as w
from tests.stories.capable_model import able
from windlass.llm.completion import strip_echo
from windlass.models.registry.capabilities import Capabilities
from windlass.models.registry.providers import resolve
from windlass.testing import scripted
from windlass.testing.providers import FakeOpenAI

NATIVE = w.Response(w.Message("assistant", "a + b"), w.Usage(7, 3), "stop_sequence", "m1")


async def test_a_model_goes_on_in_its_own_way():
    model = able(caps=Capabilities(), completes=NATIVE)
    reply = await w.llm_completion(
        "def add(a, b):\n    return ", "\n", "Be terse.", model=model, temperature=0.2, stop=["\n"]
    )
    assert (reply.text, reply.input_tokens, reply.stop_reason) == ("a + b", 7, "stop_sequence")
    [asked] = model.completions
    assert (asked.prefix, asked.suffix) == ("def add(a, b):\n    return ", "\n")
    assert asked.system == "Be terse."
    assert (asked.settings.temperature, asked.settings.stop) == (0.2, ("\n",))
    assert not model.requests


async def test_else_it_is_asked_in_words():
    model = scripted("```python\nreturn a + b\n```")
    reply = await w.llm_completion("def add(a, b):\n    ", model=model)
    assert isinstance(reply, w.LLMResult) and reply.text == "return a + b"
    [request] = model.requests
    assert request.messages[0].text == "def add(a, b):\n    "
    assert "what comes next" in (request.system or "")


async def test_a_gap_in_words():
    model = scripted("let total = 1 + 2;")
    reply = await w.llm_completion("let total = ", "; // the end", "Rust.", model=model)
    assert reply.text == "1 + 2;"
    [request] = model.requests
    assert "<before>let total = </before>" in request.messages[0].text
    assert "<after>; // the end</after>" in request.messages[0].text
    assert (request.system or "").startswith("Rust.")


@pytest.mark.parametrize(
    ("said", "prefix", "suffix", "text"),
    [
        (" blue.", "The sky is", None, " blue."),
        ("The sky is blue.", "The sky is", None, " blue."),
        ("\nThe sky is blue.", "The sky is", None, " blue."),
        ("    return a", "def f(a):\n    return ", None, "a"),
        ("and so on", "an", None, "and so on"),
        ("x)", "print(f(", ")", "x)"),
        ("x\n# the end of it", "a = ", "\n# the end of it", "x\n"),
        ("```\na\nb\n```", "list:\n", None, "a\nb"),
        ("use ```x``` here", "You can ", None, "use ```x``` here"),
        ("", "go", None, ""),
    ],
)
def test_what_is_repeated_is_taken_off(said: str, prefix: str, suffix: str | None, text: str):
    assert strip_echo(said, prefix, suffix) == text


async def test_callers_stand_around_it():
    model = able(caps=Capabilities(), completes=NATIVE)
    seen: list[str] = []

    async def caller(asked: Any) -> Any:
        seen.append(asked.prompt)
        asked.opts["temperature"] = 0.7
        return await w.default_llm_caller()(asked)

    reply = await w.llm_completion("x = ", model=model, llm_caller=caller)
    assert reply.text == "a + b" and seen == ["x = "]
    assert model.completions[0].settings.temperature == 0.7


async def test_it_is_tried_again():
    model = scripted(w.Overloaded("busy"), "4")
    with pytest.warns(DeprecationWarning):
        reply = await w.llm_completion("2 + 2 = ", model=model, llm_retries=1, llm_backoff_ms=0)
    assert reply.text == "4" and len(model.requests) == 2


def test_it_has_a_blocking_form():
    assert w.sync.llm_completion("2 + 2 = ", model=scripted("4")).text == "4"


@pytest.mark.parametrize(
    ("arguments", "options", "words"),
    [
        (("",), {}, "text to go on from"),
        ((None,), {}, "prefix is a text"),
        ((3,), {}, "prefix is a text"),
        (("x", 3), {}, "suffix is a text"),
        (("x", None, 3), {}, "system is a text"),
        (("x", "y"), {"suffix": "z"}, "twice"),
        (("x", None, "y"), {"system": "z"}, "twice"),
        (("x",), {"messages": []}, "no option 'messages'"),
        (("x",), {"tools": []}, "no option 'tools'"),
        (("x",), {"schema": {}}, "no option 'schema'"),
        (("x",), {"transcript": {}}, "no option 'transcript'"),
        (("x",), {"tool_choice": "auto"}, "no option 'tool_choice'"),
        (("x",), {"temprature": 1}, "'temperature'"),
        (("x",), {"max_tokens": 0}, "max_tokens"),
        (("half \ud800",), {}, "half a character"),
    ],
)
async def test_what_makes_no_sense_is_refused(arguments: Any, options: Any, words: str):
    model = scripted("never")
    with pytest.raises(w.ConfigError, match=words):
        await w.llm_completion(*arguments, **{"model": model, **options})
    assert not model.requests


async def test_suffix_and_system_may_be_options():
    model = able(caps=Capabilities(), completes=NATIVE)
    await w.llm_completion("x", None, None, {"model": model, "suffix": "y", "system": "z"})
    assert (model.completions[0].suffix, model.completions[0].system) == ("y", "z")


@pytest.mark.usefixtures("reachable")
async def test_a_provider_without_a_way_of_its_own_is_asked_in_words_on_the_wire():
    async with FakeOpenAI("4") as server:
        model = resolve("gpt-4o", "openai", api_key="k", base_url=server.url)
        assert (await w.llm_completion("2 + 2 = ", model=model)).text == "4"
        assert server.requests[-1].path.endswith("/chat/completions")
