"""`fetch_url` on hostile addresses and pages: nothing that is not public or allowed is contacted."""

from __future__ import annotations

import socket
from pathlib import Path

import pytest
from aiohttp.abc import ResolveResult

from tests.toolbox.hostile_addresses import (
    PRIVATE,
    PUBLIC,
    PUBLIC_V6,
    Hostile,
    build_tools,
    fetch_page,
    serve_network,
    try_all,
)
from windlass.errors import ConfigError
from windlass.toolbox.fetch import client as client_module
from windlass.toolbox.fetch.address_rules import is_public, parse_ip
from windlass.toolbox.fetch.client import FetchClient, FetchFailed
from windlass.toolbox.fetch.html_text import convert_html
from windlass.toolbox.fetch.tool import FetchTools
from windlass.toolbox.options import Fetch


async def test_fetch_url_contacts_no_refused_address(tmp_path: Path):
    count, wrong = await try_all(tmp_path)
    assert wrong == [] and count >= 200


@pytest.mark.parametrize(
    ("attempt", "contacted"),
    [
        (Hostile("host", "http://public.example/"), [PUBLIC]),
        (Hostile("literal", f"http://{PUBLIC}/x?y=1#z"), [PUBLIC]),
        (Hostile("v6", f"http://[{PUBLIC_V6}]/"), [PUBLIC_V6]),
        (
            Hostile("v6 host", "http://six.example/", {"six.example": [[PUBLIC_V6]]}),
            [PUBLIC_V6],
        ),
        (
            Hostile(
                "redirect",
                "http://a.example/",
                {"a.example": [[PUBLIC_V6]]},
                {"a.example": "http://public.example/b"},
            ),
            [PUBLIC_V6, PUBLIC],
        ),
        (
            Hostile(
                "loopback", "http://localhost:8000/", options=Fetch(private=("localhost:8000",))
            ),
            ["127.0.0.1"],
        ),
        (
            Hostile("network", "http://10.1.2.3/", options=Fetch(private=("10.0.0.0/8",))),
            ["10.1.2.3"],
        ),
        (
            Hostile("address", "http://[::1]:81/", options=Fetch(private=("::1",))),
            ["::1"],
        ),
        (
            Hostile("listed", "http://ＰＵＢＬＩＣ.example/", options=Fetch(hosts=("*.example",))),
            [PUBLIC],
        ),
    ],
    ids=lambda one: one.name if isinstance(one, Hostile) else "",
)
async def test_fetch_url_contacts_what_is_public_or_allowed(
    tmp_path: Path, attempt: Hostile, contacted: list[str]
):
    async with serve_network(tmp_path) as network:
        network.begin(attempt)
        page = await fetch_page(build_tools(network, attempt.options), attempt.url)
    assert network.contacted == contacted and page.data == b"<p>Hello!"


async def test_fetch_url_opens_no_socket_for_an_address_that_was_never_resolved(tmp_path: Path):
    # The last of the checks alone: it stands whatever the others let through.
    async with serve_network(tmp_path) as network:
        network.begin(Hostile("", "http://evil.example/", {"evil.example": [["127.0.0.1"]]}))
        tools = build_tools(network, Fetch())
        client: FetchClient = tools._client  # pyright: ignore[reportPrivateUsage]
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr("windlass.toolbox.fetch.client._CheckedResolver", _Unchecked)
            with pytest.raises(FetchFailed, match="not a public address"):
                await client.fetch("http://evil.example/")
    assert network.contacted == []


class _Unchecked(client_module._CheckedResolver):  # pyright: ignore[reportPrivateUsage]
    """A resolver that passes on whatever it finds."""

    async def resolve(
        self, host: str, port: int = 0, family: socket.AddressFamily = socket.AF_INET
    ) -> list[ResolveResult]:
        found = await self._client.lookup(host, port)
        build = client_module._as_result  # pyright: ignore[reportPrivateUsage]
        return [build(host, one, port) for one in found]


def test_addresses_that_are_not_public_are_known_as_such():
    assert [one for one in PRIVATE if is_public(parse_ip(one))] == []
    public = [PUBLIC, PUBLIC_V6, "1.1.1.1", "8.8.8.8", "64:ff9b::808:808", "2a00:1450::1"]
    assert [one for one in public if not is_public(parse_ip(one))] == []


@pytest.mark.parametrize(
    "options",
    [
        Fetch(hosts=("https://a.example/",)),
        Fetch(private=("10.0.0.0/99",)),
        Fetch(private=("a b",)),
        Fetch(hosts=("user@a.example",)),
    ],
)
def test_fetch_rules_that_are_none_are_refused(options: Fetch):
    with pytest.raises(ConfigError, match="fetch"):
        FetchTools(options)


@pytest.mark.parametrize(
    "page",
    [
        "<a href=x>" * 50_000,
        "<a '>" * 50_000,
        '<a "' * 62_000,
        "<" * 250_000,
        "<!--" * 62_000,
        "<!" * 125_000,
        "</" * 125_000,
        "</a" * 75_000,
        "<script>" * 25_000,
        "<div>" * 50_000 + "</div>" * 37_000,
        "<p hidden>" * 25_000,
        "&#" + "9" * 250_000 + ";",
        "&" * 250_000,
        "<a " + "b" * 250_000,
        "<pre>" * 25_000 + "<a href=y>x</a>" * 12_000,
    ],
    ids=lambda page: page[:12],
)
def test_hostile_pages_are_converted_in_linear_time(page: str):
    # In quadratic time each would take minutes, which the time limit of a test ends.
    title, text = convert_html(page, "http://a.example/")
    assert title == "" and len(text) < 1_000_000
