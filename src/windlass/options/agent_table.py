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
    """Names of the tools that it may use; None: all of them."""
    anthropic_beta_features: list[str] | UnsetType = UNSET
    """Beta features of Anthropic that are switched on."""
    approval_policy: JsonObject | UnsetType = UNSET
    """Rules that let calls run, refuse them, or ask a person."""
    auto_compact: str | bool | JsonObject | UnsetType = UNSET
    """Another name for `compaction`."""
    budget: JsonObject | UnsetType = UNSET
    """Limits on turns, tokens, dollars and seconds."""
    cache: bool | UnsetType = UNSET
    """Whether the provider's prompt cache is used."""
    closing_answer: bool | UnsetType = UNSET
    """Whether the model is asked once more for an answer, without tools."""
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
    """Names of tools that it may not use, whoever brings them."""
    done_judge: bool | JsonObject | UnsetType = UNSET
    """A model that must agree that the work is done."""
    done_sentinel: str | UnsetType = UNSET
    """The word with which the model ends the run; None: there is none."""
    dry_run: bool | str | JsonObject | UnsetType = UNSET
    """Whether calls are only rehearsed; `"plan"`: the run makes a plan of its effects."""
    eager_tools: bool | UnsetType = UNSET
    """Whether calls that change nothing begin while the reply still comes."""
    fetch: JsonObject | UnsetType = UNSET
    """What the tool `fetch_url` may fetch: hosts, private addresses, time and size."""
    frequency_penalty: float | UnsetType = UNSET
    """How much repeated words are avoided."""
    interleaved_thinking: bool | UnsetType = UNSET
    """Whether it thinks between tool calls."""
    iteration_budget: str | JsonObject | UnsetType = UNSET
    """How many turns a run may take: a fixed number, or more while it makes progress."""
    llm_options: JsonObject | UnsetType = UNSET
    """Settings that have the last word in every model call of the run."""
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
    """Calls of one reply that are run; the others are refused."""
    max_concurrent_tools: int | UnsetType = UNSET
    """Calls that run at the same time: 16 for an agent, 1 for `agent_loop`."""
    max_turns: int | UnsetType = UNSET
    """Turns that a run may take. 50 for `agent_loop`, 10 for an agent (its `max_turns`)."""
    max_nudges: int | UnsetType = UNSET
    """Nudges in a row after which the run is stuck."""
    max_resume_attempts: int | UnsetType = UNSET
    """How often a run that dies without progress is resumed; None: without end."""
    max_tokens: int | UnsetType = UNSET
    """Tokens that a reply may have."""
    max_verify_attempts: int | UnsetType = UNSET
    """Objections of all checks after which the run ends."""
    model: str | UnsetType = UNSET
    """The model, as `anthropic:claude-sonnet-4-5`. A `Model` object, in code."""
    model_tier: str | UnsetType = UNSET
    """A tier of models from the configuration, in place of a name."""
    native_tool_fallback: str | UnsetType = UNSET
    """Whether they run, run once, or are refused."""
    nudge: str | UnsetType = UNSET
    """What a model that only talks is told."""
    on_session_start: str | JsonObject | list[Any] | UnsetType = UNSET
    """Reminders of a session, or a function that says them when it begins."""
    permissions: JsonObject | UnsetType = UNSET
    """Lists of what is allowed and denied."""
    policy: JsonObject | UnsetType = UNSET
    """A ceiling over its tools that no grant lifts."""
    prefetch_next_turn: bool | UnsetType = UNSET
    """Whether the next turn begins before receipts are written."""
    presence_penalty: float | UnsetType = UNSET
    """How much words that were used at all are avoided."""
    profile: str | UnsetType = UNSET
    """A word for several of these: how long and how stubbornly the run works."""
    progress_tool: bool | JsonObject | UnsetType = UNSET
    """Offer a tool with which the model says how far it is."""
    provider: str | UnsetType = UNSET
    """The provider that serves the model."""
    rate_limit: JsonObject | UnsetType = UNSET
    """How many calls a run may make."""
    reasoning_effort: str | UnsetType = UNSET
    """The effort as a level."""
    reasoning_policy: str | bool | UnsetType = UNSET
    """How much it thinks where `thinking` says nothing: `auto`, `off` or a level."""
    reasoning_scale: str | UnsetType = UNSET
    """How large the problem is, for `auto`."""
    reasoning_task: str | UnsetType = UNSET
    """What kind of work it is, for `auto`."""
    sandbox: str | JsonObject | UnsetType = UNSET
    """The sandbox for commands of tools: a level, or a `Sandbox` with limits."""
    schema_retries: int | UnsetType = UNSET
    """How often an answer that does not fit is asked for again."""
    scratchpad: bool | JsonObject | UnsetType = UNSET
    """Keep goals, findings and open questions beside the conversation."""
    seed: int | UnsetType = UNSET
    """A number that makes replies repeatable, where the provider can."""
    stall_diagnostics: bool | JsonObject | UnsetType = UNSET
    """Warn the model when it repeats the same call."""
    step_judge: bool | JsonObject | UnsetType = UNSET
    """A model that is asked about each reply before its calls run."""
    stop: str | list[str] | UnsetType = UNSET
    """Texts at which a reply ends."""
    stream: bool | UnsetType = UNSET
    """Whether the reply is read while it comes."""
    taint: bool | JsonObject | UnsetType = UNSET
    """Ask before calls act on untrusted content; on by itself with an untrusted source."""
    task_kind: str | UnsetType = UNSET
    """What the call is for, in the record."""
    temperature: float | UnsetType = UNSET
    """How freely the model chooses its words."""
    thinking: bool | JsonObject | UnsetType = UNSET
    """Whether the model thinks first: True, False, a budget, an effort, or a provider's own words."""
    timeout: float | UnsetType = UNSET
    """Seconds that a model call may take, with its retries; given to a run: those of the whole run."""
    timestamp_messages: bool | UnsetType = UNSET
    """Whether messages are shown with their time."""
    token_budget: int | UnsetType = UNSET
    """Tokens that a run may use, input and output."""
    tool_arg_validation: str | UnsetType = UNSET
    """How arguments are checked before a call."""
    tool_backoff_ms: float | UnsetType = UNSET
    """The first pause before it is tried again."""
    tool_format: str | UnsetType = UNSET
    """Whether tools are called through the provider or in the text; None: as the model can."""
    tool_result_max_bytes: int | UnsetType = UNSET
    """Bytes of a result that the model is shown; the whole stays in the journal."""
    tool_retries: int | UnsetType = UNSET
    """How often a call that failed is tried again."""
    tool_search: bool | str | JsonObject | UnsetType = UNSET
    """Hold tools back until the model searches for them."""
    tool_surface_narrowing: bool | JsonObject | UnsetType = UNSET
    """Hide tools that nobody uses; on by itself where the model has a limit."""
    tool_timeout: float | UnsetType = UNSET
    """Seconds that a call may take, where its tool says nothing."""
    top_k: int | UnsetType = UNSET
    """The number of likely words among which it chooses."""
    top_p: float | UnsetType = UNSET
    """The share of likely words among which it chooses."""
    transcript_projection: str | JsonObject | UnsetType = UNSET
    """Which messages leave the view, and how."""
    turn_policy: JsonObject | UnsetType = UNSET
    """What a turn should look like."""
    verify_completion: str | UnsetType = UNSET
    """A function or a list of checks of finished work. A text is a command for the sandbox."""
    verify_completion_judge: bool | JsonObject | UnsetType = UNSET
    """A model that checks every natural end."""
