"""`windlass audit`: what agents did, whether the record of it is whole, and sealing it."""

from __future__ import annotations

import asyncio
import datetime
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

import click
import msgspec

from windlass import seams
from windlass.audit import query as audit_query
from windlass.audit import verify as audit_verify
from windlass.audit.anchors import AuditConfig, FileAnchor
from windlass.audit.seal import SealScheduler
from windlass.cli import text as words
from windlass.cli.console import err, out
from windlass.cli.cost import when
from windlass.cli.main import debug_option
from windlass.cli.options import json_option, store_option
from windlass.cli.store_location import at_place, find_place, pick
from windlass.cli.text import clean, json_text
from windlass.config.loader import load
from windlass.errors import NoSuchSession
from windlass.json_types import JsonObject
from windlass.store.memory import MemoryStore

if TYPE_CHECKING:
    from windlass.audit.query import AuditEntry, AuditPage
    from windlass.audit.verify import AuditReport
    from windlass.store.base import Store

anchor_option = click.option(
    "--anchor", metavar="FILE", help="Where seals are kept; default: anchor of [audit]."
)
tenant_option = click.option("--tenant", metavar="NAME", help="Of this tenant alone.")
session_option = click.option("--session", metavar="ID", help="Of this session alone.")


@click.command()
@tenant_option
@session_option
@anchor_option
@store_option
@json_option
@debug_option
@click.pass_context
def verify(
    ctx: click.Context,
    tenant: str | None,
    session: str | None,
    anchor: str | None,
    store: str | None,
    as_json: bool,
) -> None:
    """Check whether the record was changed, cut or restored; print one line per finding.

    Exit code 1 if so. Without an anchor it also says what would not show.
    """
    place, kept = find_place(store), _anchor(anchor)
    if not place.exists and kept is None:
        err().line(f"nothing is kept in {place.shown}")
        return
    anchored = None if kept is None else kept.get()

    async def check(home: Store) -> AuditReport:
        name = None if session is None else await _resolve_session(home, session)
        report = await audit_verify.verify(home, anchored, tenant=tenant, session=name)
        if name is not None and not (report.sessions or report.chains or report.findings):
            raise NoSuchSession(f"no session {name!r}, and no seal of one")
        return report

    if place.exists:
        report = at_place(place, check)
    else:  # what the anchor speaks of is gone altogether
        report = asyncio.run(check(MemoryStore()))
    if as_json:
        out().json({"verified": report.ok, **msgspec.to_builtins(report)})
    else:
        _show(report)
    ctx.exit(0 if report.ok else 1)


def _show(report: AuditReport) -> None:
    paper = out()
    for finding in report.findings:
        paper.line(("found", "red"), f" {_line(finding.what)}: {_line(finding.problem)}")
    for line in report.not_covered:
        paper.line(("not covered", "yellow"), f" {_line(line)}")
    for end in report.deleted:
        said = f"{end.name}, {words.count(end.rows, 'row')}, on {_time(end.at)}"
        paper.line(("deleted", "dim"), f" {_line(said)}")
    counts = [
        f"{words.count(report.sessions, 'session')} ({words.count(report.rows, 'row')})",
        f"{words.count(report.chains, 'audit chain')} ({words.count(report.audit_rows, 'row')})",
        words.count(report.seals, "seal"),
    ]
    if report.anchored is not None:
        counts.append(f"{report.anchored} anchored")
    if report.ok:
        paper.line(("verified", "green"), f" {', '.join(counts)}")
    else:
        found = words.count(len(report.findings), "finding")
        paper.line((f"{found} in {', '.join(counts)}", "bold"))


@click.command()
@tenant_option
@click.option("--caller", metavar="NAME", help="Who asked.")
@click.option("--request", metavar="ID", help="In which request, as the host names it.")
@click.option("--conversation", metavar="ID", help="In which conversation.")
@session_option
@click.option("--tool", metavar="NAME", help="Of this tool alone.")
@click.option("--resource", metavar="NAME", help="Calls to this resource.")
@click.option("--since", metavar="WHEN", help="From then on: 7d, 12h, today, 2026-11-01.")
@click.option("--until", metavar="WHEN", help="Before then, written the same way.")
@click.option(
    "--limit",
    default=50,
    type=click.IntRange(min=1),
    metavar="N",
    help="How many, the newest first.",
)
@click.option("--cursor", metavar="TEXT", help="Go on where a page ended.")
@store_option
@json_option
@debug_option
def query(store: str | None, as_json: bool, limit: int, **given: str | None) -> None:
    """List every tool call that matches, the newest first.

    `--tenant ""` are those without a tenant.
    """
    which: JsonObject = {name: value for name, value in given.items() if value is not None}
    for name in ("since", "until"):
        if name in which:
            which[name] = when(f"--{name}", which[name], seams.now())
    if which.get("tenant") == "":
        which["tenant"] = None
    place = find_place(store)

    async def ask(home: Store) -> AuditPage:
        if "session" in which:
            which["session"] = await _resolve_session(home, which["session"])
        return await audit_query.query(home, limit=limit, **which)

    page = at_place(place, ask) if place.exists else None  # reading makes no files
    if as_json:
        out().json({"entries": [], "cursor": None} if page is None else msgspec.to_builtins(page))
    elif page is None or not page.entries:
        err().line(f"no tool calls{' that are meant' if which else ''} in {place.shown}")
    else:
        _list(page)


def _list(page: AuditPage) -> None:
    room = max(20, out().width - 110)
    rows = [
        (
            _time(one.at),
            words.clean(one.session or "(host)"),
            words.clean(f"{one.tenant}/{one.caller}" if one.tenant else one.caller),
            words.clean(one.tool),
            words.clean(one.rule or "-"),
            words.clean(one.outcome or ("waits" if one.action == "ask" else "open")),
            words.one_line(_did(one), room),
        )
        for one in page.entries
    ]
    head = ("TIME", "SESSION", "CALLER", "TOOL", "RULE", "OUTCOME", "WHAT")
    out().table(head, rows, spare=("RULE", "CALLER"))
    if page.cursor is not None:
        err().line(("there is more: ", "dim"), f"--cursor '{page.cursor}'")


def _did(entry: AuditEntry) -> str:
    """Describe what was changed, or else the digest of the request."""
    said: list[str] = []
    for change in entry.changes:
        diff: JsonObject = change.get("diff") or {}
        fields = [
            f"{name}: {values}"
            if isinstance(values, str)
            else f"{name}: {json_text(values[0], indent=False)} -> {json_text(values[1], indent=False)}"
            for name, values in diff.items()
        ]
        said.append(f"{change.get('resource')} {change.get('id')} ({', '.join(fields)})")
    if not said and entry.reason:
        said.append(entry.reason)
    if not said and entry.row is not None:
        said.append(f"{entry.resource} {entry.row}")
    return "; ".join(said) or f"arguments {(entry.digest or '-')[:16]}"


@click.command()
@anchor_option
@store_option
@json_option
@debug_option
def seal(anchor: str | None, store: str | None, as_json: bool) -> None:
    """Seal now all that has changed since its last seal, and anchor the seals."""
    place, kept = find_place(store), _anchor(anchor)
    if not place.exists:
        err().line(f"nothing is kept in {place.shown}")
        return
    with ThreadPoolExecutor(1) as pool:
        made = at_place(
            place, lambda home: SealScheduler(home, kept, lambda: pool, 60.0).seal(), writes=True
        )
    if as_json:
        out().json(msgspec.to_builtins(made))
        return
    ends = sum(len(one.ends) for one in made)
    where = "" if kept is None else f", kept in {kept.path}"
    out().line(f"{words.count(len(made), 'seal')} over {words.count(ends, 'chain')}{where}")


# --------------------------------------------------------------------------- how


def _anchor(given: str | None) -> FileAnchor | None:
    if given is not None:
        return FileAnchor(given)
    config = load()
    anchor = config.get(AuditConfig).anchor
    return None if anchor is None else FileAnchor(config.folder(AuditConfig, "anchor") / anchor)


async def _resolve_session(home: Store, wanted: str) -> str:
    """Find a session's id by its beginning; of a deleted one the whole id is needed."""
    infos = await home.sessions()
    try:
        return pick(infos, wanted)
    except NoSuchSession:
        if any(info.id.startswith(wanted) for info in infos):
            raise
        return wanted


def _time(at: float) -> str:
    return f"{datetime.datetime.fromtimestamp(at).astimezone():%Y-%m-%d %H:%M:%S}"


def _line(text: str) -> str:
    return " ".join(clean(text).split())
