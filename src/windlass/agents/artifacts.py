"""Artifacts: what a sub-agent leaves for the agent that it works for, beside its answer."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from windlass.events import ArtifactWritten, JournalEntry
from windlass.records import Record
from windlass.tools.tool import Retry, Tool, ToolContext

NAME = "artifact_write"
_PARAMETERS = {
    "type": "object",
    "properties": {
        "title": {"type": "string", "description": "What it is, in a line."},
        "text": {"type": "string", "description": "Its text."},
        "data": {"description": "Its value as JSON, in place of a text."},
        "kind": {"type": "string", "description": "note, patch, finding, ..."},
    },
    "required": ["title"],
    "additionalProperties": False,
}


class Artifact(Record, frozen=True):
    """Something that a sub-agent made: `result.artifacts[0].text`."""

    id: str
    kind: str
    title: str
    text: str | None
    data: Any
    created_by: str | None
    session_id: str


def read_artifacts(entries: Sequence[JournalEntry], session_id: str) -> tuple[Artifact, ...]:
    """Return the artifacts on the record of a run; one that was written again counts once."""
    found: dict[str, Artifact] = {}
    for entry in entries:
        if type(entry) is ArtifactWritten:
            found[entry.artifact_id] = Artifact(
                entry.artifact_id,
                entry.artifact_kind,
                entry.title,
                entry.text,
                entry.data,
                entry.created_by,
                session_id,
            )
    return tuple(found.values())


def build_artifact_tool() -> Tool:
    """Build the tool that writes an artifact; a call that runs again writes the same one."""

    async def write(args: dict[str, Any], ctx: ToolContext[Any]) -> str:
        if not args["title"].strip() or (args.get("text") is None) is (args.get("data") is None):
            raise Retry("give a title, and either text or data")
        kind = args.get("kind") or "note"
        made = ctx.artifact(args["title"], text=args.get("text"), data=args.get("data"), kind=kind)
        return f"kept as {made}"

    return Tool(
        NAME,
        "Keep something for the agent that you work for: a finding, a patch, a table.",
        _PARAMETERS,
        write,
        keyed=True,
        kind="think",
    )
