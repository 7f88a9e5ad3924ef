"""Submission of runs: a session and the wish to run it, in one transaction."""

from __future__ import annotations

import math
from datetime import datetime

import msgspec

from windlass import seams
from windlass.access.caller import Caller, is_host
from windlass.agents.agent import Agent
from windlass.engine.environment import Environment
from windlass.engine.ownership import (
    check_caller,
    check_new_owner,
    check_session_id,
    owner_metadata,
    place_session,
)
from windlass.errors import ConfigError, KeyReused, safe_repr
from windlass.fleet.engine import Fleet, SeenWish
from windlass.fleet.request import (
    FleetAgent,
    build_request,
    digest_request,
    name_agent,
    to_stored,
)
from windlass.identifiers import check_identifier, check_label
from windlass.json_types import JsonObject
from windlass.store.base import Store
from windlass.store.body_sessions import create_session
from windlass.store.wishes import Transaction, Wish, find_key, raise_wish

MOST_PRIORITY = 1000


class Submission(msgspec.Struct, frozen=True, kw_only=True):
    """A checked submission, ready for its transaction."""

    session_id: str
    agent: str
    queue: str
    priority: int
    due: float | None
    key: str | None
    tenant: str
    model: str | None
    digest: str | None
    request: JsonObject
    request_id: str
    metadata: JsonObject | None

    def write(self, tx: Transaction, engine: Fleet) -> Submitted:
        """Create the session and raise its wish; under a known key, find what was submitted."""
        if self.key is not None and (known := find_key(tx, self.key, self.tenant)) is not None:
            if known.digest != self.digest:
                raise KeyReused(
                    f"key {self.key!r} was used for another prompt, agent or caller, in session"
                    f" {known.session!r}; choose another key for this one"
                )
            return Submitted(known.session, None, known.queue, known.priority)
        is_new = create_session(tx, self.session_id, metadata=self.metadata)
        number = raise_wish(
            tx,
            self.session_id,
            agent=self.agent,
            queue=self.queue,
            due=self.due,
            priority=self.priority,
            key=self.key,
            tenant=self.tenant,
            model=self.model,
            digest=self.digest,
            request=self.request,
            is_new=is_new,
        )
        now = tx.read_clock()
        is_due = self.due is None or self.due <= now
        is_woken = is_due and engine.wake_within(
            tx, self.session_id, queue=self.queue, priority=self.priority
        )
        return Submitted(
            self.session_id,
            self.request_id,
            self.queue,
            self.priority,
            is_woken=is_woken,
            seen=SeenWish(self._build_wish(number, now), 1) if is_new and is_due else None,
        )

    def _build_wish(self, number: int, now: float) -> Wish:
        """Return the wish of a new session as it was raised."""
        return Wish(
            session=self.session_id,
            agent=self.agent,
            queue=self.queue,
            number=number,
            due=now if self.due is None else self.due,
            priority=self.priority,
            tenant=self.tenant,
            key=self.key,
            tries=0,
            requests=(self.request,),
            digest=self.digest,
            model=self.model,
            raised_at=now,
            worker=None,
            since=None,
            error=None,
        )


class Submitted(msgspec.Struct, frozen=True):
    """What a transaction has submitted, or found under its key."""

    session_id: str
    request_id: str | None
    queue: str
    priority: int
    is_woken: bool = False  # with the commit of the transaction
    seen: SeenWish | None = None  # of a session that is new and due


async def prepare_submission(
    environment: Environment,
    store: Store,
    agent: FleetAgent | str,
    prompt: object,
    *,
    session_id: str | None = None,
    queue: str | None = None,
    key: str | None = None,
    priority: int = 0,
    not_before: datetime | float | None = None,
    caller: Caller | None = None,
) -> Submission:
    """Check a submission; raise `ConfigError` before anything is stored."""
    name = name_agent(agent)
    if type(priority) is not int or abs(priority) > MOST_PRIORITY:
        raise ConfigError(
            f"priority is a whole number up to {MOST_PRIORITY}, not {safe_repr(priority)}"
        )
    if key is not None:
        if not isinstance(key, str) or not key:  # pyright: ignore[reportUnnecessaryIsInstance]
            raise ConfigError(f"key is a text, not {safe_repr(key)}")
        check_label(key, "key")
    if caller is not None and not is_host(caller):
        check_new_owner(environment, check_caller(caller))
    request = environment.redact(to_stored(build_request(prompt, caller)))
    if session_id is None:
        session_id = seams.new_id("session")
    else:
        await check_session_id(environment, store, session_id)
        session_id = await place_session(store, session_id, caller, environment)
    return Submission(
        session_id=check_identifier(session_id, "session_id"),
        agent=name,
        queue=name if queue is None else check_identifier(queue, "queue"),
        priority=priority,
        due=_parse_time(not_before),
        key=key,
        tenant="" if caller is None or caller.tenant is None else caller.tenant,
        model=read_model(environment, agent),
        digest=None if key is None else digest_request(name, request),
        request=request,
        request_id=str(request["id"]),
        metadata=owner_metadata(caller),
    )


def read_model(environment: Environment, agent: object) -> str | None:
    """Return the model of an agent, by which runs are limited."""
    if not isinstance(agent, Agent):
        return None
    model = agent.plan_in(environment).model
    return f"{model.provider}:{model.name}"


def _parse_time(given: datetime | float | None) -> float | None:
    if given is None:
        return None
    if isinstance(given, datetime):
        if given.tzinfo is None:
            raise ConfigError(f"not_before {given} has no time zone; use datetime.now(UTC) + …")
        return given.timestamp()
    if type(given) not in (int, float) or not math.isfinite(given):
        raise ConfigError(f"not_before is a datetime or epoch seconds, not {safe_repr(given)}")
    return float(given)
