"""The public names, for type checkers; `__init__.py` loads them when they are first used."""

from windlass import (
    callers as callers,
    errors as errors,
    models as models,
    sync as sync,
    testing as testing,
)
from windlass.access.caller import (
    Caller as Caller,
)
from windlass.agents.abort import (
    Abort as Abort,
)
from windlass.agents.agent import (
    Agent as Agent,
)
from windlass.agents.llm import (
    Chunk as Chunk,
    LLMResult as LLMResult,
    llm_call as llm_call,
    llm_stream as llm_stream,
)
from windlass.agents.loop import (
    agent_loop as agent_loop,
)
from windlass.agents.options import (
    Budget as Budget,
    LoopOptions as LoopOptions,
)
from windlass.agents.results import (
    AgentResult as AgentResult,
    LoopResult as LoopResult,
)
from windlass.agents.runtime import (
    Runtime as Runtime,
)
from windlass.agents.sessions import (
    agent_session_close as agent_session_close,
    agent_session_fork as agent_session_fork,
    agent_session_fork_at as agent_session_fork_at,
    agent_session_list as agent_session_list,
    agent_session_open as agent_session_open,
    agent_session_read as agent_session_read,
    agent_session_reset as agent_session_reset,
    agent_session_trim as agent_session_trim,
)
from windlass.agents.transcripts import (
    transcript_events as transcript_events,
    transcript_render_full as transcript_render_full,
    transcript_render_visible as transcript_render_visible,
)
from windlass.callers.breaker import (
    with_circuit_breaker as with_circuit_breaker,
)
from windlass.callers.budget import (
    with_budget as with_budget,
)
from windlass.callers.cache import (
    with_cache as with_cache,
)
from windlass.callers.caller import (
    compose as compose,
    default_llm_caller as default_llm_caller,
)
from windlass.callers.escalation import (
    with_escalation as with_escalation,
)
from windlass.callers.fallback import (
    with_fallback as with_fallback,
)
from windlass.callers.logs import (
    with_logging as with_logging,
)
from windlass.callers.retry import (
    with_retry as with_retry,
)
from windlass.callers.shadow import (
    with_shadow as with_shadow,
)
from windlass.errors import (
    Aborted as Aborted,
    AuthFailed as AuthFailed,
    BadReply as BadReply,
    BadRequest as BadRequest,
    BudgetExceeded as BudgetExceeded,
    CircuitOpen as CircuitOpen,
    ConfigError as ConfigError,
    ConnectionFailed as ConnectionFailed,
    ContextOverflow as ContextOverflow,
    Corrupt as Corrupt,
    Full as Full,
    Locked as Locked,
    ModelError as ModelError,
    NoSuchSession as NoSuchSession,
    OutputMissing as OutputMissing,
    Overloaded as Overloaded,
    PermissionDenied as PermissionDenied,
    QuotaExceeded as QuotaExceeded,
    RateLimited as RateLimited,
    Refused as Refused,
    ServerError as ServerError,
    StaleWriter as StaleWriter,
    StoreError as StoreError,
    StreamBroken as StreamBroken,
    Suspended as Suspended,
    Timeout as Timeout,
    ToolFailed as ToolFailed,
    WindlassError as WindlassError,
)
from windlass.events import (
    Event as Event,
    TextDelta as TextDelta,
    ThinkingDelta as ThinkingDelta,
    ToolCallReady as ToolCallReady,
    ToolCallStarted as ToolCallStarted,
    ToolCallUpdate as ToolCallUpdate,
)
from windlass.loop.answers import (
    Allow as Allow,
    Deny as Deny,
)
from windlass.loop.policy import (
    Policy as Policy,
    TryAgain as TryAgain,
)
from windlass.loop.run import (
    Run as Run,
)
from windlass.loop.turn import (
    Turn as Turn,
)
from windlass.loop.verdict import (
    Finish as Finish,
    KeepGoing as KeepGoing,
    Outcome as Outcome,
    Stop as Stop,
    Suspend as Suspend,
    Verdict as Verdict,
)
from windlass.messages import (
    Document as Document,
    Image as Image,
    Message as Message,
    Opaque as Opaque,
    Text as Text,
    Thinking as Thinking,
    ToolCall as ToolCall,
    ToolResult as ToolResult,
)
from windlass.models.base import (
    Frame as Frame,
    Model as Model,
    Request as Request,
    Response as Response,
    Settings as Settings,
)
from windlass.models.mock import (
    llm_mock as llm_mock,
    llm_mock_calls as llm_mock_calls,
    llm_mock_clear as llm_mock_clear,
)
from windlass.redact import (
    Secret as Secret,
)
from windlass.tools.base import (
    Parked as Parked,
    Retry as Retry,
    Tool as Tool,
    ToolContext as ToolContext,
)
from windlass.tools.function import (
    tool as tool,
)
from windlass.tools.registry import (
    tool_define as tool_define,
    tool_registry as tool_registry,
    tool_select as tool_select,
)
from windlass.usage import (
    Usage as Usage,
)

__version__: str
__all__: list[str]
