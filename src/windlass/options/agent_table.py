"""The keys of `[agent]` in `windlass.toml`: options whose values a file can hold.

Written by `scripts/make_options.py` from the option groups.
"""

from __future__ import annotations

from typing import Any

from msgspec import UNSET, Struct, UnsetType

from windlass.json_types import JsonObject


class AgentTable(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Options of every agent that a file gives; code has the last word."""

    allowed_tools: list[str] | UnsetType = UNSET
    """Names of the tools that the agent may use; None: all."""
    anthropic_beta_features: list[str] | UnsetType = UNSET
    """Names of Anthropic beta features to turn on."""
    approval_policy: JsonObject | UnsetType = UNSET
    """Rules that allow or deny calls, or ask a person."""
    auto_compact: str | bool | JsonObject | UnsetType = UNSET
    """Another name for `compaction`."""
    await_resumption: bool | UnsetType = UNSET
    """Whether the model is offered the tool `agent_await_resumption`, which suspends the run.

    None: loops offer it, agents do not.
    """
    budget: JsonObject | UnsetType = UNSET
    """Limits on turns, tokens, dollars and seconds."""
    cache: bool | UnsetType = UNSET
    """Whether the provider's prompt cache is used."""
    closing_answer: bool | UnsetType = UNSET
    """Whether the model is called once more for an answer, without tools."""
    compact_keep_first: int | UnsetType = UNSET
    """Messages at the beginning that stay as they are (0)."""
    compact_keep_last: int | UnsetType = UNSET
    """Messages at the end that stay as they are."""
    compact_strategy: str | UnsetType = UNSET
    """What happens to old messages."""
    compact_threshold: int | UnsetType = UNSET
    """Tokens of the view above which it is compacted."""
    compaction: str | bool | JsonObject | UnsetType = UNSET
    """A strategy, or all settings of compaction; False: no compaction."""
    context_strategy: JsonObject | UnsetType = UNSET
    """A sliding window, summaries, or a function of yours, in place of compaction."""
    disallowed_tools: list[str] | UnsetType = UNSET
    """Names of tools that the agent may not use, also if a policy adds them."""
    done_judge: bool | JsonObject | UnsetType = UNSET
    """A model that must agree that the work is done."""
    done_sentinel: str | UnsetType = UNSET
    """The word with which the model ends the run; None: no word."""
    dry_run: bool | str | JsonObject | UnsetType = UNSET
    """Whether tools that change something are not run; `"plan"`: make a plan of their effects."""
    eager_tools: bool | UnsetType = UNSET
    """Whether calls that only read start while the reply is still streaming."""
    fetch: JsonObject | UnsetType = UNSET
    """What the tool `fetch_url` may fetch: hosts, private addresses, time and size."""
    frequency_penalty: float | UnsetType = UNSET
    """A penalty for tokens by how often they occurred."""
    interleaved_thinking: bool | UnsetType = UNSET
    """Whether the model thinks between tool calls."""
    iteration_budget: str | JsonObject | UnsetType = UNSET
    """How many turns a run may take: a fixed number, or more while it makes progress."""
    llm_options: JsonObject | UnsetType = UNSET
    """Settings of every model call of the run; they override the others."""
    loop_detect_block: int | UnsetType = UNSET
    """Equal results of a call after which a text replaces the result (3)."""
    loop_detect_skip: int | UnsetType = UNSET
    """Equal results of a call after which it is not run (4)."""
    loop_detect_warn: int | UnsetType = UNSET
    """Equal results of a call after which a hint is added (2); 0 turns the tiers off."""
    loop_detection: bool | JsonObject | UnsetType = UNSET
    """Detect whole turns that are repeated."""
    loop_until_done: bool | UnsetType = UNSET
    """Whether turns without tool calls are nudged until the work is done."""
    max_calls_per_reply: int | UnsetType = UNSET
    """Calls of one reply that may run; the others are refused."""
    max_concurrent_tools: int | UnsetType = UNSET
    """Calls that run at the same time: 16 for an agent, 1 for `agent_loop`."""
    max_turns: int | UnsetType = UNSET
    """The most model calls of a run. 50 for `agent_loop`, 10 for an agent (its `max_turns`)."""
    max_nudges: int | UnsetType = UNSET
    """Nudges in a row after which the run is stuck."""
    max_resume_attempts: int | UnsetType = UNSET
    """Resumes without progress after which a crashing run is failed; None: no limit."""
    max_tokens: int | UnsetType = UNSET
    """The most tokens of a reply."""
    max_verify_attempts: int | UnsetType = UNSET
    """Objections of all checks after which the run ends."""
    model: str | UnsetType = UNSET
    """The model, as `anthropic:claude-sonnet-4-5`. A `Model` object, in code."""
    model_tier: str | UnsetType = UNSET
    """A tier of models from the configuration, in place of a name."""
    native_tool_fallback: str | UnsetType = UNSET
    """Whether calls written as text run, run once, or are refused."""
    nudge: str | UnsetType = UNSET
    """The text that the model reads after a turn without tool calls."""
    on_session_start: str | JsonObject | list[Any] | UnsetType = UNSET
    """Reminders of a session, or a function that returns them when it begins."""
    permissions: JsonObject | UnsetType = UNSET
    """Lists of allowed and denied tool calls."""
    policy: JsonObject | UnsetType = UNSET
    """The most that the agent may do; no permission and no person can allow more."""
    prefetch_next_turn: bool | UnsetType = UNSET
    """Whether the next turn begins before the receipts of the last are delivered."""
    presence_penalty: float | UnsetType = UNSET
    """A penalty for tokens that have occurred."""
    profile: str | UnsetType = UNSET
    """A word that sets several limits: `tool_using`, `researcher`, `verifier`, `completer`."""
    progress_tool: bool | JsonObject | UnsetType = UNSET
    """Offer a tool with which the model reports progress."""
    provider: str | UnsetType = UNSET
    """The provider that serves the model."""
    rate_limit: JsonObject | UnsetType = UNSET
    """The most tool calls of a run: `{"max_calls": 50}`."""
    reasoning_effort: str | UnsetType = UNSET
    """The reasoning effort as a level, for example `high`."""
    reasoning_policy: str | bool | UnsetType = UNSET
    """How much the model thinks if `thinking` is not given: `auto`, `off` or a level."""
    reasoning_scale: str | UnsetType = UNSET
    """The size of the problem, for `auto`."""
    reasoning_task: str | UnsetType = UNSET
    """The kind of work, for `auto`."""
    sandbox: str | JsonObject | UnsetType = UNSET
    """The sandbox for commands of tools: a level, or a `Sandbox` with limits."""
    schema_retries: int | UnsetType = UNSET
    """Retries of an answer that does not fit the schema."""
    scratchpad: bool | JsonObject | UnsetType = UNSET
    """Keep goals, findings and open questions beside the conversation."""
    seed: int | UnsetType = UNSET
    """A number that makes replies repeatable, if the provider supports it."""
    stall_diagnostics: bool | JsonObject | UnsetType = UNSET
    """Warn the model when it repeats the same call."""
    step_judge: bool | JsonObject | UnsetType = UNSET
    """A model that is asked about each reply before its calls run."""
    stop: str | list[str] | UnsetType = UNSET
    """Texts at which a reply ends."""
    stream: bool | UnsetType = UNSET
    """Whether the reply is streamed from the provider."""
    subagents: bool | UnsetType = UNSET
    """Give the model tools that pause, resume and stop the workers of its session."""
    taint: bool | JsonObject | UnsetType = UNSET
    """Ask before a call acts on untrusted content. On by default with an untrusted source."""
    task_kind: str | UnsetType = UNSET
    """A label of the call, for LLM callers and the record."""
    temperature: float | UnsetType = UNSET
    """The randomness of the reply."""
    thinking: bool | JsonObject | UnsetType = UNSET
    """Whether the model thinks: True, False, a budget, an effort, or the provider's format."""
    timeout: float | UnsetType = UNSET
    """Seconds of a model call with its retries; given to a run: seconds of the whole run."""
    timestamp_messages: bool | UnsetType = UNSET
    """Whether messages are shown with their time."""
    token_budget: int | UnsetType = UNSET
    """The most tokens of a run, input and output together."""
    tool_arg_validation: str | UnsetType = UNSET
    """How arguments are checked before a call."""
    tool_backoff_ms: float | UnsetType = UNSET
    """Milliseconds before the first retry of a tool call."""
    tool_format: str | UnsetType = UNSET
    """Whether calls are native or written as text; None: native if the model can."""
    tool_result_max_bytes: int | UnsetType = UNSET
    """Bytes of a result that the model sees; the journal keeps all of it."""
    tool_retries: int | UnsetType = UNSET
    """Retries of a failed tool call."""
    tool_search: bool | str | JsonObject | UnsetType = UNSET
    """Hide deferred tools until the model searches for them."""
    tool_surface_narrowing: bool | JsonObject | UnsetType = UNSET
    """Hide unused tools; on by default in `agent_loop`, off elsewhere."""
    tool_timeout: float | UnsetType = UNSET
    """Seconds of a tool call, unless the tool has its own limit; None: no limit."""
    top_k: int | UnsetType = UNSET
    """Choose among this many of the most likely tokens."""
    top_p: float | UnsetType = UNSET
    """Choose among the most likely tokens with this total probability."""
    transcript_projection: str | JsonObject | UnsetType = UNSET
    """Which messages leave the view, and how."""
    turn_policy: JsonObject | UnsetType = UNSET
    """Rules for a turn."""
    verify_completion: str | UnsetType = UNSET
    """A function or a list of checks of finished work. A text is a command for the sandbox."""
    verify_completion_judge: bool | JsonObject | UnsetType = UNSET
    """A model that checks every natural end."""
