"""The tool vault: deferred tools are out of sight until a search finds them."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import msgspec
import pytest

import windlass as w
from tests.stories.helpers import (
    add,
    kept,
    own_tools,
    results,
    said,
    written,
)
from tests.vault.tools import NAMES, tools
from windlass.errors import ConfigError
from windlass.events import Framed, JournalEntry, RunStarted
from windlass.messages import Opaque, Origin
from windlass.models.registry.capabilities import Capabilities
from windlass.models.wires.anthropic.model import AnthropicMessages
from windlass.testing import call, scripted
from windlass.testing.script import ScriptedModel
from windlass.tools.search.options import SEARCH_NAME

LOADED = ("read_file", "apply_patch")


def find(query: str, **more: Any) -> w.ToolCall:
    return call(SEARCH_NAME, query=query, **more)


def deferred(name: str, description: str = "", handler: Any = None, **parameters: Any) -> w.Tool:
    async def answer(args: dict[str, Any]) -> str:
        return f"{name} did it"

    return w.Tool(
        name=name,
        description=description,
        parameters=parameters,
        handler=handler or answer,
        defer_loading=True,
    )


PAINT = deferred("paint_wall", "Paints a wall in any colour")
BREW = deferred("brew_coffee", "Makes a cup of coffee")
DIG = deferred("dig_hole", "Digs a hole in the garden")
FEW = [add, PAINT, BREW, DIG]


def names(request: w.Request) -> list[str]:
    return [tool.name for tool in own_tools(request)]


def offers(model: ScriptedModel) -> list[list[str]]:
    return [names(request) for request in model.requests]


def events(out: Any) -> list[dict[str, Any]]:
    return [e for e in out.transcript["events"] if e["kind"].startswith("tool_search")]


def answers(model: ScriptedModel, name: str = SEARCH_NAME) -> list[dict[str, Any]]:
    """What the model read of its searches."""
    blocks = [block for message in model.requests[-1].messages for block in message.content]
    return [json.loads(b.text) for b in blocks if isinstance(b, w.ToolResult) and b.name == name]


def native(*replies: Any, searches: tuple[Any, ...] = ("bm25", "regex"), **more: Any) -> Any:
    """A scripted model whose provider has a search of its own."""
    model = scripted(*replies, **more)
    can = Capabilities(known=True, defer_loading=True, tool_search=searches)
    model.__class__ = type("Native", (ScriptedModel,), {"capabilities": can})
    return model


def found_natively(query: str, *tools: str, strategy: str = "bm25") -> list[Opaque]:
    """What a reply of Anthropic's holds after a search."""
    origin = Origin("scripted", "scripted")
    references = [{"type": "tool_reference", "tool_name": name} for name in tools]
    return [
        Opaque(
            origin,
            {
                "type": "server_tool_use",
                "id": "srv_1",
                "name": f"tool_search_tool_{strategy}",
                "input": {"query": query},
            },
        ),
        Opaque(
            origin,
            {
                "type": "tool_search_tool_result",
                "tool_use_id": "srv_1",
                "content": {
                    "type": "tool_search_tool_search_result",
                    "tool_references": references,
                },
            },
        ),
    ]


# --------------------------------------------------------------------------- the client's search


async def test_a_deferred_tool_is_found_promoted_and_called():
    model = scripted(find("colour a wall"), call("paint_wall"), "done")
    out = await w.agent_loop("paint", model=model, tools=FEW, tool_search=True)
    assert out.status == "done"
    assert offers(model) == [
        ["add", SEARCH_NAME],
        ["add", SEARCH_NAME, "paint_wall"],
        ["add", SEARCH_NAME, "paint_wall"],
    ]
    assert answers(model) == [{"tool_names": ["paint_wall"]}]
    assert results(out)["paint_wall"] == ("ok", "paint_wall did it")
    await kept(out, model)


async def test_the_search_leaves_its_events():
    model = scripted(find("coffee"), "done")
    out = await w.agent_loop("go", model=model, tools=FEW, tool_search=True)
    query, result = events(out)
    assert (query["kind"], query["query"]) == ("tool_search_query", "coffee")
    assert query["metadata"] == {"mode": "client", "strategy": "bm25"}
    assert (result["kind"], result["tool_names"]) == ("tool_search_result", ["brew_coffee"])
    assert result["metadata"] == {"mode": "client"}
    assert query["search_id"] == result["search_id"] == out.tool_calls[0].id


async def test_whoever_watches_sees_the_search():
    seen: list[Any] = []
    model = scripted(find("coffee"), "done")
    await w.agent_loop("go", model=model, tools=FEW, tool_search=True, on_event=seen.append)
    kinds = [type(event).__name__ for event in seen]
    assert kinds.index("ToolSearchQueried") < kinds.index("ToolSearchResulted")


async def test_without_the_option_deferral_is_off():
    for option in ({}, {"tool_search": False}, {"tool_search": None}):
        model = scripted("done")
        out = await w.agent_loop("go", model=model, tools=FEW, **option)
        assert offers(model) == [["add", "paint_wall", "brew_coffee", "dig_hole"]]
        assert model.requests[0].settings.tool_search is None
        await kept(out, model)


async def test_where_nothing_is_deferred_there_is_nothing_to_search():
    model = scripted("done")
    await w.agent_loop("go", model=model, tools=[add], tool_search=True)
    assert offers(model) == [["add"]]


async def test_a_deferred_tool_that_was_not_found_is_unknown():
    model = scripted(call("paint_wall"), "done")
    out = await w.agent_loop("go", model=model, tools=FEW, tool_search=True)
    outcome, words = results(out)["paint_wall"]
    assert outcome == "unknown_tool" and SEARCH_NAME in words
    await kept(out, model)


async def test_a_tool_found_in_the_same_breath_is_not_there_yet():
    model = scripted([find("wall"), call("paint_wall")], call("paint_wall"), "done")
    out = await w.agent_loop("go", model=model, tools=FEW, tool_search=True)
    assert [r.outcome for r in out.tool_calls] == ["ok", "unknown_tool", "ok"]
    await kept(out, model)


@pytest.mark.parametrize("together", [1, 4])
async def test_several_searches_in_one_turn(together: int):
    model = scripted([find("wall"), find("coffee"), find("wall")], "done")
    out = await w.agent_loop(
        "go", model=model, tools=FEW, tool_search=True, max_concurrent_tools=together
    )
    assert offers(model)[1] == ["add", SEARCH_NAME, "paint_wall", "brew_coffee"]
    assert [e["kind"] for e in events(out)] == ["tool_search_query", "tool_search_result"] * 3
    await kept(out, model)


async def test_the_same_again_changes_nothing():
    model = scripted(find("wall"), find("wall"), "done")
    out = await w.agent_loop("go", model=model, tools=FEW, tool_search=True)
    assert offers(model)[1] == offers(model)[2] == ["add", SEARCH_NAME, "paint_wall"]
    assert answers(model) == [{"tool_names": ["paint_wall"]}] * 2
    frames = [e for e in out.entries if type(e) is Framed]
    assert [frame.why for frame in frames] == ["start", "tool_search"]


async def test_found_tools_join_behind_the_others_in_the_order_of_finding():
    model = scripted(find("hole"), find("coffee"), find("wall"), "done")
    await w.agent_loop("go", model=model, tools=FEW, tool_search=True)
    for before, after in zip(offers(model), offers(model)[1:], strict=False):
        assert after[: len(before)] == before, "the prefix moved"
    assert offers(model)[-1] == ["add", SEARCH_NAME, "dig_hole", "brew_coffee", "paint_wall"]


async def test_finding_nothing_says_how_to_go_on():
    model = scripted(find("xylophone"), "done")
    out = await w.agent_loop("go", model=model, tools=FEW, tool_search=True)
    [answer] = answers(model)
    assert answer["tool_names"] == [] and "other words" in answer["diagnostic"]
    assert events(out)[1]["diagnostic"] == answer["diagnostic"]
    assert offers(model)[1] == ["add", SEARCH_NAME]


async def test_bad_arguments_are_answered_like_any_tools():
    model = scripted(call(SEARCH_NAME), call(SEARCH_NAME, query=7), find("wall", limit=99), "done")
    out = await w.agent_loop("go", model=model, tools=FEW, tool_search=True)
    assert [r.outcome for r in out.tool_calls] == ["invalid"] * 3
    await kept(out, model)


async def test_a_search_that_was_not_run_is_none():
    class No(w.Policy[None]):
        async def before_tool(self, run: w.Run, call: w.ToolCall) -> w.ToolResult:
            return w.ToolResult(call.id, "no", True, call.name, "denied")

    model = scripted(find("wall"), "done")
    out = await w.agent_loop("go", model=model, tools=FEW, tool_search=True, policies=[No()])
    assert out.tool_calls[0].outcome == "denied"
    assert events(out) == [] and offers(model)[1] == ["add", SEARCH_NAME]
    await kept(out, model)


@pytest.mark.parametrize("loose", ["lenient", "none"])
async def test_arguments_that_nobody_checks(loose: str):
    model = scripted(
        call(SEARCH_NAME),
        call(SEARCH_NAME, query=7),
        find("wall", limit="many"),
        find("wall"),
        "ok",
    )
    out = await w.agent_loop(
        "go", model=model, tools=FEW, tool_search=True, tool_arg_validation=loose
    )
    assert out.status == "done" and out.tool_calls[-1].outcome == "ok"
    assert "paint_wall" in offers(model)[-1]
    await kept(out, model)


async def test_a_search_may_start_while_the_model_still_writes():
    model = scripted([find("wall"), find("coffee")], call("paint_wall"), "done", stream=True)
    out = await w.agent_loop("go", model=model, tools=FEW, tool_search=True, max_concurrent_tools=4)
    assert [r.outcome for r in out.tool_calls] == ["ok", "ok", "ok"]
    await kept(out, model)


async def test_tools_that_a_policy_brings_stay_where_they_are():
    class Brings(w.Policy[None]):
        async def start(self, run: w.Run) -> list[w.Tool]:
            return [w.Tool(name="brought", handler=lambda args: "yes")]

    model = scripted(find("wall"), call("brought"), call("paint_wall"), "done")
    out = await w.agent_loop("go", model=model, tools=FEW, tool_search=True, policies=[Brings()])
    assert offers(model)[0] == ["add", SEARCH_NAME, "brought"]
    assert offers(model)[1] == ["add", SEARCH_NAME, "brought", "paint_wall"]
    assert [r.outcome for r in out.tool_calls] == ["ok"] * 3
    await kept(out, model)


async def test_a_limit_is_the_models_to_give():
    many = [deferred(f"paint_{n}", "Paints") for n in range(30)]
    model = scripted(find("paint", limit=2), find("paint"), find("paint", limit=20), "done")
    await w.agent_loop("go", model=model, tools=[add, *many], tool_search=True)
    assert [len(answer["tool_names"]) for answer in answers(model)] == [2, 5, 20]


async def test_patterns():
    model = scripted(find("^(paint|dig)_"), find(r"(a)\1"), "done")
    out = await w.agent_loop("go", model=model, tools=FEW, tool_search="regex")
    first, second = answers(model)
    assert first == {"tool_names": ["dig_hole", "paint_wall"]}
    assert second["tool_names"] == [] and "Backreferences" in second["diagnostic"]
    assert events(out)[0]["metadata"]["strategy"] == "regex"
    description = model.requests[0].tools[1].description
    assert "regular expression" in description


async def test_the_search_describes_itself():
    ops = w.Tool(name="deploy", defer_loading=True, namespace="ops", handler=lambda args: "")
    model = scripted("done")
    await w.agent_loop("go", model=model, tools=[*FEW, ops], tool_search=True)
    spec = own_tools(model.requests[0])[-1]
    assert spec.name == SEARCH_NAME and not spec.defer_loading
    assert "4 more" in spec.description and "ops" in spec.description
    assert spec.parameters["required"] == ["query"]


async def test_found_tools_look_like_any_other():
    model = scripted(find("wall"), "done")
    await w.agent_loop("go", model=model, tools=FEW, tool_search=True)
    assert not any(tool.defer_loading for request in model.requests for tool in request.tools)


async def test_an_agent_has_the_option_too():
    model = scripted(find("wall"), call("paint_wall"), "done")
    agent = w.Agent(model, tools=FEW, tool_search=True)
    out = await agent.run("go")
    assert [r.outcome for r in out.tool_calls] == ["ok", "ok"]
    await kept(out, model)


async def test_two_runs_at_once_do_not_share_what_they_found():
    model = scripted(
        then=lambda request: find("wall") if "A" in request.messages[0].text else find("coffee")
    )
    agent = w.Agent(model, tools=FEW, tool_search=True, max_turns=2)
    await asyncio.gather(agent.run("A"), agent.run("B"))
    for request in model.requests:
        other = "brew_coffee" if "A" in request.messages[0].text else "paint_wall"
        assert other not in names(request)


async def test_a_thousand_deferred_tools():
    many = [deferred(f"tool_{n:04}", f"Handles case number{n}") for n in range(1000)]
    model = scripted(find("number777"), call("tool_0777"), "done")
    out = await w.agent_loop("go", model=model, tools=[add, *many], tool_search=True)
    assert answers(model) == [{"tool_names": ["tool_0777"]}]
    assert results(out)["tool_0777"][0] == "ok"
    assert [len(offer) for offer in offers(model)] == [2, 3, 3]
    await kept(out, model)


async def test_a_result_cap_does_not_hide_what_was_found():
    many = [deferred(f"paint_the_{n:02}_th_wall_of_the_house", "Paints") for n in range(20)]
    model = scripted(find("paint", limit=20), "done")
    await w.agent_loop(
        "go", model=model, tools=[add, *many], tool_search=True, tool_result_max_bytes=200
    )
    assert len(offers(model)[1]) == 22
    assert len(json.loads(said(model.requests[1])[-1])["tool_names"]) == 20


# --------------------------------------------------------------------------- its options


async def test_always_loaded_tools_are_never_hidden():
    model = scripted(call("brew_coffee"), "done")
    search = {"always_loaded": ["brew_coffee"]}
    out = await w.agent_loop("go", model=model, tools=FEW, tool_search=search)
    assert offers(model)[0] == ["add", "brew_coffee", SEARCH_NAME]
    assert results(out)["brew_coffee"][0] == "ok"


async def test_always_loaded_is_enough_where_all_are_deferred():
    model = scripted("done")
    search = w.ToolSearch(always_loaded=("dig_hole",))
    await w.agent_loop("go", model=model, tools=[PAINT, BREW, DIG], tool_search=search)
    assert offers(model) == [["dig_hole", SEARCH_NAME]]


async def test_the_search_may_have_another_name():
    model = scripted(call("find_tool", query="wall"), call("paint_wall"), "done")
    out = await w.agent_loop("go", model=model, tools=FEW, tool_search={"name": "find_tool"})
    assert offers(model)[0] == ["add", "find_tool"]
    assert results(out)["paint_wall"][0] == "ok"


async def test_a_listing_tells_what_there_is():
    wordy = deferred("wordy", f"{'x' * 300}\nsecond line")
    model = scripted("done")
    out = await w.agent_loop(
        "go",
        "Be kind.",
        model=model,
        tools=[*FEW, wordy],
        tool_search={"include_stub_listing": True},
    )
    system = model.requests[0].system or ""
    assert system.startswith("Be kind.")
    assert "- paint_wall: Paints a wall in any colour\n" in system and SEARCH_NAME in system
    assert "second line" not in system and "x" * 200 not in system
    assert "- add" not in system
    await kept(out, model)


async def test_a_listing_is_off_by_default():
    model = scripted("done")
    await w.agent_loop("go", "Be kind.", model=model, tools=FEW, tool_search=True)
    assert model.requests[0].system == "Be kind."


def sized(name: str, characters: int) -> w.Tool:
    """A tool whose schema is this long on the wire."""
    tool = deferred(name, "")
    bare = len(
        json.dumps(
            {"name": name, "description": "", "parameters": tool.parameters}, separators=(",", ":")
        )
    )
    return deferred(name, "x" * (characters - bare))


async def test_a_budget_lets_the_oldest_go_first():
    three = [sized(name, 396) for name in ("alpha", "beta", "gamma")]  # 100 tokens each
    model = scripted(find("alpha"), find("beta"), find("gamma"), call("alpha"), "done")
    out = await w.agent_loop(
        "go", model=model, tools=[add, *three], tool_search={"budget_tokens": 200}
    )
    assert [offer[2:] for offer in offers(model)[:4]] == [
        [],
        ["alpha"],
        ["alpha", "beta"],
        ["beta", "gamma"],
    ]
    assert events(out)[-1]["evicted"] == ["alpha"]
    assert "No longer loaded, to make room: alpha." in answers(model)[2]["diagnostic"]
    assert results(out)["alpha"][0] == "unknown_tool"
    await kept(out, model)


async def test_exactly_the_budget_fits_and_one_token_more_does_not():
    for size, fits in ((396, True), (400, False)):
        model = scripted(find("alpha"), "done")
        await w.agent_loop(
            "go", model=model, tools=[add, sized("alpha", size)], tool_search={"budget_tokens": 100}
        )
        assert ("alpha" in offers(model)[1]) is fits
        if not fits:
            [answer] = answers(model)
            assert answer["tool_names"] == [] and "Too large" in answer["diagnostic"]


async def test_a_search_does_not_push_out_its_own_better_finds():
    many = [sized(f"paint_{n}", 396) for n in range(5)]
    model = scripted(find("paint"), find("paint_4"), "done")
    await w.agent_loop("go", model=model, tools=[add, *many], tool_search={"budget_tokens": 200})
    first, second = answers(model)
    assert first["tool_names"] == ["paint_0", "paint_1"]
    assert "No room beside the others: paint_2, paint_3, paint_4." in first["diagnostic"]
    assert offers(model)[2][2:] == ["paint_1", "paint_4"]
    assert second["tool_names"] == ["paint_4"]


async def test_a_tool_that_came_back_is_callable_again():
    three = [sized(name, 396) for name in ("alpha", "beta")]
    model = scripted(find("alpha"), find("beta"), find("alpha"), call("alpha"), "done")
    out = await w.agent_loop(
        "go", model=model, tools=[add, *three], tool_search={"budget_tokens": 100}
    )
    assert results(out)["alpha"][0] == "ok"


# --------------------------------------------------------------------------- your own search


async def test_your_own_search_is_asked():
    asked: list[Any] = []

    async def search(query: str, tools: Any) -> list[str]:
        asked.append((query, [tool.name for tool in tools]))
        return ["dig_hole", "brew_coffee"]

    model = scripted(find("anything"), call("dig_hole"), "done")
    out = await w.agent_loop(
        "go", model=model, tools=FEW, tool_search={"strategy": "host", "search": search}
    )
    assert asked == [("anything", ["paint_wall", "brew_coffee", "dig_hole"])]
    assert offers(model)[1][2:] == ["dig_hole", "brew_coffee"]
    assert results(out)["dig_hole"][0] == "ok"
    assert events(out)[0]["metadata"] == {"mode": "client", "strategy": "host"}
    await kept(out, model)


async def test_your_own_search_may_be_a_plain_function_with_something_to_say():
    def search(query: str, tools: Any) -> dict[str, Any]:
        return {"tool_names": ["dig_hole"], "diagnostic": "only this one"}

    model = scripted(find("anything"), "done")
    await w.agent_loop(
        "go", model=model, tools=FEW, tool_search={"strategy": "semantic", "search": search}
    )
    assert answers(model) == [{"tool_names": ["dig_hole"], "diagnostic": "only this one"}]


async def test_a_search_of_yours_that_fails_is_a_diagnostic():
    def search(query: str, tools: Any) -> list[str]:
        raise ConnectionError("no embeddings today")

    model = scripted(find("anything"), "done")
    out = await w.agent_loop(
        "go", model=model, tools=FEW, tool_search={"strategy": "host", "search": search}
    )
    [answer] = answers(model)
    assert answer["tool_names"] == [] and "no embeddings today" in answer["diagnostic"]
    assert out.status == "done"


class Odd:
    def __repr__(self) -> str:
        raise ValueError("no words")


@pytest.mark.parametrize(
    ("answer", "found"),
    [
        (None, []),
        (7, []),
        ("dig_hole", []),
        ({"dig_hole"}, []),
        ([], []),
        ({}, []),
        ({"tool_names": None}, []),
        (["dig_hole", "dig_hole"], ["dig_hole"]),
        (["add", "nobody", 7, None, Odd(), "dig_hole"], ["dig_hole"]),
        (["nobody"] * 1_000_000, []),
        ({"tool_names": ["dig_hole"], "diagnostic": 7}, ["dig_hole"]),
        ({"tool_names": [], "diagnostic": "\ud800 half" + "x" * 100_000}, []),
        (iter(["dig_hole"]), []),
    ],
)
async def test_a_search_of_yours_may_answer_what_it_likes(answer: Any, found: list[str]):
    async def search(query: str, tools: Any) -> Any:
        return answer

    model = scripted(find("anything"), "done")
    out = await w.agent_loop(
        "go", model=model, tools=FEW, tool_search={"strategy": "host", "search": search}
    )
    [given] = answers(model)
    assert given["tool_names"] == found
    assert found or given["diagnostic"]
    assert len(json.dumps(given)) < 1000
    assert out.status == "done"
    await kept(out, model)


async def test_a_search_of_yours_that_never_ends_is_stopped():
    async def search(query: str, tools: Any) -> list[str]:
        await asyncio.Event().wait()
        return []

    model = scripted(find("anything"), "done")
    out = await w.agent_loop(
        "go",
        model=model,
        tools=FEW,
        tool_search={"strategy": "host", "search": search},
        tool_timeout=0.01,
    )
    assert out.tool_calls[0].outcome == "timeout" and out.status == "done"
    assert events(out)[1]["tool_names"] == []
    await kept(out, model)


async def test_a_replay_needs_no_callback():
    """What the host answered is on record: a resumed run promotes it without asking again."""
    asked = 0

    async def search(query: str, tools: Any) -> list[str]:
        nonlocal asked
        asked += 1
        return ["dig_hole"]

    option = {"strategy": "host", "search": search}
    one = scripted(find("anything"), "done")
    await w.agent_loop("go", model=one, tools=FEW, tool_search=option, session_id="s")
    two = scripted(call("dig_hole"), "done")
    out = await w.agent_loop("again", model=two, tools=FEW, tool_search=option, session_id="s")
    assert asked == 1 and results(out)["dig_hole"][0] == "ok"


# --------------------------------------------------------------------------- across runs


async def test_the_next_run_of_the_session_has_what_was_found():
    one = scripted(find("wall"), find("coffee"), "done")
    await w.agent_loop("go", model=one, tools=FEW, tool_search=True, session_id="s")
    two = scripted(call("paint_wall"), "done")
    out = await w.agent_loop("again", model=two, tools=FEW, tool_search=True, session_id="s")
    assert offers(two)[0] == ["add", SEARCH_NAME, "paint_wall", "brew_coffee"]
    assert results(out)["paint_wall"][0] == "ok"


async def test_a_tool_that_is_gone_by_then_is_not_missed():
    one = scripted(find("wall"), find("coffee"), "done")
    await w.agent_loop("go", model=one, tools=FEW, tool_search=True, session_id="s")
    two = scripted("done")
    out = await w.agent_loop(
        "again", model=two, tools=[add, BREW, DIG], tool_search=True, session_id="s"
    )
    assert offers(two)[0] == ["add", SEARCH_NAME, "brew_coffee"]
    assert out.status == "done"


async def test_a_parked_run_goes_on_with_what_it_found():
    ask = w.Tool(name="ask_person", description="Asks a person", defer_loading=True)
    model = scripted(find("person"), call("ask_person"), "done")
    agent = w.Agent(model, tools=[add, ask], tool_search=True)
    out = await agent.run("go", session_id="s")
    assert out.status == "suspended"
    [waiting] = out.pending
    out = await agent.resume("s", results={waiting.id: "yes"})
    assert out.status == "done" and out.final_text == "done"
    assert offers(model)[-1] == ["add", SEARCH_NAME, "ask_person"]


# --------------------------------------------------------------------------- tools in text


async def test_tools_written_as_text_are_searched_too():
    written = (
        f'<tool_call>{{"name": "{SEARCH_NAME}", "arguments": {{"query": "wall"}}}}</tool_call>'
    )
    paint = '<tool_call>{"name": "paint_wall", "arguments": {}}</tool_call>'
    model = scripted(written, paint, "done", native_tools=False)
    out = await w.agent_loop("go", model=model, tools=FEW, tool_search=True)
    first, second = model.requests[0].system or "", model.requests[1].system or ""
    assert SEARCH_NAME in first and "paint_wall" not in first
    assert '"name":"paint_wall"' in second and second.startswith(first)
    assert "defer_loading" not in second
    assert results(out)["paint_wall"][0] == "ok"
    await kept(out, model, text=True)


# --------------------------------------------------------------------------- the provider's search


async def test_a_model_that_searches_by_itself_gets_all_tools_and_one_setting():
    reply = [*found_natively("wall", "paint_wall"), call("paint_wall")]
    model = native(reply, "done")
    out = await w.agent_loop("go", model=model, tools=FEW, tool_search=True)
    request = model.requests[0]
    assert names(request) == ["add", "paint_wall", "brew_coffee", "dig_hole"]
    assert [tool.defer_loading for tool in own_tools(request)] == [False, True, True, True]
    assert request.settings.tool_search == "bm25"
    assert results(out)["paint_wall"] == ("ok", "paint_wall did it")
    assert model.requests[0].frame == model.requests[1].frame
    await kept(out, model)


async def test_a_search_by_the_provider_leaves_the_same_events():
    model = native([*found_natively("wall", "paint_wall", "dig_hole"), "done"])
    out = await w.agent_loop("go", model=model, tools=FEW, tool_search=True)
    query, result = events(out)
    ours = await w.agent_loop(
        "go", model=scripted(find("wall"), "done"), tools=FEW, tool_search=True
    )
    for theirs, own in zip((query, result), events(ours), strict=True):
        assert theirs.keys() == own.keys() and theirs["kind"] == own["kind"]
    assert query["query"] == "wall" and query["search_id"] == "srv_1"
    assert query["metadata"] == {"mode": "native", "strategy": "bm25"}
    assert result["tool_names"] == ["paint_wall", "dig_hole"]


async def test_a_pattern_goes_to_a_provider_that_takes_patterns():
    model = native("done")
    await w.agent_loop("go", model=model, tools=FEW, tool_search="regex")
    assert model.requests[0].settings.tool_search == "regex"


async def test_a_hosted_search_is_used_for_words_and_not_for_patterns():
    model = native("done", searches=("hosted", "client"))
    await w.agent_loop("go", model=model, tools=FEW, tool_search="bm25")
    assert model.requests[0].settings.tool_search == "hosted"
    model = native("done", searches=("hosted", "client"))
    await w.agent_loop("go", model=model, tools=FEW, tool_search="regex")
    assert model.requests[0].settings.tool_search is None
    assert SEARCH_NAME in names(model.requests[0])


async def test_mode_client_is_ours_wherever():
    model = native(find("wall"), "done")
    out = await w.agent_loop("go", model=model, tools=FEW, tool_search={"mode": "client"})
    assert offers(model)[0] == ["add", SEARCH_NAME]
    assert model.requests[0].settings.tool_search is None
    assert events(out)[0]["metadata"]["mode"] == "client"


@pytest.mark.parametrize(
    "search",
    [
        {"budget_tokens": 900},
        {"name": "find_tool"},
        {"strategy": "regex"},
        {"strategy": "host", "search": lambda query, tools: []},
    ],
)
async def test_what_only_we_can_do_we_do(search: dict[str, Any]):
    model = native("done")
    await w.agent_loop("go", model=model, tools=FEW, tool_search=search)
    assert model.requests[0].settings.tool_search is None
    with pytest.raises(ConfigError, match="only the client's search can do"):
        await w.agent_loop("go", model=model, tools=FEW, tool_search={**search, "mode": "native"})


async def test_always_loaded_and_the_listing_work_there_too():
    model = native("done")
    search = {"always_loaded": ["dig_hole"], "include_stub_listing": True, "mode": "native"}
    await w.agent_loop("go", model=model, tools=FEW, tool_search=search)
    request = model.requests[0]
    assert [tool.defer_loading for tool in own_tools(request)] == [False, True, True, False]
    assert "- paint_wall:" in (request.system or "") and "- dig_hole" not in (request.system or "")


async def test_native_where_there_is_none_names_the_fix():
    model = scripted("never")
    with pytest.raises(ConfigError) as refused:
        await w.agent_loop("go", model=model, tools=FEW, tool_search={"mode": "native"})
    assert "'auto' or 'client'" in str(refused.value)
    assert "scripted={'force_native_tool_search': True}" in str(refused.value)
    assert model.requests == []


async def test_native_with_tools_in_text_is_refused():
    with pytest.raises(ConfigError, match="as text"):
        await w.agent_loop(
            "go",
            model=native("never"),
            tools=FEW,
            tool_search={"mode": "native"},
            tool_format="text",
        )


@pytest.mark.parametrize("mode", ["auto", "native"])
async def test_a_proxy_can_be_believed(mode: str):
    model = scripted("done")
    own: dict[str, Any] = {"scripted": {"force_native_tool_search": True}}
    await w.agent_loop("go", model=model, tools=FEW, tool_search={"mode": mode}, **own)
    assert model.requests[0].settings.tool_search == "hosted"
    assert model.requests[0].settings.extra is None


async def test_a_model_may_ask_us_in_its_providers_words():
    model = native(find("wall"), call("paint_wall"), "done", searches=("client",))
    out = await w.agent_loop("go", model=model, tools=FEW, tool_search=True)
    request = model.requests[0]
    assert request.settings.tool_search == "client"
    assert names(request) == [SEARCH_NAME, "add", "paint_wall", "brew_coffee", "dig_hole"]
    assert [tool.defer_loading for tool in own_tools(request)] == [False, False, True, True, True]
    [answer] = answers(model)
    assert answer["tools"][0]["name"] == "paint_wall" and answer["tools"][0]["parameters"]
    assert results(out)["paint_wall"][0] == "ok"
    assert events(out)[0]["metadata"]["mode"] == "native"
    assert all(r.frame == request.frame for r in model.requests), "the answer carries the tools"
    await kept(out, model)


async def test_there_a_tool_that_was_not_found_is_unknown_too():
    model = native(call("paint_wall"), "done", searches=("client",))
    out = await w.agent_loop("go", model=model, tools=FEW, tool_search=True)
    assert results(out)["paint_wall"][0] == "unknown_tool"


# --------------------------------------------------------------------------- from every place

_decode = msgspec.json.Decoder(list[JournalEntry]).decode
PLAYS: dict[str, tuple[Any, ...]] = {
    "ours": (None, [find("wall"), find("coffee")], [call("paint_wall"), call("brew_coffee")], "ok"),
    "theirs": (("bm25",), [*found_natively("wall", "paint_wall"), call("paint_wall")], "ok"),
    "asked of us": (("client",), find("wall"), call("paint_wall"), "ok"),
}


@pytest.mark.parametrize("play", PLAYS)
async def test_a_run_goes_on_from_every_place_of_its_journal(play: str):
    searches, *script = PLAYS[play]

    def reply(request: w.Request) -> Any:
        turn = sum(message.role == "assistant" for message in request.messages)
        said = script[turn] if isinstance(script[turn], list) else [script[turn]]
        return [
            w.ToolCall(f"c{turn}{place}", block.name, block.arguments)
            if isinstance(block, w.ToolCall)
            else block
            for place, block in enumerate(said)
        ]

    def agent() -> tuple[w.Agent[Any, Any], ScriptedModel]:
        model = scripted(then=reply) if searches is None else native(then=reply, searches=searches)
        return w.Agent(model, tools=FEW, tool_search=True), model

    first, whole = agent()
    out = await first.run("go", session_id="whole")
    store, entries = out._run.store, await out._run.store.read("whole")
    searched = [e for e in entries if type(e).__name__.startswith("ToolSearch")]
    assert len(searched) in (2, 4) and out.status == "done"
    rows = [_decode(row.payload) for row in await store.rows("whole")]
    for cut in range(1, len(rows)):
        before = [entry for row in rows[:cut] for entry in row]
        if not any(type(entry) is RunStarted for entry in before):
            continue
        await written(store, f"s{cut}", before)
        again, model = agent()
        out = await again.resume(f"s{cut}")
        assert out.status == "done", (cut, before[-1])
        told = await store.read(f"s{cut}")
        assert [e for e in told if type(e).__name__.startswith("ToolSearch")] == searched, cut
        sent = {len(request.messages): request.frame for request in whole.requests}
        assert all(sent[len(r.messages)] == r.frame for r in model.requests), cut
        assert {r.outcome for r in out.tool_calls} <= {"ok", "interrupted"}, cut


# --------------------------------------------------------------------------- one call


async def test_a_single_call_searches_until_it_answers():
    model = scripted(find("wall"), find("coffee"), call("brew_coffee"))
    reply = await w.llm_call("coffee, please", model=model, tools=FEW, tool_search=True)
    assert [c.name for c in reply.tool_calls] == ["brew_coffee"]
    assert offers(model)[-1] == ["add", SEARCH_NAME, "paint_wall", "brew_coffee"]
    assert reply.usage == w.Usage(30, 15)
    assert [e["kind"] for e in events(reply)] == ["tool_search_query", "tool_search_result"] * 2
    assert events(reply)[0]["metadata"] == {"mode": "client", "strategy": "bm25"}


async def test_a_single_call_whose_model_just_answers():
    model = scripted("hello")
    reply = await w.llm_call("hi", model=model, tools=FEW, tool_search=True)
    assert reply.text == "hello" and events(reply) == []


async def test_a_single_call_on_a_model_that_searches_by_itself_is_one_call():
    model = native([*found_natively("wall", "paint_wall"), call("paint_wall")])
    reply = await w.llm_call("paint", model=model, tools=FEW, tool_search=True)
    assert len(model.requests) == 1
    assert [c.name for c in reply.tool_calls] == ["paint_wall"]
    assert events(reply)[1]["tool_names"] == ["paint_wall"]


async def test_a_search_beside_a_users_tool_is_nobodys_business():
    model = scripted(["I'll add.", find("wall"), call("add", a=1, b=2)])
    reply = await w.llm_call("go", model=model, tools=FEW, tool_search=True)
    assert [c.name for c in reply.tool_calls] == ["add"]
    assert SEARCH_NAME not in str(reply.transcript["messages"])


async def test_a_single_call_does_not_search_for_ever():
    model = scripted(
        then=lambda request: (
            find("wall") if SEARCH_NAME in names(request) else "I could not find it"
        )
    )
    reply = await w.llm_call("go", model=model, tools=FEW, tool_search=True)
    assert reply.text == "I could not find it" and len(model.requests) == 9


async def test_bad_arguments_in_a_single_call():
    model = scripted(call(SEARCH_NAME, wrong=1), "sorry")
    reply = await w.llm_call("go", model=model, tools=FEW, tool_search=True)
    assert reply.text == "sorry"
    assert "not valid" in said(model.requests[1])[-1]


async def test_a_conversation_of_single_calls_keeps_what_it_uses():
    model = scripted(find("wall"), call("paint_wall"), "painted")
    reply = await w.llm_call("paint", model=model, tools=FEW, tool_search=True)
    [asked] = reply.tool_calls
    messages = [
        w.Message("user", "paint"),
        reply.message,
        w.Message("tool", (w.ToolResult(asked.id, "ok", name="paint_wall"),)),
    ]
    await w.llm_call(messages=messages, model=model, tools=FEW, tool_search=True)
    assert names(model.requests[-1]) == ["add", SEARCH_NAME, "paint_wall"]


async def test_a_streamed_call_shows_the_answer_and_not_the_search():
    model = scripted(find("wall"), ["On it.", call("paint_wall")], stream=True)
    chunks = [chunk async for chunk in w.llm_stream("go", model=model, tools=FEW, tool_search=True)]
    assert "".join(map(str, chunks)) == "On it."
    assert [c.tool_call.name for c in chunks if c.tool_call] == ["paint_wall"]


async def test_a_budget_holds_in_a_single_call():
    three = [sized(name, 396) for name in ("alpha", "beta")]
    model = scripted(find("alpha"), find("beta"), "done")
    reply = await w.llm_call(
        "go", model=model, tools=[add, *three], tool_search={"budget_tokens": 100}
    )
    assert offers(model)[2] == ["add", SEARCH_NAME, "beta"]
    assert events(reply)[-1]["evicted"] == ["alpha"]


async def test_a_model_that_asks_in_its_providers_words_in_a_single_call():
    model = native(find("wall"), call("paint_wall"), searches=("client",))
    reply = await w.llm_call("go", model=model, tools=FEW, tool_search=True)
    assert [c.name for c in reply.tool_calls] == ["paint_wall"]
    assert model.requests[0].frame == model.requests[1].frame
    assert json.loads(said(model.requests[1])[-1])["tools"][0]["name"] == "paint_wall"


# --------------------------------------------------------------------------- before anything is asked


@pytest.mark.parametrize(
    ("search", "words"),
    [
        ("bm52", "did you mean 'bm25'"),
        ("host", '"search"'),
        (7, "True, False, 'bm25', 'regex' or a dict"),
        ([], "not []"),
        ({"varient": "bm25"}, "did you mean 'variant'"),
        ({7: 1}, "no key 7"),
        ({"variant": "semantic"}, "tool_search.variant is one of 'bm25', 'regex'"),
        ({"variant": None}, "tool_search.variant"),
        ({"mode": "nativ"}, "did you mean 'native'"),
        ({"strategy": "hosst"}, "did you mean 'host'"),
        ({"strategy": "host"}, "tool_search.search"),
        ({"strategy": "host", "search": 7}, "a function, not 7"),
        ({"search": print}, "'semantic' or 'host'"),
        ({"always_loaded": "read_file"}, "a list of tools' names"),
        ({"always_loaded": [7]}, "a list of tools' names"),
        ({"always_loaded": ["paint_wal"]}, "did you mean 'paint_wall'"),
        ({"budget_tokens": 0}, "at least 1"),
        ({"budget_tokens": True}, "at least 1"),
        ({"budget_tokens": "many"}, "at least 1"),
        ({"name": ""}, "tool's name"),
        ({"name": "no spaces"}, "a tool's name"),
        ({"name": "add"}, "another name"),
        ({"name": "paint_wall"}, "another name"),
        ({"include_stub_listing": "yes"}, "True or False"),
    ],
)
@pytest.mark.parametrize("door", ["agent_loop", "llm_call"])
async def test_what_cannot_be_is_refused_before_any_call(search: Any, words: str, door: str):
    model = scripted("never")
    with pytest.raises(ConfigError) as refused:
        await getattr(w, door)("go", model=model, tools=FEW, tool_search=search)
    assert words in str(refused.value), refused.value
    assert "\n" not in str(refused.value)
    assert model.requests == []


@pytest.mark.parametrize("mode", ["auto", "client"])
@pytest.mark.parametrize("door", ["agent_loop", "llm_call"])
async def test_at_least_one_tool_must_be_seen(mode: str, door: str):
    for model in (scripted("never"), native("never")):
        with pytest.raises(ConfigError, match="every tool is deferred"):
            await getattr(w, door)(
                "go", model=model, tools=[PAINT, BREW], tool_search={"mode": mode}
            )
        assert model.requests == []


async def test_nobody_is_made_to_call_what_is_not_seen():
    with pytest.raises(ConfigError, match="always_loaded"):
        await w.agent_loop(
            "go",
            model=scripted("never"),
            tools=FEW,
            tool_search=True,
            tool_choice={"name": "paint_wall"},
        )


def test_defer_loading_is_true_or_false():
    with pytest.raises(ConfigError, match="defer_loading is True or False"):
        w.Tool(name="t", defer_loading="yes")  # type: ignore[arg-type]


def test_the_typed_option_is_checked_when_it_is_made():
    with pytest.raises(ConfigError, match="did you mean 'client'"):
        w.ToolSearch(mode="cleint")  # type: ignore[arg-type]
    assert w.ToolSearch() == w.ToolSearch(variant="bm25", mode="auto")


# --------------------------------------------------------------------------- what it is for


def schema_bytes(requests: list[w.Request]) -> int:
    """Bytes of tool schemas that reach the wire."""
    wire = AnthropicMessages("claude-3-5-haiku-latest", api_key="not-a-key")
    total = 0
    for request in requests:
        body = json.loads(b"".join(wire.encode(request)))
        total += sum(len(json.dumps(tool)) for tool in body.get("tools", ()))
    return total


async def test_forty_tools_cost_a_fifth_at_most():
    """Six turns of a realistic errand: two searches, three tools used, an answer."""
    look = call("stripe_list_invoices", customer="acme", status="paid", limit=1)
    refund = call("stripe_create_refund", charge="ch_1", amount=500, reason="duplicate")
    mail = call("gmail_send_message", to=["a@b.c"], subject="s", body="b", attachments=[])
    first, second = find("customer invoices and refunds"), find("send email")
    vault = scripted(first, look, refund, second, mail, "Refunded, and the customer knows.")
    out = await w.agent_loop(
        "The customer was charged twice.",
        model=vault,
        tools=tools(loaded=LOADED),
        tool_search=True,
    )
    assert [r.outcome for r in out.tool_calls] == ["ok"] * 5
    read = call("read_file", path="a", head=1, tail=1)
    plain = scripted(read, look, refund, read, mail, "Refunded, and the customer knows.")
    out = await w.agent_loop(
        "The customer was charged twice.", model=plain, tools=tools(loaded=LOADED)
    )
    assert [r.outcome for r in out.tool_calls] == ["ok"] * 5
    assert len(vault.requests) == len(plain.requests) == 6
    assert all(len(own_tools(request)) == 40 for request in plain.requests)
    share = schema_bytes(vault.requests) / schema_bytes(plain.requests)
    assert share <= 0.20, f"{share:.1%} of the bytes are still sent"


def test_the_forty_are_what_they_should_be():
    assert len(NAMES) == 40 and set(LOADED) <= set(NAMES)
