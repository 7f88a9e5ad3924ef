"""Files as the model last saw them: a change of a file that changed since is refused.

A result of a file tool shows the digest of the file. It is remembered with the session, so that it
also holds after a resume, and given to the next call that changes the file, unless the model gives one.
"""

from __future__ import annotations

import os.path
import re
from typing import Any, Final

import msgspec

from windlass.loop.policy import CallVerdict, Policy
from windlass.loop.run import Run
from windlass.messages import ToolCall, ToolResult
from windlass.policies.build import BuildContext, Policies

#: An annotation of tools whose results show the digest of the file that their argument `path` names.
SHOWS_DIGEST: Final = "file_digest"
_DIGEST: Final = re.compile(r"^digest (?:[0-9a-f]{16} -> )?([0-9a-f]{16})$", re.MULTILINE)
_HEAD: Final = 4_000  # characters of a result in front of the content of a file
_MOST: Final = 500  # files that are remembered, the latest


def build(ctx: BuildContext) -> Policies:
    """Build the policy for an agent with file tools."""
    tools = [tool for tool in ctx.tools if SHOWS_DIGEST in tool.annotations]
    takes = [tool.name for tool in tools if "digest" in tool.parameters.get("properties", {})]
    return (FileDigests(frozenset(tool.name for tool in tools), frozenset(takes)),)


class DigestMemory(msgspec.Struct, frozen=True):
    """The digests that the model was shown, by path."""

    digests: dict[str, str] = {}


class FileDigests(Policy[DigestMemory]):
    """A policy that has changes of files checked against what the model read."""

    memory = DigestMemory
    keeps = "session"

    def __init__(self, shows: frozenset[str], takes: frozenset[str]) -> None:
        self._shows, self._takes = shows, takes

    @property
    def name(self) -> str:
        return "file_digests"

    async def before_tool(self, run: Run, call: ToolCall) -> CallVerdict:
        """Add the digest of the last read to a call that changes a file."""
        known = self._find(run, call)
        if known is None:
            return None
        return msgspec.structs.replace(call, arguments={**call.arguments, "digest": known})

    def passes(self, run: Run, call: ToolCall) -> bool:
        return call.name not in self._takes or self._find(run, call) is None

    async def after_tool(self, run: Run, call: ToolCall, result: ToolResult) -> ToolResult:
        """Remember the digest that a result shows."""
        path = _path_of(call)
        text = result.text[:_HEAD]
        if call.name not in self._shows or path is None or text.startswith("not written"):
            return result
        found = None if result.is_error else _DIGEST.search(text.partition("\n--- a/")[0])
        if found is not None:
            memory: DigestMemory = run.recall(self)
            if memory.digests.get(path) != found[1]:
                kept = {name: one for name, one in memory.digests.items() if name != path}
                latest = dict([*kept.items()][-_MOST + 1 :])
                run.remember(self, DigestMemory({**latest, path: found[1]}))
        return result

    def leaves(self, run: Run, call: ToolCall, result: ToolResult) -> bool:
        return call.name not in self._shows

    def _find(self, run: Run, call: ToolCall) -> str | None:
        if call.name not in self._takes or call.arguments.get("digest") is not None:
            return None
        path = _path_of(call)
        if path is None or self._follows_another(run, call, path):
            return None
        memory: DigestMemory = run.recall(self)
        return memory.digests.get(path)

    def _follows_another(self, run: Run, call: ToolCall, path: str) -> bool:
        """Check whether an earlier call of the reply changes the file, and is checked for it."""
        for other in run.turn.calls if run.turn is not None else ():
            if other.id == call.id:
                return False
            if other.name in self._takes and _path_of(other) == path:
                return True
        return False


def _path_of(call: ToolCall) -> str | None:
    path: Any = call.arguments.get("path")
    return os.path.normpath(path) if isinstance(path, str) and path else None
