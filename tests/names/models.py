"""The names of model access: what a user can type, what goes over a wire, and what must come of it."""

from __future__ import annotations

from typing import Any

# name in `windlass` -> the parameters it must take
FUNCTIONS: dict[str, str] = {
    "llm_call": "prompt system options",
    "llm_stream": "prompt system options",
    "llm_completion": "prefix suffix system options",
    "provider_capabilities": "provider model",
    "provider_capabilities_install": "toml_src",
    "provider_capabilities_clear": "",
    "llm_cost": "model input_tokens output_tokens",
    "llm_session_cost": "",
    "llm_budget": "max_cost",
    "llm_budget_remaining": "",
    "estimate_tokens": "messages",
    "default_llm_caller": "",
    "compose": "layers",
    "with_retry": "max_attempts backoff",
    "with_fallback": "models",
    "with_shadow": "model",
    "with_budget": "",
    "with_cache": "",
    "with_circuit_breaker": "",
    "with_logging": "",
    "with_escalation": "",
}

#: Options of a single call that every turn of a loop takes as well.
TURN_OPTIONS = """
    messages max_tokens temperature top_p top_k stop seed frequency_penalty presence_penalty
    tool_choice tool_search thinking stream timeout cache model_tier task_kind reasoning_policy
    thinking_policy reasoning_scale problem_scale reasoning_task reasoning_effort
    interleaved_thinking anthropic_beta_features response_format schema transcript
""".split()
CALL_OPTIONS = [
    *"provider model api_key base_url headers tools schema_retries budget".split(),
    *"llm_caller llm_retries llm_backoff_ms".split(),
    *TURN_OPTIONS,
]

RESULT_FIELDS = """
    text visible_text model provider input_tokens output_tokens cache_read_tokens
    cache_write_tokens data tool_calls thinking private_reasoning blocks stop_reason transcript
""".split()
STOP_REASONS = "end_turn max_tokens tool_use stop_sequence".split()

# --------------------------------------------------------------------------- over the wires

CLAUDE, OPUS = "anthropic:claude-sonnet-4-20250514", "anthropic:claude-opus-4-7"
GPT, GPT5 = "openai:gpt-4o", "openai:gpt-5.2"
LLAMA, QWEN = "ollama:llama3.2", "ollama:qwen3:8b"
FLASH = "gemini:gemini-2.5-flash"
ROUTED, HYBRID = "openrouter:anthropic/claude-sonnet-4.5", "together:zai-org/GLM-4.6"
LOCAL = "local:qwen3-8b"
CITY = {
    "type": "object",
    "properties": {"city": {"type": "string"}},
    "required": ["city"],
    "additionalProperties": False,
}
NEEDED = {"tool_choice": "required"}
FIND = {"tool_choice": {"name": "find"}}
LONG = "Be brief. " * 2000  # a prompt worth to be cached

# what is named -> (model, options, where in the body, what stands there)
SENT: dict[str, tuple[str, dict[str, Any], str, Any]] = {
    "model": (GPT, {}, "model", "gpt-4o"),
    "max_tokens": (CLAUDE, {"max_tokens": 77}, "max_tokens", 77),
    "max_tokens, by default": (CLAUDE, {}, "max_tokens", 16_384),
    "temperature": (GPT, {"temperature": 0.5}, "temperature", 0.5),
    "top_p": (GPT, {"top_p": 0.9}, "top_p", 0.9),
    "top_k": (CLAUDE, {"top_k": 5}, "top_k", 5),
    "top_k, Ollama": (LLAMA, {"top_k": 5}, "options.top_k", 5),
    "stop": (CLAUDE, {"stop": ["END"]}, "stop_sequences", ["END"]),
    "seed": (GPT, {"seed": 7}, "seed", 7),
    "seed, Ollama": (LLAMA, {"seed": 7}, "options.seed", 7),
    "frequency_penalty": (GPT, {"frequency_penalty": 0.5}, "frequency_penalty", 0.5),
    "presence_penalty": (GPT, {"presence_penalty": 0.5}, "presence_penalty", 0.5),
    "response_format": (GPT, {"response_format": "json"}, "response_format.type", "json_object"),
    "schema": (GPT, {"schema": CITY}, "response_format.type", "json_schema"),
    "thinking": (CLAUDE, {"thinking": True}, "thinking.type", "enabled"),
    "thinking.budget_tokens": (
        CLAUDE,
        {"thinking": {"budget_tokens": 2000}},
        "thinking.budget_tokens",
        2000,
    ),
    "thinking.mode adaptive": (
        OPUS,
        {"thinking": {"mode": "adaptive"}},
        "thinking.type",
        "adaptive",
    ),
    "thinking.mode disabled": (QWEN, {"thinking": {"mode": "disabled"}}, "think", False),
    "thinking.effort": (
        GPT5,
        {"thinking": {"mode": "effort", "effort": "high"}},
        "reasoning_effort",
        "high",
    ),
    "tool_choice none": (GPT, {"tool_choice": "none"}, "tool_choice", "none"),
    "tool_choice required": (CLAUDE, NEEDED, "tool_choice.type", "any"),
    "tool_choice {name}": (GPT, FIND, "tool_choice.function.name", "find"),
    "cache": (CLAUDE, {"cache": True, "system": LONG}, "system.0.cache_control.type", "ephemeral"),
    "cache off": (CLAUDE, {"cache": False, "system": LONG}, "system", LONG),
    "stream": (GPT, {"stream": False}, "stream", False),
    "stream, by default": (GPT, {}, "stream", True),
    "messages": (
        GPT,
        {"messages": [{"role": "user", "content": "instead"}]},
        "messages.0.content",
        "instead",
    ),
    "<provider>={…}": (GPT, {"openai": {"user": "ann"}}, "user", "ann"),
    "ollama.num_ctx": (LLAMA, {"ollama": {"num_ctx": 32_768}}, "options.num_ctx", 32_768),
    "reasoning_policy": (GPT5, {"reasoning_policy": "off"}, "reasoning_effort", "none"),
    "thinking_policy": (GPT5, {"thinking_policy": "high"}, "reasoning_effort", "high"),
    "reasoning_scale": (GPT5, {"reasoning_scale": "large"}, "reasoning_effort", "medium"),
    "problem_scale": (GPT5, {"problem_scale": "small"}, "reasoning_effort", "low"),
    "reasoning_task": (GPT5, {"reasoning_task": "code"}, "reasoning_effort", "medium"),
    "reasoning_effort": (GPT5, {"reasoning_effort": "xhigh"}, "reasoning_effort", "xhigh"),
    "reasoning_effort wins over the policy": (
        GPT5,
        {"reasoning_effort": "low", "reasoning_policy": "high"},
        "reasoning_effort",
        "low",
    ),
    "/no_think": (LOCAL, {"thinking": False}, "messages.0.content", "Where am I? /no_think"),
    "generationConfig.thinkingConfig": (
        FLASH,
        {"thinking": {"budget_tokens": 500}},
        "generationConfig.thinkingConfig.thinkingBudget",
        500,
    ),
    "reasoning.enabled": (HYBRID, {"thinking": False}, "reasoning.enabled", False),
    "reasoning": (ROUTED, {"reasoning_effort": "high"}, "reasoning.effort", "high"),
    "think": (QWEN, {"thinking": True}, "think", True),
}

# name -> (model, options, header, what it holds)
HEADERS: dict[str, tuple[str, dict[str, Any], str, str]] = {
    "interleaved_thinking": (
        CLAUDE,
        {"thinking": True, "interleaved_thinking": True},
        "anthropic-beta",
        "interleaved-thinking",
    ),
    "anthropic_beta_features": (
        CLAUDE,
        {"anthropic_beta_features": ["files-api-2025-04-14"]},
        "anthropic-beta",
        "files-api-2025-04-14",
    ),
    "x-api-key": (CLAUDE, {}, "x-api-key", "k"),
    "anthropic-version": (CLAUDE, {}, "anthropic-version", "2023-06-01"),
    "Authorization Bearer": (GPT, {}, "authorization", "Bearer k"),
}

# --------------------------------------------------------------------------- providers

# name -> its default model
PROVIDERS: dict[str, str | None] = {
    "anthropic": "claude-sonnet-4-20250514",
    "openai": "gpt-4o",
    "openrouter": "anthropic/claude-sonnet-4-20250514",
    "huggingface": None,
    "ollama": "llama3.2",
    "local": None,
    "llamacpp": "default",
    "mlx": None,
    "together": None,
    "groq": None,
    "deepseek": "deepseek-chat",
    "fireworks": None,
    "gemini": None,
    "vertex": None,
    "bedrock": None,
    "mistral": None,
    "azure": None,
}

# provider, environment -> the address that is asked
ADDRESSES: list[tuple[str, dict[str, str], str]] = [
    ("anthropic", {}, "https://api.anthropic.com/v1/messages"),
    ("openai", {}, "https://api.openai.com/v1/chat/completions"),
    ("openrouter", {}, "https://openrouter.ai/api/v1/chat/completions"),
    ("huggingface", {}, "https://router.huggingface.co/v1/chat/completions"),
    ("ollama", {}, "http://localhost:11434/api/chat"),
    ("ollama", {"OLLAMA_HOST": "http://box:9"}, "http://box:9/api/chat"),
    ("local", {}, "http://localhost:8000/v1/chat/completions"),
    ("local", {"LOCAL_LLM_BASE_URL": "http://box:9"}, "http://box:9/v1/chat/completions"),
]

# variable -> whose key it is
KEYS: dict[str, str] = {
    "ANTHROPIC_API_KEY": "anthropic",
    "OPENAI_API_KEY": "openai",
    "OPENROUTER_API_KEY": "openrouter",
    "HF_TOKEN": "huggingface",
    "HUGGINGFACE_API_KEY": "huggingface",
}

FAMILY_OF_OPENAI = "openrouter together groq deepseek fireworks huggingface local".split()

# --------------------------------------------------------------------------- configuration

CONFIG = """
[llm.providers.my_proxy]
base_url = "https://llm.example.com/v1"
chat_endpoint = "/talk"
completion_endpoint = "/go-on"
auth_style = "bearer"
auth_env = "MY_PROXY_API_KEY"

[llm.aliases]
my-fast = { id = "vendor/model-fast", provider = "my_proxy" }

[[llm.inference]]
match = "house-*"
provider = "my_proxy"

[llm.model_defaults."vendor/*"]
temperature = 0.2

[llm.tiers]
small = "my_proxy:vendor/small"
mid = "my_proxy:vendor/mid"
frontier = "my_proxy:vendor/large"

[llm.prices."my_proxy:vendor/*"]
input = 1.0
output = 2.0
gpu_second = 0.5

[[capabilities.provider.my_proxy]]
model_match = "vendor/new-claude-*"
version_min = [4, 5]
tool_search = ["regex"]

[[capabilities.provider.my_proxy]]
model_match = "vendor/*"
native_tools = true
defer_loading = true
tool_search = ["hosted"]
max_tools = 10000
prompt_caching = true
thinking = true
thinking_modes = ["adaptive"]
reasoning_effort_supported = true

[capabilities.provider_family]
my_other = "my_proxy"
"""
CAPABILITIES: dict[str, Any] = {
    "native_tools": True,
    "defer_loading": True,
    "tool_search": ["hosted"],
    "max_tools": 10_000,
    "prompt_caching": True,
    "thinking": True,
    "thinking_modes": ["adaptive"],
    "reasoning_effort_supported": True,
}

# --------------------------------------------------------------------------- errors

# category of a failure that may pass -> how a provider says it
TRANSIENT: dict[str, int] = {"rate_limit": 429, "overloaded": 529, "server_error": 500}
ERRORS = """
    ModelError RateLimited Overloaded AuthFailed BadRequest ContextOverflow Refused Timeout
    StreamBroken BadReply
""".split()

# --------------------------------------------------------------------------- the vault

SEARCH_KEYS: dict[str, Any] = {
    "variant": "regex",
    "mode": "client",
    "strategy": "regex",
    "always_loaded": ["find"],
    "budget_tokens": 500,
    "name": "find_tool",
    "include_stub_listing": True,
}
STRATEGIES = "bm25 regex semantic host".split()
TRANSCRIPT_KINDS = "tool_search_query tool_search_result".split()

COMMANDS = "models|list models|doctor lint cost config|show config|check".split()
