"""What a model can do: `capabilities_of("anthropic", "claude-opus-4-7")`, and rules of one's own."""

from __future__ import annotations

import msgspec

from windlass.config.sources import read_text
from windlass.json_types import JsonObject
from windlass.models.registry.capabilities import Capabilities
from windlass.models.registry.capability_rows import Table
from windlass.models.registry.registry import current


def capabilities_of(provider: str, model: str) -> Capabilities:
    """What is known of the model: `capabilities_of("openai", "gpt-5.4").tool_search`."""
    return current().capabilities(provider, model)


def provider_capabilities(provider: str, model: str) -> JsonObject:
    """What a model can do, as plain data.

    ```python
    caps = w.provider_capabilities("anthropic", "claude-opus-4-7")
    if "bm25" in caps["tool_search"]: ...
    ```
    """
    return msgspec.json.decode(msgspec.json.encode(capabilities_of(provider, model)))


def provider_capabilities_install(toml_src: str) -> None:
    """Put rules of your own before all others, for the current Runtime: TOML as in
    `capabilities.toml`, that is `[[provider.<name>]]` and `[provider_family]`.

    ```python
    w.provider_capabilities_install('''
    [[provider.my-proxy]]
    model_match = "*"
    tool_search = ["hosted"]
    ''')
    ```
    Models that are made from now on follow them; installing again replaces them.
    """
    told = read_text(toml_src, "provider_capabilities_install", Table)
    current().install(msgspec.convert(told.data, Table))


def provider_capabilities_clear() -> None:
    """Forget what was installed: the configured and shipped rules apply again."""
    current().clear()
