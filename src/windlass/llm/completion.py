"""Completion of a text or a gap: by the model's own endpoint, else by a chat."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final, Unpack

import msgspec

from windlass.engine.assemble import find_provider_check
from windlass.engine.continuation import new_past
from windlass.engine.model import build_settings, resolve_model, with_defaults, with_retries
from windlass.engine.model_options import ModelOptions
from windlass.engine.run_options import RunOptions
from windlass.errors import ConfigError
from windlass.llm.call import LLMResult, call_until_valid
from windlass.llm.request import PreparedCall
from windlass.llm.scope import Who
from windlass.messages import Message, Text
from windlass.models.base import Completion, Emit, Frame, Holding, Model, Request, Response, silent
from windlass.options.checks import words
from windlass.options.parse import merge_options, parse_options
from windlass.options.signature import show_options

if TYPE_CHECKING:
    from windlass.engine.keyword_lists import take_completion_options
    from windlass.engine.keywords import CompletionKeywords

_ON: Final = (
    "The user's message is the beginning of a text. Answer with what comes next, from exactly where "
    "it ends, and with nothing else: do not repeat it, explain nothing, use no code fence."
)
_BETWEEN: Final = (
    "The user's message is a text with a gap: what stands before it is in <before>, what follows it "
    "in <after>. Answer with the text that fills the gap and with nothing else: repeat neither side, "
    "explain nothing, use no code fence."
)
_FENCE: Final = "```"
_NO_CHANCE: Final = 4  # characters; a shorter piece may well come again by itself
_NO_CHANCE_AFTER: Final = 8


async def llm_completion(
    prefix: str,
    suffix: str | None = None,
    system: str | None = None,
    options: Mapping[str, Any] | None = None,
    /,
    **more: Unpack[CompletionKeywords],
) -> LLMResult[None]:
    """Continue a text, or fill the gap before `suffix`; return an `LLMResult`.

    ```python
    reply = await w.llm_completion("def add(a, b):\\n    return ", provider="ollama")
    reply = await w.llm_completion("let total = ", ";", model="mistral:codestral-latest")
    ```
    A model without a completion endpoint is asked in a chat.
    """
    if TYPE_CHECKING:
        take_completion_options(**more)
    typed = merge_options(options, more, "llm_completion")
    for name, value in (("suffix", suffix), ("system", system)):
        if name in typed and value is not None:
            raise ConfigError(f"{name} is given twice: as an argument and as an option")
    suffix, system = typed.pop("suffix", suffix), typed.pop("system", system)
    return await call_until_valid(_prepare_completion(prefix, suffix, system, typed), silent)


show_options(llm_completion, "take_completion_options")


def _prepare_completion(
    prefix: Any, suffix: str | None, system: str | None, typed: dict[str, Any]
) -> PreparedCall:
    values = parse_options(
        typed,
        "completion",
        "llm_completion",
        find_check=find_provider_check,
        also=("suffix", "system"),
    )
    prefix = words("prefix", prefix)
    suffix = None if suffix is None else words("suffix", suffix) or None
    if not prefix and suffix is None:
        raise ConfigError("llm_completion needs a text to go on from")
    system = None if system is None else words("system", system)
    model_options = ModelOptions.read(values)
    model = resolve_model(model_options)
    chosen = with_defaults(values, model)
    settings = build_settings(chosen, model.capabilities, model.provider, "chat")
    how = _ON if suffix is None else _BETWEEN
    shown = prefix if suffix is None else f"<before>{prefix}</before>\n<after>{suffix}</after>"
    frame = Frame(f"{system}\n\n{how}" if system else how, (), settings)
    completing = _Completing(model, Completion(prefix, suffix, system, settings))
    request = Request((Message("user", (Text(shown),)),), frame)
    who = Who.of(RunOptions.read(values), "llm_completion")
    return PreparedCall(with_retries(completing, model_options), request, past=new_past(), who=who)


class _Completing(Holding):
    """A model that completes one text; callers wrap it like any other."""

    def __init__(self, model: Model, completion: Completion) -> None:
        super().__init__(model)
        self.completion = completion

    async def respond(self, request: Request, emit: Emit) -> Response:
        """Complete the text by the model's own endpoint, else by a chat."""
        completion = msgspec.structs.replace(self.completion, settings=request.settings)
        response = await self.model.complete(completion, emit)
        if response is not None:
            return response
        response = await self.model.respond(request, silent)
        text = strip_echo(response.message.text, completion.prefix, completion.suffix)
        others = tuple(b for b in response.message.content if not isinstance(b, Text))
        message = Message("assistant", (*others, Text(text)))
        return msgspec.structs.replace(response, message=message)


def _without_fence(text: str) -> str:
    fenced = text.strip()
    head, line_end, body = fenced.removeprefix(_FENCE).partition("\n")
    if not (line_end and fenced.startswith(_FENCE) and body.endswith(_FENCE)) or "`" in head:
        return text
    return body.removesuffix(_FENCE).removesuffix("\n")


def strip_echo(text: str, prefix: str, suffix: str | None) -> str:
    """Strip the fence around a reply, and what it repeats of either side."""
    text = _without_fence(text)
    for echo in (prefix, prefix.rpartition("\n")[2]):
        cut = text if text.startswith(echo) else text.lstrip()
        if len(echo.strip()) >= _NO_CHANCE and cut.startswith(echo):
            text = cut[len(echo) :]
            break
    end = (suffix or "").strip()
    if len(end) >= _NO_CHANCE_AFTER and text.rstrip().endswith(end):
        text = text.rstrip()[: -len(end)]
    return text
