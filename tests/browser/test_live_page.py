"""The page of a run under way in a real browser: it loads its next version, and its reader loses nothing.

Screenshots go to the folder that WINDLASS_SCREENSHOTS names, for somebody to look at.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.browser.chromium import INSTALL, Browser, Page, find
from tests.browser.session import long_session
from windlass.events import Noted, ToolIntended
from windlass.trace.build import Append, picture_of
from windlass.trace.html import page
from windlass.trace.model import Picture
from windlass.trace.progress import label_unended

pytestmark = [pytest.mark.deep, pytest.mark.skipif(find() is None, reason=INSTALL)]
PATIENCE = 60  # seconds; only a broken page makes a test wait for it
SCROLLED = "document.querySelector('.chart').scrollTop"
DETAILS = "document.querySelector('aside.details')"


@pytest.fixture
async def browser(tmp_path: Path) -> AsyncIterator[Browser]:
    async with Browser.start(tmp_path / "profile") as started:
        yield started


def running(turns: int) -> Picture:
    """A run of so many turns that goes on, with steps as a workflow has them."""
    rows = long_session(turns)
    last = rows[-1]
    steps = [
        Noted("workflow_step_begun", {"number": 1, "name": "plan", "kind": "stage"}),
        Noted("workflow_step_ended", {"number": 1, "name": "plan", "status": "done"}),
        Noted("workflow_step_begun", {"number": 2, "name": "pay", "kind": "stage"}),
        ToolIntended("w.2", "pay", "keyed"),
    ]
    kept = [entry for entry in last.entries if type(entry).__name__ != "RunEnded"]
    picture = picture_of("orders", [*rows[:-1], Append(last.at, [*kept, *steps])])
    label_unended(picture, alive=True, now=last.at + 3)
    return picture


async def reload(shown: Page) -> None:
    """Wait until the page has loaded itself again."""
    shown.loaded.clear()
    await asyncio.wait_for(shown.loaded.wait(), PATIENCE)
    await shown.drawn()


async def keep(shown: Page, name: str) -> None:
    if folder := os.environ.get("WINDLASS_SCREENSHOTS"):
        await shown.screenshot(Path(folder) / f"{name}.png")


async def test_live_page_loads_the_next_version_and_keeps_what_its_reader_does(
    browser: Browser, tmp_path: Path
):
    file = tmp_path / "run.html"
    file.write_text(page(running(30), live=1.0), "utf-8")
    shown = await browser.open(file)
    assert await shown.run("document.querySelector('.status.live').textContent") == "live"
    steps = "[...document.querySelectorAll('.step')].map(s => [s.className, s.textContent])"
    assert await shown.run(steps) == [
        ["step done", "plan stage · done"],
        ["step running", "pay stage · running"],
    ]
    await shown.run("document.querySelectorAll('.bar.tool')[10].click()")
    await shown.run("document.querySelector('input[data-kind=decisions]').click()")
    await shown.run("document.querySelector('.chart').scrollTo(0, 300)")
    await shown.run(
        "(() => { const s = document.querySelector('input[type=search]'); s.focus(); s.value = 'e';"
        " s.dispatchEvent(new Event('input')); s.setSelectionRange(1, 1); })()"
    )
    told = await shown.run(f"{DETAILS}.textContent")
    await keep(shown, "live-before")

    file.write_text(page(running(34), live=2.0), "utf-8")
    await reload(shown)
    while await shown.run("document.querySelectorAll('.turn').length") < 34:
        await reload(shown)
    assert await shown.run(SCROLLED) == pytest.approx(300, abs=2)
    assert await shown.run(f"{DETAILS}.checkVisibility() && {DETAILS}.textContent") == told
    assert await shown.run("document.querySelector('.picked') !== null")
    assert not await shown.run("document.querySelector('input[data-kind=decisions]').checked")
    assert (
        await shown.run("document.activeElement.type + document.activeElement.value") == "searche"
    )
    await keep(shown, "live-after")

    rows = long_session(36)
    file.write_text(page(picture_of("orders", rows)), "utf-8")
    await reload(shown)
    while await shown.run("document.querySelector('.status.live') !== null"):
        await reload(shown)
    assert await shown.run(SCROLLED) == pytest.approx(300, abs=2)
    assert await shown.run("history.state") is None
    # hours in which it would have loaded itself again
    shown.loaded.clear()
    await shown.send("Emulation.setVirtualTimePolicy", policy="advance", budget=3_600_000)
    await shown.run("1 + 1")
    assert not shown.loaded.is_set()
    assert shown.problems == []
    assert [url for url in shown.requested if not url.startswith("file:")] == []


async def test_live_page_follows_the_newest_turn_where_its_reader_is_at_the_end(
    browser: Browser, tmp_path: Path
):
    file = tmp_path / "run.html"
    file.write_text(page(running(30), live=1.0), "utf-8")
    shown = await browser.open(file)
    await shown.run("document.querySelector('.chart').scrollTo(0, 1e9)")
    await shown.drawn()
    await shown.run("document.querySelector('.chart').scrollTo(0, 1e9)")
    file.write_text(page(running(34), live=2.0), "utf-8")
    await reload(shown)
    left = "(c => c.scrollHeight - c.clientHeight - c.scrollTop)(document.querySelector('.chart'))"
    assert await shown.run(left) < 60
    assert shown.problems == []


async def test_live_page_stops_when_nobody_writes_it_any_more(browser: Browser, tmp_path: Path):
    file = tmp_path / "run.html"
    file.write_text(page(running(3), live=1.0), "utf-8")
    shown = await browser.open(file)
    await reload(shown)
    # as it is a minute later
    await shown.run("(() => { const now = Date.now; Date.now = () => now() + 61000; })()")
    text = "document.querySelector('.status.live').textContent"
    async with asyncio.timeout(PATIENCE):
        while await shown.run(text) != "no longer updated":
            await shown.drawn()
    await keep(shown, "live-stale")
    assert shown.problems == []
