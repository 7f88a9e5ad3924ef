"""What a server offers, and what a call needs of the run that makes it: plain data, without the SDK."""

from __future__ import annotations

from typing import Protocol

import msgspec

from windlass.json_types import JsonObject
from windlass.loop.plan import digest_of


class ListedTool(msgspec.Struct, frozen=True, kw_only=True):
    """A tool as its server describes it."""

    name: str
    title: str | None = None
    description: str = ""
    input_schema: JsonObject
    output_schema: JsonObject | None = None
    hints: JsonObject = {}

    @property
    def digest(self) -> str:
        """A digest of all that a model or a person reads of it."""
        words = (self.name, self.title, self.description)
        return digest_of((*words, self.input_schema, self.output_schema, self.hints))


class Listing(msgspec.Struct, frozen=True, kw_only=True):
    """What one server offers at one time; `number` grows with every change."""

    number: int = 0
    protocol: str = ""
    title: str = ""
    instructions: str | None = None
    tools: tuple[ListedTool, ...] = ()
    has_resources: bool = False
    has_prompts: bool = False


class Prompt(msgspec.Struct, frozen=True, kw_only=True):
    """A prompt of a server, and the names of its arguments."""

    server: str
    name: str
    description: str = ""
    arguments: tuple[str, ...] = ()
    required: tuple[str, ...] = ()


class Question(msgspec.Struct, frozen=True, kw_only=True):
    """What a server asks a person in the middle of a call.

    A server of the stateless era hands out its `state` and all `requests` of the round, so that the call
    goes on from there. One of the older era has neither: it is called again, and asks again.
    """

    server: str
    tool: str
    message: str
    schema: JsonObject | None = None
    url: str | None = None
    key: str | None = None
    state: str | None = None
    requests: JsonObject | None = None

    @property
    def digest(self) -> str:
        """A digest of what is asked, by which an answer on record is found again."""
        return digest_of((self.server, self.tool, self.message, self.schema, self.url))


class Round(msgspec.Struct, frozen=True):
    """A call that waits for answers: the requests of its server, and the state to send back."""

    requests: JsonObject
    state: str | None


class CallParked(Exception):
    """Raised through a call whose question nobody answers now: the run is parked."""


class CallSide(Protocol):
    """The run that makes a call, as far as a server may reach it."""

    @property
    def owner(self) -> str:
        """Identify the run, so that the questions of two runs are never mixed up."""
        ...

    @property
    def roots(self) -> tuple[str, ...]:
        """The folders of the workspace."""
        ...

    @property
    def round(self) -> Round | None:
        """The round that a parked call goes on with."""
        ...

    def progress(self, data: JsonObject) -> None:
        """Report the progress of the call."""
        ...

    async def elicit(self, asked: Question) -> JsonObject:
        """Ask a person: `{"action": "accept", "content": {…}}`; raise `CallParked` to wait."""
        ...

    async def sample(self, request: JsonObject) -> JsonObject:
        """Ask the run's model, within its budget; raise `PermissionDenied` where it may not."""
        ...
