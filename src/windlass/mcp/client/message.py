"""Messages of a server that are too large or wrong: each becomes the error of its request."""

from __future__ import annotations

import re
from types import TracebackType
from typing import Final

import mcp_types as types
from mcp.client._transport import ReadStream
from mcp.shared.message import SessionMessage

from windlass.json_types import is_list

MOST_BYTES: Final = 16 << 20  # of one message
MOST_PARTS: Final = 10_000  # of one list in an answer; each takes its time on the event loop
_ID: Final = re.compile(rb'"id"\s*:\s*(\d{1,15}|"[^"\\]{1,64}")\s*[,}]')


def refuse_bytes(words: str, head: bytes, tail: bytes = b"") -> SessionMessage | Exception:
    """Build the error of the request that these bytes answer, if they say which."""
    found = _ID.search(head) or _ID.search(tail)
    if found is None:
        return ValueError(words)
    number = found[1].decode(errors="replace")
    return _refuse(number.strip('"') if number.startswith('"') else int(number), words)


def limit_parts(message: SessionMessage | Exception) -> SessionMessage | Exception:
    """Return the message, or an error for an answer with a list that is too long."""
    if isinstance(message, SessionMessage) and isinstance(message.message, types.JSONRPCResponse):
        answer = message.message
        for name, value in answer.result.items():
            if is_list(value) and len(value) > MOST_PARTS:
                words = f"its answer has more than {MOST_PARTS:,} parts ({name}: {len(value):,})"
                return _refuse(answer.id, words)
    return message


def _refuse(number: int | str, words: str) -> SessionMessage:
    error = types.ErrorData(code=types.INTERNAL_ERROR, message=words)
    return SessionMessage(types.JSONRPCError(jsonrpc="2.0", id=number, error=error))


class LimitedStream:
    """The messages of a transport of the SDK, with long lists refused."""

    def __init__(self, inner: ReadStream[SessionMessage | Exception]) -> None:
        self._inner = inner

    @property
    def last_context(self) -> object:
        """The context of the sender, where the transport knows it."""
        return getattr(self._inner, "last_context", None)

    async def receive(self) -> SessionMessage | Exception:
        """Receive a message."""
        return limit_parts(await self._inner.receive())

    async def aclose(self) -> None:
        """Close the stream."""
        await self._inner.aclose()

    def __aiter__(self) -> LimitedStream:
        return self

    async def __anext__(self) -> SessionMessage | Exception:
        return limit_parts(await self._inner.__anext__())

    async def __aenter__(self) -> LimitedStream:
        await self._inner.__aenter__()
        return self

    async def __aexit__(
        self,
        exc_type: type[BaseException] | None,
        exc_val: BaseException | None,
        exc_tb: TracebackType | None,
    ) -> bool | None:
        return await self._inner.__aexit__(exc_type, exc_val, exc_tb)
