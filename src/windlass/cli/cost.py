"""`windlass cost`: usage of model calls, by day, model, tenant and so on."""

from __future__ import annotations

import datetime
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

import click

from windlass import seams
from windlass.cli import text as words
from windlass.cli.console import err, out
from windlass.cli.main import debug_option
from windlass.cli.options import json_option, store_option
from windlass.cli.store_location import at_place, find_place
from windlass.cli.text import age, clean
from windlass.errors import ConfigError, nearest
from windlass.json_types import JsonObject
from windlass.models.registry import prices
from windlass.models.registry.scope import ENDPOINTS

if TYPE_CHECKING:
    from windlass.cli.console import ConsoleOutput
    from windlass.store.model_calls import ModelCall

BAR = "█"
_EIGHTHS = " ▏▎▍▌▋▊▉█"
_LEAST_BAR, _MOST_BAR = 8, 30
_LABEL = 24  # a name is not cut to less than this to make room for a bar
_WHOLE_NUMBERS = 110  # columns; a narrower terminal is shown 1.2M for 1,234,567


@click.command()
@click.option(
    "--by",
    "by",
    default="day",
    metavar="WHAT",
    help="day, model, provider, tenant, caller or session.",
)
@click.option("--since", metavar="WHEN", help="From then on: 7d, 12h, today, 2026-11-01.")
@click.option("--until", metavar="WHEN", help="Before then, written the same way.")
@click.option("--tenant", metavar="NAME", help="Of this tenant alone.")
@click.option("--model", metavar="NAME", help="Of this model alone.")
@store_option
@json_option
@debug_option
def cost(
    by: str,
    since: str | None,
    until: str | None,
    tenant: str | None,
    model: str | None,
    store: str | None,
    as_json: bool,
) -> None:
    """Show what model calls used and cost, from the records of a store.

    \b
      windlass cost                         day by day
      windlass cost --by model --since 7d   which model, this week
    """
    key = _key(by)
    now = seams.now()
    which: JsonObject = {
        "since": when("--since", since, now),
        "until": when("--until", until, now),
        "tenant": tenant,
        "model": model,
    }
    place = find_place(store)
    calls: list[ModelCall] = []
    if place.exists:  # reading makes no files
        calls = at_place(place, lambda home: home.calls(**which))
    groups = _group_calls(calls, key, by)
    if as_json:
        total = _document(Group("total", calls))
        out().json({"by": by, "groups": [_document(group) for group in groups], "total": total})
        return
    if not calls:
        where = place.shown
        meant = "" if not any(which.values()) else " that are meant"
        err().line(f"no model calls{meant} in {where}; `windlass run` makes some")
        return
    _show(out(), by, groups, Group("total", calls))


# --------------------------------------------------------------------------- which


def _key(by: str) -> Callable[[ModelCall], str]:
    keys: dict[str, Callable[[ModelCall], str]] = {
        "day": lambda call: f"{_local(call.at):%Y-%m-%d}",
        "model": lambda call: f"{call.provider}:{call.model}",
        "provider": lambda call: call.provider,
        "tenant": lambda call: call.tenant or "(no tenant)",
        "caller": lambda call: call.caller or "(nobody)",
        "session": lambda call: call.session or f"({call.door or 'no session'})",
    }
    if by not in keys:
        raise ConfigError(f"--by is one of {', '.join(keys)}, not {by!r}{nearest(by, keys)}")
    return keys[by]


def _local(at: float) -> datetime.datetime:
    return datetime.datetime.fromtimestamp(at).astimezone()


def when(option: str, text: str | None, now: float) -> float | None:
    """Parse a time as a person writes it: an age, a day, or a moment of one."""
    if text is None:
        return None
    midnight = _local(now).replace(hour=0, minute=0, second=0, microsecond=0)
    if text.lower() in ("today", "yesterday"):
        back = datetime.timedelta(days=text.lower() == "yesterday")
        return (midnight - back).timestamp()
    try:
        return datetime.datetime.fromisoformat(text).astimezone().timestamp()
    except (ValueError, OverflowError, OSError):
        pass
    try:
        return now - age(text)
    except ConfigError:
        raise ConfigError(
            f"{option} {text!r} is no time; write 7d, 12h, today, 2026-11-01 or 2026-11-01T14:30"
        ) from None


# --------------------------------------------------------------------------- sums


class Group:
    """Calls that are counted together."""

    def __init__(self, name: str, calls: Sequence[ModelCall]) -> None:
        self.name, self.calls = name, len(calls)
        self.failed = sum(1 for call in calls if call.outcome != "ok")
        self.input = sum(call.input_tokens for call in calls)
        self.output = sum(call.output_tokens for call in calls)
        self.cached = sum(call.cache_read_tokens for call in calls)
        self.reasoning = sum(call.reasoning_tokens for call in calls)
        self.gpu_ms = sum(call.gpu_ms for call in calls)
        self.usd = sum(call.cost_usd for call in calls)
        self.latency = sum(call.latency_ms for call in calls) / max(1, len(calls))
        self.unpriced = sorted({_who(call) for call in calls if _lacks_price(call)})
        self.priced = any(call.cost_usd for call in calls)


def _group_calls(calls: list[ModelCall], key: Callable[[ModelCall], str], by: str) -> list[Group]:
    found: dict[str, list[ModelCall]] = {}
    for call in calls:
        found.setdefault(key(call), []).append(call)
    groups = [Group(name, some) for name, some in found.items()]
    if by == "day":
        return sorted(groups, key=lambda group: group.name)
    return sorted(groups, key=lambda group: (-group.usd, -group.input - group.output, group.name))


def _who(call: ModelCall) -> str:
    return f"{call.provider}:{call.model}"


def _lacks_price(call: ModelCall) -> bool:
    """Check whether a call used tokens without a known price; self-hosted models are free."""
    if call.cost_usd or call.via == "cache" or not (call.input_tokens or call.output_tokens):
        return False
    endpoint = ENDPOINTS.get(call.provider)
    if call.provider == "mock" or (endpoint is not None and not endpoint.key_env):
        return False
    return not prices.tariff(call.provider, call.model).known


def _document(group: Group) -> JsonObject:
    return {
        "name": group.name,
        "calls": group.calls,
        "failed": group.failed,
        "input_tokens": group.input,
        "output_tokens": group.output,
        "cache_read_tokens": group.cached,
        "reasoning_tokens": group.reasoning,
        "gpu_ms": group.gpu_ms,
        "cost_usd": group.usd,
        "mean_latency_ms": group.latency,
        "price_unknown": group.unpriced,
    }


# --------------------------------------------------------------------------- the table


def _show(paper: ConsoleOutput, by: str, groups: list[Group], total: Group) -> None:
    head = (by.upper(), "CALLS", "FAILED", "IN", "OUT", "CACHED", "LATENCY", "COST")
    rows = [_cells(paper, group) for group in (*groups, total)]
    numbers = sum(max(len(row[i]) for row in (head, *rows)) + 2 for i in range(1, len(head)))
    longest = max(len(row[0]) for row in rows)
    label = max(10, paper.width - numbers)
    if paper.fancy and label - _LEAST_BAR - 2 >= _LABEL:
        label -= _LEAST_BAR + 2
    label = min(longest, label)
    rows = [(_cut(row[0], label), *row[1:]) for row in rows]
    room = min(_MOST_BAR, paper.width - numbers - label - 2)
    if paper.fancy and room >= _LEAST_BAR:
        most = max(_weight(group, total) for group in groups)
        bars = [_bar(_weight(group, total) / most, room) if most else "" for group in groups]
        head = (*head, "")
        rows = [(*row, bar) for row, bar in zip(rows, (*bars, ""), strict=True)]
    paper.table(head, rows, head[1:8])
    for name in total.unpriced:
        paper.line((f"price unknown: {clean(name)}; its calls count as $0.00", "yellow"))


def _weight(group: Group, total: Group) -> float:
    """Return the length of a group's bar: dollars, or tokens where nothing costs any."""
    return group.usd if total.usd else group.input + group.output


def _cells(paper: ConsoleOutput, group: Group) -> tuple[str, ...]:
    def number(count: int) -> str:
        return f"{count:,}" if paper.width >= _WHOLE_NUMBERS else _short(count)

    paid = words.money(group.usd)
    if group.unpriced:
        paid = f"≥{paid}" if group.priced else "unknown"
    return (
        words.one_line(group.name),
        number(group.calls),
        number(group.failed) if group.failed else "",
        number(group.input),
        number(group.output),
        f"{group.cached / group.input:.0%}" if group.cached and group.input else "",
        words.duration(group.latency / 1000),
        paid,
    )


def _cut(text: str, width: int) -> str:
    """Cut the middle of a long name: ids differ at the end, models at the beginning."""
    if len(text) <= width:
        return text
    tail = (width - 1) // 2
    return f"{text[: width - 1 - tail]}…{text[len(text) - tail :]}"


def _short(count: int) -> str:
    """Format a count: `1.2M` for 1,234,567."""
    for size, unit in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
        if count >= size:
            return (
                f"{count / size:.1f}{unit}" if count < 100 * size else f"{count / size:.0f}{unit}"
            )
    return str(count)


def _bar(share: float, width: int) -> str:
    eighths = round(share * width * 8)
    if share > 0:
        eighths = max(1, eighths)
    return (BAR * (eighths // 8) + _EIGHTHS[eighths % 8]).rstrip()
