"""`windlass sessions`: stored sessions."""

from __future__ import annotations

import datetime
import sys
from typing import TYPE_CHECKING, Any

import click
import msgspec

from windlass import seams
from windlass.cli import text as words
from windlass.cli import timeline
from windlass.cli.console import err, out
from windlass.cli.main import debug_option
from windlass.cli.options import id_argument, json_option, store_option
from windlass.cli.store_location import at_place, find_place, on_session, pick
from windlass.cli.text import age
from windlass.config.loader import BUILT_IN, load
from windlass.events import Replied, as_dict
from windlass.json_types import JsonObject
from windlass.store.open import StoreConfig
from windlass.store.trigger_rows import due_triggers

if TYPE_CHECKING:
    from windlass.cli.store_location import Place
    from windlass.store.base import SessionInfo, Store


@click.command("list")
@store_option
@click.option(
    "--limit",
    default=50,
    type=click.IntRange(min=1),
    metavar="N",
    help="How many to list, the latest first.",
)
@json_option
@debug_option
def list_(store: str | None, limit: int, as_json: bool) -> None:
    """List all sessions, the latest first.

    A status of "alive": a process is at work on it. "dead": its process has ended on the way, and
    "parked": it waits; `windlass sessions resume` goes on with either.
    """
    place, infos = _infos(store)
    if as_json:
        out().json([_info_document(info) for info in infos])
        return
    if not infos:
        _nothing(place)
        return
    now = seams.now()
    room = max(20, out().width - 62)
    rows = [
        (
            words.clean(info.id),
            words.clean(info.state),
            words.ago(now - info.updated_at),
            f"{info.entries:,}",
            words.one_line(info.title or "", room),
        )
        for info in infos[:limit]
    ]
    out().table(("SESSION", "STATUS", "UPDATED", "ENTRIES", "FIRST MESSAGE"), rows, ("ENTRIES",))
    if len(infos) > limit:
        out().line((f"and {len(infos) - limit} more; --limit {len(infos)} lists them all", "dim"))
    if due := at_place(place, _count_due):
        verb = "is" if due == 1 else "are"
        told = (
            f"{words.count(due, 'trigger')} {verb} due: `windlass sessions wake` fires what is due"
        )
        out().line((told, "yellow"))


@click.command()
@id_argument
@store_option
@click.option("--full", is_flag=True, help="Do not cut long text.")
@json_option
@debug_option
def show(id: str, store: str | None, full: bool, as_json: bool) -> None:
    """Show what happened in a session: its turns, calls, decisions and results."""

    async def look(home: Store, session_id: str) -> tuple[SessionInfo, list[timeline.TimedEntry]]:
        return await home.info(session_id), await timeline.read(home, session_id)

    info, entries = on_session(store, id, look)
    if as_json:
        events = [{"at": at, **as_dict(entry)} for at, entry in entries]
        out().json({**_info_document(info), "events": events})
        return
    paper = out()
    _summary(paper, info, entries)
    timeline.show(paper, entries, full=full)


@click.command()
@store_option
@click.option("--older-than", metavar="AGE", help="30d, 12h, 2w; default: keep_days of [store].")
@click.option("--dry-run", is_flag=True, help="Only say which.")
@json_option
@debug_option
def prune(store: str | None, older_than: str | None, dry_run: bool, as_json: bool) -> None:
    """Delete sessions that were not used for some time."""
    cutoff = seams.now() - _kept_for(older_than, store)
    place, infos = _infos(store)
    gone = [info.id for info in infos if info.updated_at < cutoff]
    if gone and not dry_run:
        gone = at_place(place, lambda home: home.prune(cutoff), writes=True)
    if as_json:
        out().json({"deleted" if not dry_run else "would_delete": gone})
        return
    for session_id in gone:
        out().line(words.clean(session_id))
    outcome = "would be deleted" if dry_run else "deleted"
    out().line((f"{words.count(len(gone), 'session')} {outcome}", "dim"))


@click.command()
@id_argument
@store_option
@json_option
@debug_option
def verify(id: str, store: str | None, as_json: bool) -> None:
    """Check that nothing of a session's record was changed: follow its chain of hashes."""

    async def check(home: Store, session_id: str) -> tuple[str, int, str]:
        rows = await home.verify(session_id)
        return session_id, rows, (await home.head(session_id)).hash.hex()

    session_id, rows, head = on_session(store, id, check)
    if as_json:
        out().json({"session_id": session_id, "rows": rows, "head": head, "verified": True})
        return
    out().line(
        ("verified", "green"),
        f" {words.clean(session_id)}: {words.count(rows, 'row')}, head {head}",
    )


@click.command()
@click.argument("ids", nargs=-1, required=True, metavar="ID...")
@store_option
@click.option("--yes", "-y", is_flag=True, help="Do not ask.")
@debug_option
def delete(ids: tuple[str, ...], store: str | None, yes: bool) -> None:
    """Remove sessions and everything recorded of them."""
    place, infos = _infos(store)
    chosen = [pick(infos, wanted) for wanted in ids]
    if not yes:
        if not sys.stdin.isatty():
            raise click.UsageError("nobody is there to ask: add --yes")
        click.confirm(f"delete {', '.join(map(words.clean, chosen))}?", abort=True, err=True)

    async def remove(home: Store) -> None:
        for session_id in chosen:
            await home.delete(session_id)

    at_place(place, remove, writes=True)
    for session_id in chosen:
        out().line(f"deleted {words.clean(session_id)}")


# --------------------------------------------------------------------------- how


async def _count_due(home: Store) -> int:
    """Count the triggers, and conditions of parked sessions, that nobody has fired yet."""
    return len(await home.consult(lambda tx: due_triggers(tx, seams.now(), 1000)))


def _infos(store: str | None) -> tuple[Place, list[SessionInfo]]:
    place = find_place(store)
    if not place.exists:  # reading makes no files
        return place, []
    return place, at_place(place, lambda home: home.sessions())


def _kept_for(older_than: str | None, store: str | None) -> float:
    """Return the age in seconds, as asked for or as configured.

    What a project says counts for the store of the project, not for one that the user keeps elsewhere.
    """
    if older_than is not None:
        return age(older_than)
    config = load()
    days = config.get(StoreConfig).keep_days
    if days is None:
        raise click.UsageError("how old? --older-than 30d, or keep_days in [store]")
    origin = {each.key: each.origin for each in config.explain() if each.section == "store"}
    of_project = {key: where.startswith(f"{config.project}:") for key, where in origin.items()}
    chosen = store is not None or origin["url"] != BUILT_IN and not of_project["url"]
    if of_project["keep_days"] and chosen:
        raise click.UsageError(
            f"how old? keep_days ({origin['keep_days']}) is about the project's own store; "
            "for this one: --older-than 30d"
        )
    return days * 86400.0


def _nothing(place: Place) -> None:
    where = place.shown
    err().line(f"no sessions in {where}; `windlass run` makes one")


def _info_document(info: SessionInfo) -> JsonObject:
    return {**msgspec.to_builtins(info), "state": info.state}


def _summary(paper: Any, info: SessionInfo, entries: list[Any]) -> None:
    """Print the head of a timeline: its state, and its usage."""
    replies = [entry for _, entry in entries if isinstance(entry, Replied)]
    turns = sum(1 for reply in replies if reply.purpose is None)
    status = info.state
    tone = "green" if status in ("done", "idle") else "yellow"
    facts = [
        words.count(turns, "turn"),
        words.tokens(sum(reply.usage.total_tokens for reply in replies)),
        words.money(sum(reply.cost_usd for reply in replies)),
    ]
    began = datetime.datetime.fromtimestamp(info.created_at).astimezone()
    paper.line((words.clean(info.id), "bold"), "  ", (words.clean(status), tone))
    paper.line((f"{began:%Y-%m-%d %H:%M:%S %Z} · {' · '.join(facts)}", "dim"))
    if info.alive and info.holder is not None:
        paper.line((f"written by {words.clean(str(info.holder))}", "dim"))
    if info.parent_id:
        paper.line((f"forked from {words.clean(info.parent_id)}", "dim"))
    if info.child_ids:
        paper.line((f"forks: {words.clean(', '.join(info.child_ids))}", "dim"))
