"""The output of a command: its beginning and its end, in bounded memory."""

from __future__ import annotations

import codecs
from collections import deque
from collections.abc import Callable
from typing import Final

HEAD: Final = 16_000  # characters that are kept of the beginning
TAIL: Final = 16_000  # and of the end
SHOWN: Final = 200_000  # characters that are streamed as progress


class CappedOutput:
    """What a command wrote, for the model: the head, the tail, and how much lies between."""

    def __init__(
        self, show: Callable[[str], None] | None = None, *, head: int = HEAD, tail: int = TAIL
    ) -> None:
        self._decode = codecs.getincrementaldecoder("utf-8")("replace").decode
        self._show, self._head_limit, self._tail_limit = show, head, tail
        self._head = ""
        self._tail: deque[str] = deque()
        self._in_tail = 0
        self.total = 0

    def hear(self, piece: bytes) -> None:
        """Take the next bytes."""
        self._add(self._decode(piece))

    def end(self) -> None:
        """Take what was left of an incomplete character."""
        self._add(self._decode(b"", True))

    def _add(self, text: str) -> None:
        if not text:
            return
        before, self.total = self.total, self.total + len(text)
        if self._show is not None and before < SHOWN:
            self._show(text[: SHOWN - before])
        room = self._head_limit - len(self._head)
        if room > 0:
            self._head += text[:room]
            text = text[room:]
        if not text:
            return
        self._tail.append(text)
        self._in_tail += len(text)
        while self._in_tail - len(self._tail[0]) >= self._tail_limit:
            self._in_tail -= len(self._tail.popleft())

    @property
    def text(self) -> str:
        """The output, with a note where something is left out."""
        tail = "".join(self._tail)
        kept = tail[-self._tail_limit :] if self._tail_limit else ""
        left_out = self.total - len(self._head) - len(kept)
        if not left_out:
            return self._head + kept
        return f"{self._head}\n[… {left_out:,} characters left out …]\n{kept}"

    def since(self, position: int) -> str:
        """Return what was written after so many characters, as far as it is kept."""
        if position >= self.total:
            return ""
        if position <= 0:
            return self.text
        if position < len(self._head):
            rest = self._head[position:]
            position = len(self._head)
        else:
            rest = ""
        tail = "".join(self._tail)
        begins = self.total - len(tail)
        left_out = max(0, begins - position)
        note = f"\n[… {left_out:,} characters left out …]\n" if left_out else ""
        return rest + note + tail[max(0, position - begins) :]
