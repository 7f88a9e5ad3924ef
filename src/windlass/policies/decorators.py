"""Messages shown with an addition: a time, or what a function of yours makes of each.

A message is decorated once, when it is first shown, and the answer is on the record: the prompt's
beginning stays the same from turn to turn, and a resumed run asks nobody again. What is stored is
the message as it was.
"""

from __future__ import annotations

import inspect
from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from datetime import UTC, datetime
from typing import Annotated, Any, ClassVar, Final, cast

import msgspec

from windlass.errors import ConfigError, NoSuchSession, nearest
from windlass.events import Decorated, JournalEntry, Reshaped
from windlass.events.policy import MadeUp
from windlass.loop.plan import digest_of
from windlass.loop.policy import Policy
from windlass.loop.run import Run
from windlass.messages import Block, Message, Opaque, Text, Thinking, ToolCall, ToolResult
from windlass.models.base import Request, Strand, View
from windlass.options.checks import boolean, function
from windlass.options.group import Option, OptionGroup
from windlass.policies.build import BuildContext, Policies
from windlass.policies.view_rewrite import lend, message_in
from windlass.store.base import Row
from windlass.store.view import ViewFold

WHO: Final = "message_decorator"


class DecorationContext(msgspec.Struct, frozen=True, gc=False):
    """The second argument of `message_decorator(message, context)`: session, turn and time."""

    session_id: str
    iteration: int  # in which it is first shown, counted from 0
    index: int  # its place among the messages of that request
    timestamp: str  # its own time: "2026-11-15T11:20:00Z"

    def __getattr__(self, name: str) -> Any:
        raise AttributeError(
            f"the context of a message has no {name!r}{nearest(name, self.__struct_fields__)}"
        )


Decorator = Callable[[Message, DecorationContext], Any | Awaitable[Any]]


class DecoratorOptions(OptionGroup, frozen=True, kw_only=True):
    """Decorated messages and timestamps."""

    message_decorator: Annotated[
        Decorator | None, Option(function, accepts="Callable[..., Any] | None")
    ] = None
    """A function that returns each message as the model sees it."""
    timestamp_messages: Annotated[bool, Option(boolean)] = False
    """Whether messages are shown with their time."""


def build(ctx: BuildContext) -> Policies:
    """Build the policy that decorates messages."""
    options = DecoratorOptions.read(ctx.values)
    if options.message_decorator is None and not options.timestamp_messages:
        return ()
    return (Decorating(options.message_decorator, timestamps=options.timestamp_messages),)


class MessageRecord(msgspec.Struct, gc=False):
    """The known facts of one message of the view."""

    source: Message
    time: float | None = None  # of its row in the store, or of the request that first showed it
    asked: bool = False
    answer: Message | None = None  # of the function; None: it is shown as it is
    shown: Message | None = None  # with the time


class _DecoratedView:
    """The view as it is shown: a strand of its own, which grows with that of the run."""

    __slots__ = ("kept", "made", "of", "place", "strand", "told")

    def __init__(self) -> None:
        self.of: Strand | None = None
        self.kept: list[MessageRecord] = []
        self.strand = Strand()
        self.place = 0  # in the journal, up to where changes of the view are known
        self.made: dict[str, Message] = {}  # of messages that are not in the view
        self.told: dict[str, MadeUp] = {}  # what the record knows of those

    def follow(self, run: Run) -> None:
        """Follow the view as it is now; messages that stay keep what is known of them."""
        items, most = run.messages.strand.items, len(self.kept)
        if self.of is run.messages.strand and most <= len(items):
            if not most or self.kept[-1].source is items[most - 1]:
                return
        known: dict[int, deque[MessageRecord]] = {}
        for one in self.kept:
            known.setdefault(id(one.source), deque()).append(one)
        self.kept = [
            known[id(item)].popleft() if known.get(id(item)) else MessageRecord(item)
            for item in items
        ]
        gone = [one for left in known.values() for one in left]
        put = {id(m) for e in run.entries[self.place :] if type(e) is Reshaped for m in e.messages}
        _said_again(gone, [one for one in self.kept if one.time is None and id(one.source) in put])
        self.place = len(run.entries)
        self.of, self.strand = run.messages.strand, Strand()
        for one in self.kept:
            if one.shown is None:
                break
            self.strand.items.append(one.shown)


class Decorating(Policy[None]):
    """A policy that shows each message with its time, or as your function returns it."""

    lasts: ClassVar[bool] = True

    def __init__(self, decorator: Decorator | None, *, timestamps: bool = False) -> None:
        self.decorator, self.timestamps = decorator, timestamps

    @property
    def name(self) -> str:
        return "decorators"

    async def start(self, run: Run) -> None:
        """Load what the journal knows of the messages in the view."""
        if not run.messages.strand.items:
            return
        entries = run.entries
        shown = run.cache[_DecoratedView] = _DecoratedView()
        for entry in entries:
            if type(entry) is Decorated:
                shown.told.update({one.digest: one for one in entry.made})
        known = read_records(entries, ())
        if any(one.time is None for one in known):  # from before times were recorded
            known = read_records(entries, await _rows(run))
        if len(known) == len(run.messages.strand.items):
            for one, item in zip(known, run.messages.strand.items, strict=True):
                one.source = item
            shown.kept = known

    async def before_model(self, run: Run, request: Request) -> Request:
        shown: _DecoratedView = run.cache.setdefault(_DecoratedView, _DecoratedView())
        shown.follow(run)
        messages = request.messages
        await self._grow(run, shown)
        if type(messages) is View and messages.strand is run.messages.strand:
            return Request(View(shown.strand, len(messages)), request.frame, request.tail)
        by_id = {id(one.source): one for one in shown.kept}
        listed: list[Message] = []
        fresh: list[MadeUp] = []
        for at, message in enumerate(messages):
            one = by_id.get(id(message))
            if one is None:
                listed.append(await self._decorate_extra(run, shown, message, at, fresh))
            else:
                listed.append(_of(one))
        if fresh:
            run.record(Decorated(len(shown.kept), (), None, tuple(fresh)))
        return Request(tuple(listed), request.frame, request.tail)

    async def _grow(self, run: Run, shown: _DecoratedView) -> None:
        """Decorate what is new in the view, and record it."""
        items, strand = run.messages.strand.items, shown.strand
        shown.kept += [MessageRecord(item) for item in items[len(shown.kept) :]]
        start: int | None = None
        now = run.now()
        for at in range(len(strand.items), len(items)):
            one = shown.kept[at]
            if one.shown is None:
                if one.time is None or (self.decorator is not None and not one.asked):
                    start = at if start is None else start
                    await self._decorate(run, one, at, now)
                plain = self.decorator is None or one.answer is None
                one.shown = self._add_timestamp(
                    one.source if plain else one.answer, one.time or now
                )
            strand.items.append(one.shown)
        if start is None:
            return
        fresh = shown.kept[start:]
        answers = tuple([one.answer for one in fresh]) if self.decorator is not None else None
        run.record(Decorated(start, tuple([one.time or now for one in fresh]), answers))

    async def _decorate(self, run: Run, one: MessageRecord, at: int, now: float) -> None:
        one.time = now if one.time is None else one.time
        if self.decorator is not None and not one.asked:
            one.answer = await self._call_decorator(run, one.source, at, one.time)
            one.asked = True

    async def _decorate_extra(
        self, run: Run, shown: _DecoratedView, message: Message, at: int, fresh: list[MadeUp]
    ) -> Message:
        """Decorate a message that is not in the view but was added for this call."""
        key = digest_of(message)
        known = shown.made.get(key)
        if known is not None:
            return known
        one = shown.told.get(key)
        if one is None or (self.decorator is not None and not one.asked):
            time = run.now() if one is None else one.time
            asks = self.decorator is not None
            answer = await self._call_decorator(run, message, at, time) if asks else None
            one = MadeUp(key, time, answer, asks)
            fresh.append(one)
        plain = self.decorator is None or one.shown is None
        known = shown.made[key] = self._add_timestamp(message if plain else one.shown, one.time)
        return known

    async def _call_decorator(
        self, run: Run, message: Message, at: int, time: float
    ) -> Message | None:
        assert self.decorator is not None
        context = DecorationContext(run.session_id, run.iteration, at, _iso(time))
        [copy] = lend(run, [message])
        answer = self.decorator(copy, context)
        if inspect.isawaitable(answer):
            answer = await answer
        if answer is None or answer is copy:
            return None
        decorated = message_in(run, answer, WHO, message.kind)
        _same_parts(message, decorated)
        return None if decorated is message else _strip_signatures(decorated, message)

    def _add_timestamp(self, message: Message | None, time: float) -> Message:
        assert message is not None
        return add_timestamp(message, time) if self.timestamps else message


def _of(one: MessageRecord) -> Message:
    assert one.shown is not None
    return one.shown


def _same_parts(message: Message, decorated: Message) -> None:
    """Check that a decorator kept role, calls, result ids and signatures."""
    if decorated.role != message.role:
        raise ConfigError(
            f"{WHO} made a {decorated.role} message of a {message.role} message: "
            "give it back with its role"
        )
    if _fixed_parts(decorated) != _fixed_parts(message):
        raise ConfigError(
            f"{WHO} may change the words of a message and add some; its tool calls, the ids of its "
            "results and its reasoning stay as they are"
        )


def _strip_signatures(decorated: Message, message: Message) -> Message:
    """Remove the signature of a text that was changed, which the provider would reject."""
    if decorated.role != "assistant" or decorated.text == message.text:
        return decorated
    left = tuple([block for block in decorated.content if not _seals_words(block)])
    return msgspec.structs.replace(decorated, content=left)


def _seals_words(block: Block) -> bool:
    """Check whether a block signs a text, as Google's do; see `wires/gemini/reply.py`."""
    data: Any = block.data if type(block) is Opaque else None
    return isinstance(data, dict) and ("beside" in data or cast("Any", data).get("text") == "")


def _fixed_parts(message: Message) -> list[object]:
    fixed: list[object] = []
    for block in message.content:
        if type(block) is ToolResult:
            fixed.append((block.id, block.is_error))
        elif type(block) is not Text and (message.role == "assistant" or type(block) is Thinking):
            fixed.append(block)
    return fixed


# --------------------------------------------------------------------------- times


def add_timestamp(message: Message, time: float) -> Message:
    """Add its time before the text of a message.

    The model's own words go back as it said them: it would begin to write times itself.
    """
    if message.role == "assistant":
        return message
    stamp = f"[{_iso(time)}] "
    for at, block in enumerate(message.content):
        if type(block) is Text:
            new: Any = Text(stamp + block.text)
        elif type(block) is ToolResult:
            content = block.content
            marked = stamp + content if isinstance(content, str) else (Text(stamp), *content)
            new = msgspec.structs.replace(block, content=marked)
        else:
            continue
        blocks = (*message.content[:at], new, *message.content[at + 1 :])
        return msgspec.structs.replace(message, content=blocks)
    return msgspec.structs.replace(message, content=(Text(stamp), *message.content))


def _iso(time: float) -> str:
    return datetime.fromtimestamp(int(time), UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


# --------------------------------------------------------------------------- from the record


def read_records(entries: Sequence[JournalEntry], rows: Sequence[Row]) -> list[MessageRecord]:
    """Read what a session's journal knows of the messages in its view, in order."""
    fold = ViewFold()
    size = _size(rows)
    known: dict[int, MessageRecord] = {}
    alive: list[Message] = []  # an id is valid only while its object is alive
    row, place = 0, 0
    seen: list[Message] = fold.messages
    for number, entry in enumerate(entries):
        while row + 1 < len(rows) and rows[row + 1].first <= number:
            row += 1
        if type(entry) is Decorated:
            _apply_decorated(entry, fold.messages, known)
            continue
        if type(entry) is Reshaped:
            old = [known[id(message)] for message in fold.messages[entry.start : entry.stop]]
            new = [MessageRecord(message) for message in entry.messages]
            _said_again(old, new)
            known.update({id(one.source): one for one in new if one.time is not None})
            alive += entry.messages
        fold.apply(entry)
        if fold.messages is not seen:
            seen, place = fold.messages, 0
        for message in seen[place:]:
            if id(message) not in known:
                at = rows[row].at if number < size else None
                known[id(message)] = MessageRecord(message, at)
                alive.append(message)
        place = len(seen)
    return [known[id(message)] for message in fold.messages]


def _said_again(old: Sequence[MessageRecord], new: Sequence[MessageRecord]) -> None:
    """Copy what is known of a message to its equal in the new view, from the end.

    From the end: of two that say the same, the later one stays.
    """
    places: dict[object, list[int]] = {}
    for at, one in enumerate(old):
        places.setdefault(_about(one.source), []).append(at)
    left = len(old)
    for one in reversed(new):
        for at in reversed(places.get(_about(one.source), ())):
            if at < left and old[at].source == one.source:
                one.time, one.asked, one.answer = old[at].time, old[at].asked, old[at].answer
                left = at
                break


def _about(message: Message) -> object:
    """Return a key that equal messages share, and few others."""
    ids = [block.id for block in message.content if isinstance(block, (ToolCall, ToolResult))]
    return message.role, message.kind, message.text, tuple(ids)


async def _rows(run: Run) -> Sequence[Row]:
    try:
        return await run.store.rows(run.session_id)
    except NoSuchSession:
        return ()  # nothing of it is stored yet


def _size(rows: Sequence[Row]) -> int:
    """Count the entries that the rows hold."""
    if not rows:
        return 0
    return rows[-1].first + len(msgspec.json.decode(rows[-1].payload, type=list[msgspec.Raw]))


def _apply_decorated(
    entry: Decorated, messages: Sequence[Message], known: dict[int, MessageRecord]
) -> None:
    answers = entry.shown or (None,) * len(entry.times)
    for message, time, answer in zip(
        messages[entry.start :], entry.times, cast("Any", answers), strict=False
    ):
        one = known[id(message)]
        one.time, one.answer = time, answer
        one.asked = entry.shown is not None
