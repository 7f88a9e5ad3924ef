"""`custom`: a function of yours chooses the messages of each call."""

from __future__ import annotations

import inspect
from typing import Any, ClassVar, Final

import msgspec

from windlass.errors import ConfigError, nearest
from windlass.loop.policy import Policy
from windlass.loop.run import Run
from windlass.models.base import Request
from windlass.models.estimates import estimate_view
from windlass.policies.view_rewrite import (
    is_unchanged,
    lend,
    read,
    take_back,
    whole,
)

WHO: Final = "transcript_projection.project"


class ProjectionContext(msgspec.Struct, frozen=True, gc=False):
    """The second argument of `project(messages, context)`: session, turn, system, tokens."""

    session_id: str
    iteration: int  # counted from 0
    system: str | None
    estimated_tokens: int  # of the messages

    def __getattr__(self, name: str) -> Any:
        raise AttributeError(
            f"the context of a projection has no {name!r}{nearest(name, self.__struct_fields__)}"
        )


class CustomProjection(Policy[None]):
    """A policy that calls your function; its answer is for this call alone."""

    lasts: ClassVar[bool] = True

    def __init__(self, project: Any) -> None:
        self.project = project

    @property
    def name(self) -> str:
        return "transcript_projection"

    async def before_model(self, run: Run, request: Request) -> Request:
        context = ProjectionContext(
            run.session_id, run.iteration, request.frame.system, estimate_view(run.messages)
        )
        answer = self.project(lend(run, request.messages), context)
        if inspect.isawaitable(answer):
            answer = await answer
        answer = take_back(run, answer)
        if answer is None:
            raise ConfigError(
                f"{WHO} answers a list of messages; to leave them, answer them as they are"
            )
        if is_unchanged(answer, request.messages):
            return request
        given = read(run, answer, WHO)
        return Request(whole(given, request.messages, request.tail), request.frame, request.tail)
