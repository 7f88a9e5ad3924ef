"""A provider that keeps prompts in a cache and sends a bill, as Anthropic's documents describe it.

What is real: the request's bytes (our own wire encodes them, with its cache marks), the order in which a
prompt is cached (tools, system, messages), entries at the marks only, a look back of 20 blocks, nothing
below 1,024 tokens, the prices of our catalog for reading, writing and everything else. What is simple: a
token is four bytes, an entry lives as long as the task, and who asks for a summary pays for it like any
other call.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import msgspec

import windlass as w
from bench.long_tasks.facts import Fact
from bench.long_tasks.tasks import Step, Task
from windlass.messages import Message, Text, ToolCall
from windlass.models.wires.anthropic.cache import LOOK_BACK
from windlass.models.wires.anthropic.model import AnthropicMessages

MODEL = "claude-sonnet-5"
LEAST = 1_024  # tokens of a prefix that is worth an entry
BYTES = 4  # of a token
RECALL = "recall"
_MARK = b',"cache_control":{"type":"ephemeral"}}'


class _Said(msgspec.Struct):
    content: list[msgspec.Raw]


class _Body(msgspec.Struct):
    messages: list[_Said]
    tools: list[msgspec.Raw] = []
    system: list[msgspec.Raw] | str = ""
    cache_control: dict[str, Any] | None = None


_read_body = msgspec.json.Decoder(_Body).decode


class Prompt(NamedTuple):
    """A request as the cache sees it: the size in bytes and a name of all up to each block."""

    sizes: list[int]
    names: list[int]
    marks: list[int]  # places of blocks

    @property
    def size(self) -> int:
        return self.sizes[-1]


def prompt_of(body: bytes) -> Prompt:
    """The blocks of a body in the order in which they are cached."""
    read = _read_body(body)
    system = [msgspec.Raw(read.system.encode())] if isinstance(read.system, str) else read.system
    blocks = [*read.tools, *system, *[block for said in read.messages for block in said.content]]
    sizes: list[int] = []
    names: list[int] = []
    marks: list[int] = []
    size = name = 0
    for at, raw in enumerate(blocks):
        block = bytes(raw)
        if block.endswith(_MARK):
            marks.append(at)
            block = block[: -len(_MARK)] + b"}"
        size += len(block)
        name = hash((name, block))
        sizes.append(size)
        names.append(name)
    if read.cache_control is not None:
        marks.append(len(blocks) - 1)
    return Prompt(sizes, names, marks)


class PromptCache:
    """Which prefixes the provider has."""

    def __init__(self) -> None:
        self.entries: set[int] = set()

    def use(self, prompt: Prompt) -> tuple[int, int]:
        """The bytes that are read from the cache and those that are written to it."""
        read = written = 0
        for mark in prompt.marks:
            for at in range(mark, max(-1, mark - LOOK_BACK), -1):
                if prompt.names[at] in self.entries:
                    read = max(read, prompt.sizes[at])
                    break
        for mark in prompt.marks:
            if prompt.sizes[mark] >= LEAST * BYTES:
                self.entries.add(prompt.names[mark])
                written = max(written, prompt.sizes[mark] - read)
        return read, written


class Bill(msgspec.Struct):
    """What a task has cost so far."""

    requests: int = 0
    summaries: int = 0
    input_tokens: int = 0
    cached_bytes: int = 0
    dollars: float = 0.0


class Scripted(AnthropicMessages):
    """A Claude model that says what the task says, writes summaries, and asks for what it misses."""

    def __init__(self, task: Task, name: str = MODEL) -> None:
        super().__init__(name, api_key="k")
        self.task, self.bill, self.cache = task, Bill(), PromptCache()
        self.steps: list[Step] = []  # of this visit, those to come
        self.exam: list[Fact] = []  # what it is to look up at the end
        self.asked: Fact | None = None
        self.recalls = self.missed = 0
        self.last = b""  # the request of the last step

    async def respond(self, request: w.Request, emit: Any) -> w.Response:
        """The next reply, and its price."""
        body = b"".join(self.encode(request))
        if request.messages[-1].text.endswith("Write the notes."):
            self.bill.summaries += 1
            message = Message("assistant", (Text(summary(request.messages[-1].text)),))
        else:
            message = self._next(request, body)
        return w.Response(message, self._paid(body, message), _reason(message), self.name)

    def _next(self, request: w.Request, body: bytes) -> Message:
        can_ask = any(tool.name == RECALL for tool in request.tools)
        if self.exam:
            facts, self.exam = self.exam if can_ask else [], []
            return _looking_up(facts)
        if not self.steps:
            return Message("assistant", (Text("That is all."),))
        step = self.steps[0]
        if (fact := step.needs) is not None and fact.value.encode() not in body:
            if can_ask and self.asked is not fact:
                self.asked = fact
                self.recalls += 1
                return _looking_up([fact])
            self.missed += 1
        self.last, self.asked = body, None
        del self.steps[0]
        if step.looks_at is None:
            return Message("assistant", (Text(step.words),))
        call = ToolCall(f"toolu_{step.looks_at}", "look", {"page": step.looks_at})
        return Message("assistant", (Text(step.words), call))

    def _paid(self, body: bytes, message: Message) -> w.Usage:
        prompt = prompt_of(body)
        read, written = self.cache.use(prompt)
        usage = w.Usage(
            input_tokens=prompt.size // BYTES,
            output_tokens=len(msgspec.json.encode(message.content)) // BYTES,
            cache_read_tokens=read // BYTES,
            cache_write_tokens=written // BYTES,
        )
        bill = self.bill
        bill.requests += 1
        bill.input_tokens += usage.input_tokens
        bill.cached_bytes += read
        bill.dollars += self.price(usage)
        return usage


def _reason(message: Message) -> Any:
    return "tool_use" if message.tool_calls else "end_turn"


def _looking_up(facts: list[Fact]) -> Message:
    calls = [ToolCall(f"toolu_{fact.value}", RECALL, {"query": fact.query}) for fact in facts]
    return Message("assistant", (Text("Let me look that up."), *calls))


# --------------------------------------------------------------------------- the writer of summaries

_WORDS = 450  # what a writer who is allowed 600 words makes of them
_KEPT = ("NOTES SO FAR", "USER")  # conditions come from there
_TELLS = (" is ", " are ", " must ", " never ", " error", " decided ")


def summary(asked: str) -> str:
    """What is kept of a conversation: sentences of it, in their order, in at most 450 words.

    No better than a hurried writer: it does not know which sentences are facts of the bench. Earlier
    notes and the user's words go before the model's own, and those before results; among each the
    sentences that state something go first, and the latest before the earliest.
    """
    ranked: list[tuple[int, int, str]] = []
    who = ""
    sentences = [part for line in asked.splitlines() for part in line.split(". ")]
    for at, sentence in enumerate(sentences):
        head = sentence.partition(":")[0]
        if head.split("(")[0].split(" ")[0].isupper() and len(head) < 60:
            who = head
        states = any(word in sentence for word in _TELLS)
        rank = 0 if who in _KEPT else 1 if who == "ASSISTANT" else 2
        ranked.append((rank + (0 if states else 3), -at, sentence))
    kept: list[int] = []
    left = _WORDS
    for _, at, sentence in sorted(ranked):
        left -= len(sentence.split())
        if left < 0:
            break
        kept.append(-at)
    return ". ".join([sentences[at].strip() for at in sorted(kept)])
