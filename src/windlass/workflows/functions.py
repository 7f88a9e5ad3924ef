"""Workflows in plain Python: `@workflow`, and what the function gets as its first argument.

A step is known by its place in the function: its position, and the branch of `parallel` that it is in. On resume
the function runs again from its beginning, and steps that are over give what they gave before.
"""

from __future__ import annotations

import asyncio
import contextvars
import inspect
from collections.abc import Awaitable, Callable, Coroutine, Mapping, Sequence
from functools import partial
from typing import Any, Final, TypeVar, overload

import msgspec

from windlass.access.caller import Caller
from windlass.agents.agent import Agent
from windlass.engine.limit_options import Budget
from windlass.engine.results import AgentResult, RunResult
from windlass.errors import (
    ConfigError,
    StoreError,
    TestBroken,
    WorkflowChanged,
    WorkflowStepFailed,
    error_text,
    safe_repr,
)
from windlass.identifiers import check_identifier
from windlass.json_types import JsonObject, as_given, as_list
from windlass.loop.plan import as_journaled, digest_of
from windlass.loop.resume_input import Allow, Deny
from windlass.options.parse import unknown_option
from windlass.tools.render import stand_in, to_text
from windlass.tools.tool import Parked
from windlass.workflows.host import (
    OF_FUNCTIONS,
    FlowEnd,
    StepHost,
    WorkflowArguments,
    WorkflowCall,
    check_names,
    drop_limits,
    read_task,
)
from windlass.workflows.result import WorkflowResult
from windlass.workflows.steps import WorkflowStep, add_result

T = TypeVar("T")
_ROUNDS: Final = (
    8  # of the event loop that a function has to begin another step before it is parked
)
Function = Callable[..., Coroutine[Any, Any, Any]]


class Workflow:
    """A workflow that is a function: `await review.run(pr)`, `await review.resume(session_id)`.

    It can be submitted like an agent: `await runtime.submit(review, "7")`.
    """

    #: Options of its runs, where a run names no others.
    options: Mapping[str, Any] = {}

    def __init__(self, function: Function, name: str | None = None, version: str = "1") -> None:
        if not inspect.iscoroutinefunction(as_given(function)):
            raise ConfigError(f"a workflow is an async function, not {safe_repr(function)}")
        parameters = list(inspect.signature(function).parameters.values())
        if not parameters or parameters[0].kind not in _POSITIONAL:
            raise ConfigError(
                "the first parameter of a workflow is the context: async def f(wf, …)"
            )
        self.function = function
        self.name = check_identifier(name or function.__name__, "a workflow's name")
        self.version = check_identifier(version, "a workflow's version")
        self.__doc__ = function.__doc__

    def __repr__(self) -> str:
        return f"<Workflow {self.name}{inspect.signature(self.function)}>"

    def with_(self, **options: Any) -> Workflow:
        """Return the workflow with options for all its runs: `review.with_(max_parallel=2)`."""
        check_names(options, f"{self.name}.with_")
        other = Workflow(self.function, self.name, self.version)
        other.options = {**self.options, **options}
        return other

    async def run(self, *inputs: object, **options: Any) -> WorkflowResult:
        """Run the workflow, and return a `WorkflowResult`; `status` says how it ended.

        ```python
        result = await review.run(7, session_id="review-7", store="sqlite:///runs.db")
        ```
        The inputs of the function are plain data. The options are those of `workflow_execute`. On the
        `session_id` of a run that was killed it goes on. What a fleet hands over is a text: a function
        with several inputs, or none, is submitted with a JSON list of them.
        """
        arguments = WorkflowArguments({**self.options, **options}, f"{self.name}.run")
        flow = FunctionFlow(self, self.check_inputs(inputs), arguments.max_steps)
        return await WorkflowCall(arguments).begin(flow)

    async def resume(
        self,
        session_id: str,
        *,
        decisions: Mapping[str, Allow | Deny | bool] | None = None,
        results: Mapping[str, Any] | None = None,
        budget: Budget | Mapping[str, Any] | None = None,
        **options: Any,
    ) -> WorkflowResult:
        """Go on with a run that was parked or killed, with the inputs that it was begun with.

        Steps that are over are not run again. `WorkflowChanged` if the function asks for other steps
        than those on record; `error.step` is the first that differs.
        """
        options = {**drop_limits(self.options), **options}
        arguments = WorkflowArguments(options, f"{self.name}.resume")
        call = WorkflowCall(arguments)
        record = await call.read_record(session_id)
        most = record.get("max_steps")
        if "max_steps" in options or not isinstance(most, int):
            most = arguments.max_steps
        flow = FunctionFlow(self, as_list(record.get("input")), most)
        return await call.resume(
            flow, session_id, decisions=decisions, results=results, budget=budget
        )

    def check_inputs(self, inputs: Sequence[object]) -> list[Any]:
        """Return the inputs as a journal gives them back; refuse those that do not fit."""
        if len(inputs) == 1 and isinstance(task := read_task(inputs[0]), str):
            inputs = (task,) if task is inputs[0] else self._read_submitted(task)
        try:
            inspect.signature(self.function).bind(None, *inputs)
        except TypeError as error:
            raise ConfigError(f"{self.name}{inspect.signature(self.function)}: {error}") from None
        return as_journaled(list(inputs), f"what {self.name!r} is given")

    def _read_submitted(self, text: str) -> Sequence[object]:
        """Read the inputs from the text that was submitted."""
        if len(inspect.signature(self.function).parameters) == 2:
            return (text,)
        try:
            return msgspec.json.decode(text, type=list[Any])
        except (msgspec.DecodeError, RecursionError):
            raise ConfigError(
                f"{self.name}{inspect.signature(self.function)} is submitted with a JSON list of its "
                f"inputs, not with {safe_repr(text)}"
            ) from None


_POSITIONAL: Final = (
    inspect.Parameter.POSITIONAL_ONLY,
    inspect.Parameter.POSITIONAL_OR_KEYWORD,
)


@overload
def workflow(function: Function, /) -> Workflow: ...


@overload
def workflow(*, name: str | None = None, version: str = "1") -> Callable[[Function], Workflow]: ...


def workflow(
    function: Function | None = None, /, *, name: str | None = None, version: str = "1"
) -> Workflow | Callable[[Function], Workflow]:
    """Make a workflow of an async function, whose steps are not run again on resume.

    ```python
    @w.workflow
    async def review(wf, pr):
        draft = await wf.run(writer, f"Review pull request {pr}.")
        facts, style = await wf.parallel(wf.run(checker, draft.output), wf.run(editor, draft.output))
        return await wf.step(publish, facts.output, style.output)
    ```
    Whatever takes time, costs or has an effect is a step; the code between steps runs again on resume
    and must do the same then.
    """
    if function is None:
        return partial(Workflow, name=name, version=version)
    return Workflow(function, name, version)


class FunctionFlow:
    """A function with its inputs, as the host of workflows runs it."""

    def __init__(self, workflow: Workflow, inputs: list[Any], max_steps: int) -> None:
        self.workflow, self.inputs, self.max_steps = workflow, inputs, max_steps

    @property
    def name(self) -> str:
        """The name of the workflow."""
        return self.workflow.name

    def describe(self) -> JsonObject:
        """Return the inputs."""
        return {"name": self.name, "input": self.inputs, "max_steps": self.max_steps}

    def build_prompt(self) -> str:
        """Return the inputs as text."""
        return "\n".join([to_text(one) for one in self.inputs]).strip() or self.name

    def check(self, record: JsonObject, steps: Sequence[WorkflowStep]) -> None:
        """Accept any: the function is compared with the record while it runs."""

    def list_words(self) -> list[str]:
        """List the inputs: what a step is asked may have the words of other steps in it."""
        return [self.build_prompt()]

    def prepare(self, defaults: Mapping[str, Any]) -> None:
        """Refuse defaults of nodes: a function names its agents itself."""
        for name in defaults:
            raise unknown_option(name, OF_FUNCTIONS, self.name)

    async def carry_out(self, host: StepHost) -> FlowEnd | Parked:
        """Run the function; steps that are over give their results."""
        context = WorkflowContext(host, self.max_steps)
        return await context.drive(self.workflow.function(context, *self.inputs), self.name)


class _Branch:
    """A place in the function: the task that is there, and how many steps it has asked for."""

    __slots__ = ("count", "prefix", "task")

    def __init__(self, prefix: str) -> None:
        self.prefix, self.count = prefix, 0
        self.task: asyncio.Task[Any] | None = None


_branch: contextvars.ContextVar[_Branch] = contextvars.ContextVar("windlass_workflow_branch")


class WorkflowContext:
    """The first argument of a workflow: `wf.run(agent, task)`, `wf.step(fn)`, `wf.parallel(…)`."""

    def __init__(self, host: StepHost, max_steps: int) -> None:
        self._host, self._log, self._max_steps = host, host.log, max_steps
        self._claimed: set[str] = set()
        self._active = 0
        self._parked: dict[int, WorkflowStep] = {}
        self._changed: WorkflowChanged | None = None
        self._closed = False
        self._rest = asyncio.Event()
        self._room = asyncio.Semaphore(host.arguments.max_parallel)

    @property
    def session_id(self) -> str:
        """The session of the workflow."""
        return self._host.run.session_id

    @property
    def caller(self) -> Caller:
        """In whose name it runs."""
        return self._host.run.caller

    @property
    def deps(self) -> Any:
        """The object that was given as `deps`."""
        return self._host.run.deps

    async def run(
        self, agent: Agent[Any, T], task: str, /, *, name: str | None = None, **options: Any
    ) -> AgentResult[T]:
        """Run an agent as a step, in a session of its own, and return its result.

        Options are those of `agent.with_`. A run that was not done raises `WorkflowStepFailed`; one that
        parks parks the workflow.
        """
        if not isinstance(as_given(agent), Agent):
            raise ConfigError(f"wf.run takes an Agent, not {safe_repr(agent)}")
        if not isinstance(as_given(task), str) or not task.strip():
            raise ConfigError(f"a task is a text that is not blank, not {safe_repr(task)}")
        if options:
            agent = agent.with_(**options)
        label = name or agent.name or "agent"
        step = await self._claim(label, "run", _digest([task, options]))
        try:
            async with self._room:
                result = await self._host.run_session(step, agent, task)
            if result is None:
                return await self._park(step)
            if not step.is_over:
                step = await self._host.end(_read_run(step, result))
        finally:
            self._leave()
        if step.status == "failed":
            raise _build_failure(step)
        return result

    async def step(
        self,
        function: Callable[..., T | Awaitable[T]],
        /,
        *args: Any,
        name: str | None = None,
        retries: int = 0,
        **kwargs: Any,
    ) -> T:
        """Call a function as a step, and return its value, which is plain data.

        Once its value is on record it is not called again; one that was cut short is. What it raises
        becomes `WorkflowStepFailed`, after `retries` further calls.
        """
        if not callable(as_given(function)):
            raise ConfigError(f"wf.step takes a function, not {safe_repr(function)}")
        label = name or getattr(function, "__name__", type(function).__name__)
        step = await self._claim(label, "step", _digest([args, kwargs]))
        try:
            if not step.is_over:

                def call() -> Any:
                    return function(*args, **kwargs)

                blocks = not inspect.iscoroutinefunction(function)
                async with self._room:
                    ended = await self._call(step, call, retries, blocks)
                step = await self._host.end(ended)
        finally:
            self._leave()
        if step.status == "failed":
            raise _build_failure(step)
        return step.data

    async def _call(
        self, step: WorkflowStep, call: Callable[[], Any], retries: int, blocks: bool
    ) -> WorkflowStep:
        """Call the function of a step until it returns or has failed too often."""
        for left in range(retries, -1, -1):
            try:
                value = await self._invoke(call, blocks)
                plain = as_journaled(
                    msgspec.to_builtins(value, str_keys=True, enc_hook=stand_in),
                    f"what step {step.name!r} returns",
                )
                text = to_text(plain) if plain is not None else ""
                return msgspec.structs.replace(step, status="done", text=text, data=plain)
            except TestBroken:
                raise
            except Exception as error:
                if not left:
                    about = {"category": "step", "kind": type(error).__name__}
                    about |= {"message": error_text(error), "step": step.name}
                    return msgspec.structs.replace(step, status="failed", error=about)
        raise AssertionError("unreachable")

    async def _invoke(self, call: Callable[[], Any], blocks: bool) -> Any:
        """Call a function, in a thread where it is no coroutine function."""
        if not blocks:
            return await call()
        context, loop = contextvars.copy_context(), asyncio.get_running_loop()
        value: Any = await loop.run_in_executor(self._host.run.pool, context.run, call)
        return await value if inspect.isawaitable(value) else value

    async def parallel(self, *branches: Awaitable[Any]) -> list[Any]:
        """Run branches side by side, and return their values in order.

        All of them come to their end; then the first error of one is raised.
        """
        for one in branches:
            if not inspect.isawaitable(as_given(one)):
                raise ConfigError(f"wf.parallel takes awaitables, not {safe_repr(one)}")
        key = self._next_key()
        if (known := self._log.find(key)) is not None:
            await self._refuse(known, "now branches begin there")
        tasks: list[asyncio.Task[Any]] = []
        try:
            for at, one in enumerate(branches):
                inner = _Branch(f"{key}.{at}.")
                context = contextvars.copy_context()
                context.run(_branch.set, inner)
                loop = asyncio.get_running_loop()
                inner.task = loop.create_task(_await(one), context=context)
                tasks.append(inner.task)
            if tasks:
                await asyncio.wait(tasks)
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
        return [task.result() for task in tasks]

    # ----------------------------------------------------------------- the function

    async def drive(self, body: Coroutine[Any, Any, Any], name: str) -> FlowEnd | Parked:
        """Run the function until it returns, or until all that it waits for is parked."""
        root = _Branch("")
        context = contextvars.copy_context()
        context.run(_branch.set, root)
        task = root.task = asyncio.get_running_loop().create_task(body, context=context)
        try:
            await self._wait(task)
        finally:
            self._closed = True
            if not task.done():
                task.cancel()
                await asyncio.gather(task, return_exceptions=True)
        if self._changed is not None:
            raise self._changed
        if self._parked:
            return self._host.park(list(self._parked.values()))
        return self._conclude(task, name)

    async def _wait(self, task: asyncio.Task[Any]) -> None:
        """Wait for the function; return earlier where it can only go on after a resume."""
        while not task.done():
            resting = asyncio.ensure_future(self._rest.wait())
            try:
                await asyncio.wait({task, resting}, return_when=asyncio.FIRST_COMPLETED)
            finally:
                resting.cancel()
            if self._changed is not None or task.done():
                return
            # It may have a branch that is about to ask for its next step.
            for _ in range(_ROUNDS):
                await asyncio.sleep(0)
                if self._active or task.done():
                    break
            else:
                return
            self._rest.clear()
            if not self._active:
                self._rest.set()

    def _conclude(self, task: asyncio.Task[Any], name: str) -> FlowEnd:
        error = task.exception()
        if isinstance(error, (TestBroken, StoreError)):
            raise error
        if error is not None and not isinstance(error, Exception):
            raise error
        if error is not None:
            about: JsonObject = {"category": "workflow", "kind": type(error).__name__}
            about["message"] = error_text(error)
            if isinstance(error, WorkflowStepFailed):
                about["step"] = error.step
            return FlowEnd("failed", "error", error=about)
        for step in self._log.steps.values():
            if step.key not in self._claimed:
                raise _build_change(step, f"{name} ends without it")
        value = task.result()
        if isinstance(value, RunResult):
            value = value.data if value.data is not None else value.final_text
        plain = msgspec.to_builtins(value, str_keys=True, enc_hook=stand_in)
        text = to_text(plain) if plain is not None else ""
        return FlowEnd("done", "finished", text, as_journaled(plain, f"the output of {name!r}"))

    # ----------------------------------------------------------------- steps

    def _next_key(self) -> str:
        if self._closed:
            raise asyncio.CancelledError
        branch = _branch.get(None)
        if branch is None or branch.task is not asyncio.current_task():
            raise ConfigError(
                "steps side by side are begun by wf.parallel(…), not by tasks of your own: "
                "their order must be the same on resume"
            )
        branch.count += 1
        return f"{branch.prefix}{branch.count}"

    async def _claim(self, name: str, kind: str, digest: str) -> WorkflowStep:
        """Return the step at this place: the one on record, or a new one."""
        key = self._next_key()
        self._claimed.add(key)
        known = self._log.find(key)
        if known is not None and (known.name, known.kind, known.digest) != (name, kind, digest):
            same = known.name == name and known.kind == kind
            asked = "it is given something else" if same else f"{kind} {name!r} is there"
            await self._refuse(known, f"now {asked}")
        inner = [one for one in self._log.steps.values() if one.key.startswith(f"{key}.")]
        if known is None and inner:
            await self._refuse(inner[0], f"now {kind} {name!r} is at {key}")
        self._active += 1
        if known is not None:
            return known
        try:
            if len(self._log.steps) >= self._max_steps:
                raise WorkflowStepFailed(
                    f"step {name!r} would be more than max_steps={self._max_steps} allows"
                )
            return await self._log.begin(key, name, kind, digest)
        except BaseException:
            self._leave()
            raise

    async def _refuse(self, known: WorkflowStep, now: str) -> None:
        """End the function: it asks for something else than the record has at this place."""
        self._changed = _build_change(known, now)
        self._rest.set()
        await asyncio.Event().wait()  # until the function is ended

    async def _park(self, step: WorkflowStep) -> Any:
        """Wait until the function is ended: the step goes on after a resume."""
        self._parked[step.number] = step
        self._leave()
        try:
            await asyncio.Event().wait()
        finally:
            self._active += 1  # which the caller takes back
        raise AssertionError("unreachable")

    def _leave(self) -> None:
        self._active -= 1
        if not self._active and self._parked:
            self._rest.set()


def _digest(given: object) -> str:
    """Identify what a step is given; an object that is no plain data counts by its type."""
    plain = msgspec.to_builtins(
        given, str_keys=True, order="deterministic", enc_hook=lambda one: type(one).__qualname__
    )
    return digest_of(plain)


async def _await(one: Awaitable[T]) -> T:
    return await one


def _read_run(step: WorkflowStep, result: AgentResult[Any]) -> WorkflowStep:
    ended = add_result(step, result)
    if result.status in ("done", "idle"):
        data = msgspec.to_builtins(result.data, str_keys=True, enc_hook=stand_in)
        return msgspec.structs.replace(ended, status="done", text=result.final_text, data=data)
    about = dict(result.error or {"category": result.status})
    about.setdefault("message", f"it ended as {result.status} ({result.stop_reason})")
    about["step"] = step.name
    return msgspec.structs.replace(ended, status="failed", error=about)


def _build_failure(step: WorkflowStep) -> WorkflowStepFailed:
    about = step.error or {}
    failure = WorkflowStepFailed(f"step {step.name!r} failed: {about.get('message')}")
    failure.step, failure.session_id = step.name, step.session_id or None
    return failure


def _build_change(step: WorkflowStep, now: str) -> WorkflowChanged:
    error = WorkflowChanged(
        f"the workflow is not the one that the session was begun with: at {step.key} the record has "
        f"{step.kind} {step.name!r}, {now}; resume it with the code that it was begun with"
    )
    error.step = step.name
    return error
