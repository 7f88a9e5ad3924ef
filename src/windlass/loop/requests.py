"""The requests of a session, rebuilt from its journal alone: no policy runs, no tool is needed.

Each reply on the record says what it answered: how much of the view, which frame, which tail, and
the rewritten messages where the view was not what was sent.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from windlass.errors import Corrupt
from windlass.events import Framed, JournalEntry, Replied
from windlass.loop.plan import frame_of
from windlass.messages import Message
from windlass.models.base import Frame, Request
from windlass.store.view import ViewFold


def requests_of(entries: Iterable[JournalEntry]) -> list[Request]:
    """Return the request of every recorded reply, oldest first; policies' own calls too.

    ```python
    requests = requests_of(await store.read("s1"))
    ```
    """
    fold = ViewFold()
    frames: dict[str, Frame] = {}
    requests: list[Request] = []
    sent: tuple[Message, ...] = ()  # the last request of the loop that was not the view
    for entry in entries:
        if type(entry) is Framed:
            frames[entry.digest] = frame_of(entry)
        elif type(entry) is Replied:
            request = _request(entry, fold, frames, sent)
            requests.append(request)
            if entry.rewritten is not None and entry.purpose is None:
                sent = tuple(request.messages)
        fold.apply(entry)
    return requests


def last_frame(entries: Sequence[JournalEntry]) -> Framed | None:
    """Find the frame that the model itself was asked with last; a judge's is another."""
    frames = {entry.digest: entry for entry in entries if type(entry) is Framed}
    for entry in reversed(entries):
        if type(entry) is Replied and entry.purpose is None and entry.frame in frames:
            return frames[entry.frame]
    return next(reversed(frames.values()), None)


def _request(
    reply: Replied, fold: ViewFold, frames: dict[str, Frame], sent: tuple[Message, ...]
) -> Request:
    frame = frames.get(reply.frame)
    if frame is None:
        raise Corrupt(
            f"a reply answers a request with frame {reply.frame!r}, which is not on record"
        )
    if reply.rewritten is not None:
        if reply.same > len(sent):
            raise Corrupt(f"a reply answers {reply.same} messages sent before, of {len(sent)}")
        return Request((*sent[: reply.same], *reply.rewritten), frame, reply.tail)
    if reply.position > len(fold.messages):
        raise Corrupt(
            f"a reply answers {reply.position} messages, and the view has {len(fold.messages)}"
        )
    return Request(tuple(fold.messages[: reply.position]), frame, reply.tail)
