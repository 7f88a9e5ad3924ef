"""Gates before a run counts as done: your checks, a completion judge, the done judge.

One policy and one order. The first veto is sent to the model, and the run goes on; caps end it.
Decisions are recorded, and no gate is asked again after a crash.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from importlib import import_module
from types import ModuleType

import msgspec

from windlass import seams
from windlass.events import JudgeDecision
from windlass.loop.policy import Policy
from windlass.loop.run import Run
from windlass.loop.turn import Turn
from windlass.loop.verdict import Finish, KeepGoing, Outcome, Stop
from windlass.options.prompts import choose_prompt
from windlass.policies.build import BuildContext, Policies
from windlass.policies.completion import CompletionOptions
from windlass.policies.facts import Groups, tally
from windlass.policies.judges.evidence import (
    Check,
    Proposal,
    evidence,
    problem_of,
)
from windlass.policies.judges.gates import Judge, gates
from windlass.policies.judges.options import (
    FALLBACK,
    SYSTEM,
    Cadence,
    CompletionJudge,
    DoneJudge,
    JudgeOptions,
)

_GATE = "verify_completion"


def build(ctx: BuildContext) -> Policies:
    """Build the policy of the checks and the judges that the options name."""
    options = JudgeOptions.read(ctx.values)
    given, judge, done = (
        options.verify_completion,
        options.verify_completion_judge,
        options.done_judge,
    )
    if given is None and judge is None and done is None:
        return ()
    several = () if given is None or callable(given) else given
    has_commands = any([isinstance(one, str) for one in several])
    policy = Verification(
        given if callable(given) else None,
        _build_checks(ctx, several) if has_commands else _keep_functions(several),
        None if judge is None else _build_judge(ctx, "verify_completion_judge", judge),
        None if done is None else _build_judge(ctx, "done_judge", done),
        options.max_verify_attempts,
        CompletionOptions.read(ctx.values).required_tools,
    )
    if not has_commands or any(["uses_sandbox" in one.annotations for one in ctx.given_tools]):
        return (policy,)
    return (policy, *_load("policies.sandbox_session").build(ctx))


def _keep_functions(given: Sequence[Check | str]) -> tuple[Check, ...]:
    return tuple([one for one in given if not isinstance(one, str)])


def _build_checks(ctx: BuildContext, given: Sequence[Check | str]) -> tuple[Check, ...]:
    """Return the checks, with commands as checks that run them in the sandbox."""
    build: Callable[..., tuple[Check, ...]] = _load("toolbox.command_check").build_checks
    return build(given, ctx.values)


def _load(module: str) -> ModuleType:
    """Load what commands alone need."""
    return import_module(f"windlass.{module}")


def _build_judge(ctx: BuildContext, gate: str, judge: CompletionJudge | DoneJudge) -> Judge:
    done = isinstance(judge, DoneJudge)
    prompt = f"agent.{'done' if done else 'completion'}_judge_system"
    other = judge.provider is not None or judge.model is not None
    return Judge(
        gate=gate,
        model=ctx.resolve_model(judge.provider, judge.model) if other else None,
        system=choose_prompt(ctx.prompts, prompt, judge.system, f"{gate}.system", SYSTEM),
        fallback=FALLBACK if done else judge.feedback_fallback,
        cap=judge.max_invocations or None,  # 0 means no cap
        cadence=judge.cadence if done else Cadence(),
    )


class Verification(Policy[None]):
    """A policy that asks the gates in order whenever an end is proposed."""

    def __init__(
        self,
        check: Check | None = None,
        checks: tuple[Check, ...] = (),
        judge: Judge | None = None,
        done: Judge | None = None,
        max_attempts: int = 20,
        required: Groups = (),
    ) -> None:
        self.check, self.checks, self.judge, self.done = check, checks, judge, done
        self.max_attempts, self.required = max_attempts, required
        judges = [it.model for it in (judge, done) if it is not None]
        self.models = tuple([model for model in judges if model is not None])

    # ----------------------------------------------------------------- moments

    async def after_reply(self, run: Run, turn: Turn) -> Stop | None:
        """Ask the done judge on a stall, before the repeated call runs."""
        done = self.done
        if done is None or done.cadence.when != "stalled" or not tally(run).warnings:
            return None
        decision = tally(run).decisions.get("done_judge:stalled")
        if decision is None:
            if not await done.due(run, self.required, stalled=True):
                return None
            if done.capped(run):
                return Stop("verify_capped", "done_judge_cap_reached")
            decision = await done.ask(run, "stalled")
        return Stop("done", "stalled_done_judge") if decision.verdict == "done" else None

    async def before_finish(self, run: Run, turn: Turn, finish: Finish) -> KeepGoing | Stop | None:
        refused = tally(run).veto
        if refused is not None:  # before a crash
            return self._veto(run, refused)
        if gates(run).attempts >= self.max_attempts:
            return Stop("verify_exhausted", finish.reason)
        if self.check is not None or self.checks:
            decision = await self._run_checks(run, turn, finish)
            if decision.verdict != "done":
                return self._veto(run, decision)
        for judge in (self.judge, self.done):
            verdict = None if judge is None else await self._ask_judge(run, turn, finish, judge)
            if verdict is not None:
                return verdict
        return None

    async def end(self, run: Run, outcome: Outcome) -> Outcome:
        fields, status = dict(outcome.fields), outcome.status
        for name, judge in (("completion_judge", self.judge), ("done_judge", self.done)):
            if judge is not None:
                capped = outcome.stop_reason == f"{name}_cap_reached"
                fields[name] = judge.summary(run, capped)
        if self.checks:
            fields["checks"] = [msgspec.to_builtins(entry) for entry in gates(run).checks]
            if status == "done" and not gates(run).passed:
                status = "unverified"
        return msgspec.structs.replace(outcome, status=status, fields=fields)

    # ----------------------------------------------------------------- gates

    async def _run_checks(self, run: Run, turn: Turn, finish: Finish) -> JudgeDecision:
        """Run your function or checks, and return the decision."""
        counted = tally(run)
        if (known := counted.decisions.get(_GATE)) is not None:
            return known
        proposal = Proposal(
            run.session_id,
            run.iteration,
            finish.reason,
            turn.text,
            tuple(run.messages),
            list(counted.successful),
            list(counted.rejected),
        )
        started = seams.monotonic()
        if self.check is not None:
            problem = await problem_of(run, self.check, proposal)
        else:
            problem = await evidence(run, self.checks, proposal)
        took = (seams.monotonic() - started) * 1000
        verdict = "done" if problem is None else "continue"
        decision = JudgeDecision(
            run.session_id, run.iteration, _GATE, verdict, problem, judge_duration_ms=took
        )
        run.note(decision)
        return decision

    async def _ask_judge(
        self, run: Run, turn: Turn, finish: Finish, judge: Judge
    ) -> KeepGoing | Stop | None:
        decision = tally(run).decisions.get(judge.gate)
        if decision is None:
            name = "completion_judge"
            if judge is self.done:
                name = "done_judge"
                if not _done_or_not(turn, finish):
                    return None
                if not await judge.due(run, self.required):
                    gated = self.check is not None or self.checks or self.judge is not None
                    return None if gated else KeepGoing("done judge not due")
            if judge.capped(run):
                return Stop("verify_capped", f"{name}_cap_reached")
            decision = await judge.ask(run)
        return None if decision.verdict == "done" else self._veto(run, decision)

    def _veto(self, run: Run, decision: JudgeDecision) -> KeepGoing:
        """Refuse the end, and tell the model why, once."""
        gate = decision.gate
        if gate not in tally(run).heard:
            judge = self.judge if self.judge is not None and gate == self.judge.gate else self.done
            fallback = judge.fallback if judge is not None and gate == judge.gate else FALLBACK
            run.say(decision.next_step or decision.reasoning or fallback, gate)
        return KeepGoing(gate)


def _done_or_not(turn: Turn, finish: Finish) -> bool:
    """Check whether the model itself declared the end, not a tool."""
    return finish.reason == "sentinel" or (finish.reason == "natural" and not turn.calls)
