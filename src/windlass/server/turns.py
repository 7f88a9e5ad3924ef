"""Turns that a client may send: a user's text, images and documents."""

from __future__ import annotations

import binascii
import ipaddress
import re
from base64 import b64decode
from collections.abc import Callable
from typing import Any, Final, TypeAlias

import msgspec

from windlass.access.addresses import Address, fits_url, parse_address
from windlass.engine.input import check_history, read_prompt
from windlass.errors import ConfigError, error_text
from windlass.messages import Block, Document, Image, Message, Text, ToolResult
from windlass.server.refusal import refuse

#: Which addresses of pictures and documents a client may send: globs, or fn(url) that answers True.
MediaUrls: TypeAlias = list[str] | tuple[str, ...] | Callable[[str], bool]
_MEDIA_TYPE: Final = re.compile(r"[a-z]+/[a-z0-9][a-z0-9.+-]{0,99}")
_NOT_PUBLIC: Final = ("localhost", "local", "internal", "intranet", "lan", "home", "corp", "arpa")


class TurnRules(msgspec.Struct, frozen=True, kw_only=True):
    """Rules for turns of a client: `TurnRules(media_urls=["https://cdn.example/*"])`."""

    client_history: bool = False
    """Turns of the assistant and of tools are taken as well, with what they hold."""
    media_urls: MediaUrls = ()
    max_messages: int = 200

    def __post_init__(self) -> None:
        given: Any = self.media_urls
        if not callable(given) and not isinstance(given, (list, tuple)):
            raise ConfigError("media_urls is a list of globs over addresses, or fn(url) -> bool")

    def check(self, given: object) -> None:
        """Refuse an input that holds anything else."""
        try:
            # what a client sends as a picture has rules of its own, below
            messages = check_history(read_prompt(given), None)
        except ConfigError as error:
            raise refuse(error_text(error)) from None
        if len(messages) > self.max_messages:
            raise refuse(f"input has at most {self.max_messages} messages here")
        for message in messages:
            self._check_message(message)

    def _check_message(self, message: Message) -> None:
        if message.role == "system":
            raise refuse("what the system says is the host's to say")
        if message.role != "user" and not self.client_history:
            raise refuse(f"input holds turns of the user here, none of role {message.role!r}")
        if not message.content:
            raise refuse("a turn in input says nothing")
        for block in message.content:
            self._check_block(block, message.role)

    def _check_block(self, block: Block, role: str) -> None:
        if isinstance(block, (Image, Document)):
            self._check_media(block)
        elif isinstance(block, ToolResult) and role == "tool":
            for part in () if isinstance(block.content, str) else block.content:
                self._check_block(part, role)
        elif not isinstance(block, Text) and (role == "user" or isinstance(block, ToolResult)):
            kind = type(block).__struct_config__.tag
            raise refuse(f"a turn of the {role} holds text, pictures and documents, no {kind}")

    def _check_media(self, block: Image | Document) -> None:
        what = "an image" if isinstance(block, Image) else "a document"
        if not _MEDIA_TYPE.fullmatch(block.media_type):
            raise refuse(f"the media_type of {what} is like 'image/png'")
        if isinstance(block, Image) and not block.media_type.startswith("image/"):
            raise refuse("the media_type of an image begins with 'image/'")
        if (block.data is None) == (block.url is None):
            raise refuse(f"{what} has either data or a url")
        if block.url is not None:
            check_url(block.url, self.media_urls, what)
        elif not _is_base64(block.data or ""):
            raise refuse(f"the data of {what} is base64")


def check_url(url: str, allowed: MediaUrls, what: str = "an image") -> None:
    """Refuse a URL that the host does not allow, or that is not on the public network.

    A provider fetches it, or a model server next door: `http://169.254.169.254/` is no picture.
    """
    refused = refuse(f"the address of {what} is not allowed here")
    if not allowed:
        raise refused
    try:
        address = parse_address(url)
    except ValueError:
        raise refused from None
    if address.scheme not in ("http", "https") or not address.plain or not _is_public(address):
        raise refused
    if callable(allowed):
        if allowed(url) is not True:
            raise refused
    elif not any([fits_url(pattern, address) for pattern in allowed]):
        raise refused


def _is_public(address: Address) -> bool:
    """Check whether a host is public, by name or address."""
    try:
        number = ipaddress.ip_address(address.host)
    except ValueError:
        labels = address.host.split(".")
        return len(labels) > 1 and labels[-1] not in _NOT_PUBLIC
    # 6to4, Teredo and the reserved blocks carry an IPv4 address that a gateway would connect to.
    embedded = getattr(number, "sixtofour", None) or getattr(number, "teredo", None)
    return number.is_global and not (number.is_multicast or number.is_reserved or embedded)


def _is_base64(data: str) -> bool:
    try:
        return bool(b64decode(data, validate=True))
    except (binascii.Error, ValueError):
        return False
