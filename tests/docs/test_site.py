"""The site builds without the network, has every public name and option, and no link leads nowhere."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

import pytest

import windlass
from tests.browser.chromium import INSTALL, Browser, find
from tests.docs.pages import ROOT
from windlass import testing
from windlass.options.index import GROUPS

pytestmark = pytest.mark.deep

MKDOCS = Path(sys.executable).with_name("mkdocs")
# Loaded by the browser as soon as the page is; a plain link to another site is not.
LOADING = {"script": "src", "img": "src", "link": "href", "iframe": "src", "source": "src"}


class Html(HTMLParser):
    """The links, the loaded files and the anchors of one page."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.links: list[str] = []
        self.loaded: list[str] = []
        self.anchors: set[str] = set()
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = dict(attrs)
        self.anchors |= {value for name in ("id", "name") if (value := given.get(name))}
        if tag == "a" and (link := given.get("href")):
            self.links.append(link)
        if tag in LOADING and (link := given.get(LOADING[tag])):
            self.loaded.append(link)


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    if not MKDOCS.exists():
        pytest.skip("needs mkdocs: make docs")
    folder = tmp_path_factory.mktemp("docs") / "site"
    # A proxy that nobody listens at: whatever wants the network fails.
    nowhere = dict.fromkeys(("http_proxy", "https_proxy", "HTTPS_PROXY"), "http://127.0.0.1:9")
    done = subprocess.run(
        [MKDOCS, "build", "--strict", "--site-dir", folder],
        cwd=ROOT,
        env={**os.environ, **nowhere, "NO_MKDOCS_2_WARNING": "1"},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=300,
    )
    assert done.returncode == 0, done.stdout
    yield folder


@pytest.fixture(scope="module")
def html(site: Path) -> dict[Path, Html]:
    return {path: Html(path.read_text("utf-8")) for path in sorted(site.rglob("*.html"))}


def test_the_reference_has_every_public_name(site: Path, html: dict[Path, Html]):
    anchors = {
        anchor
        for path, page in html.items()
        if path.parent == site / "reference" / "api"
        for anchor in page.anchors
    }
    names = {name for group in windlass._HOMES.values() for name in group}
    assert len(names) > 200
    shown = {anchor.rpartition(".")[2] for anchor in anchors if anchor.startswith("windlass.")}
    assert sorted((names | set(testing.__all__)) - shown) == []


def test_the_reference_has_every_option(site: Path):
    text = (site / "reference" / "options.html").read_text("utf-8")
    shown = set(re.findall(r"<code>(\w+)</code>", text))
    assert len(GROUPS) > 20
    declared = re.findall(
        r"^\| (`[^|]+`) \|", (ROOT / "docs/reference/options.md").read_text(), re.M
    )
    names = {name for cell in declared for name in re.findall(r"`(\w+)`", cell)}
    assert len(names) > 100 and names - shown == set()


def test_every_link_of_the_site_leads_somewhere(site: Path, html: dict[Path, Html]):
    broken: list[str] = []
    assert len(html) > 50
    for path, page in html.items():
        for link in [*page.links, *page.loaded]:
            parts = urlsplit(link)
            if parts.scheme or parts.netloc:
                continue
            target = path
            if parts.path:
                base = site if parts.path.startswith("/") else path.parent
                target = Path(os.path.normpath(base / unquote(parts.path).lstrip("/")))
            anchor = unquote(parts.fragment)
            missing = not target.exists()
            if target in html and anchor and anchor not in html[target].anchors:
                missing = anchor not in ("__search", "__drawer", "__toc")
            if missing:
                broken.append(f"{path.relative_to(site)}: {link}")
    assert broken == []


def test_nothing_is_loaded_from_the_network(site: Path, html: dict[Path, Html]):
    for path, page in html.items():
        for link in page.loaded:
            assert not urlsplit(link).netloc, f"{path.relative_to(site)}: {link}"
    for sheet in site.rglob("*.css"):
        assert not re.search(r"url\(\s*[\"']?(https?:)?//|@import", sheet.read_text("utf-8"))


@pytest.mark.skipif(find() is None, reason=INSTALL)
async def test_the_search_works_from_a_folder(site: Path, tmp_path: Path):
    async with Browser.start(tmp_path / "profile") as browser:
        for width, scheme in ((1280, "light"), (390, "dark")):
            page = await browser.open(site / "index.html", width=width)
            await page.dress(scheme)
            found = await page.run(SEARCH % "guardrail")
            assert any("glossary" in link for link in found), found
            assert await page.run(OVERFLOW_AT_REST) <= 0
            assert page.problems == []
            assert [link for link in page.requested if urlsplit(link).netloc] == []


# How much wider the page is than its window, once the panel of the search has opened.
OVERFLOW_AT_REST = """
Promise.allSettled(document.getAnimations().map(one => one.finished)).then(() =>
  document.documentElement.scrollWidth - document.documentElement.clientWidth)
"""

# Types a word into the search field until the search is ready, and returns the links of the results.
SEARCH = """
new Promise((resolve, reject) => {
  const field = document.querySelector("input[data-md-component=search-query]");
  document.querySelector("[for=__search]").click();
  field.focus();
  field.value = "%s";
  let left = 200;
  const look = () => {
    field.dispatchEvent(new KeyboardEvent("keyup", {bubbles: true}));
    const links = [...document.querySelectorAll(".md-search-result__link")].map(a => a.href);
    if (links.length) resolve(links);
    else if (left-- > 0) setTimeout(look, 100);
    else reject(new Error(document.querySelector(".md-search-result").innerText));
  };
  look();
})
"""
