"""One provider: where it is, which wire it speaks, how it is told a key. Plain data."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from windlass.models.registry.capabilities import Wire


class Endpoint(msgspec.Struct, frozen=True):
    """A provider: its wire, its address, and what stands in the environment for it."""

    name: str
    wire: Wire
    base_url: str
    key_env: tuple[str, ...] = ()  # empty: no key is needed
    base_env: tuple[str, ...] = ()
    default_model: str | None = None
    model_env: str | None = None
    dialect: str = "plain"  # of the OpenAI wire: how it asks for reasoning, what it refuses
    also_env: dict[str, tuple[str, ...]] = {}  # what else the wire is told: keyword -> variables
    key_word: str = "api_key"  # what the wire calls its key
    chat_endpoint: str = ""  # behind the address; empty: as the wire has it
    completion_endpoint: str = ""
    auth_style: str = ""  # bearer, none, or the name of a header; empty: as the wire has it
    headers: dict[str, str] = {}  # sent with every request

    def address(self, env: Mapping[str, str]) -> str | None:
        """Where the environment says that it is; None: it says nothing."""
        found = next((value for name in self.base_env if (value := env.get(name))), None)
        if found is None or "://" in found:
            return found
        # OLLAMA_HOST may be just a host, or a host and a port
        host = found.replace("0.0.0.0", "127.0.0.1")
        bare = self.name == "ollama" and ":" not in host
        return f"http://{host}:11434" if bare else f"http://{host}"

    def auth(self, key: str) -> dict[str, str] | None:
        """The header that carries the key; None where the wire has a way of its own."""
        if not self.auth_style or self.auth_style == "sigv4":
            return None
        if self.auth_style == "none":
            return {}
        if self.auth_style == "bearer":
            return {"authorization": f"Bearer {key}"}
        return {self.auth_style.lower(): key}

    @property
    def key_hint(self) -> str:
        """What to do about a missing or wrong key."""
        names = " or ".join(self.key_env) or f"{self.name.upper()}_API_KEY"
        return f"set {names} or pass {self.key_word}="
