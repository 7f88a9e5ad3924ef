"""Draw the pictures of the documentation: `python -m scripts.make_pictures`.

Writes docs/assets/: the turn and the layers as SVG for light and dark pages, and screenshots of the
trace page of a real run, which need a Chromium. `--only-svg` leaves the screenshots as they are.
"""

from __future__ import annotations

import argparse
import asyncio
import sys
import tempfile
from pathlib import Path
from typing import NamedTuple
from xml.sax.saxutils import escape

ROOT = Path(__file__).resolve().parents[1]
ASSETS = ROOT / "docs" / "assets"


class Scheme(NamedTuple):
    """The colours of a picture."""

    text: str
    quiet: str
    box: str
    edge: str
    strong: str
    on_strong: str
    store: str


SCHEMES = {
    "light": Scheme("#1f2933", "#52606d", "#f2f7f6", "#8fb3ae", "#00796b", "#ffffff", "#fff3d6"),
    "dark": Scheme("#e6edf3", "#9fb0bd", "#22302e", "#4d7a74", "#26a69a", "#06211e", "#3b3420"),
}
FONT = "system-ui, -apple-system, 'Segoe UI', Roboto, 'Noto Sans', sans-serif"


class Drawing:
    """An SVG that grows shape by shape."""

    def __init__(self, width: int, height: int, title: str, scheme: Scheme) -> None:
        self.scheme = scheme
        self._parts = [
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" '
            f'width="{width}" height="{height}" role="img" font-family="{FONT}">',
            f"<title>{escape(title)}</title>",
            '<defs><marker id="tip" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="7" '
            f'markerHeight="7" orient="auto"><path d="M0 0 8 4 0 8z" fill="{scheme.quiet}"/>'
            "</marker></defs>",
        ]

    def box(self, x: int, y: int, width: int, height: int, fill: str = "") -> None:
        """Draw a box with round corners."""
        self._parts.append(
            f'<rect x="{x}" y="{y}" width="{width}" height="{height}" rx="8" '
            f'fill="{fill or self.scheme.box}" stroke="{self.scheme.edge}"/>'
        )

    def text(
        self,
        x: int,
        y: int,
        words: str,
        *,
        size: int = 14,
        weight: int = 400,
        fill: str = "",
        anchor: str = "middle",
    ) -> None:
        """Write one line."""
        self._parts.append(
            f'<text x="{x}" y="{y}" font-size="{size}" font-weight="{weight}" '
            f'fill="{fill or self.scheme.text}" text-anchor="{anchor}">{escape(words)}</text>'
        )

    def arrow(self, path: str, *, dashed: bool = False) -> None:
        """Draw an arrow along a path."""
        dash = ' stroke-dasharray="4 4"' if dashed else ""
        self._parts.append(
            f'<path d="{path}" fill="none" stroke="{self.scheme.quiet}" stroke-width="1.6"'
            f'{dash} marker-end="url(#tip)"/>'
        )

    def finish(self) -> str:
        """Return the whole picture."""
        return "\n".join([*self._parts, "</svg>", ""])


STEPS = (
    ("open", "read the inbox,", "check the limits"),
    ("ask", "reserve the price,", "call the model"),
    ("check", "guardrails look", "at the reply"),
    ("gate", "permissions,", "approvals"),
    ("run", "the tools,", "side by side"),
    ("judge", "done, or", "one more turn?"),
)


def draw_turn(scheme: Scheme) -> str:
    """Draw one turn of the loop above the journal."""
    drawing = Drawing(900, 290, "One turn of the agent loop", scheme)
    width, gap, top, height = 130, 20, 70, 96
    for at, (name, *lines) in enumerate(STEPS):
        x = 10 + at * (width + gap)
        middle = x + width // 2
        drawing.box(x, top, width, height)
        drawing.text(middle, top + 30, name, size=17, weight=700, fill=scheme.strong)
        for row, line in enumerate(lines):
            drawing.text(middle, top + 56 + row * 19, line, size=13, fill=scheme.quiet)
        if at:
            drawing.arrow(f"M{x - gap} {top + height // 2}H{x - 2}")
        drawing.arrow(f"M{middle} {top + height}V{top + height + 42}", dashed=True)
    first, last = 10 + width // 2, 10 + 5 * (width + gap) + width // 2
    drawing.arrow(
        f"M{last} {top}V34Q{last} 26 {last - 8} 26H{first + 8}Q{first} 26 {first} 34V{top - 2}"
    )
    drawing.text((first + last) // 2, 18, "next turn", size=13, fill=scheme.quiet)
    drawing.box(10, 210, 880, 54, scheme.store)
    drawing.text(450, 233, "journal", size=16, weight=700)
    drawing.text(
        450,
        253,
        "each step is written before the next one starts; resume, trace and audit read it",
        size=13,
        fill=scheme.quiet,
    )
    return drawing.finish()


LAYERS = (
    ("processes", "command line · HTTP server · test kit", False),
    ("entry points", "Agent · agent_loop · llm_call · generate · Runtime · sessions", False),
    ("engine", "checks the options and builds the plan of a run", False),
    (
        "behaviour",
        "policies: approvals, judges, compaction, skills …  ·  callers: retry, fallback …",
        False,
    ),
    ("the loop", "turns, the gate before tool calls, budgets, resume: no features", True),
    ("outside world", "models · tools · stores · permissions · traces", False),
    ("data", "messages · events · errors · configuration · secrets", False),
)


def draw_layers(scheme: Scheme) -> str:
    """Draw the layers of the source."""
    drawing = Drawing(760, 40 + 62 * len(LAYERS), "Layers of Windlass", scheme)
    for at, (name, words, strong) in enumerate(LAYERS):
        y = 10 + at * 62
        drawing.box(10, y, 740, 50, scheme.strong if strong else "")
        fill = scheme.on_strong if strong else ""
        drawing.text(
            30, y + 31, name, size=16, weight=700, fill=fill or scheme.strong, anchor="start"
        )
        drawing.text(170, y + 31, words, size=14, fill=fill, anchor="start")
    bottom = 10 + 62 * len(LAYERS) + 12
    drawing.text(380, bottom, "a layer uses only the layers below it", size=13, fill=scheme.quiet)
    return drawing.finish()


def draw_all() -> dict[str, str]:
    """Draw every SVG; return their names and texts."""
    pictures = {"turn": draw_turn, "layers": draw_layers}
    return {
        f"{name}-{look}.svg": draw(scheme)
        for name, draw in pictures.items()
        for look, scheme in SCHEMES.items()
    }


async def photograph(work: Path) -> None:
    """Run a small agent, and save what a browser shows of its trace page."""
    from tests.browser.chromium import INSTALL, Browser, find

    if find() is None:
        sys.exit(f"the screenshots were not made: this {INSTALL}")
    page_file = await record(work)
    async with Browser.start(work / "profile") as browser:
        for look in SCHEMES:
            page = await browser.open(page_file, width=1200, height=430)
            await page.dress(look)
            await page.screenshot(ASSETS / f"trace-{look}.png")


async def record(work: Path) -> Path:
    """Run an agent with a tool that fails once, and write the trace page of its session."""
    import windlass as w
    from windlass.testing import call, scripted

    prices = {"kettle": 59.9, "cup": 4.5}

    @w.tool(side_effect_level="read_only")
    async def price(item: str) -> float:
        """Look up the price of an item in EUR."""
        await asyncio.sleep(0.12)
        if item not in prices:
            raise w.Retry(f"there is no {item!r}; we have {', '.join(prices)}")
        return prices[item]

    @w.tool
    async def order(item: str, count: int) -> str:
        """Order an item."""
        await asyncio.sleep(0.25)
        return f"ordered {count} of {item}"

    model = scripted(
        [call("price", item="ketle"), call("price", item="cup")],
        call("price", item="kettle"),
        call("order", item="kettle", count=1),
        "A kettle is 59.90 EUR, and it is ordered.",
        delay=0.3,
    )
    store = work / "shop.db"
    agent = w.Agent(
        model,
        system="You work in a small shop.",
        tools=[price, order],
        name="shop",
        store=f"sqlite:///{store}",
    )
    await agent.run("What is a kettle? Order one.", session_id="kettle")
    file = work / "trace.html"
    windlass = Path(sys.executable).with_name("windlass")
    command = (windlass, "trace", "kettle", "--store", store, "--html", file)
    child = await asyncio.create_subprocess_exec(*command, cwd=work)
    if await child.wait():
        sys.exit("windlass trace failed")
    return file


def main() -> None:
    """Write the pictures."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only-svg", action="store_true")
    given = parser.parse_args()
    for name, text in draw_all().items():
        (ASSETS / name).write_text(text, "utf-8")
    if not given.only_svg:
        with tempfile.TemporaryDirectory() as folder:
            asyncio.run(photograph(Path(folder)))


if __name__ == "__main__":
    main()
