"""Every error Windlass raises, one tree.

    WindlassError
      ConfigError                an unknown option or an impossible value; raised before any model call
        AlreadyAnswered          somebody else was the first to answer a question
        WorkflowChanged          a workflow is not the one that a session was begun with
        KeyReused                a key was submitted before with another prompt
      ModelError                 a model call failed
        RateLimited  Overloaded  ServerError  Timeout  ConnectionFailed  StreamBroken     (transient)
        CircuitOpen              with_circuit_breaker does not ask a model that keeps failing
        AuthFailed  BadRequest  ContextOverflow  Refused  BadReply                        (final)
      ToolFailed                 a tool failed where failing ends the run
      WorkflowStepFailed         a step of a workflow ended without a result
      McpError                   an MCP server did not start, ended, or answered something wrong
      BudgetExceeded             a limit was reached
        TokenBudgetExceededError   of tokens
      Aborted                    the caller aborted the run
      Suspended                  the run is parked and waits
      OutputMissing              `out.output` of a run that ended without an answer
      PermissionDenied           the caller may not do this
      ResourceError              a call to a resource could not be answered
        NotFound  Conflict  InvalidValue
      DaemonError                a daemon does not take an event
        DaemonQueueFull  DaemonStopped
      StoreError                 the journal could not be read or written
        StaleWriter  Corrupt  Full  NoSuchSession
        Locked                   SessionHeld: a run is under way on the session
      TestBroken                 only a test runs into it, and it is raised through every run

Errors that end a run carry `.trace` and `.session_id`.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, ClassVar, Protocol

from windlass.json_types import JsonObject


class WindlassError(Exception):
    """The base class: `except windlass.WindlassError` catches everything Windlass raises."""

    trace: Any = None  # of a run: a dict; of `generate`: its steps
    session_id: str | None = None
    status: str | None = None


class ConfigError(WindlassError, ValueError):
    """An unknown option or an impossible value. The message names the nearest right one."""


class WorkspaceChanged(ConfigError):
    """A session whose workspace is gone, or is not the one that was given."""


class WorkflowChanged(ConfigError):
    """A workflow whose code is not the one that a session was begun with; `error.step` differs."""

    step: str = ""


class KeyReused(ConfigError):
    """A key that was submitted before with another prompt, agent or caller."""


class AlreadyAnswered(ConfigError):
    """A question that was already answered: by `error.by`, with `error.action`.

    ```python
    try:
        await w.approve(waiting.id, by=bea)
    except w.AlreadyAnswered as error:
        print(f"{error.by} was faster: {error.action}")
    ```
    """

    def __init__(self, call_id: str, action: str, by: str, what: str | None = None) -> None:
        named = what or f"call {call_id!r}"
        super().__init__(f"{named} was answered already, by {by}: {action}")
        self.call_id, self.action, self.by = call_id, action, by


class InvalidAnswer(ConfigError):
    """An answer that does not fit its question; the message says which answers do."""


class ModelError(WindlassError):
    """A failed model call. `category` is stable; `transient` says whether a retry can help."""

    category: ClassVar[str] = "model_error"
    transient: ClassVar[bool] = False
    attempts: int = 1  # how often the provider was asked in vain

    def __init__(
        self,
        message: str,
        *,
        provider: str | None = None,
        model: str | None = None,
        http_status: int | None = None,
        retry_after: float | None = None,
        request_id: str | None = None,
        code: str | None = None,
        body: str | None = None,
    ) -> None:
        super().__init__(message)
        self.provider, self.model, self.http_status = provider, model, http_status
        self.retry_after, self.request_id, self.code, self.body = (
            retry_after,
            request_id,
            code,
            body,
        )


class RateLimited(ModelError):
    """Too many requests; `retry_after` is the seconds to wait, if the provider gave them."""

    category, transient = "rate_limit", True


class Overloaded(ModelError):
    """The provider has no capacity right now (503, 529)."""

    category, transient = "overloaded", True


class ServerError(ModelError):
    """The provider failed (5xx)."""

    category, transient = "server_error", True


class Timeout(ModelError):
    """No connection, no progress or no end in time."""

    category, transient = "timeout", True


class ConnectionFailed(ModelError):
    """The provider could not be reached, or closed the connection without an answer."""

    category, transient = "network", True


class StreamBroken(ModelError):
    """A reply that began and did not end properly; none of its calls was run."""

    category, transient = "network", True


class CircuitOpen(ModelError):
    """A model that has failed too often is not called for `retry_after` seconds."""

    category, transient = "circuit_open", True


class AuthFailed(ModelError):
    """The key is missing, wrong or not allowed (401, 403)."""

    category = "auth"


class BadRequest(ModelError):
    """The provider refuses the request as it is (400, 404, 413, 422)."""

    category = "bad_request"


class ContextOverflow(BadRequest):
    """The messages do not fit the model's context window."""

    category = "context_overflow"


class QuotaExceeded(ModelError):
    """The account has no credit left; waiting does not help."""

    category = "quota"


class Refused(ModelError):
    """The model or its filter refused to answer."""

    category = "refused"


class BadReply(ModelError):
    """The reply was not what the wire format promises (HTML with 200, cut JSON, no content)."""

    category, transient = "bad_reply", True


class ToolFailed(WindlassError):
    """A tool failed, and the options say that this ends the run (`tool_error_mode="abort"`)."""


class McpError(WindlassError):
    """An MCP server that did not start, ended, or answered something wrong: `error.server`."""

    def __init__(self, server: str, problem: str, *, is_lost: bool = False) -> None:
        super().__init__(f"MCP server {server!r}: {problem}")
        self.server, self.problem = server, problem
        self.is_lost = (
            is_lost  # the server ended in the middle of a call, which may have had an effect
        )


class BudgetExceeded(WindlassError):
    """A limit on turns, tokens, dollars or seconds was reached: `error.limit` names it."""

    limit: str | None = None


class TokenBudgetExceededError(BudgetExceeded):
    """An agent used more tokens than its budget: `error.agent`, `.tokens_used`, `.budget`."""

    limit: str | None = "tokens"

    def __init__(self, agent: str, tokens_used: int, budget: int) -> None:
        super().__init__(f"agent {agent!r} used {tokens_used} tokens of a budget of {budget}")
        self.agent, self.tokens_used, self.budget = agent, tokens_used, budget


class Aborted(WindlassError):
    """The run was stopped by `Abort.abort()`, or a stream of it was left."""


class WaitingCall(Protocol):
    """A tool call that waits for an approval, or for its result."""

    @property
    def id(self) -> str:
        """The id under which `resume` takes the answer."""
        ...

    @property
    def name(self) -> str:
        """The name of the tool."""
        ...

    @property
    def arguments(self) -> JsonObject:
        """The arguments of the call."""
        ...

    @property
    def reason(self) -> str:
        """Why it waits."""
        ...


class Suspended(WindlassError):
    """A parked run: resume it by `session_id` when the calls in `pending` are answered."""

    pending: Sequence[WaitingCall] = ()


class OutputMissing(WindlassError):
    """A run without an answer: `error.status`, `error.error`, `error.fix`.

    `error` is that of the result (category, kind, message, …), `fix` says what to do.

    ```python
    try:
        print(out.output)
    except w.OutputMissing as missing:
        print(missing.status, missing.fix)
    ```
    """

    def __init__(self, message: str, *, error: JsonObject | None = None, fix: str = "") -> None:
        super().__init__(message)
        self.error, self.fix = error, fix


class GuardrailTripped(WindlassError):
    """A guardrail stopped the run; a guardrail may raise it with the reason.

    ```python
    def no_homework(text):
        if "homework" in text:
            raise w.GuardrailTripped("we do no homework")
    ```
    """


class PermissionDenied(WindlassError):
    """The caller has no permission for this."""


class ParentRequired(PermissionDenied):
    """A sub-agent's session that continues only with its parent: resume `error.session_id`."""

    def __init__(self, why: str, parent_id: str) -> None:
        super().__init__(
            f"this session works under the rules of {parent_id!r}, {why}: resume {parent_id!r}, which "
            "goes on with this one"
        )
        self.session_id = parent_id


class ResourceError(WindlassError):
    """A call to a resource could not be answered; `code` is stable."""

    code: ClassVar[str] = "resource_error"


class NotFound(ResourceError, KeyError):
    """The caller's tenant has no row with this id."""

    code = "not_found"

    def __str__(self) -> str:
        return str(self.args[0]) if self.args else "not found"


class Conflict(ResourceError):
    """A row that was changed since it was read: read it again and repeat the edit.

    `error.version` is the current version, if there is one.
    """

    code = "conflict"

    def __init__(self, message: str, version: int | None = None) -> None:
        super().__init__(message)
        self.version = version


class InvalidValue(ResourceError, ValueError):
    """A value, a filter or a cursor that the resource does not accept."""

    code = "invalid"


class DaemonError(WindlassError):
    """An event that a daemon does not take: `except w.DaemonError`."""


class DaemonQueueFull(DaemonError):
    """A queue with no room for another event; nothing was dropped.

    `error.pending` events wait, as many as `error.capacity` allows.
    """

    def __init__(self, pending: int, capacity: int) -> None:
        super().__init__(f"{pending} events wait, and the queue of the daemon holds {capacity}")
        self.pending, self.capacity = pending, capacity


class DaemonStopped(DaemonError):
    """A daemon that was stopped or has ended; `daemon_resume` starts it again."""


class WorkflowStepFailed(WindlassError):
    """A step of a workflow that ended without a result; `error.step` is its name."""

    step: str = ""


class StoreError(WindlassError):
    """The journal could not be read or written."""

    unwritten: bool = False  # what was to be written was sound, and the store could not write it


class StaleWriter(StoreError):
    """Another process has taken over the session; this run ends and writes nothing more."""


class Corrupt(StoreError):
    """A journal that does not verify or decode; the message names session and entry."""


class Full(StoreError):
    """The disk is full. Nothing was lost: make room and resume."""


class Locked(StoreError):
    """Another process holds the database or the session."""


class SessionWriter(Protocol):
    """The writer of a session, as `SessionHeld` names it."""

    @property
    def host(self) -> str:
        """Its machine."""
        ...

    @property
    def pid(self) -> int:
        """Its process."""
        ...

    @property
    def caller(self) -> str | None:
        """Who runs it."""
        ...

    @property
    def since(self) -> float:
        """When it became the writer, in epoch seconds."""
        ...


class SessionHeld(Locked):
    """A session with an active run, in this or another process.

    `error.holder` is its writer (`.host`, `.pid`, `.caller`, `.since`), and `error.last_active` is
    when it was last active, in epoch seconds. `take_over=True` continues anyway; the other run then
    ends with `StaleWriter`.

    ```python
    try:
        out = await agent.resume("s1")
    except w.SessionHeld as held:
        print(held.holder, held.last_active)
    ```
    """

    def __init__(
        self, message: str, *, holder: SessionWriter | None = None, last_active: float = 0.0
    ) -> None:
        super().__init__(message)
        self.holder, self.last_active = holder, last_active


class NoSuchSession(StoreError, KeyError):
    """There is no session with this id, or the caller may not see it."""

    def __str__(self) -> str:
        return str(self.args[0]) if self.args else "no such session"


class TestBroken(WindlassError, AssertionError):
    """An error that only tests raise: an ended script, a forbidden request, a broken rule.

    The run is recorded as failed, and the error is raised in place of a status, so that no test
    overlooks it.
    """

    __test__ = False  # its name makes pytest look


def nearest(name: str, known: Iterable[str], table: str | None = None) -> str:
    """Build `; did you mean 'x'?`, or nothing when no known name is close.

    With a table of `foreign_names`, a name of another framework is answered with ours.
    """
    if len(name) > 200:  # nothing is close to that, and finding out would take long
        return ""
    from windlass.foreign_names import explain_name  # only for who writes something wrong

    return explain_name(name, known, table)


def error_text(error: BaseException, limit: int = 8192) -> str:
    """Return an error's message: valid text, of a bounded length; never raises."""
    try:
        text = whole_text(str(error))
    except Exception:
        text = ""
    return text if len(text) <= limit else f"{text[: limit - 1]}…"


def attribute(error: BaseException, name: str) -> str | None:
    """Return an attribute of the error, if it is a text or a number."""
    try:
        value = getattr(error, name, None)
    except Exception:
        return None
    if isinstance(value, int):
        return str(value)
    return whole_text(value)[:200] if isinstance(value, str) else None


def whole_text(text: str) -> str:
    """Replace halves of characters (lone surrogates) by `?`."""
    if text.isascii():
        return text
    return text.encode(errors="replace").decode()


def safe_repr(value: object, limit: int = 80) -> str:
    """Return the `repr` of a value for an error message, cut; never raises."""
    try:
        text = repr(value)
    except Exception:
        return f"<{type(value).__name__} that cannot be shown>"
    return text if len(text) <= limit else f"{text[: limit - 1]}…"
