"""The public names, for type checkers; `__init__.py` loads them when they are first used."""

from windlass import (
    callers as callers,
)
from windlass import (
    errors as errors,
)
from windlass import (
    models as models,
)
from windlass import (
    sync as sync,
)
from windlass import (
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
from windlass.agents.completing import (
    llm_completion as llm_completion,
)
from windlass.agents.cost import (
    SessionCost as SessionCost,
)
from windlass.agents.cost import (
    llm_budget as llm_budget,
)
from windlass.agents.cost import (
    llm_budget_remaining as llm_budget_remaining,
)
from windlass.agents.cost import (
    llm_cost as llm_cost,
)
from windlass.agents.cost import (
    llm_session_cost as llm_session_cost,
)
from windlass.agents.llm import (
    Chunk as Chunk,
)
from windlass.agents.llm import (
    LLMResult as LLMResult,
)
from windlass.agents.llm import (
    llm_call as llm_call,
)
from windlass.agents.llm import (
    llm_stream as llm_stream,
)
from windlass.agents.loop import (
    agent_loop as agent_loop,
)
from windlass.agents.options import (
    Budget as Budget,
)
from windlass.agents.options import (
    LoopOptions as LoopOptions,
)
from windlass.agents.results import (
    AgentResult as AgentResult,
)
from windlass.agents.results import (
    LoopResult as LoopResult,
)
from windlass.agents.runtime import (
    Runtime as Runtime,
)
from windlass.agents.sessions import (
    agent_session_close as agent_session_close,
)
from windlass.agents.sessions import (
    agent_session_fork as agent_session_fork,
)
from windlass.agents.sessions import (
    agent_session_fork_at as agent_session_fork_at,
)
from windlass.agents.sessions import (
    agent_session_list as agent_session_list,
)
from windlass.agents.sessions import (
    agent_session_open as agent_session_open,
)
from windlass.agents.sessions import (
    agent_session_read as agent_session_read,
)
from windlass.agents.sessions import (
    agent_session_reset as agent_session_reset,
)
from windlass.agents.sessions import (
    agent_session_trim as agent_session_trim,
)
from windlass.agents.transcripts import (
    transcript_events as transcript_events,
)
from windlass.agents.transcripts import (
    transcript_render_full as transcript_render_full,
)
from windlass.agents.transcripts import (
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
)
from windlass.callers.caller import (
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
)
from windlass.errors import (
    AuthFailed as AuthFailed,
)
from windlass.errors import (
    BadReply as BadReply,
)
from windlass.errors import (
    BadRequest as BadRequest,
)
from windlass.errors import (
    BudgetExceeded as BudgetExceeded,
)
from windlass.errors import (
    CircuitOpen as CircuitOpen,
)
from windlass.errors import (
    ConfigError as ConfigError,
)
from windlass.errors import (
    ConnectionFailed as ConnectionFailed,
)
from windlass.errors import (
    ContextOverflow as ContextOverflow,
)
from windlass.errors import (
    Corrupt as Corrupt,
)
from windlass.errors import (
    Full as Full,
)
from windlass.errors import (
    Locked as Locked,
)
from windlass.errors import (
    ModelError as ModelError,
)
from windlass.errors import (
    NoSuchSession as NoSuchSession,
)
from windlass.errors import (
    OutputMissing as OutputMissing,
)
from windlass.errors import (
    Overloaded as Overloaded,
)
from windlass.errors import (
    PermissionDenied as PermissionDenied,
)
from windlass.errors import (
    QuotaExceeded as QuotaExceeded,
)
from windlass.errors import (
    RateLimited as RateLimited,
)
from windlass.errors import (
    Refused as Refused,
)
from windlass.errors import (
    ServerError as ServerError,
)
from windlass.errors import (
    StaleWriter as StaleWriter,
)
from windlass.errors import (
    StoreError as StoreError,
)
from windlass.errors import (
    StreamBroken as StreamBroken,
)
from windlass.errors import (
    Suspended as Suspended,
)
from windlass.errors import (
    Timeout as Timeout,
)
from windlass.errors import (
    ToolFailed as ToolFailed,
)
from windlass.errors import (
    WindlassError as WindlassError,
)
from windlass.events import (
    Event as Event,
)
from windlass.events import (
    TextDelta as TextDelta,
)
from windlass.events import (
    ThinkingDelta as ThinkingDelta,
)
from windlass.events import (
    ToolCallReady as ToolCallReady,
)
from windlass.events import (
    ToolCallStarted as ToolCallStarted,
)
from windlass.events import (
    ToolCallUpdate as ToolCallUpdate,
)
from windlass.loop.answers import (
    Allow as Allow,
)
from windlass.loop.answers import (
    Deny as Deny,
)
from windlass.loop.policy import (
    Policy as Policy,
)
from windlass.loop.policy import (
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
)
from windlass.loop.verdict import (
    KeepGoing as KeepGoing,
)
from windlass.loop.verdict import (
    Outcome as Outcome,
)
from windlass.loop.verdict import (
    Stop as Stop,
)
from windlass.loop.verdict import (
    Suspend as Suspend,
)
from windlass.loop.verdict import (
    Verdict as Verdict,
)
from windlass.messages import (
    Document as Document,
)
from windlass.messages import (
    Image as Image,
)
from windlass.messages import (
    Message as Message,
)
from windlass.messages import (
    Opaque as Opaque,
)
from windlass.messages import (
    Text as Text,
)
from windlass.messages import (
    Thinking as Thinking,
)
from windlass.messages import (
    ToolCall as ToolCall,
)
from windlass.messages import (
    ToolResult as ToolResult,
)
from windlass.models.base import (
    Frame as Frame,
)
from windlass.models.base import (
    Model as Model,
)
from windlass.models.base import (
    Request as Request,
)
from windlass.models.base import (
    Response as Response,
)
from windlass.models.base import (
    Settings as Settings,
)
from windlass.models.matrix import (
    provider_capabilities as provider_capabilities,
)
from windlass.models.matrix import (
    provider_capabilities_clear as provider_capabilities_clear,
)
from windlass.models.matrix import (
    provider_capabilities_install as provider_capabilities_install,
)
from windlass.models.mock import (
    llm_mock as llm_mock,
)
from windlass.models.mock import (
    llm_mock_calls as llm_mock_calls,
)
from windlass.models.mock import (
    llm_mock_clear as llm_mock_clear,
)
from windlass.redact import (
    Secret as Secret,
)
from windlass.store.calls import (
    ModelCall as ModelCall,
)
from windlass.tools.base import (
    Parked as Parked,
)
from windlass.tools.base import (
    Retry as Retry,
)
from windlass.tools.base import (
    Tool as Tool,
)
from windlass.tools.base import (
    ToolContext as ToolContext,
)
from windlass.tools.function import (
    tool as tool,
)
from windlass.tools.registry import (
    tool_define as tool_define,
)
from windlass.tools.registry import (
    tool_registry as tool_registry,
)
from windlass.tools.registry import (
    tool_select as tool_select,
)
from windlass.tools.tool_search import (
    ToolSearch as ToolSearch,
)
from windlass.usage import (
    Usage as Usage,
)

__version__: str
__all__: list[str]
