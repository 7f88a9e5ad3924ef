"""Checks of finished work that the runtime runs itself: evidence, not a claim."""

from __future__ import annotations

import asyncio
import contextvars
import functools
import inspect
from collections.abc import Awaitable, Callable
from typing import Any, cast

import msgspec

from windlass import seams
from windlass.errors import ConfigError, error_text, safe_repr, whole_text
from windlass.events import CheckRan
from windlass.loop.run import Run
from windlass.messages import Message
from windlass.policies.judges.judge import shorten_text
from windlass.policies.judges.options import FALLBACK

_LONGEST = 16_000  # characters of a check's message


class Proposal(msgspec.Struct, frozen=True):
    """The argument of a completion check: why the run would end, its text and its messages."""

    session_id: str
    iteration: int
    reason: str
    text: str
    messages: tuple[Message, ...]
    successful_tool_names: list[str]
    rejected_tool_names: list[str]


Answer = bool | str | None
Check = Callable[..., Answer | Awaitable[Answer]]


async def evidence(run: Run, checks: tuple[Check, ...], proposal: Proposal) -> str | None:
    """Run and record every check; return a description of those that failed."""
    problems: list[str] = []
    for check in checks:
        name, started = getattr(check, "__name__", type(check).__name__), seams.monotonic()
        try:
            problem = await problem_of(run, check, proposal)
        except Exception as error:  # a check that breaks has not passed
            problem = f"{type(error).__name__}: {error_text(error)}"
        took = (seams.monotonic() - started) * 1000
        run.note(CheckRan(run.iteration, name, problem is None, problem, took))
        if problem is not None:
            problems.append(f"{name}: {problem}")
    return "These checks do not pass:\n" + "\n".join(problems) if problems else None


async def problem_of(run: Run, check: Check, proposal: Proposal) -> str | None:
    """Run a check; return the problem it finds, or None."""
    if (bind := getattr(check, "for_run", None)) is not None:  # a command, in the run's sandbox
        check = bind(run)
    call = functools.partial(check, proposal) if _takes_one(check) else check
    if _is_async(check):
        answer: Any = call()
    else:  # it may take long, and other runs share this loop
        context, loop = contextvars.copy_context(), asyncio.get_running_loop()
        answer = await loop.run_in_executor(run.pool, context.run, call)
    if inspect.isawaitable(answer):
        answer = await answer
    result = cast("object", answer)
    if result is None or result is True:
        return None
    if result is False:
        return FALLBACK
    if isinstance(result, str):
        # what a program printed may be a book, and hold bytes that are no text
        return shorten_text(whole_text(result), _LONGEST) or None
    raise ConfigError(
        f"verify_completion answers None, True, False or a text, not {safe_repr(result)}"
    )


def _is_async(check: Check) -> bool:
    return inspect.iscoroutinefunction(check) or inspect.iscoroutinefunction(check.__call__)


def _takes_one(check: Check) -> bool:
    try:
        inspect.signature(check).bind(None)
    except TypeError:
        return False
    except ValueError:  # it has no signature to look at
        return True
    return True
