"""Words of your own in place of ours: by file, by text, by a function; checked, and on record."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import windlass as w
from tests.stories.helpers import (
    add,
    kept,
    note,
    own_tools,
    said,
    written,
)
from windlass.engine.environment import current_store
from windlass.events import Framed, Replied
from windlass.loop.requests import requests_of
from windlass.models.wrappers.text_tools import as_text
from windlass.policies.prompt_overrides import PROMPTS, PromptOverrides
from windlass.testing import call, scripted

OK = '{"verdict": "done", "reasoning": "fine", "next_step": ""}'
PASS = '{"verdict": "pass", "reasoning": "fine", "critique": "", "confidence": 1}'


def systems(model: Any) -> list[str | None]:
    return [request.system for request in model.requests]


# --------------------------------------------------------------------------- every id


async def test_the_contract_of_the_loop():
    model = scripted("x", "y ##DONE##")
    out = await w.agent_loop(
        "go",
        "Sys.",
        model=model,
        loop_until_done=True,
        prompts={"agent.loop_contract": {"text": "End with {sentinel}, {friend}."}},
    )
    assert systems(model)[0] == "Sys.\n\nEnd with ##DONE##, {friend}."
    await kept(out, model)
    model = scripted("x END", "y")
    await w.agent_loop(
        "go",
        model=model,
        done_sentinel="END",
        prompts={"agent.loop_contract": {"text": "Say END."}},
    )
    assert systems(model)[0] == "Say END."


async def test_how_tools_are_written():
    line = '<tool_call>{"name": "add", "arguments": {"a": 1, "b": 2}}</tool_call>'
    model = scripted(line, "3", native_tools=False)
    out = await w.agent_loop(
        "go",
        "Sys.",
        model=model,
        tools=[add],
        prompts={
            "agent.tool_contract_text": {"text": "Write <tool_call>. There are:\n{tools}\nGo."}
        },
    )
    [first, second] = systems(model)
    assert first == second and first is not None
    assert first.startswith('Sys.\n\nWrite <tool_call>. There are:\n{"name":"add"')
    assert first.endswith("\nGo.") and "# Tools" not in first
    assert [record.outcome for record in out.tool_calls] == ["ok"]
    rebuilt = requests_of(await current_store().read(out.session_id))
    assert [as_text(request).system for request in rebuilt] == [first, second]
    await kept(out, model, text=True)


async def test_a_judge_of_a_model_without_tools_is_still_told_how_to_answer():
    line = '<tool_call>{"name": "add", "arguments": {"a": 1, "b": 2}}</tool_call>'
    model = scripted(line, "3", OK, native_tools=False)
    await w.agent_loop(
        "go",
        model=model,
        tools=[add],
        verify_completion_judge=True,
        prompts={"agent.tool_contract_text": {"text": "There are:\n{tools}"}},
    )
    verdict = systems(model)[-1] or ""
    assert "There are" not in verdict and ("give_verdict" not in verdict or "# Tools" in verdict)


@pytest.mark.parametrize(
    ("id", "options", "answer"),
    [
        ("agent.completion_judge_system", {"verify_completion_judge": True}, OK),
        ("agent.done_judge_system", {"done_judge": True, "loop_until_done": True}, OK),
        ("agent.step_judge_system", {"step_judge": True}, PASS),
    ],
)
async def test_what_judges_are_told(id: str, options: Any, answer: str):
    for given in ({"text": "Be strict."}, lambda values: "Be strict."):
        model = scripted(*(["answer", answer] if "step" not in id else ["answer", answer, "x"]))
        out = await w.agent_loop("go", model=model, tools=[note], prompts={id: given}, **options)
        assert out.status == "done"
        assert "Be strict." in (systems(model)[1] or "")
        await kept(out, model)
    gate = {"agent.completion_judge_system": "verify_completion_judge"}.get(
        id, id.removeprefix("agent.").removesuffix("_system")
    )
    with pytest.raises(w.ConfigError, match=f"{gate}.system and prompts"):
        own = {**options, gate: {"system": "Mine."}}
        await w.agent_loop("go", model=scripted("x"), prompts={id: {"text": "Be strict."}}, **own)


async def test_the_nudge():
    prompts = {"agent.nudge": {"text": "More, or {sentinel}."}}
    model = scripted("x", "y ##DONE##")
    await w.agent_loop("go", model=model, loop_until_done=True, prompts=prompts)
    assert said(model.requests[1])[-1] == "More, or ##DONE##."
    with pytest.raises(w.ConfigError, match=r"nudge and prompts\['agent.nudge'\]"):
        await w.agent_loop(
            "go", model=scripted("x"), loop_until_done=True, nudge="Mine.", prompts=prompts
        )


async def test_words_for_who_must_act():
    shape = {"require_action_or_yield": True}
    for prompts, words in (
        ({"agent.action_required": {"text": "Act!"}}, "Act!"),
        ({"agent.nudge": {"text": "Go!"}}, "Go!"),
        ({"agent.nudge": {"text": "Go!"}, "agent.action_required": {"text": "Act!"}}, "Act!"),
    ):
        model = scripted("talk", call("note", text="x"), "done")
        await w.agent_loop("go", model=model, tools=[note], turn_policy=shape, prompts=prompts)
        assert said(model.requests[1])[-1] == words


async def test_words_for_calls_that_were_written_as_text():
    text = '<tool_call>{"name": "note", "arguments": {"text": "x"}}</tool_call>'
    model = scripted(text, "done")
    await w.agent_loop(
        "go",
        model=model,
        tools=[note],
        native_tool_fallback="reject",
        prompts={"agent.native_tool_fallback": {"text": "Not so."}},
    )
    assert said(model.requests[1])[-1] == "Not so."


async def test_the_word_to_go_on():
    class Veto(w.Policy):
        async def after_turn(self, run, turn):
            return w.KeepGoing("more") if turn.number == 1 else None

    class Speaks(w.Policy):
        async def before_turn(self, run):
            if run.iteration == 1:
                run.say("I have spoken.", "mine")

    prompts = {"agent.continue": {"text": "On with it."}}
    model = scripted("one", "two")
    out = await w.agent_loop("go", model=model, policies=[Veto()], prompts=prompts)
    assert said(model.requests[1])[-1] == "On with it."
    await kept(out, model)
    model = scripted("one", "two")
    await w.agent_loop("go", model=model, policies=[Veto(), Speaks()], prompts=prompts)
    assert said(model.requests[1]) == ["go", "one", "I have spoken."]


async def test_the_last_word():
    model = scripted(call("note", text="x"), "all I have")
    await w.agent_loop(
        "go",
        model=model,
        tools=[note],
        max_iterations=1,
        closing_answer=True,
        prompts={"agent.closing_answer": {"text": "Time is up."}},
    )
    assert said(model.requests[1])[-1] == "Time is up."


async def test_who_writes_a_summary():
    for prompts, words in (
        ({"agent.compaction_system": {"text": "You take minutes."}}, "You take minutes."),
        ({"agent.compaction_instructions": {"text": "Keep the names."}}, "Keep the names."),
        ({"agent.compaction_system": lambda values: values["default"].upper()}, "YOU WRITE"),
    ):
        model = scripted(
            then=lambda request: "short" if not request.tools else call("note", text="x" * 400)
        )
        out = await w.agent_loop(
            "go",
            model=model,
            tools=[note],
            prompts=prompts,
            max_iterations=9,
            compaction="summarize_middle",
            compact_threshold=300,
            compact_keep_last=2,
        )
        asked = [r.system or "" for r in model.requests if not r.tools]
        assert asked and all(words in system for system in asked)
        assert all("nothing but the notes" in system for system in asked)  # the manner stays
        await kept(out, model)


async def test_who_reorganises_the_scratchpad():
    pad = '{"goals": [], "open_items": [], "facts": [], "refs": []}'
    for given in ({"text": "Tidy up."}, lambda values: "Tidy up."):
        model = scripted(call("note", text="x"), pad, "done")
        out = await w.agent_loop(
            "go",
            model=model,
            tools=[note],
            scratchpad={"reorganize_every": 1},
            prompts={"agent.scratchpad_system": given},
        )
        assert out.status == "done" and "Tidy up." in (systems(model)[1] or "")


async def test_a_compaction_nobody_asked_for_has_its_words_too():
    agent = w.Agent(_bound(scripted("x")), prompts={"agent.compaction_system": {"text": "Mine."}})
    [policy] = [p for p in agent.plan.policies if p.name == "compaction"]
    assert policy.task == "Mine."


def _bound(model: Any) -> Any:
    model.context_window = 200_000
    return model


async def test_how_the_model_hears_of_hidden_tools():
    look = w.Tool("look", "Look. " * 60, {}, lambda args: "x", side_effect_level="none")
    calls = [call("note", text=str(n)) for n in range(7)]
    for given in ({"text": "Also: {tools}."}, lambda values: "Also: {tools}."):
        model = scripted(*calls, "done")
        out = await w.agent_loop(
            "go",
            model=model,
            tools=[note, look],
            tool_surface_narrowing=True,
            prompts={"agent.hidden_tools": given},
        )
        assert systems(model)[-1] == "Also: look."
        await kept(out, model)
    model = scripted(*calls, "done")
    long = {"agent.hidden_tools": {"text": "Many words about nothing. " * 40 + "{tools}"}}
    await w.agent_loop(
        "go", model=model, tools=[note, look], tool_surface_narrowing=True, prompts=long
    )
    assert (
        len(own_tools(model.requests[-1])) == 2
    )  # to name them would take more than to describe them


async def test_a_quoted_call_is_answered_in_your_words():
    line = 'I will: <tool_call>{"name": "note", "arguments": {"text": "x"}}</tool_call>'
    model = scripted(line, "ok")
    prompts = {"agent.quoted_tool_call": {"text": "Alone, please."}}
    await w.agent_loop("go", model=model, tools=[note], tool_format="text", prompts=prompts)
    assert model.requests[1].messages[-1].text == "Alone, please."


def test_every_id_has_its_story_and_its_name():
    story = Path(__file__).read_text()
    for id, prompt in PROMPTS.items():
        assert story.count(f'"{id}"') >= 1 and prompt.default
        assert id.replace(".", "_") in PromptOverrides.__annotations__
        assert set(prompt.needs) <= set(prompt.values)
        assert all(f"{{{name}}}" in prompt.default for name in prompt.needs)
    assert len(PROMPTS) == len(PromptOverrides.__annotations__)


# --------------------------------------------------------------------------- the four forms


async def nudged(prompts: Any, **options: Any) -> str:
    """What the model hears in place of the nudge."""
    model = scripted("x", "y ##DONE##")
    await w.agent_loop("go", model=model, loop_until_done=True, **{"prompts": prompts, **options})
    return said(model.requests[1])[-1]


async def test_a_prompt_is_a_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    (tmp_path / "nudge.md").write_text("Grüße: go on.\n\n")
    place = str(tmp_path / "nudge.md")
    for given in (place, Path(place), {"path": place}, {"path": Path(place)}):
        assert await nudged({"agent.nudge": given}) == "Grüße: go on."
    monkeypatch.chdir(tmp_path)
    assert await nudged({"agent.nudge": "nudge.md"}) == "Grüße: go on."


async def test_a_file_is_read_when_the_agent_is_made(tmp_path: Path):
    place = tmp_path / "nudge.md"
    place.write_text("First.")
    model = scripted("x", "y ##DONE##")
    agent = w.Agent(model, loop_until_done=True, prompts={"agent.nudge": str(place)})
    place.write_text("Second.")
    await agent.run("go")
    assert said(model.requests[1])[-1] == "First."


async def test_a_prompt_is_a_function_of_the_values():
    seen: list[dict[str, Any]] = []

    async def write(values: dict[str, Any]) -> str:
        seen.append(values)
        return f"Now, or {values['sentinel']} {{sentinel}}."

    assert await nudged({"agent.nudge": write}) == "Now, or ##DONE## ##DONE##."
    assert (seen[0]["id"], seen[0]["sentinel"]) == ("agent.nudge", "##DONE##")
    assert "You have not finished" in seen[0]["default"]


async def test_the_other_name_of_the_option():
    model = scripted("x", "y ##DONE##")
    await w.agent_loop(
        "go",
        model=model,
        loop_until_done=True,
        prompt_overrides={"agent.nudge": {"text": "Go."}},
    )
    assert said(model.requests[1])[-1] == "Go."
    with pytest.raises(w.ConfigError, match="the same option"):
        await w.agent_loop("go", model=scripted("x"), prompts={}, prompt_overrides={})


async def test_the_typed_form():
    given = w.agent_prompt_overrides(
        {"agent.continue": {"text": "On."}}, agent_nudge={"text": "Go."}
    )
    assert set(given) == {"agent.continue", "agent.nudge"}
    assert await nudged(given) == "Go."
    with pytest.raises(w.ConfigError, match="'agent_nudge'"):
        w.agent_prompt_overrides(agent_nugde={"text": "x"})  # pyright: ignore[reportCallIssue]
    with pytest.raises(w.ConfigError, match="given twice"):
        w.agent_prompt_overrides({"agent.nudge": {"text": "x"}}, agent_nudge={"text": "x"})
    with pytest.raises(w.ConfigError, match="a dict by id"):
        w.agent_prompt_overrides(3)  # pyright: ignore[reportArgumentType]
    with pytest.raises(w.ConfigError, match="there is no prompt"):
        w.agent_prompt_overrides({"agent.x": {"text": "x"}})


async def test_an_agent_takes_them_too_and_for_one_run():
    model = scripted("x", "y ##DONE##", "x", "y ##DONE##")
    agent = w.Agent(model, loop_until_done=True, prompts={"agent.nudge": {"text": "Go."}})
    await agent.run("go")
    await agent.run("go", prompts={"agent.nudge": {"text": "Run."}})
    assert [said(model.requests[n])[-1] for n in (1, 3)] == ["Go.", "Run."]


# --------------------------------------------------------------------------- on the record


async def test_a_contract_that_a_function_writes_is_written_once_and_kept():
    written_so_far: list[str] = []

    def contract(values: dict[str, Any]) -> str:
        written_so_far.append(values["default"])
        return f"Version {len(written_so_far)}: {{sentinel}}."

    def tools(values: dict[str, Any]) -> str:
        return f"Written {len(written_so_far)}.\n{{tools}}"

    lines = ['<tool_call>{"name": "add", "arguments": {"a": 1, "b": 2}}</tool_call>'] * 2
    script: list[Any] = [*lines, "3 <done>##DONE##</done>"]
    prompts = {"agent.loop_contract": contract, "agent.tool_contract_text": tools}
    whole = scripted(*script, native_tools=False)
    agent = w.Agent(whole, system="Sys.", tools=[add], loop_until_done=True, prompts=prompts)
    out = await agent.run("go", session_id="s")
    assert out.status == "done" and len(written_so_far) == 1
    assert len(set(systems(whole))) == 1
    system = systems(whole)[0] or ""
    assert system.startswith("Sys.\n\nVersion 1: ##DONE##.\n\nWritten 1.\n{")
    assert "<done>##DONE##</done>" in written_so_far[0]
    store = current_store()
    entries = list(await store.read("s"))
    assert any(type(e) is Framed and e.system == system for e in entries)
    first = next(at for at, e in enumerate(entries) if type(e) is Replied)
    for cut in range(first, len(entries) - 1):
        await written(store, f"cut-{cut}", entries[:cut])
        replies = sum(type(e) is Replied for e in entries[:cut])
        model = scripted(*script[replies:], native_tools=False)
        again = await agent.with_(model=model).resume(f"cut-{cut}")
        assert again.status == "done" and len(written_so_far) == 1, cut
        assert set(systems(model)) <= {system}, cut
    requests = [as_text(request) for request in requests_of(entries)]
    assert [request.system for request in requests] == systems(whole)
    assert len(written_so_far) == 1


async def test_a_callback_changes_a_prompt_in_the_middle_of_a_run():
    line = '<tool_call>{"name": "add", "arguments": {"a": 1, "b": 2}}</tool_call>'

    def change(turn: Any) -> Any:
        later = {"agent.tool_contract_text": {"text": "Later:\n{tools}"}}
        return {"next_options": {"prompts": later}} if turn.iteration == 0 else None

    model = scripted(line, "3", native_tools=False)
    out = await w.agent_loop(
        "go",
        model=model,
        tools=[add],
        post_turn_callback=change,
        prompts={"agent.tool_contract_text": {"text": "Now:\n{tools}"}},
    )
    assert [(system or "")[:4] for system in systems(model)] == ["Now:", "Late"]
    await kept(out, model, text=True)


async def test_frames_with_prompts_stay_the_same_objects():
    line = '<tool_call>{"name": "add", "arguments": {"a": 1, "b": 2}}</tool_call>'
    model = scripted(*[line] * 4, "3", native_tools=False)
    out = await w.agent_loop(
        "go",
        model=model,
        tools=[add],
        prompts={"agent.tool_contract_text": {"text": "{tools}"}},
    )
    assert len([e for e in out.entries if type(e) is Framed and e.why == "request"]) == 1


# --------------------------------------------------------------------------- attacks


@pytest.mark.parametrize(
    ("prompts", "words"),
    [
        (3, "a dict by prompt id"),
        ({"agent.nugde": {"text": "x"}}, "did you mean 'agent.nudge'"),
        ({"zzz": {"text": "x"}}, "there are agent.loop_contract"),
        ({3: {"text": "x"}}, "there is no prompt 3"),
        ({"agent.nudge": 3}, "is a path"),
        ({"agent.nudge": ""}, "is a path"),
        ({"agent.nudge": None}, "is a path"),
        ({"agent.nudge": {}}, "by one of them"),
        ({"agent.nudge": {"text": "x", "path": "y"}}, "by one of them"),
        ({"agent.nudge": {"txt": "x"}}, "'text'"),
        ({"agent.nudge": {"text": ""}}, "not empty"),
        ({"agent.nudge": {"text": 3}}, "not empty"),
        ({"agent.nudge": {"text": "half \ud800"}}, "half a character"),
        ({"agent.nudge": {"path": 3}}, "is a path"),
        ({"agent.nudge": "no/such/file.md"}, "cannot be read"),
        ({"agent.nudge": {"path": "no/such/file.md"}}, "No such file"),
        ({"agent.nudge": "."}, "cannot be read"),
        ({"agent.nudge": "a\0b"}, "cannot be read"),
        ({"agent.nudge": "You are not done yet.\nGo on."}, "{'text': …}"),
        ({"agent.loop_contract": {"text": "End somehow."}}, "must name {sentinel}"),
        ({"agent.tool_contract_text": {"text": "No tools."}}, "must name {tools}"),
        ({"agent.hidden_tools": {"text": "Some."}}, "must name {tools}"),
    ],
)
async def test_what_cannot_be_is_refused_before_anything_is_asked(prompts: Any, words: str):
    model = scripted("never")
    with pytest.raises(w.ConfigError) as caught:
        await w.agent_loop("go", model=model, prompts=prompts, loop_until_done=True)
    assert words in str(caught.value) and "\n" not in str(caught.value)
    assert not model.requests


async def test_a_file_that_is_no_text_is_refused(tmp_path: Path):
    place = tmp_path / "x"
    for data in (b"\xff\xfe\x00", b"", b"\n\n"):
        place.write_bytes(data)
        with pytest.raises(w.ConfigError, match="agent.nudge"):
            await w.agent_loop("go", model=scripted("x"), prompts={"agent.nudge": str(place)})


@pytest.mark.parametrize("answer", [None, 3, "", "  ", "no sentinel", "half {sentinel} \ud800"])
async def test_a_function_that_writes_nothing_of_use_ends_the_run(answer: Any):
    model = scripted("never")
    out = await w.agent_loop(
        "go",
        model=model,
        loop_until_done=True,
        prompts={"agent.loop_contract": lambda values: answer},
    )
    assert out.status == "failed" and not model.requests


async def test_a_function_that_raises_ends_the_run():
    def write(values: dict[str, Any]) -> str:
        raise ValueError("no words")

    for id in ("agent.nudge", "agent.loop_contract"):
        out = await w.agent_loop(
            "go", model=scripted("x", "y"), loop_until_done=True, prompts={id: write}
        )
        assert out.status == "failed" and "no words" in str(out.error)


async def test_braces_of_your_own_stay():
    assert await nudged({"agent.nudge": {"text": "{x} {{sentinel}} {0} {"}}) == (
        "{x} {##DONE##} {0} {"
    )


@pytest.mark.parametrize("value", [None, {}])
async def test_nothing_changes_for_none(value: Any):
    assert (await nudged(value)).startswith("You have not finished")
