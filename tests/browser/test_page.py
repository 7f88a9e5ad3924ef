"""The page of a long run in a real browser: everything is there, it can be used, nothing complains.

Screenshots go to the folder that WINDLASS_SCREENSHOTS names, for somebody to look at.
"""

from __future__ import annotations

import os
from collections.abc import AsyncIterator
from pathlib import Path

import msgspec
import pytest

from tests.browser.chromium import INSTALL, Browser, Page, find
from tests.browser.session import HOSTILE, long_session
from windlass.events import (
    IterationEnd,
    IterationStart,
    Replied,
    RunEnded,
    RunStarted,
    Said,
    SessionOpened,
    ToolResulted,
)
from windlass.messages import Message
from windlass.trace.build import Append, picture_of
from windlass.trace.html import page, to_iframe
from windlass.usage import Usage

pytestmark = [pytest.mark.deep, pytest.mark.skipif(find() is None, reason=INSTALL)]

TURNS = 200
VISIBLE = "[...document.querySelectorAll('.turn .row')].filter(r => r.checkVisibility()).length"
COUNT = "document.querySelectorAll('{}').length"


@pytest.fixture
async def browser(tmp_path: Path) -> AsyncIterator[Browser]:
    async with Browser.start(tmp_path / "profile") as started:
        yield started


@pytest.fixture
async def opened(browser: Browser, tmp_path: Path) -> Page:
    """The page of a run of 200 turns."""
    file = tmp_path / "run.html"
    file.write_text(page(picture_of("orders", long_session(TURNS))), "utf-8")
    return await browser.open(file)


async def keep(shown: Page, name: str) -> None:
    if folder := os.environ.get("WINDLASS_SCREENSHOTS"):
        await shown.screenshot(Path(folder) / f"{name}.png")


async def test_everything_is_there(opened: Page):
    assert await opened.run(COUNT.format(".turn")) == TURNS
    assert await opened.run(COUNT.format(".bar.model")) == TURNS
    assert await opened.run(COUNT.format(".bar.aside")) > 10
    assert await opened.run(COUNT.format(".bar.tool")) > TURNS
    assert await opened.run(COUNT.format(".bar.failed")) > 5
    assert await opened.run(COUNT.format(".dot")) > 30
    text = await opened.run("document.querySelector('main').textContent")
    assert "done_judge: continue" in text and "limit 200 -> 220 turns" in text
    assert "$" in text and "% cached" in text and "parked" in text
    costs = await opened.run(
        "[...document.querySelectorAll('.side span:nth-child(3)')].filter(s => s.textContent.startsWith('$')).length"
    )
    assert costs >= TURNS
    await keep(opened, "light")
    await opened.run("document.querySelector('.chart').scrollTo(0, 1e9)")
    await keep(opened, "light-end")


async def test_nothing_is_fetched_and_nothing_complains(opened: Page):
    await opened.run("document.querySelector('.bar').click()")
    await opened.drawn()
    assert opened.problems == []
    assert [url for url in opened.requested if not url.startswith("file:")] == []


async def test_light_and_dark(opened: Page):
    shade = "getComputedStyle(document.body).backgroundColor"
    light = await opened.run(shade)
    await opened.dress("dark")
    dark = await opened.run(shade)
    assert light != dark
    await keep(opened, "dark")
    await opened.run("[...document.querySelectorAll('.buttons button')].at(-1).click()")
    assert await opened.run(shade) == light  # the switch has the last word
    assert opened.problems == []


async def type_into_search(shown: Page, words: str) -> None:
    await shown.run(
        f"(() => {{ const s = document.querySelector('input[type=search]'); s.value = {words!r};"
        " s.dispatchEvent(new Event('input')); })()"
    )
    await shown.drawn()


async def test_filters(opened: Page):
    everything = await opened.run(COUNT.format(".turn .row:not(.hidden)"))
    await type_into_search(opened, "A-77 ")
    few = await opened.run(COUNT.format(".turn .row:not(.hidden)"))
    assert 0 < few < 10
    assert await opened.run(COUNT.format(".turn:not(.hidden)")) < 5
    assert "of" in await opened.run("document.querySelector('.shown').textContent")
    await opened.drawn()
    inside = "(b => b.left > 190 && b.right < 1090)(document.querySelector('.row:not(.hidden) .bar').getBoundingClientRect())"
    assert await opened.run(inside)  # the axis has gone to what was found
    await keep(opened, "search")
    await type_into_search(opened, "no such words anywhere")
    assert await opened.run(COUNT.format(".turn .row:not(.hidden)")) == 0
    assert await opened.run("document.querySelector('.chart > .nothing').checkVisibility()")
    await type_into_search(opened, "")
    choose = (
        "(() => {{ const s = document.querySelector('select[aria-label={}]'); s.value = {!r};"
        " s.dispatchEvent(new Event('change')); }})()"
    )
    await opened.run(choose.format("tool", "refund"))
    names = await opened.run(
        "[...new Set([...document.querySelectorAll('.turn .row:not(.hidden) .what')].map(n => n.textContent))]"
    )
    assert names == ["refund"]
    await opened.run(choose.format("tool", ""))
    await opened.run(choose.format("outcome", "error"))
    failed = await opened.run(COUNT.format(".turn .row:not(.hidden)"))
    assert failed == await opened.run(COUNT.format(".row:not(.hidden) .bar.failed"))
    await opened.run(choose.format("outcome", ""))
    await opened.run("document.querySelector('input[data-kind=decisions]').click()")
    assert await opened.run(COUNT.format(".row:not(.hidden) .dot")) == 0
    await opened.run("document.querySelector('input[data-kind=decisions]').click()")
    assert await opened.run(COUNT.format(".turn .row:not(.hidden)")) == everything
    assert opened.problems == []


async def test_zoom_pan_and_keys(opened: Page):
    where = "(() => { const b = document.querySelectorAll('.bar.model')[100].getBoundingClientRect(); return [b.left, b.width]; })()"
    await opened.key("0")
    left, width = await opened.run(where)
    for _ in range(6):
        await opened.key("+")
    nearer, wider = await opened.run(where)
    assert wider > 5 * width
    await opened.key("ArrowLeft")
    assert (await opened.run(where))[0] > nearer
    await opened.key("0")
    assert await opened.run(where) == pytest.approx([left, width], abs=1)
    await opened.run(
        "[...document.querySelectorAll('.no')].find(n => n.textContent === 'turn 2').click()"
    )
    await opened.drawn()
    second = "(() => { const b = document.querySelectorAll('.bar.model')[1].getBoundingClientRect(); return b.width; })()"
    assert await opened.run(second) > 100
    await opened.run("document.querySelector('.chart').scrollTo(0, 1e9)")
    await opened.drawn()
    await opened.drawn()
    seen = """[...document.querySelectorAll('.bar')].filter(bar => {
        const at = bar.getBoundingClientRect();
        return at.top > 200 && at.bottom < innerHeight && at.right > 200 && at.left < 1000;
    }).length"""
    assert await opened.run(seen) > 0  # the axis has followed
    await keep(opened, "followed")
    await opened.run("document.querySelector('.chart').scrollTo(0, 0)")
    await opened.key("0")
    await opened.key("ArrowDown")
    await opened.key("ArrowDown")
    assert await opened.run("document.activeElement.classList.contains('picked')")
    details = await opened.run("document.querySelector('aside.details').innerText")
    assert "journal entry" in details and "arguments" in details
    await opened.key("f")
    await keep(opened, "details")
    await opened.key("Escape")
    assert not await opened.run("document.querySelector('aside.details').checkVisibility()")
    await opened.key("/")
    assert await opened.run("document.activeElement.type") == "search"
    assert opened.problems == []


async def test_a_long_run_stays_smooth(opened: Page):
    """Sixty steps of zooming, each laid out: no stopwatch, but no step may be lost either."""
    steps = await opened.run(
        """(async () => {
          let steps = 0;
          const chart = document.querySelector('.chart');
          for (let n = 0; n < 60; n += 1) {
            chart.dispatchEvent(new WheelEvent('wheel', {deltaY: n < 30 ? -40 : 40, ctrlKey: true, clientX: 600, clientY: 400, bubbles: true, cancelable: true}));
            await new Promise(requestAnimationFrame);
            steps += document.querySelectorAll('.tick').length > 0;
          }
          return steps;
        })()"""
    )
    assert steps == 60 and opened.problems == []


async def test_hostile_content_is_only_text(opened: Page):
    assert await opened.run("window.owned === undefined && document.title.includes('orders')")
    assert await opened.run(COUNT.format("img, iframe, a, object")) == 0
    await type_into_search(opened, "onerror")
    await opened.run(
        "document.querySelector('.turn:not(.hidden) .row:not(.hidden) .track button').click()"
    )
    shown = await opened.run("document.querySelector('aside.details').textContent")
    assert HOSTILE[:20] in shown or "onerror" in shown
    assert await opened.run("window.owned === undefined")
    await keep(opened, "hostile")
    assert opened.problems == []


async def test_narrow_windows_and_print(browser: Browser, tmp_path: Path):
    file = tmp_path / "run.html"
    file.write_text(page(picture_of("orders", long_session(12))), "utf-8")
    shown = await browser.open(file, 420, 800)
    assert await shown.run("document.documentElement.scrollWidth <= innerWidth")
    await keep(shown, "narrow")
    await shown.send("Emulation.setEmulatedMedia", media="print")
    assert not await shown.run("document.querySelector('.tools').checkVisibility()")
    assert await shown.run(
        "document.querySelector('.chart').scrollHeight <= document.querySelector('.chart').clientHeight + 1"
    )
    pdf = await shown.send("Page.printToPDF", landscape=True, printBackground=True)
    assert len(pdf["data"]) > 5000


async def test_a_called_agent_keeps_to_the_axis(browser: Browser, tmp_path: Path):
    """Bars of a called agent lie within the bar of its call, however deep it is drawn."""
    rows = long_session(3)
    called = next(e for row in rows for e in row.entries if isinstance(e, ToolResulted))
    inner = [Append(row.at, row.entries) for row in long_session(1)]
    child = picture_of("orders.c", inner)
    file = tmp_path / "run.html"
    nested = picture_of("orders", rows, {called.call_id: [child]})
    call = next(bar for bar in nested.bars() if bar.children)
    for bar in call.children[0].bars():  # as long as the call itself
        bar.start, bar.end = call.start, call.end
    file.write_text(page(nested), "utf-8")
    shown = await browser.open(file)
    where = "(b => [b.left, b.right])({}.getBoundingClientRect())"
    outer = await shown.run(
        where.format(
            "document.querySelector('.child').previousElementSibling.querySelector('.bar')"
        )
    )
    inside = await shown.run(where.format("document.querySelector('.child .bar')"))
    assert inside == pytest.approx(outer, abs=1.5)
    await keep(shown, "nested")
    assert shown.problems == []


async def test_a_notebook_shows_it_in_its_frame(browser: Browser, tmp_path: Path):
    file = tmp_path / "notebook.html"
    frame = to_iframe(picture_of("orders", long_session(12)))
    file.write_text(f"<!doctype html><body><h2>Out[1]:</h2>{frame}</body>", "utf-8")
    shown = await browser.open(file)
    assert await shown.run("document.querySelector('iframe').contentDocument === null")
    await keep(shown, "notebook")
    assert shown.problems == []


def _quick_run(took_ms: float) -> list[Append]:
    at = 1_700_000_000.0
    started = RunStarted("r1", "agent", "local", "mock", "mock", "clerk")
    reply = Replied(
        Message("assistant", f"It is 3. {HOSTILE}"), Usage(5, 3), "end_turn", "mock", "mock", 1, ""
    )
    reply = msgspec.structs.replace(reply, duration_ms=took_ms)
    entries = [SessionOpened("quick"), started, Said(Message("user", "1 + 2?")), IterationStart(1)]
    return [Append(at, [*entries, reply, IterationEnd(1, "finish"), RunEnded("r1", "done")])]


@pytest.mark.parametrize("took_ms", [0.0, 0.04, 0.6])
async def test_quick_run_has_a_sane_axis_and_shows_its_answer(
    browser: Browser, tmp_path: Path, took_ms: float
):
    file = tmp_path / "run.html"
    file.write_text(page(picture_of("quick", _quick_run(took_ms))), "utf-8")
    shown = await browser.open(file)
    ticks = await shown.run(
        "[...document.querySelectorAll('.tick')].map(t => t.textContent).filter(t => t)"
    )
    assert len(ticks) > 2
    assert len(set(ticks)) == len(ticks)  # no two of them say the same
    assert ticks[0] == "0"
    assert all(tick.endswith(" ms") for tick in ticks[1:])
    answer = "document.querySelector('.answer pre')"
    assert await shown.run(f"{answer}.checkVisibility()")
    assert (await shown.run(f"{answer}.textContent")).startswith("It is 3.")
    assert shown.problems == []
    await keep(shown, f"quick-{took_ms}")
