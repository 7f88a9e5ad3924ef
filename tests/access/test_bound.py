"""Whatever an approval is bound to is changed between the yes and the run: it is refused, always."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import pytest

import windlass as w
from windlass import seams
from windlass.engine import environment as runtimes
from windlass.testing import call, scripted

ANN = w.Caller("ann", ("clerk",), "acme")
ASK: Any = {"rules": [{"ask": "pay"}], "expires_in": 3600}
TO = {"to": {"type": "string"}, "amount": {"type": "number"}, "path": {"type": "string"}}
ASKED = {"to": "bob", "amount": 5, "path": "bill"}
VALUES: list[Any] = [
    "eve",
    "",
    "bob ",
    "BOB",
    "bоb",
    6,
    5.5,
    -5,
    10**12,
    0,
    "bill2",
    "../bill",
    "sub/bill",
    "bill\u200b",
]


class Case(NamedTuple):
    """One change: to the agent's options, to who goes on, to the world."""

    field: str
    options: dict[str, Any] = {}
    caller: w.Caller = ANN
    world: Callable[[Path], Any] | None = None
    late: float = 0.0
    said: w.Allow | None = None


class Rewrites(w.Policy[None]):
    """Another argument than the one that was approved."""

    def __init__(self, name: str, value: Any) -> None:
        self.changed = {name: value}

    async def before_tool(self, run: w.Run, call: w.ToolCall) -> w.ToolCall:
        return w.ToolCall(call.id, call.name, {**call.arguments, **self.changed})


class Asks(w.Policy[None]):
    """As a rule would, but behind whoever changes arguments."""

    async def before_tool(self, run: w.Run, call: w.ToolCall) -> w.Ask:
        return w.Ask("may it?", expires_in=3600)


def pay(ran: list[Any], **changed: Any) -> w.Tool:
    given: Any = {
        "name": "pay",
        "description": "Pay.",
        "parameters": TO,
        "annotations": {"kind": "edit", "path_args": ["path"]},
        **changed,
    }
    return w.Tool(handler=lambda args: ran.append(args) or "paid", **given)


TOOLS: dict[str, dict[str, Any]] = {
    "description": {"description": "Pay at once."},
    "schema": {"parameters": {**TO, "more": {"type": "string"}}},
    "looser schema": {"parameters": {"to": {}, "amount": {}, "path": {}}},
    "kind": {"annotations": {"kind": "read", "path_args": ["path"]}},
    "paths": {"annotations": {"kind": "edit", "path_args": []}},
    "label": {"annotations": {"kind": "edit", "path_args": ["path"], "loud": True}},
    "keyed": {"keyed": True},
    "level": {"side_effect_level": "network"},
    "strict": {"strict": True},
    "namespace": {"namespace": "bank"},
}
CALLERS = [
    w.Caller("ann", (), "acme"),
    w.Caller("ann", ("clerk", "admin"), "acme"),
    w.Caller("ann", ("Clerk",), "acme"),
    w.Caller("ann", ("admin",), "acme"),
    w.Caller("eve", ("clerk",), "acme"),
    w.Caller("ann", ("clerk",), "evil"),
    w.Caller("ann", ("clerk",)),
]


def cases() -> list[Case]:
    found: list[Case] = []
    for name, value in itertools.product(ASKED, VALUES):
        if isinstance(value, str) == isinstance(ASKED[name], str) and value != ASKED[name]:
            found.append(Case(f"argument {name}", {"rewrite": (name, value)}))
    found += [Case(f"tool: {name}", {"tool": change}) for name, change in TOOLS.items()]
    found += [Case("caller", caller=caller) for caller in CALLERS]
    found += [Case("time", late=late) for late in (3601, 4000, 10**6, 10**9)]
    found += [Case("workspace", {"workspace": place}) for place in ("..", "elsewhere", "/")]
    for target in ("other", "sub/other", ".", ".."):
        found.append(Case("link", world=lambda folder, t=target: _turn(folder, t)))
    found += [Case("ask", said=w.Allow(ask=wrong)) for wrong in ("0" * 32, "x", "deadbeef")]
    return found


def _turn(folder: Path, target: str) -> None:
    (folder / "bill").unlink()
    (folder / "bill").symlink_to(target)


async def outcome(case: Case | None, folder: Path, monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """What ran in the end, after a yes and the change."""
    monkeypatch.setattr(runtimes, "_default", w.Runtime(store="memory:", environ={}))
    ran: list[Any] = []
    (folder / "first").touch()
    (folder / "bill").symlink_to("first")
    options = dict(case.options) if case is not None else {}
    policy: Any = {"policies": [Asks()]}
    if "rewrite" not in options:
        policy = {"approval_policy": {**ASK, "workspace": folder}}
    agent = w.Agent(scripted(call("pay", **ASKED), "ok"), tools=[pay(ran)], **policy)
    out = await agent.run("go", session_id="s", caller=ANN)
    assert out.status == "suspended" and not ran
    said = {}
    if case is not None and case.said is not None:
        said = {out.pending[0].id: case.said}
    else:
        [waiting] = await w.approvals()
        await w.approve(waiting.id)
    if "rewrite" in options:
        agent = agent.with_(policies=[Rewrites(*options["rewrite"]), Asks()])
    if "tool" in options:
        agent = agent.with_(tools=[pay(ran, **options["tool"])])
    if "workspace" in options:
        place = folder / options["workspace"]
        agent = agent.with_(approval_policy={**ASK, "workspace": place, "guards": False})
    if case is not None and case.world is not None:
        case.world(folder)
        agent = agent.with_(approval_policy={**ASK, "workspace": folder, "guards": False})
    if case is not None and case.late:
        then = seams.now() + case.late
        monkeypatch.setattr(seams, "now", lambda: then)
    try:
        out = await agent.resume("s", decisions=said, caller=case.caller if case else ANN)
    except w.NoSuchSession:
        return ran
    assert out.status in ("done", "suspended")
    return ran


@pytest.mark.parametrize("case", cases(), ids=lambda case: case.field)
async def test_what_was_approved_is_what_runs(
    case: Case, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    assert await outcome(case, tmp_path, monkeypatch) == []


async def test_unchanged_it_runs_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    assert await outcome(None, tmp_path, monkeypatch) == [ASKED]
