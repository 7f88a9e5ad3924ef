"""What type checkers see of `windlass.sync`; made by scripts/make_stub.py."""

from collections.abc import AsyncIterator, Callable, Coroutine, Iterator
from typing import Any, ParamSpec, TypeVar

import windlass

P = ParamSpec("P")
T = TypeVar("T")

def wait(work: Coroutine[Any, Any, T]) -> T: ...
def _block(function: Callable[P, Coroutine[Any, Any, T]]) -> Callable[P, T]: ...
def _iterate(function: Callable[P, AsyncIterator[T]]) -> Callable[P, Iterator[T]]: ...

agent_chat_loop = _block(windlass.agent_chat_loop)
agent_loop = _block(windlass.agent_loop)
agent_session_clear_scratchpad = _block(windlass.agent_session_clear_scratchpad)
agent_session_close = _block(windlass.agent_session_close)
agent_session_fork = _block(windlass.agent_session_fork)
agent_session_fork_at = _block(windlass.agent_session_fork_at)
agent_session_list = _block(windlass.agent_session_list)
agent_session_open = _block(windlass.agent_session_open)
agent_session_post = _block(windlass.agent_session_post)
agent_session_read = _block(windlass.agent_session_read)
agent_session_remind = _block(windlass.agent_session_remind)
agent_session_reset = _block(windlass.agent_session_reset)
agent_session_scratchpad = _block(windlass.agent_session_scratchpad)
agent_session_seed_from_jsonl = _block(windlass.agent_session_seed_from_jsonl)
agent_session_set_scratchpad = _block(windlass.agent_session_set_scratchpad)
agent_session_trim = _block(windlass.agent_session_trim)
agent_turn = _block(windlass.agent_turn)
approvals = _block(windlass.approvals)
approve = _block(windlass.approve)
approve_plan = _block(windlass.approve_plan)
audit_agent = _block(windlass.audit_agent)
audit_query = _block(windlass.audit_query)
audit_seal = _block(windlass.audit_seal)
audit_verify = _block(windlass.audit_verify)
deny = _block(windlass.deny)
execute_agent = _block(windlass.execute_agent)
fan_out = _block(windlass.fan_out)
llm_call = _block(windlass.llm_call)
llm_completion = _block(windlass.llm_completion)
llm_stream = _iterate(windlass.llm_stream)
merge_captain_agent = _block(windlass.merge_captain_agent)
oncall_captain_agent = _block(windlass.oncall_captain_agent)
plan_of = _block(windlass.plan_of)
read_line = _block(windlass.read_line)
reflect = _block(windlass.reflect)
release_captain_agent = _block(windlass.release_captain_agent)
repair_agent = _block(windlass.repair_agent)
resume_execution = _block(windlass.resume_execution)
review_captain_agent = _block(windlass.review_captain_agent)
sub_agent_run = _block(windlass.sub_agent_run)
summary_agent = _block(windlass.summary_agent)
transcript_compact = _block(windlass.transcript_compact)
transcript_summarize = _block(windlass.transcript_summarize)
undo = _block(windlass.undo)
undoable = _block(windlass.undoable)
verify_agent = _block(windlass.verify_agent)
