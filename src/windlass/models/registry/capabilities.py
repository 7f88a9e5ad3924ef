"""What a model can do, as one row of facts: wires and policies read rows, they do not guess by name."""

from __future__ import annotations

from typing import Literal, TypeAlias

import msgspec

Wire: TypeAlias = Literal[
    "anthropic", "openai_chat", "openai_responses", "gemini", "vertex", "ollama", "bedrock"
]
Search: TypeAlias = Literal["bm25", "regex", "hosted", "client"]
Mode: TypeAlias = Literal["enabled", "adaptive", "effort", "disabled"]
Effort: TypeAlias = Literal["none", "minimal", "low", "medium", "high", "xhigh", "max"]
Means: TypeAlias = Literal["schema", "json", "tool", "prompt"]
Lowering: TypeAlias = Literal[
    "",  # nothing is written
    "claude",  # thinking {type, budget_tokens}, output_config.effort
    "gemini_budget",  # generationConfig.thinkingConfig.thinkingBudget
    "gemini_level",  # generationConfig.thinkingConfig.thinkingLevel
    "nova",  # reasoningConfig {type, maxReasoningEffort}
    "effort",  # reasoning_effort
    "openrouter",  # reasoning {effort | max_tokens | enabled}
    "enabled",  # reasoning.enabled
    "type",  # thinking {type}
    "template",  # chat_template_kwargs.enable_thinking
    "think",  # think: true, false, or a level
    "prompt_mode",  # prompt_mode: "reasoning"
    "no_think",  # the words /no_think behind everything the user said
]


class Capabilities(msgspec.Struct, frozen=True, kw_only=True):
    """One model's abilities; what nobody knows stands as the cautious default."""

    known: bool = False  # some row is about this model
    native_tools: bool = True
    defer_loading: bool = False
    tool_search: tuple[Search, ...] = ()  # the provider's own, preferred first
    max_tools: int | None = None
    prompt_caching: bool = False  # cache points are honoured, and a miss costs more than a hit
    thinking: bool = False
    thinking_modes: tuple[Mode, ...] = ()
    reasoning_effort_supported: bool = False

    efforts: tuple[Effort, ...] = ()  # the levels it takes, the lowest first
    thinking_budget: tuple[int, int] = (0, 32_768)  # the least and the most tokens
    always_thinks: bool = False  # cannot be told not to
    lowering: Lowering = ""  # how all that is written
    interleaved_beta: str = (
        ""  # the feature that lets it think between calls, asked for with thinking
    )
    structured: tuple[Means, ...] = ("tool", "prompt")  # ways to a typed answer, the best first
    open_schemas: bool = True  # its schema mode takes objects whose keys the schema does not name
    schema_beside_tools: bool = True  # takes a schema of its answer and tools in one request
    sampling: bool = True  # takes temperature, top_p and top_k
    completion_limit: Literal["max_tokens", "max_completion_tokens"] = "max_tokens"
    system_role: Literal["system", "developer", "user"] = "system"  # who instructs it
    echoes: bool = True  # takes its plain reasoning back beside its calls
    forces_calls: bool = True  # takes a tool_choice that demands a call
    strict_tools: bool = False  # holds the model to a tool's schema when asked to
    signs_calls: bool = False  # refuses calls in the history that carry no signature
    images: bool = True  # takes pictures at all
    media_results: bool = False  # takes pictures and documents inside a tool's result
    call_ids: Literal["any", "40", "9"] = "any"  # characters of a call's id
    tool_names: Literal["64", "dotted"] = "64"  # which names it takes as they are
    counts_tokens: bool = False  # has an endpoint that counts
    completes: Literal["", "completions", "fim", "infill", "generate"] = ""  # how text goes on
    wire: Wire | None = None  # the only one it is served over, where that is not its provider's
