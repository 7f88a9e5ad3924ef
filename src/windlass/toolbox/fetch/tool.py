"""The tool `fetch_url`: a web page as text, from public addresses alone unless more is allowed."""

from __future__ import annotations

import asyncio
import codecs
import re
from typing import Annotated, Any, Final

import msgspec

from windlass.messages import ToolResult
from windlass.toolbox.fetch.address_rules import build_rules, check_patterns
from windlass.toolbox.fetch.client import (
    FetchClient,
    FetchedPage,
    FetchFailed,
    Lookup,
    OpenSocket,
    look_up,
    open_socket,
)
from windlass.toolbox.fetch.html_text import convert_html
from windlass.toolbox.options import Fetch
from windlass.tools.function import FunctionTool
from windlass.tools.result import refusal
from windlass.tools.roles import Content, Target
from windlass.tools.tool import Tool, ToolContext

MOST_CHARACTERS: Final = 50_000  # of a page in one result
_META: Final = re.compile(rb"""<meta[^>]{0,200}?charset\s{0,9}=\s{0,9}["']?([\w.:-]{1,40})""", re.I)
_MARKS: Final = ((codecs.BOM_UTF8, "utf-8"), (b"\xff\xfe", "utf-16-le"), (b"\xfe\xff", "utf-16-be"))
#: Codecs of Python that are no charset of a page, or take long.
_NO_CHARSET: Final = frozenset(
    {
        "idna",
        "punycode",
        "unicode-escape",
        "raw-unicode-escape",
        "undefined",
        "utf-7",
        "mbcs",
        "oem",
    }
)
_TEXTS: Final = ("json", "xml", "javascript", "ecmascript", "yaml", "toml", "x-www-form-urlencoded")

Start = Annotated[int, msgspec.Meta(ge=0)]
Length = Annotated[int, msgspec.Meta(ge=1, le=MOST_CHARACTERS)]


class FetchTools:
    """The tool of one agent. The resolver and the sockets may be others, for tests."""

    def __init__(
        self, options: Fetch, *, lookup: Lookup = look_up, sockets: OpenSocket = open_socket
    ) -> None:
        check_patterns("fetch.hosts", options.hosts or ())
        check_patterns("fetch.private", options.private)
        self._client = FetchClient(
            rules=build_rules(options.hosts, options.private),
            max_bytes=options.max_bytes,
            max_redirects=options.max_redirects,
            timeout=options.timeout,
            lookup=lookup,
            open_socket=sockets,
        )

    def build(self) -> dict[str, Tool]:
        """Return the tool, by name."""
        tool = FunctionTool(
            self.fetch_url,
            name="fetch_url",
            kind="fetch",
            side_effect_level="network",
            # An address can carry to its host whatever the model has read.
            annotations={"result": "untrusted", "sends_out": True},
            timeout=self._client.timeout + 30,
            preview=_preview,
        )
        return {tool.name: tool}

    async def fetch_url(
        self,
        ctx: ToolContext[Any],
        url: Annotated[str, Target, "an http or https address"],
        offset: Annotated[Start, Content, "the first character to show, counted from 0"] = 0,
        limit: Annotated[Length, Content, "how many characters to show"] = MOST_CHARACTERS,
    ) -> ToolResult | str:
        """Fetch a web page and return it as text; HTML becomes Markdown."""
        try:
            page = await self._client.fetch(url, lambda to: ctx.progress({"redirect": to}))
            text = await asyncio.to_thread(_render, page, offset, limit)
        except FetchFailed as error:
            return refusal(str(error))
        return refusal(text) if page.status >= 400 else text


def _render(page: FetchedPage, offset: int, limit: int) -> str:
    kind = page.content_type.partition(";")[0].strip().lower()
    size = f"over {len(page.data):,}" if page.is_cut else f"{len(page.data):,}"
    head = [f"{page.url} ({page.status}, {kind or 'no content type'}, {size} bytes)"]
    if page.redirects:
        head.append(f"redirected from {', '.join(page.redirects)}")
    if not _is_text(kind, page.data):
        raise FetchFailed(f"{head[0]} is no text")
    text = _decode(page)
    if "html" in kind or (not kind and "<html" in text[:1000].lower()):
        title, text = convert_html(text, page.url)
        if title:
            head.append(f"title: {title[:500]}")
    shown = text[offset : offset + limit]
    if offset and not shown:
        raise FetchFailed(f"{page.url} has {len(text):,} characters of text; offset is {offset:,}")
    rest = len(text) - offset - len(shown)
    if rest > 0:
        head.append(f"{rest:,} more characters; read on with offset={offset + len(shown)}")
    if page.is_cut:
        head.append(f"the page is longer than {len(page.data):,} bytes; the rest was not read")
    return "\n".join(head) + f"\n\n{shown}"


def _is_text(kind: str, data: bytes) -> bool:
    if kind.startswith("text/") or any([one in kind for one in _TEXTS]):
        return True
    return kind in ("", "application/octet-stream") and b"\0" not in data[:8192]


def _decode(page: FetchedPage) -> str:
    for mark, name in _MARKS:
        if page.data.startswith(mark):
            return page.data[len(mark) :].decode(name, errors="replace")
    said = re.search(r"charset\s{0,9}=\s{0,9}[\"']?([\w.:-]{1,40})", page.content_type, re.I)
    meta = _META.search(page.data[:2048])
    named = said[1] if said else meta[1].decode("ascii", "replace") if meta else "utf-8"
    return page.data.decode(_find_codec(named), errors="replace")


def _find_codec(name: str) -> str:
    """Return the codec for a charset; UTF-8 for one that is unknown."""
    try:
        found = codecs.lookup(name).name
        if found.replace("_", "-") in _NO_CHARSET:
            return "utf-8"
        b"x".decode(found, errors="replace")  # LookupError for what is no text encoding
    except (LookupError, ValueError):
        return "utf-8"
    return found


def _preview(args: dict[str, object]) -> str:
    return f"would fetch {args.get('url')}"


def build_fetch_tools(options: Fetch) -> dict[str, Tool]:
    """Build `fetch_url` for an agent, by name; `ConfigError` for rules that are none."""
    return FetchTools(options).build()
