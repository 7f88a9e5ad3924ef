"""One question to a model, outside any run."""

from __future__ import annotations

from windlass import seams
from windlass.agents.runtime import current_runtime
from windlass.loop.reply import sound
from windlass.models.base import Emit, Model, Request, Response


async def ask_once(model: Model, request: Request, emit: Emit) -> Response:
    """Ask and get a sound reply; every call of `llm_call` and its like goes through here."""
    runtime = current_runtime()
    runtime.learn(tuple(model.secrets))
    seams.point("model.before_request")
    try:
        response: Response = sound(await model.respond(request, emit))
    except Exception as error:
        if runtime.redactor is not None:
            runtime.redactor.scrub(error)
        raise
    seams.point("model.after_reply")
    return response
