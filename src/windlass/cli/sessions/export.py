"""`windlass sessions export`: a session as lines of JSON, as a transcript or as text."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING, Any

import click

from windlass.cli import text as words
from windlass.cli.main import debug_option
from windlass.cli.options import id_argument, store_option
from windlass.cli.store_location import on_session
from windlass.engine import transcript
from windlass.files import open_private

if TYPE_CHECKING:
    from windlass.store.base import Store


@click.command()
@id_argument
@store_option
@click.option(
    "--format",
    "form",
    type=click.Choice(["jsonl", "json", "text"]),
    default="jsonl",
    help="The journal line by line, the transcript as JSON, or the conversation as text.",
)
@click.option("--output", "-o", metavar="FILE", help="Instead of standard output.")
@debug_option
def export(id: str, store: str | None, form: str, output: str | None) -> None:
    """Export a session: every journal entry as a line of JSON."""

    async def read(home: Store, session_id: str) -> Any:
        return await home.read(session_id)

    entries = on_session(store, id, read)
    if form == "jsonl":
        text = transcript.export_jsonl(entries)
    elif form == "json":
        text = words.json_text(transcript.transcript_of(entries)) + "\n"
    else:
        text = transcript.transcript_render_visible(transcript.transcript_of(entries)) + "\n"
        text = words.clean(text)
    if output is not None and output != "-":
        with os.fdopen(open_private(output, linked_folders=True), "w", encoding="utf-8") as file:
            file.write(text)
        click.echo(f"{words.count(len(entries), 'entry', 'entries')} written to {output}", err=True)
        return
    sys.stdout.write(words.safe_json(text) if form == "jsonl" else text)
