"""Disclosure of deferred tools: through the provider's search, or the client's."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Annotated, Any, ClassVar, cast

import msgspec

from windlass.errors import ConfigError
from windlass.loop.policy import Policy
from windlass.messages import ToolSpec
from windlass.models.base import Model, Settings
from windlass.models.registry.capabilities import Capabilities
from windlass.models.registry.scope import ENDPOINTS
from windlass.options.group import CALLS, Door, Option, OptionGroup
from windlass.policies.tool_search.policy import ClientVault, NativeVault
from windlass.tools.search.deferred import (
    Vault,
    listing,
    plain,
    sort,
)
from windlass.tools.search.options import ToolSearch, as_tool_search
from windlass.tools.tool import Tool


class ToolSearchOptions(OptionGroup, frozen=True, kw_only=True):
    """Tool search: hidden tools that are found by searching."""

    doors: ClassVar[frozenset[Door]] = CALLS

    tool_search: Annotated[
        ToolSearch | None,
        Option(as_tool_search, accepts="bool | str | dict[str, Any] | ToolSearch | None"),
    ] = None
    """Hide deferred tools until the model searches for them."""


class ToolSearchPlan(msgspec.Struct, frozen=True):
    """The disclosure of the tools of a call or a run."""

    tools: tuple[Tool, ...]  # all that can be called, sooner or later
    offered: tuple[ToolSpec, ...]  # what is sent at first
    native: str | None  # the provider's own search, in its variant
    vault: Vault | None  # ours
    policy: Policy[Any]
    listing: str | None = None

    def add_to_frame(self, system: str | None, settings: Settings) -> tuple[str | None, Settings]:
        """Add what belongs to the search to the system prompt and settings."""
        if self.listing is not None:
            system = f"{system}\n\n{self.listing}" if system else self.listing
        if self.native is not None:
            settings = msgspec.structs.replace(settings, tool_search=self.native)
        return system, settings


def plan_tool_search(
    search: ToolSearch,
    tools: tuple[Tool, ...],
    model: Model,
    *,
    text: bool,
    tool_choice: Any,
    forced: bool,
) -> ToolSearchPlan | None:
    """Plan how these tools are disclosed to this model; None where none is held back.

    `text`: tools are written into the prompt, and no provider searches there. `forced`: the provider
    is said to search, whatever is known of it.
    """
    parts = sort(tools, search)
    if not parts.deferred:
        return None
    _choice_is_seen(tool_choice, parts.deferred)
    native = _native(search, model, text=text, forced=forced)
    try:
        return _build_plan(tools, search, native)
    except TypeError:  # a callback that cannot be hashed
        return _build_plan.__wrapped__(tools, search, native)


@functools.lru_cache(maxsize=64)
def _build_plan(tools: tuple[Tool, ...], search: ToolSearch, native: str | None) -> ToolSearchPlan:
    """Build a plan; cached, as agents are often built with the same tools."""
    parts = sort(tools, search)
    if native is not None and native != "client":
        held = {tool.name for tool in parts.deferred}
        offered = tuple(tool.spec if tool.name in held else plain(tool.spec) for tool in tools)
        how = "Search for one" if search.include_stub_listing else None
        shown = listing(parts.deferred, how) if how else None
        return ToolSearchPlan(tools, offered, native, None, NativeVault(), shown)
    vault = Vault(parts, search, by_provider=native is not None)
    shown = listing(parts.deferred, f"Find one with {search.name}")
    return ToolSearchPlan(
        (*tools, vault.tool),
        vault.initial_specs(),
        native,
        vault,
        ClientVault(vault),
        shown if search.include_stub_listing else None,
    )


def _choice_is_seen(choice: Any, deferred: Sequence[Tool]) -> None:
    names = [tool.name for tool in deferred]
    if isinstance(choice, dict) and cast("dict[str, Any]", choice).get("name") in names:
        name = cast("dict[str, Any]", choice)["name"]
        raise ConfigError(
            f"tool_choice names {name!r}, which is deferred: a model is not made to call what it does "
            "not see; name it in tool_search.always_loaded"
        )


def _native(search: ToolSearch, model: Model, *, text: bool, forced: bool) -> str | None:
    """Return the provider's search to use; None for the client's."""
    if search.mode == "client":
        return None
    ours = search.wants_client
    if text:
        why = "tools are written into the prompt as text, where no provider searches"
    elif ours is not None:
        why = f"{ours} is something that only the client's search can do"
    else:
        variant = _variant(search, model.capabilities, model.provider, forced)
        if variant is not None:
            return variant
        why = _lacking(search, model)
    if search.mode == "native":
        raise ConfigError(f"tool_search.mode='native': {why}; use mode 'auto' or 'client'")
    return None


def _variant(search: ToolSearch, caps: Capabilities, provider: str, forced: bool) -> str | None:
    known: Sequence[str] = caps.tool_search if caps.defer_loading else ()
    if forced and not known:
        endpoint = ENDPOINTS.get(provider)
        by_anthropic = endpoint is not None and endpoint.wire == "anthropic"
        known = ("bm25", "regex") if by_anthropic else ("hosted",)
    if search.variant in known:
        return search.variant
    if search.variant == "regex":
        return None  # a provider's own kind of search takes no patterns
    return next((one for one in known if one in ("hosted", "client")), None)


def _lacking(search: ToolSearch, model: Model) -> str:
    caps, name = model.capabilities, f"{model.provider}:{model.name}"
    if caps.tool_search and caps.defer_loading:
        return f"{name} has no search of its own with variant {search.variant!r}"
    forced = f"{model.provider}={{'force_native_tool_search': True}}"
    return f"{name} is not known to search tools by itself (if it does: {forced})"
