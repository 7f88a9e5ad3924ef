"""Requests: prompts that wait in the store for their run, and the names of agents they wait for."""

from __future__ import annotations

import hashlib
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Protocol

import msgspec

from windlass import seams
from windlass.access.caller import Caller, is_host
from windlass.engine.input import parse_run_prompt
from windlass.engine.results import RunResult
from windlass.errors import ConfigError, safe_repr
from windlass.fleet.session_driver import SessionDriver
from windlass.identifiers import check_identifier
from windlass.json_types import JsonObject, is_object
from windlass.messages import Message

if TYPE_CHECKING:
    from typing_extensions import TypeIs


class FleetAgent(Protocol):
    """What a fleet can drive: an `Agent`, or anything else that runs and resumes sessions."""

    @property
    def name(self) -> str | None:
        """Its name; with its version, that of its queue."""
        ...

    @property
    def version(self) -> str:
        """Its version: sessions go on with the version that they began with."""
        ...

    @property
    def run(self) -> Callable[..., Awaitable[RunResult]]:
        """Run messages on a session, to the end or until it is parked."""
        ...

    @property
    def resume(self) -> Callable[..., Awaitable[RunResult]]:
        """Go on with the run of a session that was parked or killed."""
        ...


def is_session_driver(agent: FleetAgent | SessionDriver) -> TypeIs[SessionDriver]:
    """Check whether something drives sessions of its own kind.

    Its class is asked: an agent answers a question for an attribute that it has not with the nearest name,
    which takes milliseconds.
    """
    return hasattr(type(agent), "drive_session")


class Request(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A prompt that waits for its run, as the store holds it."""

    id: str  # on record as the `request_id` of the run
    messages: tuple[Message, ...] = ()
    caller: Caller | None = None  # None: the host


def name_agent(agent: FleetAgent | SessionDriver | str) -> str:
    """Return the name by which a fleet knows an agent: `refunds@1`."""
    if isinstance(agent, str):
        name = check_identifier(agent, "agent")
        if name.endswith("@"):
            raise ConfigError(f"agent {name!r} has no version after the @: {name}1")
        return name if "@" in name[1:] else f"{name}@1"
    if not is_session_driver(agent) and not hasattr(type(agent), "resume"):
        raise ConfigError(
            "what is submitted or served is an Agent, a workflow, or to submit it the name of one,"
            f" not {safe_repr(agent)}"
        )
    if agent.name is None:
        raise ConfigError('an agent needs a name to be submitted: w.Agent(…, name="refunds")')
    return f"{agent.name}@{agent.version}"


def build_request(
    prompt: object, caller: Caller | None = None, request_id: str | None = None
) -> Request:
    """Build the request for a prompt; raise `ConfigError` if no run can begin with it."""
    return Request(
        id=request_id or seams.new_id("request"),
        messages=parse_run_prompt(prompt, None),
        caller=None if is_host(caller) else caller,
    )


def to_stored(request: Request) -> JsonObject:
    """Convert a request to plain data."""
    stored: object = msgspec.to_builtins(request)
    assert is_object(stored)
    return stored


def from_stored(stored: JsonObject) -> Request:
    """Convert a request from plain data."""
    return msgspec.convert(stored, Request)


def digest_request(agent: str, stored: JsonObject) -> str:
    """Return what tells two prompts under one key apart."""
    content = {name: value for name, value in stored.items() if name != "id"}
    packed = msgspec.json.encode([agent, content], order="deterministic")
    return hashlib.sha256(packed).hexdigest()
