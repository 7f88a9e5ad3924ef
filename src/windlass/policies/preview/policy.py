"""A preview: every call with an effect goes into a plan; later a run applies the plan.

The run afterwards may do what an approved plan holds, each effect once, and asks about
anything else. Reads are free in both.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import msgspec

from windlass import seams
from windlass.access.approval import LASTS
from windlass.access.caller import is_host
from windlass.errors import ConfigError, NoSuchSession, PermissionDenied, SessionHeld, StoreError
from windlass.events import (
    EffectPlanned,
    PlanMade,
    PlanUsed,
    RunStarted,
)
from windlass.json_types import JsonObject
from windlass.loop.approval_request import version
from windlass.loop.call_diff import SHOWS_DIFF, cut_diff, extract_diff
from windlass.loop.plan import digest_of
from windlass.loop.policy import CallVerdict, Policy
from windlass.loop.run import Run
from windlass.loop.verdict import Ask, Granted, Outcome, Suspend
from windlass.messages import ToolCall, ToolResult
from windlass.policies.preview.plan import (
    EffectPlan,
    PlannedEffect,
    RowsDiffer,
    at_rest,
    bound_to,
    compare_rows,
    effect_of,
    expect_rows,
    plan_in,
)
from windlass.tools.middleware.preview import ExpectedRows, Rehearsal
from windlass.tools.render import to_text
from windlass.tools.tool import Tool, ToolContext

NAME = "plan"
UNSEEN = "what you read from now on does not show it"


# --------------------------------------------------------------------------- questions of other policies


class Beforehand(Policy[Any]):
    """A wrapped authority policy whose questions about effects go into the plan.

    Its no is still a no, and it asks about reads as ever. `silent` is the same without the function
    that would answer at once.
    """

    decides = True

    def __init__(self, inner: Policy[Any], silent: Policy[Any]) -> None:
        self.inner, self.silent = inner, silent
        for name in ("memory", "keeps", "models"):  # what is remembered is the inner one's
            setattr(self, name, getattr(inner, name))

    @property
    def name(self) -> str:
        return self.inner.name

    def for_child(self, run: Run) -> Policy[Any] | None:
        inner, silent = self.inner.for_child(run), self.silent.for_child(run)
        return None if inner is None or silent is None else Beforehand(inner, silent)

    def as_record(self) -> JsonObject | None:
        return self.inner.as_record()

    async def start(self, run: Run) -> Sequence[Tool] | None:
        return await self.inner.start(run)

    async def before_tool(self, run: Run, call: ToolCall) -> CallVerdict:
        if run.tools[call.name].effect == "read_only":
            return await self.inner.before_tool(run, call)
        answer = await self.silent.before_tool(run, call)
        if not isinstance(answer, Suspend):
            return answer
        _open_questions(run).setdefault(call.id, []).append((self.name, answer))
        return None

    async def after_tool(self, run: Run, call: ToolCall, result: ToolResult) -> Any:
        return await self.inner.after_tool(run, call, result)


def _open_questions(run: Run) -> dict[str, list[tuple[str, Suspend]]]:
    return run.cache.setdefault(Beforehand, {})


def _asks(run: Run, call: ToolCall) -> tuple[dict[str, Any], ...]:
    """Return the questions that policies would have asked about this call."""
    held = _open_questions(run).pop(call.id, [])
    return tuple(
        {
            "rule": name,
            "reason": ask.reason,
            "about": ask.about if isinstance(ask, Ask) else None,
        }
        for name, ask in held
    )


# --------------------------------------------------------------------------- the preview


class Preview(Policy[None]):
    """A policy that previews every effect where its tool can, and adds it to the plan."""

    decides = True

    def __init__(self, delegates: Callable[[Tool], bool], root: Run | None = None) -> None:
        self.delegates, self.root = delegates, root

    @property
    def name(self) -> str:
        return "preview" if self.root is None else "parent.preview"

    def for_child(self, run: Run) -> Preview:
        return Preview(self.delegates, self.root or run)

    def as_record(self) -> JsonObject:
        return {}  # `as_begun` refuses to go on without the parent

    async def before_tool(self, run: Run, call: ToolCall) -> ToolResult | None:
        tool, asks = run.tools[call.name], _asks(run, call)
        if self.delegates(tool):
            return None  # its agent is previewed as well
        root = self.root or run
        earlier = await self._earlier(root, run)
        if tool.effect == "read_only":
            seen = await _preview_call(run, tool, call, list(earlier.values())) if earlier else None
            return None if seen is None else seen.result
        key = f"{run.session_id}:{call.id}"
        if key in earlier:  # a sub-agent that was killed meets its call again
            return earlier[key].result
        seen = await _preview_call(run, tool, call, list(earlier.values()))
        if seen is not None and seen.result.is_error:
            return seen.result  # nothing would have happened
        if not any(_key(root, entry) == key for entry in _planned_effects(root)):
            root.record(
                EffectPlanned(
                    call.id,
                    tool.name,
                    version(tool),
                    call.arguments,
                    digest_of(call.arguments),
                    seen.diff if seen is not None else None,
                    seen.pinned if seen is not None else None,
                    _note(tool, seen),
                    asks,
                    None if root is run else run.session_id,
                    None if seen is None else seen.rows,
                    None if seen is None else seen.mark,
                )
            )
            await _first_there(root, run)
        if seen is not None:
            if seen.changes:
                earlier[key] = seen
            return seen.result
        return ToolResult(call.id, _words(call), False, call.name)

    async def _earlier(self, root: Run, run: Run) -> dict[str, Rehearsal]:
        """Return the previews so far; a run resumed after a crash repeats them."""
        known: dict[str, Rehearsal] = root.cache.setdefault(Preview, {})
        for entry in _planned_effects(root):
            key = _key(root, entry)
            tool = run.tools.get(entry.tool) or root.tools.get(entry.tool)
            if key in known or tool is None or not entry.diff:
                continue
            arguments = {**entry.arguments, **(entry.pinned or {})}
            again = ToolCall(entry.call_id, entry.tool, arguments)
            seen = await _preview_call(root, tool, again, list(known.values()))
            if seen is not None and seen.changes:
                known[key] = seen
        return known

    async def end(self, run: Run, outcome: Outcome) -> Outcome:
        if self.root is not None or outcome.status == "suspended":
            return outcome
        entries = run.own_entries
        begun = next(entry for entry in entries if type(entry) is RunStarted)
        effects = [effect_of(entry) for entry in _planned_effects(run)]
        run.record(PlanMade(bound_to(run.session_id, begun, effects), len(effects), outcome.status))
        return outcome


def _planned_effects(root: Run) -> list[EffectPlanned]:
    entries = root.own_entries
    return [entry for entry in entries if type(entry) is EffectPlanned]


def _key(root: Run, entry: EffectPlanned) -> str:
    return f"{entry.session_id or root.session_id}:{entry.call_id}"


async def _preview_call(
    run: Run, tool: Tool, call: ToolCall, earlier: Sequence[Rehearsal]
) -> Rehearsal | None:
    ctx: ToolContext[Any] = ToolContext(
        run.deps, run.caller, run.session_id, run.run_id, call.id, tool.name, run
    )
    seconds = tool.timeout if tool.timeout is not None else run.plan.tool_timeout
    try:
        async with asyncio.timeout(seconds):
            seen = await tool.rehearse(call.arguments, ctx, earlier)
    except TimeoutError:
        text = f"The preview of {tool.name} took longer than {seconds:g} s."
        return Rehearsal(ToolResult(call.id, text, True, tool.name, "timeout"))
    if seen is None:
        return None
    result = msgspec.structs.replace(seen.result, id=call.id, name=call.name)
    return msgspec.structs.replace(seen, result=result)


def _note(tool: Tool, seen: Rehearsal | None) -> str | None:
    """Return the diff of a file, or that there was no preview."""
    if seen is None:
        return "not rehearsed: its tool has no preview"
    return cut_diff(extract_diff(seen.result.text)) if tool.annotations.get(SHOWS_DIFF) else None


def _words(call: ToolCall) -> str:
    written = msgspec.json.encode(call.arguments, enc_hook=to_text).decode()
    return (
        f"Planned: {call.name} was not run; it is part of a plan that somebody approves as a whole. "
        f"Go on as if it had succeeded; {UNSEEN}. Arguments: {written}"
    )


# --------------------------------------------------------------------------- the real run


class PlanRef(msgspec.Struct, frozen=True):
    """A reference to a plan: its session, and its digest if known."""

    session_id: str
    id: str | None = None


class Claims(msgspec.Struct, frozen=True):
    """Effects of the plan that were allowed, and for which call: `session:call`."""

    plan: str = ""
    calls: dict[str, int] = {}


class PlanPins(Policy[None]):
    """A policy that sets arguments fixed by the plan (the id of a new row) beforehand."""

    def __init__(self, delegates: Callable[[Tool], bool], root: Run | None = None) -> None:
        self.delegates, self.root = delegates, root

    @property
    def name(self) -> str:
        return "plan_pins" if self.root is None else "parent.plan_pins"

    def for_child(self, run: Run) -> PlanPins:
        return PlanPins(self.delegates, self.root or run)

    def as_record(self) -> JsonObject:
        return {}  # `as_begun` refuses to go on without the parent

    async def before_tool(self, run: Run, call: ToolCall) -> ToolCall | None:
        root = self.root or run
        tool, plan = run.tools[call.name], root.cache.get(ByPlan)
        if plan is None or tool.effect == "read_only" or self.delegates(tool):
            return None
        claims: Claims = root.memory.get(NAME) or Claims()
        at = claims.calls.get(f"{run.session_id}:{call.id}")
        if at is None:
            at = _next_effect(plan, claims, call)
        pinned = None if at is None else plan.effects[at].pinned
        if not pinned:
            return None
        return msgspec.structs.replace(call, arguments={**call.arguments, **pinned})


def _next_effect(plan: EffectPlan, claims: Claims, call: ToolCall) -> int | None:
    """Return the first pending effect that is this call as the model asked for it."""
    taken, digest = set(claims.calls.values()), digest_of(call.arguments)
    for at, effect in enumerate(plan.effects):
        if at not in taken and effect.tool == call.name and effect.digest == digest:
            return at
    return None


class ByPlan(Policy[Claims]):
    """A policy that allows the effects of an approved plan once, and asks about others."""

    memory = Claims
    decides = True

    def __init__(
        self, ref: PlanRef, delegates: Callable[[Tool], bool], root: Run | None = None
    ) -> None:
        self.ref, self.delegates, self.root = ref, delegates, root

    @property
    def name(self) -> str:
        return NAME if self.root is None else f"parent.{NAME}"

    def for_child(self, run: Run) -> ByPlan:
        return ByPlan(self.ref, self.delegates, self.root or run)

    def as_record(self) -> JsonObject:
        return {}  # `as_begun` refuses to go on without the parent

    async def start(self, run: Run) -> None:
        if self.root is not None:
            self._expect_again(self.root, run)
            return
        plan = await self._load(run)
        run.cache[ByPlan] = plan
        self._expect_again(run, run)
        if run.turn is None and not run.number:  # a run that goes on asks, where it is too late
            if (why := _unusable(plan, run)) is not None:
                raise PermissionDenied(why)

    @staticmethod
    def _expect_again(root: Run, run: Run) -> None:
        """Restore the expectations of calls that were allowed and have not run."""
        plan: EffectPlan = root.cache[ByPlan]
        claims: Claims = root.memory.get(NAME) or Claims()
        for key, at in claims.calls.items():
            session, _, call_id = key.rpartition(":")
            effect = plan.effects[at] if at < len(plan.effects) else None
            if session == run.session_id and effect is not None and effect.rows is not None:
                own = frozenset(claims.calls)
                expect_rows(run, call_id, ExpectedRows(effect.rows, effect.mark, own))

    async def _load(self, run: Run) -> EffectPlan:
        ref = self.ref
        try:
            is_own = ref.session_id == run.session_id
            entries = run.entries if is_own else await run.store.read(ref.session_id)
        except NoSuchSession:
            entries = []
        plan = plan_in(entries, ref.session_id)
        if plan is None or _is_foreign(plan, run):
            raise ConfigError(
                f'session {ref.session_id!r} has no plan here: make one with dry_run="plan", in the '
                "store that this run uses"
            )
        if ref.id is not None and plan.id != ref.id:
            raise PermissionDenied(
                f"plan {ref.id[:12]} is not what session {ref.session_id!r} has on record; "
                "look at it again with `windlass plan show`"
            )
        return plan

    async def before_tool(self, run: Run, call: ToolCall) -> Granted | Ask | None:
        tool, asks = run.tools[call.name], _asks(run, call)
        if tool.effect == "read_only" or self.delegates(tool):
            return None
        root = self.root or run
        policy = self if self.root is None else ByPlan(self.ref, self.delegates)
        plan: EffectPlan = root.cache[ByPlan]
        claims: Claims = root.recall(policy)
        key = f"{run.session_id}:{call.id}"
        at = claims.calls.get(key)
        if at is None:
            at, why = _fitting(plan, claims, call, tool, asks)
        elif _misfit(plan.effects[at], call, tool, asks):
            at, why = None, "it is no longer the call that was planned"
        else:
            why = ""
        if at is not None:
            why = _unusable(plan, root) or await self._claim_plan(root, plan)
        if at is None or why:
            return _not_planned(call, plan, why, asks)
        if key not in claims.calls:
            claims = Claims(plan.id, {**claims.calls, key: at})
            root.remember(policy, claims)
            await _first_there(root, run)
        own = frozenset(claims.calls)
        differ = await compare_rows(run, tool, call, plan.effects[at], own, _preview_call)
        if differ is not None:
            return _not_planned(call, plan, differ.why, asks, differ)
        why = f"effect {at} of plan {plan.id[:12]}"
        receipt = {
            "action": "allow",
            "rule": why,
            "rationale": f"{plan.approved_by} approved the plan",
        }
        return Granted(why, plan.approved_by, receipt=receipt)

    async def _claim_plan(self, run: Run, plan: EffectPlan) -> str:
        """Claim the plan for this run, in the session that made it; "" on success."""
        if plan.is_used_by(run.session_id, run.run_id):
            return ""
        used = PlanUsed(plan.id, run.session_id, run.run_id)
        if plan.session_id == run.session_id:
            run.record(used)
        else:
            try:
                await run.store_record()  # the recorded user must exist, so that it can be resumed
                why = await _use(run, used, plan.session_id)
            except StoreError as error:
                return f"the plan could not be taken: {error}"
            if why is not None:
                return why
        run.cache[ByPlan] = msgspec.structs.replace(
            plan, used_by=run.session_id, used_run=run.run_id
        )
        return ""


async def _first_there(root: Run, run: Run) -> None:
    """Store the parent's record before its child's decision."""
    if root is not run:
        await root.store_record()


async def _use(run: Run, used: PlanUsed, session_id: str) -> str | None:
    """Record in the plan's session that this run uses it; return why that fails."""
    if not at_rest(await run.store.read(session_id)):
        return f"session {session_id}, which made the plan, is at work"
    try:
        journal = await run.store.open(session_id, create=False)
    except SessionHeld:
        return f"session {session_id}, which made the plan, is at work"
    try:
        plan = plan_in(journal.entries, session_id)
        if plan is None or plan.id != used.plan:
            return "the plan is gone"
        if plan.used_run is None:
            journal.append(used)
            journal.flush()
            await journal.durable()
            seams.point("plan.used")
        elif (plan.used_by, plan.used_run) != (used.session_id, used.run_id):
            return f"the plan was used by session {plan.used_by}"
        return None
    finally:
        await journal.close()


def _unusable(plan: EffectPlan, run: Run) -> str | None:
    """Return why the plan gives this run no rights, or None."""
    named = f"plan {plan.id[:12]} of session {plan.session_id}"
    if plan.approved_by is None:
        return f"{named} is not approved: `windlass plan approve {plan.session_id}`"
    if plan.used_run is not None and not plan.is_used_by(run.session_id, run.run_id):
        return f"{named} was used by session {plan.used_by}; make a new one"
    if plan.expired:
        return f"the approval of {named} has expired; make a new one"
    if not _same_caller(plan, run):
        return f"{named} is {plan.caller}'s as they were then, and this run is {run.caller_name}'s"
    return None


def _is_foreign(plan: EffectPlan, run: Run) -> bool:
    """Check whether the plan belongs to another caller, so that it does not exist here."""
    who = run.caller
    return not is_host(who) and plan.who[:2] != (who.user, who.tenant)


def _same_caller(plan: EffectPlan, run: Run) -> bool:
    who = run.caller
    user = None if is_host(who) else who.user  # as the record has it
    return plan.who == (user, who.tenant, tuple(sorted(who.roles)))


def _fitting(
    plan: EffectPlan,
    claims: Claims,
    call: ToolCall,
    tool: Tool,
    asks: Sequence[Mapping[str, Any]],
) -> tuple[int | None, str]:
    """Return the first pending effect that is this call, or why there is none."""
    taken, why = set(claims.calls.values()), "the plan does not have it"
    for at, effect in enumerate(plan.effects):
        if effect.tool != tool.name:
            continue
        misfit = _misfit(effect, call, tool, asks)
        if misfit is None and at not in taken:
            return at, ""
        why = misfit or "the plan has it, and it was done"
    return None, why


def _without_pins(effect: PlannedEffect, arguments: Mapping[str, Any]) -> dict[str, Any]:
    """Remove the arguments that the plan fixed, if all of them match."""
    pinned = effect.pinned or {}
    missing = [name for name in pinned if arguments.get(name) != pinned[name]]
    if not pinned or missing:
        return dict(arguments)
    left = {name: value for name, value in arguments.items() if name not in pinned}
    before = {name: value for name, value in effect.arguments.items() if name in pinned}
    return {**left, **before}


def _misfit(
    effect: PlannedEffect, call: ToolCall, tool: Tool, asks: Sequence[Mapping[str, Any]]
) -> str | None:
    if effect.digest != digest_of(_without_pins(effect, call.arguments)):
        return "the plan has it with other arguments"
    if effect.version != version(tool):
        return "the tool is not what it was when the plan was made"
    then = {ask["rule"]: ask["about"] for ask in effect.asks}
    for ask in asks:
        if ask["rule"] in then and digest_of(then[ask["rule"]]) != digest_of(ask["about"]):
            return f"what {ask['rule']} looks at is not what it was when the plan was made"
    return None


def _not_planned(
    call: ToolCall,
    plan: EffectPlan,
    why: str,
    asks: Sequence[Mapping[str, Any]],
    differ: RowsDiffer | None = None,
) -> Ask:
    question = f"may {call.name} run? It is not in plan {plan.id[:12]}: {why}"
    receipt: dict[str, Any] = {"action": "ask", "rule": NAME, "rationale": why, "asks": list(asks)}
    about: dict[str, Any] = {"plan": plan.id, "asks": [ask["about"] for ask in asks]}
    if differ is not None:
        receipt["diff"] = differ.diff
        about |= differ.about
    return Ask(question, about=about, receipt=receipt, expires_in=LASTS)
