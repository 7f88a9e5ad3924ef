"""`windlass plan`: the effects that a preview planned, and their approval."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import click
import msgspec

from windlass import seams
from windlass.cli import text as words
from windlass.cli.approvals import by_option, user_name
from windlass.cli.console import out
from windlass.cli.main import debug_option
from windlass.cli.options import id_argument, json_option, store_option
from windlass.cli.store_location import on_session
from windlass.sessions.effect_plans import approve_plan, plan_of

if TYPE_CHECKING:
    from windlass.policies.preview.plan import EffectPlan, PlannedEffect
    from windlass.store.base import Store


@click.command()
@id_argument
@store_option
@json_option
@debug_option
def show(id: str, store: str | None, as_json: bool) -> None:
    """Show the effects of a plan: each call, and the rows it would change if known."""
    found = _find_plan(store, id)
    if as_json:
        out().json({**msgspec.to_builtins(found), "state": _state(found)})
        return
    for line in render_plan(found):
        click.echo(line)


@click.command()
@id_argument
@click.option("--yes", "-y", is_flag=True, help="Do not ask.")
@click.option(
    "--expires",
    metavar="AGE",
    default="7d",
    show_default=True,
    help="For how long a run may begin to use it: 12h, 7d.",
)
@by_option
@store_option
@debug_option
def approve(id: str, yes: bool, expires: str, by: str | None, store: str | None) -> None:
    """Approve all effects of a plan, as they are shown."""
    seen = _find_plan(store, id)
    if not yes:
        if not sys.stdin.isatty():
            raise click.UsageError("nobody is there to ask: add --yes")
        for line in render_plan(seen):
            click.echo(line, err=True)
        click.confirm("approve all of it?", abort=True, err=True)

    async def say_yes(home: Store, _: str) -> Any:  # what was shown is what is approved
        lasts = words.age(expires)
        return await approve_plan(seen, name=by or user_name(), expires_in=lasts, store=home)

    on_session(store, seen.session_id, say_yes, writes=True)
    count = words.count(len(seen.effects), "effect")
    click.echo(f"approved {count}: windlass run … --plan {words.one_line(seen.session_id)}")


def _find_plan(store: str | None, id: str) -> EffectPlan:
    async def look(home: Store, session_id: str) -> EffectPlan:
        return await plan_of(session_id, store=home)

    return on_session(store, id, look)


def render_plan(plan: EffectPlan) -> Iterator[str]:
    """Render a plan for a person."""
    for label, value in (
        ("plan", plan.id),
        ("session", plan.session_id),
        ("agent", plan.agent or "-"),
        ("caller", plan.caller),
        ("state", _state(plan)),
    ):
        yield f"{label:10}{words.one_line(value)}"
    if plan.status != "done":
        yield f"{'ended':10}{words.one_line(plan.status)}: there may be more to do than this"
    if not plan.effects:
        yield "no effects"
    for number, effect in enumerate(plan.effects, 1):
        yield from _effect(number, effect)


def _effect(number: int, effect: PlannedEffect) -> Iterator[str]:
    yield f"{number}. {words.one_line(words.shown_call(effect.tool, effect.arguments, 10_000))}"
    for change in effect.diff or ():
        yield f"   {change['verb']} {words.one_line(change['resource'])} {words.one_line(repr(change['id']))}"
        for name, pair in change["fields"].items():
            shown = "private" if isinstance(pair, str) else f"{_value(pair[0])} → {_value(pair[1])}"
            yield f"     {words.one_line(name)}: {shown}"
    if effect.session_id is not None:
        yield f"   by an agent in {words.one_line(effect.session_id)}"
    for line, _ in words.colour_diff(effect.note):
        yield f"   {line}"
    for ask in effect.asks:
        yield f"   {words.one_line(ask['rule'])} asks: {words.one_line(str(ask['reason']), 200)}"


def _value(value: Any) -> str:
    return words.one_line(words.json_text(value, indent=False), 80)


def _state(plan: EffectPlan) -> str:
    if plan.used_by is not None:
        return f"used by {plan.used_by}"
    if plan.approved_by is None:
        return "not approved"
    if plan.expired:
        return f"approved by {plan.approved_by}, and expired"
    if plan.expires_at is None:
        return f"approved by {plan.approved_by}"
    left = words.duration(plan.expires_at - seams.now())
    return f"approved by {plan.approved_by} ({left} left)"
