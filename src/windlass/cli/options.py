"""What the commands that run an agent have in common: their options, and the agent made of them."""

from __future__ import annotations

import functools
import importlib
import shlex
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar, cast

import click

from windlass.cli.main import debug_option
from windlass.errors import ConfigError, nearest
from windlass.files import read_regular
from windlass.json_types import JsonObject

if TYPE_CHECKING:
    from windlass.agents.agent import Agent
    from windlass.events import JournalEntry

F = TypeVar("F", bound=Callable[..., Any])


class RunOptions(NamedTuple):
    """The options of a command that runs an agent, as they were typed."""

    model: str | None = None
    provider: str | None = None
    system: str | None = None
    tools: tuple[str, ...] = ()
    max_turns: int | None = None
    max_cost: float | None = None
    max_tokens_total: int | None = None
    timeout: float | None = None
    store: str | None = None
    session: str | None = None
    resume: str | None = None
    allow: tuple[str, ...] = ()
    deny: tuple[str, ...] = ()
    result: tuple[str, ...] = ()
    ask: tuple[str, ...] = ()
    preview: bool = False
    plan: str | None = None
    take_over: bool = False
    on_pending: str = "keep"

    def to_go_on(self, session_id: str, command: str = "run") -> str:
        """What to type to go on with this session; its model and system prompt it knows itself."""
        words = ["windlass", command, "--resume", session_id]
        if self.store is not None:
            words += ["--store", self.store]
        for tool in self.tools:
            words += ["--tools", tool]
        for glob in self.ask:
            words += ["--ask", glob]
        return shlex.join(words)


_AGENT_OPTIONS = (
    click.option(
        "--model",
        "-m",
        metavar="PROVIDER:NAME",
        help="The model, as anthropic:claude-sonnet-4-5. `windlass models` lists some.",
    ),
    click.option(
        "--provider", "-p", metavar="NAME", help="Whose default model; `mock` needs no key."
    ),
    click.option(
        "--system", "-s", metavar="TEXT|@FILE", help="The system prompt, or a file of it."
    ),
    click.option(
        "--tools",
        "-t",
        metavar="MODULE:FUNCTION",
        multiple=True,
        help="A function the model may call; also from this folder. May be repeated.",
    ),
    click.option(
        "--ask",
        metavar="GLOB",
        multiple=True,
        help="Park the run before these tools, until `windlass approvals approve`. May be repeated.",
    ),
    click.option(
        "--max-turns", type=click.IntRange(min=1), metavar="N", help="Model calls per run."
    ),
    click.option(
        "--max-cost", type=click.FloatRange(min=0), metavar="USD", help="Dollars per run."
    ),
    click.option(
        "--max-tokens-total",
        type=click.IntRange(min=1),
        metavar="N",
        help="Tokens per run, input and output.",
    ),
    click.option(
        "--timeout",
        type=click.FloatRange(min=0, min_open=True),
        metavar="SECONDS",
        help="Seconds per run.",
    ),
    click.option(
        "--store",
        metavar="URL|FILE",
        help="Where sessions are kept; default: .windlass/sessions.db of the project.",
    ),
)
_SESSION_OPTIONS = (
    click.option("--session", metavar="ID", help="Start or continue the session of this name."),
    click.option(
        "--resume", metavar="ID", help="Go on with a session that was killed, cancelled or parked."
    ),
    click.option(
        "--on-pending",
        type=click.Choice(["keep", "discard"]),
        default="keep",
        help="With a parked session: take no task (keep), or go on without the calls that wait.",
    ),
    click.option(
        "--preview",
        is_flag=True,
        help="Only look: effects go into a plan (`windlass plan show`) and do not happen.",
    ),
    click.option(
        "--plan",
        metavar="ID",
        help="Do what the approved plan of this session says; anything else parks the run.",
    ),
)
_ANSWER_OPTIONS = (
    click.option(
        "--take-over",
        is_flag=True,
        help="Go on also where another process is at work on the session; its run ends.",
    ),
    click.option(
        "--allow", metavar="CALL", multiple=True, help="With a parked run: this call may run."
    ),
    click.option(
        "--deny",
        metavar="CALL[=REASON]",
        multiple=True,
        help="With a parked run: this call may not run.",
    ),
    click.option(
        "--result",
        metavar="CALL=VALUE",
        multiple=True,
        help="With a parked run: what this call returned.",
    ),
)
json_option = click.option("--json", "as_json", is_flag=True, help="JSON for machines.")


def agent_options(*, session: bool = True, answers: bool = True) -> Callable[[F], F]:
    """Give a command the common options, gathered into one `RunOptions`."""
    options: list[Callable[[Any], Any]] = [*_AGENT_OPTIONS]
    options += _SESSION_OPTIONS if session else ()
    options += _ANSWER_OPTIONS if answers else ()

    def decorate(command: F) -> F:
        @functools.wraps(command)
        def run_command(**given: Any) -> Any:
            mine = {name: given.pop(name) for name in RunOptions._fields if name in given}
            return command(chosen=RunOptions(**mine), **given)

        wrapped: Any = debug_option(run_command)
        for option in reversed(options):
            wrapped = option(wrapped)
        return cast(F, wrapped)

    return decorate


# --------------------------------------------------------------------------- what a session was


class Before(NamedTuple):
    """How a session was run the last time."""

    provider: str
    model: str
    system: str | None
    tool_names: tuple[str, ...]
    unfinished: bool  # killed on its way, or parked
    status: str | None


def before(entries: Sequence[JournalEntry]) -> Before | None:
    """What a journal says of its last run; None when it has never run."""
    from windlass.loop.requests import last_frame
    from windlass.loop.resume import standing

    state = standing(entries)
    if state.run is None:
        return None
    frame = last_frame(entries)
    names = tuple(str(tool.get("name")) for tool in frame.tools) if frame is not None else ()
    return Before(
        state.run.provider,
        state.run.model,
        frame.system if frame is not None else None,
        names,
        state.unfinished,
        state.ended.status if state.ended is not None else None,
    )


# --------------------------------------------------------------------------- the agent


def make_agent(
    chosen: RunOptions, past: Before | None, hint: Sequence[str] = ()
) -> Agent[Any, str]:
    """The agent the options ask for. A session goes on with its model and system prompt unless told
    otherwise; its tools must be named again, for code is not loaded because a file says so.
    """
    from windlass.agents.agent import Agent
    from windlass.engine.options import Budget

    tools = load_tools(chosen.tools)
    if past is not None and chosen.resume is not None:
        _same_tools(past, tools, hint)
    system = read_system(chosen.system)
    options: JsonObject = {}
    if chosen.max_turns is not None:
        options["max_turns"] = chosen.max_turns
    limits = {
        "usd": chosen.max_cost,
        "tokens": chosen.max_tokens_total,
        "seconds": chosen.timeout,
    }
    if any(value is not None for value in limits.values()):
        options["budget"] = Budget(**cast("Any", limits))
    if chosen.ask:
        options["approval_policy"] = {"rules": [{"ask": list(chosen.ask)}]}
    if chosen.preview:
        options["dry_run"] = "plan"
    if chosen.plan is not None:
        options["plan"] = chosen.plan
    if system is None and past is not None:
        system = past.system
    agent: Agent[Any, str] = Agent(
        make_model(chosen, past), system=system, tools=tools or None, **options
    )
    agent.plan.model.check()  # for want of a key: now, and not after the session was made
    return agent


def make_model(chosen: RunOptions, past: Before | None) -> Any:
    """The model that is named, else the session's own, else the default."""
    from windlass.models.registry.providers import resolve

    if chosen.model is None and chosen.provider is None and past is not None:
        try:
            return resolve(past.model, past.provider)
        except ConfigError:
            raise ConfigError(
                f"this session was run with the model {past.provider}:{past.model}, which the "
                "command line cannot make; name one with --model"
            ) from None
    return resolve(chosen.model, chosen.provider)


def _same_tools(past: Before, tools: Iterable[Any], hint: Sequence[str]) -> None:
    missing = [name for name in past.tool_names if name not in {tool.name for tool in tools}]
    if missing:
        as_then = " ".join(f"--tools {shlex.quote(path)}" for path in hint)
        again = f"name them again: {as_then}" if hint else "name them with --tools module:function"
        raise ConfigError(f"this session was run with the tools {', '.join(missing)}; {again}")


def load_tools(paths: Sequence[str], option: str = "--tools") -> list[Any]:
    """The tools at `module:name`; a name may stand for one, for a list of them, or for a registry."""
    if not paths:
        return []
    from windlass.tools.function import as_tools
    from windlass.tools.registry import ToolRegistry

    found: list[Any] = []
    for path in paths:
        thing = import_object(path, option)
        many = isinstance(thing, (list, tuple, ToolRegistry))
        found += cast("list[Any]", thing) if many else [thing]
    return list(as_tools(found))


def import_object(path: str, option: str) -> Any:
    """What is at `module:name`; modules of the current folder count, after all others.

    A folder can be a download: a file in it must not stand in for an installed package. Where Python
    runs in safe-path mode (`PYTHONSAFEPATH=1`) the folder does not count at all.
    """
    module_name, _, inside = path.partition(":")
    if not module_name or not inside:
        raise ConfigError(f"{option} {path!r}: write it as module:function")
    here = str(Path.cwd())
    if here not in sys.path and not sys.flags.safe_path:
        sys.path.append(here)
    importlib.invalidate_caches()
    try:
        found: Any = importlib.import_module(module_name)
    except ModuleNotFoundError as error:
        if error.name and f"{module_name}.".startswith(f"{error.name}."):
            raise ConfigError(
                f"{option} {path}: there is no module {error.name!r} here or installed"
            ) from None
        raise ConfigError(f"{option} {path}: {module_name} needs {error.name!r}") from error
    except Exception as error:
        raise ConfigError(
            f"{option} {path}: importing {module_name} failed: {type(error).__name__}: {error}"
        ) from error
    for step in inside.split("."):
        if not hasattr(found, step):
            names = [name for name in dir(found) if not name.startswith("_")]
            raise ConfigError(
                f"{option} {path}: {module_name} has no {step!r}{nearest(step, names)}"
            )
        found = getattr(found, step)
    return found


def read_system(given: str | None) -> str | None:
    """The system prompt: the text itself, or the content of `@file`."""
    if given is None or not given.startswith("@"):
        return given
    try:
        return read_regular(given[1:]).decode("utf-8")
    except (OSError, UnicodeDecodeError) as error:
        why = error.strerror if isinstance(error, OSError) else "it is not UTF-8 text"
        raise ConfigError(f"--system {given}: {why}") from None


def answers_of(chosen: RunOptions) -> tuple[Mapping[str, Any], Mapping[str, Any]]:
    """Decisions and results for the calls of a parked run."""
    from windlass.loop.resume_input import Allow, Deny

    decisions: JsonObject = {call: Allow() for call in chosen.allow}
    for text in chosen.deny:
        call, _, reason = text.partition("=")
        decisions[call] = Deny(reason or None)
    results: JsonObject = {}
    for text in chosen.result:
        call, equals, value = text.partition("=")
        if not equals:
            raise ConfigError(f"--result {text!r}: write it as CALL=VALUE")
        results[call] = value
    return decisions, results
