"""Results of an execution: `Success` or `Failure`, with everything that was tried."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Generic, Literal, TypeAlias, TypeVar

from windlass.loop.state import PendingCall
from windlass.usage import Usage

Output = TypeVar("Output", covariant=True)
#: What an execution is at: it builds the prompt, asks the model, or checks the output.
Phase: TypeAlias = Literal["prompt", "iteration", "validation"]


class AgentErrorCode(StrEnum):
    """Why an execution has no output: `case Failure(code=AgentErrorCode.MAX_ITERATIONS): …`"""

    VALIDATION_FAILED = "VALIDATION_FAILED"
    """No attempt passed; `context.errors` has what was wrong with each."""
    MAX_ITERATIONS = "MAX_ITERATIONS"
    """An attempt took all its model calls without an output; nothing was validated."""
    SUBMIT_BEFORE_OUTPUT = "SUBMIT_BEFORE_OUTPUT"
    """The model called `submit` in an attempt that has no output."""
    INVALID_RESPONSE = "INVALID_RESPONSE"
    """The model called no tool."""
    EXECUTION_CANCELLED = "EXECUTION_CANCELLED"
    """The abort signal, a timeout, or somebody else; `context.phase` says in which phase."""
    SUSPENDED = "SUSPENDED"
    """A call waits for a person or for the host; `context.pending` lists them."""
    PROVIDER_ERROR = "PROVIDER_ERROR"
    """The model could not be reached, or refused; `context.error` has the category."""
    BUDGET_EXHAUSTED = "BUDGET_EXHAUSTED"
    """A limit on tokens, dollars or seconds; `context.stop_reason` names it."""
    RUN_FAILED = "RUN_FAILED"
    """Another end of the run: a guardrail, a policy, the store; see `context.status`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Attempt(Generic[Output]):
    """One attempt: its model calls, the value that came of it, and what was wrong with that."""

    number: int
    iterations: int
    """Model calls of this attempt."""
    value: Output | None
    """The typed value; None where there was none, or where it did not fit the schema."""
    raw: object
    """The arguments of the output call, as the model gave them; None where there was none."""
    errors: tuple[str, ...]
    """What was wrong with the value; empty for one that passed, or that was never checked."""
    tokens: Usage
    cost_usd: float


@dataclass(frozen=True, slots=True)
class CallbackError:
    """A callback that raised: the execution went on."""

    callback: str
    error: Exception


@dataclass(frozen=True, slots=True, kw_only=True)
class ExecutionMetadata(Generic[Output]):
    """What an execution took: the same for success and failure."""

    tokens: Usage | None
    """Tokens of all attempts and iterations; None with `track_tokens` off."""
    cost_usd: float | None
    """Dollars of all attempts, as far as prices are known; None with `track_tokens` off."""
    latency_ms: float
    """Milliseconds at work, over all resumes."""
    callback_errors: tuple[CallbackError, ...]
    attempts: tuple[Attempt[Output], ...]
    """Every attempt, also those that failed."""
    session_id: str
    """The session; empty where nothing was begun."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FailureContext:
    """Where an execution stood when it ended. What does not concern the code is empty."""

    attempt: int
    iteration_count: int
    """Model calls of that attempt."""
    max_iterations: int
    phase: Phase
    status: str
    """The status of the run: `failed`, `cancelled`, `suspended`, …"""
    stop_reason: str | None = None
    errors: tuple[tuple[str, ...], ...] = ()
    """Of each attempt that was validated: what was wrong."""
    pending: tuple[PendingCall, ...] = ()
    """Calls that wait for a decision or a result."""
    error: dict[str, object] | None = None
    """The error of the run: category, message, provider, model."""


@dataclass(frozen=True, slots=True)
class Success(Generic[Output]):
    """An output that passed the schema and every validator: `case Success(invoice): …`"""

    output: Output
    metadata: ExecutionMetadata[Output]


@dataclass(frozen=True, slots=True)
class Failure:
    """The end of an execution without an output: `case Failure(code, message): …`"""

    code: AgentErrorCode
    message: str
    context: FailureContext
    metadata: ExecutionMetadata[object]


#: The name of `Failure` in the specification.
ExecuteFailure = Failure


def list_problems(errors: Sequence[str], most: int = 20) -> str:
    """Write problems as a list, one in a line."""
    lines = [f"- {error}" for error in errors[:most]]
    if len(errors) > most:
        lines.append(f"- … and {len(errors) - most} more")
    return "\n".join(lines)
