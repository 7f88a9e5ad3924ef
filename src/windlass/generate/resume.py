"""Resume of a `generate`: its owner, its conversation, and the answers given."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, NamedTuple, cast

from windlass.access.caller import Caller, is_host
from windlass.engine.children import by_call, list_pending, read_calls_below
from windlass.engine.decisions import Given, check_answers
from windlass.engine.environment import Environment
from windlass.engine.ownership import caller_of_resumed, find_session, owner_of
from windlass.engine.run_options import RunOptions
from windlass.errors import ConfigError, NoSuchSession, Suspended, safe_repr
from windlass.generate.conversation import KEPT, Conversation, Keeper
from windlass.json_types import JsonObject, as_given
from windlass.loop.abort import Abort
from windlass.loop.resume import standing
from windlass.store.base import Store

#: Options of `generate` that a session which goes on has already.
OF_THE_SESSION: Final = ("session_id", "conversation", "run_id", "on_pending")
DISCARDED: Final = Abort()  # ends a parked run whose pending calls are not wanted any more
DISCARDED.abort("discarded")


class Continuation(NamedTuple):
    """The arguments of `resume`, and the recorded facts of the session."""

    session_id: str
    home: Store
    given_caller: Caller | None
    options: JsonObject  # of `generate`, with the caller whose run it is
    keeper: Keeper | None
    decisions: Given | None
    results: Mapping[str, Any] | None


async def find_parked(home: Store, session_id: str) -> Suspended | None:
    """Return the error that tells what the session's last run waits for, or None."""
    try:
        state = standing(await home.read(session_id))
    except NoSuchSession:
        return None
    if not state.parked:
        return None
    assert state.ended is not None
    why = state.ended.stop_reason or "waiting"
    error = Suspended(
        f"the conversation waits for session {session_id!r} ({why}): resume it, "
        'or go on without with on_pending="discard"'
    )
    error.session_id, error.status = session_id, state.ended.status
    if (turn := state.turn) is not None and turn.open:
        below = by_call(await read_calls_below(home, session_id, turn))
        error.pending = tuple(list_pending(turn, state.asked, why, below))
    return error


async def read_continuation(
    environment: Environment,
    session_id: str,
    decisions: Given | None,
    results: Mapping[str, Any] | None,
    options: JsonObject,
) -> Continuation:
    """Look the session up, with the tools of its first caller and its conversation."""
    if not isinstance(as_given(session_id), str):
        raise ConfigError(f"session_id is a text, not {safe_repr(session_id)}")
    check_answers(decisions, results)
    for name in OF_THE_SESSION:
        if name in options:
            raise ConfigError(f"resume has no option {name!r}: the session knows it")
    run = RunOptions.read(options)
    given = run.caller
    home = environment.store if run.store is None else environment.store_at(run.store)
    key = await find_session(home, session_id, given, environment, "resume")
    entries = await home.read(key)
    begun = standing(entries).run
    if begun is None:
        raise NoSuchSession(f"session {session_id!r} has never run: start it with a prompt")
    if begun.door != "generate":
        raise ConfigError(f"session {session_id!r} was begun by {begun.door}: resume it there")
    caller, _ = caller_of_resumed(begun, owner_of(entries), given)
    own = None if is_host(caller) else caller
    kept = cast("JsonObject | None", (begun.metadata or {}).get(KEPT))
    keeper = None
    if kept is not None:
        keeper = Keeper(Conversation(environment, kept["id"], own), kept["before"])
    return Continuation(
        session_id, home, given, {**options, "caller": own}, keeper, decisions, results
    )
