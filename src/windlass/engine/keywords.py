"""The types of options as keywords, for editors and type checkers.

Written by `scripts/make_options.py` from the option groups. Nothing of Windlass loads this by itself.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypedDict

if TYPE_CHECKING:
    import os
    from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
    from typing import Literal

    from windlass.access.approval import ApprovalPolicy
    from windlass.access.caller import Caller
    from windlass.access.ceiling import Ceiling
    from windlass.access.permissions import Permissions
    from windlass.engine.open_questions import OnPending
    from windlass.events import Event
    from windlass.events.policy import Reminder
    from windlass.json_types import JsonObject
    from windlass.loop.abort import Abort
    from windlass.loop.ledger import Budget
    from windlass.loop.policy import Policy
    from windlass.mcp.client.servers import McpServer
    from windlass.messages import Message, ToolResult
    from windlass.models.base import Model
    from windlass.models.reasoning import Scale, Task
    from windlass.observe.trace_events import TraceEvent
    from windlass.policies.compaction.options import Compaction
    from windlass.policies.completion import TurnPolicy
    from windlass.policies.context_strategy.options import CustomStrategy, SlidingWindow, Summarize
    from windlass.policies.judges.options import CompletionJudge, DoneJudge
    from windlass.policies.judges.step import StepJudge
    from windlass.policies.preview.plan import EffectPlan
    from windlass.policies.progress import ProgressTool
    from windlass.policies.projection.options import TranscriptProjection
    from windlass.policies.prompt_overrides import PromptSource
    from windlass.policies.scratchpad.options import Scratchpad
    from windlass.policies.skills.options import SkillSource
    from windlass.policies.skills.skill import SkillMatch
    from windlass.policies.stall.options import LoopDetection, StallDiagnostics
    from windlass.policies.taint.options import Taint
    from windlass.policies.tool_narrowing import ToolSurfaceNarrowing
    from windlass.policies.turn_limit.options import IterationBudget
    from windlass.redaction.redactor import Secret
    from windlass.store.base import Store
    from windlass.toolbox.options import Fetch, Sandbox
    from windlass.toolbox.presets import ToolPreset
    from windlass.tools.middleware.stack import ToolLayer
    from windlass.tools.search.options import ToolSearch
    from windlass.tools.source import ToolLike
    from windlass.tools.tool import Tool


class ProviderKeywords(TypedDict, total=False):
    """What one provider alone understands, under its name; any configured provider has one."""

    anthropic: JsonObject
    openai: JsonObject
    openrouter: JsonObject
    huggingface: JsonObject
    ollama: JsonObject
    local: JsonObject
    llamacpp: JsonObject
    mlx: JsonObject
    together: JsonObject
    groq: JsonObject
    deepseek: JsonObject
    fireworks: JsonObject
    mistral: JsonObject
    gemini: JsonObject
    vertex: JsonObject
    bedrock: JsonObject


class CompletionKeywords(ProviderKeywords, total=False):
    """What `llm_completion` takes by name."""

    api_key: str | Secret | None
    base_url: str | None
    caller: Caller | None
    conversation_id: str | None
    frequency_penalty: float | None
    headers: Mapping[str, str | Secret] | None
    llm_backoff_ms: float | None
    llm_caller: Callable[..., object] | None
    llm_retries: int | None
    max_tokens: int | None
    model: str | Model | None
    model_tier: str | None
    presence_penalty: float | None
    problem_scale: Scale
    provider: str | None
    reasoning_effort: str | None
    reasoning_policy: str | bool
    reasoning_scale: Scale
    reasoning_task: Task | None
    request_id: str | None
    seed: int | None
    stop: str | Sequence[str] | None
    stream: bool | None
    task_kind: str | None
    temperature: float | None
    thinking: bool | JsonObject | None
    thinking_policy: str | bool
    timeout: float | None
    top_k: int | None
    top_p: float | None


class CallKeywords(ProviderKeywords, total=False):
    """What `llm_call` and `llm_stream` take by name, beside the form of the answer."""

    anthropic_beta_features: Sequence[str] | None
    api_key: str | Secret | None
    base_url: str | None
    budget: Budget | JsonObject | None
    cache: bool | None
    caller: Caller | None
    conversation_id: str | None
    frequency_penalty: float | None
    headers: Mapping[str, str | Secret] | None
    interleaved_thinking: bool | None
    llm_backoff_ms: float | None
    llm_caller: Callable[..., object] | None
    llm_retries: int | None
    max_tokens: int | None
    messages: Sequence[object] | None
    model: str | Model | None
    model_tier: str | None
    presence_penalty: float | None
    problem_scale: Scale
    provider: str | None
    reasoning_effort: str | None
    reasoning_policy: str | bool
    reasoning_scale: Scale
    reasoning_task: Task | None
    request_id: str | None
    schema_retries: int
    seed: int | None
    stop: str | Sequence[str] | None
    stream: bool | None
    task_kind: str | None
    temperature: float | None
    thinking: bool | JsonObject | None
    thinking_policy: str | bool
    timeout: float | None
    tool_choice: str | JsonObject | None
    tool_search: bool | str | JsonObject | ToolSearch | None
    tools: Sequence[ToolLike] | Iterable[Tool] | None
    top_k: int | None
    top_p: float | None
    transcript: Mapping[str, object] | None


class LoopOptions(TypedDict, total=False):
    """Every option of `agent_loop`."""

    abort: Abort | None
    anthropic_beta_features: Sequence[str] | None
    api_key: str | Secret | None
    approval_policy: JsonObject | ApprovalPolicy | None
    audit_sink: Callable[..., object] | None
    auto_compact: str | bool | JsonObject | Compaction | None
    await_resumption: bool | None
    base_url: str | None
    budget: Budget | JsonObject | None
    cache: bool | None
    caller: Caller | None
    closing_answer: bool
    compact_callback: Callable[..., object] | None
    compact_keep_first: int | None
    compact_keep_last: int | None
    compact_strategy: str | None
    compact_threshold: int | None
    compaction: str | bool | JsonObject | Compaction | None
    consent: Callable[..., object] | None
    consolidate_on_idle: bool
    context_callback: Callable[..., object] | None
    context_filter: Callable[..., object] | None
    context_strategy: JsonObject | SlidingWindow | Summarize | CustomStrategy | None
    conversation_id: str | None
    daemon: bool
    deps: object
    done_judge: bool | JsonObject | DoneJudge | None
    done_sentinel: str | None
    dry_run: bool | Literal["plan"] | JsonObject | ToolLayer | None
    eager_tools: bool
    event_queue_capacity: int | None
    fetch: JsonObject | Fetch | None
    frequency_penalty: float | None
    handoff_sink: Callable[..., object] | None
    headers: Mapping[str, str | Secret] | None
    idle_watchdog_attempts: int | None
    input_guardrails: Sequence[Callable[..., object]] | Callable[..., object]
    interleaved_thinking: bool | None
    iteration_budget: str | JsonObject | IterationBudget | None
    llm_backoff_ms: float | None
    llm_caller: Callable[..., object] | None
    llm_options: JsonObject | None
    llm_retries: int | None
    llm_transcript_dir: str | None
    loop_control: Callable[..., object] | None
    loop_detect_block: int | None
    loop_detect_skip: int | None
    loop_detect_warn: int | None
    loop_detection: bool | JsonObject | LoopDetection | None
    loop_until_done: bool
    max_calls_per_reply: int
    max_concurrent_tools: int | None
    max_iterations: int | None
    max_nudges: int
    max_resume_attempts: int | None
    max_tokens: int | None
    max_verify_attempts: int
    mcp_servers: Mapping[str, object] | Sequence[object] | str | os.PathLike[str] | McpServer | None
    message_decorator: Callable[..., object] | None
    messages: Sequence[object] | None
    model: str | Model | None
    model_tier: str | None
    mounts: Mapping[str, Literal["read", "extend"]] | Sequence[str] | None
    name: str | None
    native_tool_fallback: Literal["allow", "allow_once", "reject"]
    nudge: str | None
    on_cancel: Literal["cancel", "park"]
    on_event: Callable[[Event], object] | None
    on_pending: OnPending
    on_session_start: Callable[..., object] | str | Reminder | JsonObject | Sequence[object] | None
    output_guardrails: Sequence[Callable[..., object]] | Callable[..., object]
    permissions: JsonObject | Permissions | None
    persist_path: str | os.PathLike[str] | None
    persistent: bool
    plan: str | EffectPlan | None
    policies: Sequence[Policy[Any]]
    policy: JsonObject | Ceiling | None
    post_turn_callback: Callable[..., object] | None
    prefetch_next_turn: bool
    presence_penalty: float | None
    problem_scale: Scale
    profile: str | None
    progress_tool: bool | JsonObject | ProgressTool | None
    prompt_overrides: Mapping[str, PromptSource] | None
    prompts: Mapping[str, PromptSource] | None
    provider: str | None
    rate_limit: JsonObject | ToolLayer | None
    reasoning_effort: str | None
    reasoning_policy: str | bool
    reasoning_scale: Scale
    reasoning_task: Task | None
    request_id: str | None
    require_successful_tools: Sequence[str | Sequence[str]] | None
    response_format: Literal["text", "json"] | None
    resume_path: str | os.PathLike[str] | None
    run_id: str | None
    sandbox: Literal["workspace", "isolated", "none"] | JsonObject | Sandbox | None
    schema: object
    schema_retries: int
    scratchpad: bool | JsonObject | Scratchpad | None
    seed: int | None
    session_id: str | None
    skill_match: JsonObject | SkillMatch | None
    skills: SkillSource | None
    stall_diagnostics: bool | JsonObject | StallDiagnostics | None
    step_judge: bool | JsonObject | StepJudge | None
    stop: str | Sequence[str] | None
    stop_after_successful_tools: Sequence[str] | None
    store: str | os.PathLike[str] | Store | None
    stream: bool | None
    subagent_tools: bool
    subagents: bool
    taint: bool | JsonObject | Taint | None
    take_over: bool
    task_kind: str | None
    telemetry: Callable[..., object] | None
    temperature: float | None
    thinking: bool | JsonObject | None
    thinking_policy: str | bool
    timeout: float | None
    timestamp_messages: bool
    token_budget: int | None
    tool_arg_validation: Literal["strict", "lenient", "none"]
    tool_backoff_ms: float
    tool_caller: Callable[..., object] | None
    tool_choice: str | JsonObject | None
    tool_format: Literal["native", "text"] | None
    tool_preset: ToolPreset | None
    tool_result_max_bytes: int
    tool_retries: int
    tool_search: bool | str | JsonObject | ToolSearch | None
    tool_surface_narrowing: bool | JsonObject | ToolSurfaceNarrowing | None
    tool_timeout: float | None
    tools: Sequence[ToolLike] | Iterable[Tool] | None
    top_k: int | None
    top_p: float | None
    transcript: Mapping[str, object] | None
    transcript_projection: str | JsonObject | TranscriptProjection | None
    turn_policy: JsonObject | TurnPolicy | None
    verify_completion: Callable[..., object] | str | Sequence[Callable[..., object] | str] | None
    verify_completion_judge: bool | JsonObject | CompletionJudge | None
    wake_interval_ms: int | None
    watch_paths: str | os.PathLike[str] | Sequence[str | os.PathLike[str]] | None
    working_files: str | Sequence[str]
    workspace: str | os.PathLike[str] | None


class AgentKeywords(ProviderKeywords, total=False):
    """What `Agent` takes by name, beside its named arguments."""

    abort: Abort | None
    agents: Sequence[object]
    allowed_tools: Sequence[str] | None
    anthropic_beta_features: Sequence[str] | None
    api_key: str | Secret | None
    approval_policy: JsonObject | ApprovalPolicy | None
    audit_sink: Callable[..., object] | None
    auto_compact: str | bool | JsonObject | Compaction | None
    await_resumption: bool | None
    base_url: str | None
    budget: Budget | JsonObject | None
    cache: bool | None
    caller: Caller | None
    closing_answer: bool
    compact_callback: Callable[..., object] | None
    compact_keep_first: int | None
    compact_keep_last: int | None
    compact_strategy: str | None
    compact_threshold: int | None
    compaction: str | bool | JsonObject | Compaction | None
    consent: Callable[..., object] | None
    context_callback: Callable[..., object] | None
    context_filter: Callable[..., object] | None
    context_strategy: JsonObject | SlidingWindow | Summarize | CustomStrategy | None
    conversation_id: str | None
    deps: object
    description: str | None
    disallowed_tools: Sequence[str] | None
    done_judge: bool | JsonObject | DoneJudge | None
    done_sentinel: str | None
    dry_run: bool | Literal["plan"] | JsonObject | ToolLayer | None
    eager_tools: bool
    fetch: JsonObject | Fetch | None
    frequency_penalty: float | None
    handoff_sink: Callable[..., object] | None
    handoffs: Sequence[object]
    handoffs_back: bool
    headers: Mapping[str, str | Secret] | None
    input_guardrails: Sequence[Callable[..., object]] | Callable[..., object]
    interleaved_thinking: bool | None
    iteration_budget: str | JsonObject | IterationBudget | None
    llm_backoff_ms: float | None
    llm_caller: Callable[..., object] | None
    llm_options: JsonObject | None
    llm_retries: int | None
    llm_transcript_dir: str | None
    loop_control: Callable[..., object] | None
    loop_detect_block: int | None
    loop_detect_skip: int | None
    loop_detect_warn: int | None
    loop_detection: bool | JsonObject | LoopDetection | None
    loop_until_done: bool
    max_calls_per_reply: int
    max_concurrent_tools: int | None
    max_handoffs: int
    max_nudges: int
    max_resume_attempts: int | None
    max_token_budget: int | None
    max_tokens: int | None
    max_turns: int | None
    max_verify_attempts: int
    mcp_servers: Mapping[str, object] | Sequence[object] | str | os.PathLike[str] | McpServer | None
    message_decorator: Callable[..., object] | None
    model_tier: str | None
    mounts: Mapping[str, Literal["read", "extend"]] | Sequence[str] | None
    name: str | None
    native_tool_fallback: Literal["allow", "allow_once", "reject"]
    nudge: str | None
    on_cancel: Literal["cancel", "park"]
    on_event: Callable[[Event], object] | None
    on_pending: OnPending
    on_session_start: Callable[..., object] | str | Reminder | JsonObject | Sequence[object] | None
    output_guardrails: Sequence[Callable[..., object]] | Callable[..., object]
    permissions: JsonObject | Permissions | None
    plan: str | EffectPlan | None
    policies: Sequence[Policy[Any]]
    policy: JsonObject | Ceiling | None
    post_turn_callback: Callable[..., object] | None
    prefetch_next_turn: bool
    presence_penalty: float | None
    problem_scale: Scale
    profile: str | None
    progress_tool: bool | JsonObject | ProgressTool | None
    prompt_overrides: Mapping[str, PromptSource] | None
    prompts: Mapping[str, PromptSource] | None
    provider: str | None
    rate_limit: JsonObject | ToolLayer | None
    reasoning_effort: str | None
    reasoning_policy: str | bool
    reasoning_scale: Scale
    reasoning_task: Task | None
    request_id: str | None
    require_successful_tools: Sequence[str | Sequence[str]] | None
    response_format: Literal["text", "json"] | None
    role: str | None
    sandbox: Literal["workspace", "isolated", "none"] | JsonObject | Sandbox | None
    schema: object
    schema_retries: int
    scratchpad: bool | JsonObject | Scratchpad | None
    seed: int | None
    session_id: str | None
    skill_match: JsonObject | SkillMatch | None
    skills: SkillSource | None
    stall_diagnostics: bool | JsonObject | StallDiagnostics | None
    step_judge: bool | JsonObject | StepJudge | None
    stop: str | Sequence[str] | None
    stop_after_successful_tools: Sequence[str] | None
    store: str | os.PathLike[str] | Store | None
    stream: bool | None
    subagent_tools: bool
    subagents: bool
    taint: bool | JsonObject | Taint | None
    take_over: bool
    task_kind: str | None
    telemetry: Callable[..., object] | None
    temperature: float | None
    thinking: bool | JsonObject | None
    thinking_policy: str | bool
    timeout: float | None
    timestamp_messages: bool
    token_budget: int | None
    tool_arg_validation: Literal["strict", "lenient", "none"]
    tool_backoff_ms: float
    tool_caller: Callable[..., object] | None
    tool_choice: str | JsonObject | None
    tool_format: Literal["native", "text"] | None
    tool_preset: ToolPreset | None
    tool_result_max_bytes: int
    tool_retries: int
    tool_search: bool | str | JsonObject | ToolSearch | None
    tool_surface_narrowing: bool | JsonObject | ToolSurfaceNarrowing | None
    tool_timeout: float | None
    top_k: int | None
    top_p: float | None
    transcript: Mapping[str, object] | None
    transcript_projection: str | JsonObject | TranscriptProjection | None
    turn_policy: JsonObject | TurnPolicy | None
    verify_completion: Callable[..., object] | str | Sequence[Callable[..., object] | str] | None
    verify_completion_judge: bool | JsonObject | CompletionJudge | None
    version: str
    working_files: str | Sequence[str]
    workspace: str | os.PathLike[str] | None


class RunKeywords(ProviderKeywords, total=False):
    """What `Agent.run` takes by name, beside its named arguments."""

    abort: Abort | None
    agents: Sequence[object]
    allowed_tools: Sequence[str] | None
    anthropic_beta_features: Sequence[str] | None
    api_key: str | Secret | None
    approval_policy: JsonObject | ApprovalPolicy | None
    audit_sink: Callable[..., object] | None
    auto_compact: str | bool | JsonObject | Compaction | None
    await_resumption: bool | None
    base_url: str | None
    budget: Budget | JsonObject | None
    cache: bool | None
    caller: Caller | None
    closing_answer: bool
    compact_callback: Callable[..., object] | None
    compact_keep_first: int | None
    compact_keep_last: int | None
    compact_strategy: str | None
    compact_threshold: int | None
    compaction: str | bool | JsonObject | Compaction | None
    consent: Callable[..., object] | None
    context_callback: Callable[..., object] | None
    context_filter: Callable[..., object] | None
    context_strategy: JsonObject | SlidingWindow | Summarize | CustomStrategy | None
    conversation_id: str | None
    description: str | None
    disallowed_tools: Sequence[str] | None
    done_judge: bool | JsonObject | DoneJudge | None
    done_sentinel: str | None
    dry_run: bool | Literal["plan"] | JsonObject | ToolLayer | None
    eager_tools: bool
    fetch: JsonObject | Fetch | None
    frequency_penalty: float | None
    handoff_sink: Callable[..., object] | None
    handoffs: Sequence[object]
    handoffs_back: bool
    headers: Mapping[str, str | Secret] | None
    input_guardrails: Sequence[Callable[..., object]] | Callable[..., object]
    interleaved_thinking: bool | None
    iteration_budget: str | JsonObject | IterationBudget | None
    llm_backoff_ms: float | None
    llm_caller: Callable[..., object] | None
    llm_options: JsonObject | None
    llm_retries: int | None
    llm_transcript_dir: str | None
    loop_control: Callable[..., object] | None
    loop_detect_block: int | None
    loop_detect_skip: int | None
    loop_detect_warn: int | None
    loop_detection: bool | JsonObject | LoopDetection | None
    loop_until_done: bool
    max_calls_per_reply: int
    max_concurrent_tools: int | None
    max_handoffs: int
    max_nudges: int
    max_resume_attempts: int | None
    max_token_budget: int | None
    max_tokens: int | None
    max_turns: int | None
    max_verify_attempts: int
    mcp_servers: Mapping[str, object] | Sequence[object] | str | os.PathLike[str] | McpServer | None
    message_decorator: Callable[..., object] | None
    model: str | Model | None
    model_tier: str | None
    mounts: Mapping[str, Literal["read", "extend"]] | Sequence[str] | None
    name: str | None
    native_tool_fallback: Literal["allow", "allow_once", "reject"]
    nudge: str | None
    on_cancel: Literal["cancel", "park"]
    on_event: Callable[[Event], object] | None
    on_message: Callable[[Message], object] | None
    on_pending: OnPending
    on_session_start: Callable[..., object] | str | Reminder | JsonObject | Sequence[object] | None
    on_tool_call: Callable[[str, JsonObject], object] | None
    on_tool_result: Callable[[str, ToolResult], object] | None
    on_trace: Callable[[TraceEvent], object] | None
    on_warning: Callable[[str], object] | None
    output_guardrails: Sequence[Callable[..., object]] | Callable[..., object]
    permissions: JsonObject | Permissions | None
    plan: str | EffectPlan | None
    policies: Sequence[Policy[Any]]
    policy: JsonObject | Ceiling | None
    post_turn_callback: Callable[..., object] | None
    prefetch_next_turn: bool
    presence_penalty: float | None
    problem_scale: Scale
    profile: str | None
    progress_tool: bool | JsonObject | ProgressTool | None
    prompt_overrides: Mapping[str, PromptSource] | None
    prompts: Mapping[str, PromptSource] | None
    provider: str | None
    rate_limit: JsonObject | ToolLayer | None
    reasoning_effort: str | None
    reasoning_policy: str | bool
    reasoning_scale: Scale
    reasoning_task: Task | None
    request_id: str | None
    require_successful_tools: Sequence[str | Sequence[str]] | None
    response_format: Literal["text", "json"] | None
    role: str | None
    run_id: str | None
    sandbox: Literal["workspace", "isolated", "none"] | JsonObject | Sandbox | None
    schema: object
    schema_retries: int
    scratchpad: bool | JsonObject | Scratchpad | None
    seed: int | None
    session_id: str | None
    skill_match: JsonObject | SkillMatch | None
    skills: SkillSource | None
    stall_diagnostics: bool | JsonObject | StallDiagnostics | None
    step_judge: bool | JsonObject | StepJudge | None
    stop: str | Sequence[str] | None
    stop_after_successful_tools: Sequence[str] | None
    store: str | os.PathLike[str] | Store | None
    stream: bool | None
    subagent_tools: bool
    subagents: bool
    system: str
    taint: bool | JsonObject | Taint | None
    take_over: bool
    task_id: str | None
    task_kind: str | None
    telemetry: Callable[..., object] | None
    temperature: float | None
    thinking: bool | JsonObject | None
    thinking_policy: str | bool
    timeout: float | None
    timestamp_messages: bool
    token_budget: int | None
    tool_arg_validation: Literal["strict", "lenient", "none"]
    tool_backoff_ms: float
    tool_caller: Callable[..., object] | None
    tool_choice: str | JsonObject | None
    tool_format: Literal["native", "text"] | None
    tool_preset: ToolPreset | None
    tool_result_max_bytes: int
    tool_retries: int
    tool_search: bool | str | JsonObject | ToolSearch | None
    tool_surface_narrowing: bool | JsonObject | ToolSurfaceNarrowing | None
    tool_timeout: float | None
    tools: Sequence[ToolLike] | Iterable[Tool] | None
    top_k: int | None
    top_p: float | None
    trace_agent: str | None
    transcript: Mapping[str, object] | None
    transcript_projection: str | JsonObject | TranscriptProjection | None
    turn_policy: JsonObject | TurnPolicy | None
    verify_completion: Callable[..., object] | str | Sequence[Callable[..., object] | str] | None
    verify_completion_judge: bool | JsonObject | CompletionJudge | None
    version: str
    working_files: str | Sequence[str]
    workspace: str | os.PathLike[str] | None


class LoopKeywords(LoopOptions, ProviderKeywords, total=False):
    """What `agent_loop` takes by name."""


class TurnKeywords(LoopKeywords, total=False):
    """What `agent_turn` takes by name."""

    judge: bool | JsonObject | DoneJudge
    system: str


class WatchKeywords(TypedDict, total=False):
    """Who watches a run: the callbacks that `Agent.resume` takes by name."""

    on_event: Callable[[Event], object] | None
    on_message: Callable[[Message], object] | None
    on_tool_call: Callable[[str, JsonObject], object] | None
    on_tool_result: Callable[[str, ToolResult], object] | None
    on_trace: Callable[[TraceEvent], object] | None
    on_warning: Callable[[str], object] | None
    task_id: str | None
    trace_agent: str | None


class ResumeKeywords(WatchKeywords, total=False):
    """What `Agent.resume` takes by name, beside its named arguments."""

    abort: Abort | None
    budget: Budget | JsonObject | None
    caller: Caller | None
    on_cancel: Literal["cancel", "park"]
    store: str | os.PathLike[str] | Store | None
    take_over: bool
    timeout: float | None


class ChangeKeywords(AgentKeywords, total=False):
    """What `Agent.with_` takes by name: every option of an agent, beside `output`."""

    deps_type: type | None
    model: str | Model | None
    system: str | Callable[..., str | Awaitable[str]] | None
    tools: Sequence[ToolLike] | Iterable[Tool] | None
