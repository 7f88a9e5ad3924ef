"""Writes src/windlass/models/registry/prices.toml, prices and limits of models, from public tables.

    uv run --with genai-prices python scripts/make_catalog.py --flags model_prices.json

Prices and context windows come from genai-prices; the largest reply comes from the JSON table that
litellm publishes (`model_prices_and_context_window_backup.json` in its wheel). Neither is needed to
run Windlass. What a model can do stands in `capabilities.toml`, which is written by hand.
"""

from __future__ import annotations

import argparse
import json
from datetime import date
from decimal import Decimal
from pathlib import Path
from typing import Any

from genai_prices import data  # pyright: ignore[reportMissingImports]

TARGET = Path(__file__).parents[1] / "src" / "windlass" / "models" / "registry" / "prices.toml"

# our provider, the provider in genai-prices, the prefix in the other table
HOMES = {
    "anthropic": ("anthropic", ""),
    "openai": ("openai", ""),
    "deepseek": ("deepseek", "deepseek/"),
    "groq": ("groq", "groq/"),
    "together": ("together", "together_ai/"),
    "fireworks": ("fireworks", "fireworks_ai/accounts/fireworks/models/"),
    "openrouter": ("openrouter", "openrouter/"),
    "mistral": ("mistral", "mistral/"),
    "huggingface": ("huggingface_together", ""),
    "gemini": ("google", "gemini/"),
}

# `id in the tables`, or `id in the tables: patterns`. The first pattern that matches a name wins, so
# longer names stand before shorter ones.
MODELS = {
    "anthropic": [
        "claude-fable-5-1",
        "claude-fable-5",
        "claude-opus-5-5",
        "claude-opus-5",
        "claude-opus-4-8",
        "claude-opus-4-7",
        "claude-opus-4-6",
        "claude-opus-4-5",
        "claude-opus-4-1",
        "claude-opus-4-0: claude-opus-4-0 claude-opus-4 claude-opus-4-2025*",
        "claude-sonnet-5-5",
        "claude-sonnet-5",
        "claude-sonnet-4-6",
        "claude-sonnet-4-5",
        "claude-sonnet-4-0: claude-sonnet-4-0 claude-sonnet-4 claude-sonnet-4-2025*",
        "claude-haiku-5-5",
        "claude-haiku-4-5",
        "claude-3-7-sonnet-latest: claude-3-7-sonnet-latest claude-3-7-sonnet*",
        "claude-3-5-haiku-latest: claude-3-5-haiku-latest claude-3-5-haiku*",
    ],
    "openai": [
        "gpt-6.1-sol",
        "gpt-6.1-terra",
        "gpt-6-sol",
        "gpt-6-luna",
        "gpt-6-astra",
        "gpt-5.6-sol",
        "gpt-5.6-terra",
        "gpt-5.6-luna",
        "gpt-5.5-pro",
        "gpt-5.5",
        "gpt-5.4-mini",
        "gpt-5.4-nano",
        "gpt-5.4-pro",
        "gpt-5.4",
        "gpt-5.3-codex",
        "gpt-5.2-pro",
        "gpt-5.2",
        "gpt-5.1-codex-mini",
        "gpt-5.1",
        "gpt-5-mini",
        "gpt-5-nano",
        "gpt-5-pro",
        "gpt-5: gpt-5 gpt-5-2025*",
        "gpt-4.1-mini",
        "gpt-4.1-nano",
        "gpt-4.1",
        "gpt-4o-mini",
        "gpt-4o",
        "gpt-4-turbo",
        "gpt-3.5-turbo",
        "o4-mini",
        "o3-mini",
        "o3-pro",
        "o3: o3 o3-2025*",
        "o1-pro",
        "o1: o1 o1-2024*",
    ],
    "deepseek": ["deepseek-v4-pro", "deepseek-v4-flash", "deepseek-reasoner", "deepseek-chat"],
    "groq": [
        "openai/gpt-oss-120b",
        "openai/gpt-oss-20b",
        "llama-3.3-70b-versatile",
        "llama-3.1-8b-instant",
        "meta-llama/llama-4-maverick-17b-128e-instruct",
        "moonshotai/kimi-k2-instruct",
        "qwen/qwen3-32b",
    ],
    "together": [
        "moonshotai/Kimi-K3",
        "zai-org/GLM-5.3",
        "Qwen/Qwen3.7-Plus",
        "openai/gpt-oss-120b",
        "deepseek-ai/DeepSeek-V4-Pro-0813",
        "meta-llama/Llama-3.3-70B-Instruct-Turbo",
    ],
    "fireworks": [
        "kimi-k3: accounts/fireworks/models/kimi-k3 kimi-k3",
        "glm-5p2: accounts/fireworks/models/glm-5p2 glm-5p2",
        "deepseek-v4-pro: accounts/fireworks/models/deepseek-v4-pro deepseek-v4-pro",
        "gpt-oss-120b: accounts/fireworks/models/gpt-oss-120b gpt-oss-120b",
    ],
    "openrouter": [
        "anthropic/claude-opus-5.5",
        "anthropic/claude-sonnet-5.5",
        "anthropic/claude-sonnet-4.5",
        "anthropic/claude-haiku-4.5",
        "openai/gpt-5.4",
        "google/gemini-3.8-flash",
        "google/gemini-2.5-flash: google/gemini-2.5-flash",
        "google/gemini-2.5-pro",
        "moonshotai/kimi-k3",
        "deepseek/deepseek-v4-pro",
        "x-ai/grok-4.7",
        "qwen/qwen3.8-flash",
    ],
    "mistral": [
        "mistral-large-4",
        "mistral-large",
        "mistral-small-latest: mistral-small-latest mistral-small*",
        "codestral",
    ],
    "gemini": [
        "gemini-4-argon",
        "gemini-3.8-flash: gemini-3.8-flash",
        "gemini-3.7-flash",
        "gemini-3.6-flash",
        "gemini-3.5-flash-lite",
        "gemini-3.5-flash",
        "gemini-3.1-pro-preview: gemini-3.1-pro-preview gemini-3.1-pro*",
        "gemini-3.1-flash-lite: gemini-3.1-flash-lite gemini-3.1-flash-lite-preview",
        "gemini-3-pro-preview: gemini-3-pro-preview gemini-3-pro",
        "gemini-3-flash-preview: gemini-3-flash-preview gemini-3-flash",
        "gemini-2.5-pro: gemini-2.5-pro gemini-2.5-pro-preview-0*",
        "gemini-2.5-flash-lite: gemini-2.5-flash-lite gemini-2.5-flash-lite-preview-0*",
        "gemini-2.5-flash: gemini-2.5-flash gemini-2.5-flash-preview-0*",
        "gemini-2.0-flash-lite",
        "gemini-2.0-flash",
    ],
}

# What the tables leave out, mostly of models on their way out.
OURS: dict[str, dict[str, Any]] = {
    "anthropic:claude-opus-4-1": {"max_output_tokens": 32000},
    "anthropic:claude-opus-4-0": {"max_output_tokens": 32000},
    "anthropic:claude-sonnet-4-0": {"max_output_tokens": 64000},
    "anthropic:claude-3-7-sonnet-latest": {"max_output_tokens": 64000},
    "anthropic:claude-3-5-haiku-latest": {"max_output_tokens": 8192},
    "openai:gpt-6.1-terra": {"max_output_tokens": 128000},
    "groq:llama-3.3-70b-versatile": {"max_input_tokens": 131072},
    "groq:llama-3.1-8b-instant": {"max_input_tokens": 131072},
    "gemini:gemini-3-pro-preview": {
        "max_input_tokens": 1048576,
        "max_output_tokens": 65536,
    },
    "gemini:gemini-2.0-flash": {"max_input_tokens": 1048576, "max_output_tokens": 8192},
    "gemini:gemini-2.0-flash-lite": {"max_input_tokens": 1048576, "max_output_tokens": 8192},
}

# Amazon's own models on Bedrock, under any region's prefix.
NOVA = [
    ("global.amazon.nova-2-lite", 0.3, 2.5, 0.075, 1000000),
    ("amazon.nova-2-lite", 0.33, 2.75, 0.0825, 1000000),
    ("amazon.nova-premier", 2.5, 12.5, 0.625, 1000000),
    ("amazon.nova-pro", 0.8, 3.2, 0.2, 300000),
    ("amazon.nova-lite", 0.06, 0.24, 0.015, 300000),
    ("amazon.nova-micro", 0.035, 0.14, 0.00875, 128000),
]

# Open models by name, wherever they are served: no price of their own, but a window.
OPEN = [
    ("ollama", "llama3.2*", 131072),
    ("ollama", "llama3.1*", 131072),
    ("ollama", "llama3.3*", 131072),
    ("ollama", "llama4*", 1048576),
    ("ollama", "llama3", 8192),
    ("ollama", "llama2*", 4096),
    ("ollama", "qwen3*", 262144),
    ("ollama", "qwen2.5*", 32768),
    ("ollama", "gpt-oss*", 131072),
    ("ollama", "mistral*", 32768),
    ("ollama", "deepseek-r1*", 131072),
    ("ollama", "gemma3*", 131072),
    ("ollama", "gemma2*", 8192),
    ("ollama", "phi3*", 131072),
    ("ollama", "codellama*", 16384),
    ("huggingface", "meta-llama/Llama-3.3-70B-Instruct*", 131072),
    ("huggingface", "openai/gpt-oss-120b*", 131072),
    ("huggingface", "Qwen/Qwen3-*", 262144),
    ("huggingface", "deepseek-ai/DeepSeek-V3*", 131072),
    ("huggingface", "deepseek-ai/DeepSeek-R1*", 131072),
]


def number(value: Any, above: int = 0) -> float:
    """A price per million tokens; of a graded one, that of a prompt of more than `above` tokens."""
    if value is None:
        return 0.0
    if isinstance(value, (Decimal, int, float)):
        return float(value)
    found = value.base
    for tier in value.tiers:
        if above and tier.start <= above:
            found = tier.price
    return float(found)


def starts(price: Any) -> list[int]:
    """Where the grades of a price begin."""
    graded = (getattr(price, f"{name}_mtok", None) for name in ("input", "output"))
    return sorted({tier.start for each in graded for tier in getattr(each, "tiers", [])})


def prices(model: Any) -> Any:
    """The prices in force today."""
    if not isinstance(model.prices, list):
        return model.prices
    if any(hasattr(c.constraint, "start_time") for c in model.prices):
        # by the hour of the day: a budget counts with the dearest
        return max((c.prices for c in model.prices), key=lambda p: number(p.input_mtok))
    current = model.prices[0].prices
    for conditional in model.prices:
        start = getattr(conditional.constraint, "start_date", None)
        if conditional.constraint is None or (start is not None and start <= date.today()):
            current = conditional.prices
    return current


def entry(provider: str, line: str, flags: dict[str, Any]) -> list[str]:
    name, _, patterns = line.partition(": ")
    home, prefix = HOMES[provider]
    models = {m.id: m for p in data.providers if p.id == home for m in p.models}
    model = models[name]
    known = {**flags.get(prefix + name, {}), **OURS.get(f"{provider}:{name}", {})}
    price = prices(model)
    window = known.get("max_input_tokens") or model.context_window
    if model.context_window:
        window = max(window or 0, model.context_window)
    lines = [
        "[[model]]",
        f'provider = "{provider}"',
        f"match = {json.dumps(patterns.split() or [name, name + '-*'])}",
        f"input = {number(price.input_mtok):g}",
        f"output = {number(price.output_mtok):g}",
    ]
    if read := number(getattr(price, "cache_read_mtok", None)):
        lines.append(f"cache_read = {read:g}")
    if write := number(getattr(price, "cache_write_mtok", None)):
        lines.append(f"cache_write = {write:g}")
    if window:
        lines.append(f"context_window = {window}")
    if limit := known.get("max_output_tokens"):
        lines.append(f"max_output = {limit}")
    for above in starts(price):
        lines += ["[[model.long]]", f"above = {above}"]
        for name in ("input", "output", "cache_read", "cache_write"):
            given = getattr(price, f"{name}_mtok", None)
            if given is not None:
                lines.append(f"{name} = {number(given, above):g}")
    return [*lines, ""]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--flags", type=Path, required=True, help="litellm's JSON table")
    flags = json.loads(parser.parse_args().flags.read_text())
    out = [
        "# Models: dollars per million tokens, limits in tokens. Written by scripts/make_catalog.py;",
        "# the first entry whose pattern matches a name wins. What longer prompts cost is under long.",
        "",
        f'as_of = "{date.today()}"',
        "",
    ]
    for provider, names in MODELS.items():
        for name in names:
            out += entry(provider, name, flags)
    for provider, pattern, window in OPEN:
        match = [pattern.rstrip("*-"), pattern] if pattern.endswith("*") else [pattern]
        out += ["[[model]]", f'provider = "{provider}"', f"match = {json.dumps(match)}"]
        out += [f"context_window = {window}", ""]
    for name, read, written, cached, window in NOVA:
        match = [f"{name}-v1:0", f"{name}*" if name.startswith("global.") else f"*{name}*"]
        out += ["[[model]]", 'provider = "bedrock"', f"match = {json.dumps(match)}"]
        out += [f"input = {read}", f"output = {written}", f"cache_read = {cached}"]
        out += [f"context_window = {window}", ""]
    TARGET.write_text("\n".join(out).rstrip() + "\n")


if __name__ == "__main__":
    main()
