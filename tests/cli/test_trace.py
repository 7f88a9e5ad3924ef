"""`windlass trace`: a session as a picture, in the terminal and as a page."""

from __future__ import annotations

import asyncio
import json
import re
from html.parser import HTMLParser
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import windlass as w
from tests.cli.conftest import LOOKUP
from windlass.events import (
    BudgetExhausted,
    CheckRan,
    Entry,
    IterationEnd,
    IterationStart,
    JudgeDecision,
    LoopControlDecision,
    Replied,
    ReplyFailed,
    RunEnded,
    RunResumed,
    RunStarted,
    Said,
    SessionOpened,
    StallWarning,
    StepJudgeDecision,
    Suspended,
    ToolDecided,
    ToolIntended,
    ToolMessage,
    ToolResulted,
    ToolSearchQueried,
    ToolSearchResulted,
)
from windlass.messages import Message, Text, ToolCall, ToolResult
from windlass.testing import call, scripted
from windlass.trace.axis import axis_of, ticks
from windlass.trace.build import Append, picture_of
from windlass.trace.format import cells
from windlass.trace.html import page, to_iframe
from windlass.trace.marks import said_by
from windlass.trace.text import draw
from windlass.usage import Usage

MOCK = ("--provider", "mock")
HOSTILE = "\x1b[2J\x1b]0;owned\x07\u202e</script><img src=x onerror=alert(1)>\u2028\"'><!--\x00"


def begun() -> list[Append]:
    opened = SessionOpened("s")
    started = RunStarted("r1", "agent", "local", "anthropic", "claude", "clerk")
    return [Append(100.0, [opened, started, Said(Message("user", "Settle it."))])]


def replied(*calls: ToolCall, text: str = "", ms: float = 1000.0, **more) -> Replied:
    message = Message("assistant", (Text(text), *calls) if text else calls)
    usage = more.pop("usage", Usage(1000, 50, cache_read_tokens=800))
    return Replied(
        message,
        usage,
        "tool_use" if calls else "end_turn",
        "anthropic",
        "claude",
        1,
        "f",
        duration_ms=ms,
        cost_usd=more.pop("cost_usd", 0.01),
        **more,
    )


def resulted(id: str, tool: str, text: str = "fine", ms: float = 100.0, outcome="ok"):
    return ToolResulted(id, tool, outcome, ToolResult(id, text, outcome != "ok", tool), ms)


def two_turns() -> list[Append]:
    """A turn with two calls side by side, then the answer."""
    one, two = ToolCall("c1", "look_up", {"order": "A-1"}), ToolCall("c2", "search", {"q": "x"})
    return [
        *begun(),
        Append(100.0, [IterationStart(1)]),
        Append(
            102.0,
            [
                replied(one, two, text="Let me look.", ms=2000),
                ToolIntended("c1", "look_up", "read_only"),
                ToolIntended("c2", "search", "read_only"),
            ],
        ),
        Append(103.0, [resulted("c1", "look_up", ms=1000)]),
        Append(106.0, [resulted("c2", "search", "index is offline", 4000, "error")]),
        Append(
            106.0, [ToolMessage(("c1", "c2")), IterationEnd(1, "keep_going"), IterationStart(2)]
        ),
        Append(
            108.0,
            [
                replied(text="Done.", ms=2000),
                JudgeDecision("s", 2, "done_judge", "done", "all is settled"),
                IterationEnd(2, "finish", "natural", "done"),
                RunEnded("r1", "done"),
            ],
        ),
    ]


def lines(picture, width=100, **more) -> list[str]:
    drawn = draw(picture, width, **{"fine": False, **more})
    return ["".join(p if isinstance(p, str) else p[0] for p in line) for line in drawn]


def row(found: list[str], words: str) -> str:
    return next(line for line in found if words in line)


# --------------------------------------------------------------------------- when it happened


def test_calls_are_where_they_happened():
    picture = picture_of("s", two_turns())
    (part,) = picture.parts
    first, second = [turn for turn in part.turns if turn.number]
    assert [(b.name, round(b.start, 3), round(b.end, 3)) for b in first.bars] == [
        ("claude", 0.0, 2.0),
        ("look_up", 2.0, 3.0),
        ("search", 2.0, 6.0),  # side by side with the other
    ]
    assert [(round(b.start, 3), round(b.end, 3)) for b in second.bars] == [(6.0, 8.0)]
    assert [m.kind for m in second.marks] == ["judge", "verdict", "end"]
    assert all(round(m.at, 3) == 8.0 for m in second.marks)
    assert part.status == "done" and part.prompt == "Settle it."
    totals = picture.totals
    assert (totals.turns, totals.model_calls, totals.tool_calls, totals.failed) == (2, 2, 2, 1)
    assert totals.cost_usd == pytest.approx(0.02) and totals.usage.input_tokens == 2000


def test_a_fork_has_no_times_of_its_own_and_is_drawn_in_order():
    rows = two_turns()
    copied = [entry for written in rows for entry in written.entries][1:]
    opened = SessionOpened("f", parent_id="s", branch_at=3)
    picture = picture_of("f", [Append(500.0, [opened, *copied])])
    bars = list(picture.bars())
    assert [bar.name for bar in bars] == ["claude", "look_up", "search", "claude"]
    spans = [(round(bar.start, 3), round(bar.end, 3)) for bar in bars]
    assert spans == [(0.0, 2.0), (2.0, 3.0), (2.0, 6.0), (6.0, 8.0)]
    assert "forked from s after 3 messages" in "\n".join(lines(picture))


def test_a_long_wait_is_cut_from_the_axis():
    rows = [
        *begun(),
        Append(100.0, [IterationStart(1)]),
        Append(
            102.0,
            [
                replied(ToolCall("c1", "ask", {}), ms=2000),
                ToolDecided("c1", "ask", "ask", "approval", "local", "d", "somebody must look"),
                Suspended("approval", "gate", waiting=("c1",)),
                RunEnded("r1", "suspended", "approval"),
            ],
        ),
        Append(260_000.0, [RunResumed("r1", "gate"), ToolIntended("c1", "ask", "plain")]),
        Append(260_002.0, [resulted("c1", "ask", ms=2000), RunEnded("r1", "done")]),
    ]
    picture = picture_of("s", rows)
    axis = axis_of(picture.parts)
    assert len(axis.cuts) == 1 and 4 <= axis.length < 5
    assert axis.real(axis.place_of(1.5)) == pytest.approx(1.5)
    assert axis.real(axis.length) == pytest.approx(260_002 - 100)
    assert axis.work_seconds(axis.length) == pytest.approx(4.0)
    drawn = "\n".join(lines(picture))
    assert "1 wait of 72 h 11 min" in drawn
    assert "parked" in drawn and "resumed" in drawn and "asks" in drawn
    assert "s  done" in drawn


def test_ticks_are_round_and_few():
    picture = picture_of("s", two_turns())
    axis = axis_of(picture.parts)
    assert ticks(axis, 8) == [0.0, 1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0]
    assert ticks(axis, 3) == [0.0, 5.0]


def test_what_has_no_end_on_record_says_so():
    rows = [
        *begun(),
        Append(100.0, [IterationStart(1)]),
        Append(
            101.0,
            [replied(ToolCall("c1", "mail", {"to": "x"})), ToolIntended("c1", "mail", "plain")],
        ),
    ]
    killed = lines(picture_of("s", rows))
    assert "unfinished" in killed[0]
    assert "no end on record" in row(killed, "mail")
    assert any("its process died" in line for line in killed)
    asking = picture_of("s", [*begun(), Append(100.0, [IterationStart(1)])])
    assert [bar.outcome for bar in asking.bars()] == ["open"]


def test_every_decision_has_its_place():
    noted: list[Entry] = [
        JudgeDecision("s", 1, "done_judge", "continue", "tests were not run", "run them"),
        CheckRan(1, "unit tests", False, "2 failed", 12.0),
        StepJudgeDecision("s", 1, "revise", "too broad", "name the order"),
        StepJudgeDecision("s", 1, skipped=True, reason="no calls"),
        LoopControlDecision(1, "extend", 10, 15, "nearly there"),
        StallWarning(1, "look_up", 3, 3, "d", "s"),
        BudgetExhausted("usd", 0.5, 0.52),
        ToolSearchQueried("q1", "refund money", "client"),
        ToolSearchResulted("q1", ("refund",), "client"),
        ToolDecided("c9", "wipe", "deny", "guard", "local", "d", "too dangerous"),
    ]
    rows = [
        *begun(),
        Append(100.0, [IterationStart(1)]),
        Append(
            101.0,
            [
                ReplyFailed(
                    "rate_limit", "slow down", "anthropic", "claude", duration_ms=1000, attempts=3
                )
            ],
        ),
        Append(102.0, [replied(text="x", attempts=2, via="fallback"), *noted]),
    ]
    drawn = lines(picture_of("s", rows), 120)
    for words in (
        "done_judge: continue: tests were not run",
        "unit tests failed: 2 failed",
        "revise: too broad",
        "skipped: no calls",
        "limit 10 -> 15 turns: nearly there",
        "look_up 3 times with the same arguments",
        "usd: $0.5200 of $0.5000",
        'tools for "refund money"',
        "wipe by guard: too dangerous",
        "rate limit",
        "3 attempts",
        "by fallb",
    ):
        assert any(words in line for line in drawn), (words, drawn)


def test_an_entry_that_nobody_thought_of_is_a_mark_all_the_same():
    class Surprised(Entry, tag="agent_surprised", frozen=True):
        by: str

    said = said_by(Surprised("a cat"))
    assert said is not None and (said.kind, said.text) == ("agent surprised", 'by "a cat"')


# --------------------------------------------------------------------------- the terminal


@pytest.mark.parametrize("width", [60, 80, 120, 200])
def test_lines_keep_to_the_width(width):
    rows = two_turns()
    odd = [resulted("c3", "日本語の名前" * 9, HOSTILE * 50, 100, "error")]
    rows.insert(-1, Append(106.0, odd))
    for fine in (True, False):
        found = lines(picture_of("s" * 300, rows), width, fine=fine)
        assert all(cells(line) <= width for line in found), max(found, key=cells)
        assert not re.search(r"[\x00-\x1f\x7f-\x9f\u202e\u2028]", "".join(found))
        if not fine:
            assert "".join(found).isascii()


def test_bars_share_one_axis():
    found = lines(picture_of("s", two_turns()), 100)
    model, look_up, search = row(found, "turn 1"), row(found, "look_up"), row(found, "search")
    assert model.index("=") < look_up.index("#") == search.index("x 4.0"[0], 28)
    assert "1.0k+50   80% $0.0100" in model
    assert "index is offline" in search
    assert row(found, "turn 2").index("=") > look_up.rindex("#")
    assert "$0.0200" in found[2] and "80% cached" in found[2] and "1 failed" in found[2]


def long_run(turns: int, broken: int | None = None) -> list[Append]:
    rows, at = begun(), 100.0
    for number in range(1, turns + 1):
        outcome = "error" if number == broken else "ok"
        rows.append(Append(at, [IterationStart(number)]))
        id = f"c{number}"
        asked = replied(ToolCall(id, "step", {"n": number}), text="go", ms=1000)
        rows.append(Append(at + 1, [asked, ToolIntended(id, "step", "read_only")]))
        rows.append(
            Append(
                at + 2,
                [
                    resulted(id, "step", "x" * 100, 1000, outcome),
                    ToolMessage((id,)),
                    IterationEnd(number, "keep_going"),
                ],
            )
        )
        at += 2
    rows.append(Append(at, [RunEnded("r1", "done")]))
    return rows


def test_a_long_run_is_folded_and_what_went_wrong_is_not():
    picture = picture_of("s", long_run(200, broken=100))
    folded = lines(picture)
    assert len(folded) < 100
    assert any("9 to 99" in line and "91 turns, 91 calls" in line for line in folded)
    assert row(folded, "turn 100") and row(folded, "turn 200")
    assert len(lines(picture, full=True)) > 400
    zoomed = lines(picture, turns=(50, 52))
    assert row(zoomed, "turn 51") and not any("turn 53" in line for line in zoomed)


def test_thousands_of_entries_are_drawn(windlass):
    picture = picture_of("s", long_run(3000))
    assert picture.entries > 15_000
    assert len(lines(picture)) < 120
    made = page(picture)
    assert len(made) < 12_000_000


def test_the_command(windlass, module, project: Path):
    module("shop", LOOKUP)
    windlass("run", "What does it cost?", *MOCK, "-t", "shop:look_up", "--session", "shop-1")
    drawn = windlass("trace", "sh").stdout
    assert drawn.startswith("shop-1  done\n")
    assert "asked: What does it cost?" in drawn and "look_up" in drawn and drawn.isascii()
    assert all(
        len(line) <= 80 for line in windlass("trace", "sh", "--width", "80").stdout.splitlines()
    )
    data = json.loads(windlass("trace", "shop-1", "--json").stdout)
    assert data["totals"]["turns"] == 2 and data["runs"][0]["status"] == "done"
    bars = [bar for turn in data["runs"][0]["turns"] for bar in turn["bars"]]
    assert [bar["kind"] for bar in bars] == ["model", "tool", "model"]
    assert bars[1]["arguments"] == {"order": "A-1"} and bars[1]["outcome"] == "ok"
    done = windlass("trace", "shop-1", "--html", "out.html")
    assert done.stdout == "" and done.stderr.startswith("out.html: ")
    assert "look_up" in (project / "out.html").read_text()
    assert windlass("trace", "shop-1", "--html", "-").stdout.startswith("<!doctype html>")


def test_runs_are_chosen_by_number(windlass):
    for task in ("one", "two", "three"):
        windlass("run", task, *MOCK, "--session", "s")
    every = windlass("trace", "s").stdout
    assert "run 1: " in every and "run 3: " in every
    assert every == windlass("trace", "s", "--all").stdout
    second = windlass("trace", "s", "--run", "2").stdout
    assert "asked: two" in second and "asked: three" not in second
    assert "asked: three" in windlass("trace", "s", "--run", "-1").stdout
    wrong = windlass("trace", "s", "--run", "4", code=2)
    assert "it has 3, counted from 1" in wrong.stderr
    assert "contradict" in windlass("trace", "s", "--run", "1", "--all", code=2).stderr
    assert "two forms" in windlass("trace", "s", "--json", "--html", "x", code=2).stderr
    assert "write it as 3" in windlass("trace", "s", "--turns", "x", code=2).stderr


def test_a_session_that_never_ran(windlass, project: Path):
    assert "nothing is kept" in windlass("trace", "s", code=1).stderr

    async def open_it() -> None:
        async with w.Runtime(store=str(project / "a.db")) as scope:
            journal = await scope.store.open("empty")
            await journal.durable()
            await journal.close()

    asyncio.run(open_it())
    drawn = windlass("trace", "empty", "--store", "a.db").stdout
    assert "nothing has run in this session yet" in drawn
    assert "empty" in windlass("trace", "empty", "--store", "a.db", "--html", "-").stdout
    assert "never run" in windlass("trace", "empty", "--store", "a.db", "--run", "1", code=2).stderr


def test_trace_counts_tasks_of_a_tool_and_a_user_who_is_asked_after_a_turn(windlass, project: Path):
    worker = w.Agent(scripted(then="did it"), name="worker")

    @w.tool
    async def spread(ctx: w.ToolContext[None]) -> str:
        """Spread."""
        return str(len((await w.fan_out(worker, ["a", "b"], parent=ctx)).outputs))

    async def work() -> w.AgentResult[str]:
        said = scripted("Blue.", call("end_conversation", reason="done"))
        user = w.agentic_user("a painted door", None, None, said)
        after = w.simulated_user_post_turn(user)
        model = scripted(call("spread"), "Which colour?", "Painted. Anything else?", "Bye.")
        boss = w.Agent(model, tools=[spread], post_turn_callback=after)
        async with w.Runtime(store=str(project / "a.db")):
            fork = await boss.run("go", session_id="boss")
            await w.agent_session_fork("boss", "boss.2")  # named like a child, and none
            return fork

    out = asyncio.run(work())
    assert len(out.children) >= 3
    data = json.loads(windlass("trace", "boss", "--store", "a.db", "--json").stdout)
    usage = data["totals"]["usage"]
    assert usage["input_tokens"] + usage["output_tokens"] == out.usage.total_tokens
    bars = [bar for run in data["runs"] for turn in run["turns"] for bar in turn["bars"]]
    names = {bar["name"]: len(bar["children"]) for bar in bars if bar.get("children")}
    assert names["spread"] == 2 and len(names) == 2
    drawn = windlass("trace", "boss", "--store", "a.db").stdout
    assert drawn.count("run 1: worker, done") == 2
    assert "worker" in windlass("trace", "boss", "--store", "a.db", "--html", "-").stdout


def test_a_called_agent_is_drawn_below_its_call(windlass, project: Path):
    async def work() -> None:
        inner = w.Agent(scripted("looked it up"), name="helper")
        outer = w.Agent(scripted(call("helper", task="look"), "all done"), tools=[inner.as_tool()])
        async with w.Runtime(store=str(project / "a.db")):
            await outer.run("go", session_id="boss")

    asyncio.run(work())
    drawn = windlass("trace", "boss", "--store", "a.db").stdout.splitlines()
    at = next(n for n, line in enumerate(drawn) if " helper " in line)
    assert drawn[at + 1].startswith("| run 1: helper, done")
    assert any(line.startswith("| turn 1") for line in drawn[at:])
    child = windlass("trace", "boss.call_1", "--store", "a.db").stdout
    assert "called by boss" in child
    data = json.loads(windlass("trace", "boss", "--store", "a.db", "--json").stdout)
    nested = [
        b["children"][0]
        for r in data["runs"]
        for t in r["turns"]
        for b in t["bars"]
        if "children" in b
    ]
    assert nested[0]["session_id"] == "boss.call_1"
    assert data["totals"]["model_calls"] == 3


_TIMES = st.one_of(
    st.floats(0, 1e4), st.floats(allow_nan=False, allow_infinity=False), st.just(1e300)
)
_IDS = st.sampled_from(["c1", "c2", "c3", ""])
_WORDS = st.one_of(st.text(max_size=30), st.just(HOSTILE), st.just("x" * 3000))


def _entry(draw_one) -> Entry:
    ms, id, words = draw_one(_TIMES), draw_one(_IDS), draw_one(_WORDS)
    return draw_one(
        st.sampled_from(
            [
                IterationStart(3),
                replied(ToolCall(id, words, {words: ms}), text=words, ms=ms, cost_usd=ms),
                replied(text=words, ms=ms, purpose="judge"),
                ReplyFailed(words, words, "p", "m", duration_ms=ms),
                ToolIntended(id, words, "plain"),
                resulted(id, words, words, ms, "error"),
                ToolMessage((id,)),
                IterationEnd(2, "stop", words, words),
                RunStarted("r", "agent", words, words, words),
                RunResumed("r", words),
                RunEnded("r", words, words),
                Said(Message("user", words)),
                BudgetExhausted("usd", ms, ms),
                JudgeDecision("s", 1, words, "done", words),
            ]
        )
    )


@settings(max_examples=60, deadline=None)
@given(st.data())
def test_any_journal_can_be_drawn(data: st.DataObject):
    """Whatever is in it, in whatever order, at whatever times: lines that fit, and a sound page."""
    rows = [
        Append(data.draw(_TIMES), [_entry(data.draw) for _ in range(data.draw(st.integers(0, 4)))])
        for _ in range(data.draw(st.integers(0, 6)))
    ]
    found = lines(picture_of("s", rows), 80)
    assert all(cells(line) <= 80 for line in found)
    assert "".join(found).isascii()
    tags = read(page(picture_of("s", rows)))
    json.loads(tags.inside["script#data"])
    assert [tag for tag, _ in tags.found].count("script") == 2


# --------------------------------------------------------------------------- the page


class Tags(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.found: list[tuple[str, dict[str, str | None]]] = []
        self.inside: dict[str, str] = {}
        self.open: list[str] = []

    def handle_starttag(self, tag, attrs):
        self.found.append((tag, dict(attrs)))
        self.open.append(tag if tag != "script" else f"script#{dict(attrs).get('id', '')}")

    def handle_endtag(self, tag):
        if self.open:
            self.open.pop()

    def handle_data(self, data):
        if self.open:
            self.inside[self.open[-1]] = self.inside.get(self.open[-1], "") + data


def read(html: str) -> Tags:
    tags = Tags()
    tags.feed(html)
    return tags


def hostile_page() -> str:
    rows = two_turns()
    rows.insert(
        -1,
        Append(
            106.0,
            [
                replied(ToolCall("c7", HOSTILE, {HOSTILE: HOSTILE}, raw=HOSTILE), text=HOSTILE),
                resulted("c7", HOSTILE, HOSTILE + "y" * 10_000_000),
                StepJudgeDecision("s", 1, "revise", HOSTILE, HOSTILE),
            ],
        ),
    )
    return page(picture_of(f"s{HOSTILE}", rows))


def test_a_page_stands_alone_and_lets_nothing_in():
    html = hostile_page()
    tags = read(html)
    names = [tag for tag, _ in tags.found]
    assert names.count("script") == 2 and "img" not in names and "link" not in names
    assert not any(name.startswith("on") for _, attrs in tags.found for name in attrs)
    assert "src" not in {name for _, attrs in tags.found for name in attrs}
    csp = str(next(a["content"] for t, a in tags.found if a.get("http-equiv")))
    assert csp.startswith("default-src 'none'; style-src 'sha256-")
    assert "unsafe" not in csp and "http" not in csp
    body = html.split("<script>")[1]
    assert "innerHTML" not in body and "eval(" not in body and "document.write" not in body


def test_the_data_of_a_page_is_whole_but_for_what_is_cut():
    tags = read(hostile_page())
    data = json.loads(tags.inside["script#data"])
    texts = [b["text"] for r in data["runs"] for t in r["turns"] for b in t["bars"] if "text" in b]
    long = max(texts, key=len)
    assert len(long) < 30_000 and "… cut: 10.0 MB in all" in long
    assert any(text.startswith("⟨U+001B⟩[2J") and "</script><img" in text for text in texts)
    assert "\u202e" not in "".join(texts)
    assert "10.0 MB" in hostile_page() and len(hostile_page()) < 300_000


def test_the_policy_names_exactly_this_script_and_style():
    import base64
    import hashlib

    html = page(picture_of("s", two_turns()))
    csp = str(next(a["content"] for t, a in read(html).found if a.get("http-equiv")))
    for kind in ("script", "style"):
        inside = html.split(f"<{kind}>")[1].split(f"</{kind}>")[0]
        digest = base64.b64encode(hashlib.sha256(inside.encode()).digest()).decode()
        assert f"{kind}-src 'sha256-{digest}'" in csp


def test_without_scripts_the_page_shows_the_lines():
    html = page(picture_of("s", two_turns()))
    plain = read(html).inside["pre"]
    assert "look_up" in plain and "$0.0200" in plain


def test_the_page_of_a_long_run_is_not_large():
    assert len(page(picture_of("s", long_run(200)))) < 400_000


def test_a_frame_for_a_notebook_has_no_rights():
    html = to_iframe(picture_of(f"s{HOSTILE}", two_turns()))
    (frame,) = [attrs for tag, attrs in read(html).found if tag == "iframe"]
    assert frame["sandbox"] == "allow-scripts"
    assert read(frame["srcdoc"]).found[0][0] == "html"
    assert [tag for tag, _ in read(html).found] == ["iframe"]
