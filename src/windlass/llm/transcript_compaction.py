"""Compaction of a transcript given as data, outside any run."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from typing import Annotated, Any

import msgspec

from windlass.engine.continuation import read_transcript
from windlass.engine.transcript import Transcript, told_by
from windlass.errors import ConfigError
from windlass.events import Compacted
from windlass.llm.call import llm_call
from windlass.messages import Message
from windlass.models.base import Model
from windlass.models.estimates import estimate_messages
from windlass.options.checks import anything, function, number, one_of, optional, text
from windlass.options.group import Option, OptionStruct, struct
from windlass.options.parse import merge_options
from windlass.policies.compaction.cut import (
    build_replacement,
    cut_of,
    messages_to_archive,
    truncate_messages,
)
from windlass.policies.compaction.options import STRATEGIES, check_policy
from windlass.policies.compaction.policy import summary_in
from windlass.policies.compaction.summary_prompt import (
    WORDS,
    CompactionPolicy,
    asking,
    mode_of,
    on_record,
    render_summary,
    source_of,
    system_of,
)


class TranscriptCompaction(OptionStruct, frozen=True, kw_only=True):
    """The options of `transcript_compact`."""

    keep_last: Annotated[int | None, Option(optional(number(0, whole=True)))] = None
    """Messages at the end that stay as they are (10)."""
    keep_first: Annotated[int, Option(number(0, whole=True))] = 0
    """Messages at the beginning that stay as they are."""
    summary: Annotated[str | None, Option(optional(text))] = None
    """The summary, in your words."""
    strategy: Annotated[str | None, Option(optional(one_of(*STRATEGIES)))] = None
    """Who writes the summary."""
    policy: Annotated[CompactionPolicy | None, Option(check_policy)] = None
    """What the summary is to keep."""
    callback: Annotated[Callable[..., Any] | None, Option(function)] = None
    """A function that writes the summary."""
    model: Annotated[str | Model | None, Option(anything)] = None
    """The model that writes the summary."""
    provider: Annotated[str | None, Option(optional(text))] = None
    """The provider of that model."""


_check_options = struct(TranscriptCompaction, flag=False)
_ROOM = 4 * 100_000  # characters that a writer is given


async def transcript_compact(
    transcript: Mapping[str, Any], options: Mapping[str, Any] | None = None, **more: Any
) -> Transcript:
    """Summarise the older messages of a transcript, and return a new transcript.

    ```python
    short = await transcript_compact(reply.transcript, {"keep_last": 4, "summary": "Planning complete."})
    ```
    `summary` is used as it is. Without it, `strategy` says who writes it: `truncate` (the default)
    needs no model, `hybrid` (the default with `model` or `provider`) calls one, and `custom` calls
    `callback(archived, reminders, policy)`. `keep_last` (10) and `keep_first` (0) count messages.
    """
    given: TranscriptCompaction = _check_options(
        "transcript_compact", merge_options(options, more, "transcript_compact")
    )
    messages, past = read_transcript(transcript)
    strategy = _strategy(given)
    last = given.keep_last
    last = (0 if strategy == "summarize_all" else 10) if last is None else last
    cut = cut_of(messages, given.keep_first, last)
    kept: dict[str, Any] = {**transcript, "id": past.id}
    summary = given.summary
    if cut is None:
        return {**kept, "summary": summary or past.summary}
    policy = given.policy
    gone = messages_to_archive(messages, cut)
    engine, usd = "given", 0.0
    if summary is None:
        summary, engine, usd = await _write_summary(strategy, gone, policy, given)
    new = build_replacement(messages, cut, render_summary(summary, len(gone), policy))
    shorter = [*messages[: cut.start], *new, *messages[cut.stop :]]
    entry = Compacted(
        "requested",
        strategy,
        engine,
        estimate_messages(messages),
        estimate_messages(shorter),
        mode_of(policy),
        source_of(policy),
        on_record(policy),
        archived=len(gone),
        cost_usd=usd,
    )
    return {
        **kept,
        "messages": [msgspec.to_builtins(message) for message in shorter],
        "events": [*past.events, *told_by([entry])],
        "summary": summary,
        "metadata": past.metadata,
    }


async def transcript_summarize(
    transcript: Mapping[str, Any], options: Mapping[str, Any] | None = None, **more: Any
) -> str:
    """Summarise a transcript with a model, and return the text.

    ```python
    notes = await transcript_summarize(reply.transcript, {"model": "openai:gpt-5-mini"})
    ```
    `policy` is a `CompactionPolicy`; other options are those of `llm_call`.
    """
    call = merge_options(options, more, "transcript_summarize")
    policy = check_policy("policy", call.pop("policy", None))
    messages, _ = read_transcript(transcript)
    if not messages:
        raise ConfigError("this transcript has no messages to summarise")
    reply = await _ask_model(messages, policy, call)
    return reply.text.strip() or truncate_messages(messages)


def _strategy(given: TranscriptCompaction) -> str:
    """Return who writes the summary; refuse contradictory options."""
    named, callback = given.strategy, given.callback
    writer = given.model is not None or given.provider is not None
    if given.summary is not None:
        if named is not None or callback is not None or writer:
            raise ConfigError("summary is taken as it is: give no strategy, callback or model too")
        return "given"
    if (named == "custom") != (callback is not None):
        raise ConfigError('strategy="custom" and callback go together')
    strategy = named or ("hybrid" if writer else "truncate")
    if writer and strategy in ("custom", "truncate"):
        raise ConfigError(f"strategy={strategy!r} asks no model: give no model or provider")
    return strategy


async def _write_summary(
    strategy: str, gone: list[Message], policy: CompactionPolicy | None, given: TranscriptCompaction
) -> tuple[str, str, float]:
    """Write the summary; return it with its author and cost."""
    text, engine, usd = "", "truncate", 0.0
    if given.callback is not None:
        answer = given.callback(gone, [], policy or CompactionPolicy())
        text = summary_in(await answer if inspect.isawaitable(answer) else answer)
        engine = "custom"
    elif strategy != "truncate":
        both = {"model": given.model, "provider": given.provider}
        model_options = {name: value for name, value in both.items() if value is not None}
        reply = await _ask_model(gone, policy, model_options)
        text, engine, usd = reply.text.strip(), "llm", reply.cost_usd
    return (text, engine, usd) if text else (truncate_messages(gone), "truncate", usd)


async def _ask_model(
    messages: Sequence[Message], policy: CompactionPolicy | None, options: Mapping[str, Any]
) -> Any:
    system = system_of(policy, WORDS)
    return await llm_call(asking(messages, _ROOM), system, {"max_tokens": 4_096, **options})
