"""What has left the view is found again by its words, wherever it stood."""

from __future__ import annotations

from typing import Any

import windlass as w
from windlass.events import ToolResulted
from windlass.messages import Message, ToolCall
from windlass.testing import scripted


async def recalled(history: list[Message], *asks: dict[str, Any]) -> list[str]:
    """What a model is told that asks in a session whose history is no longer shown."""
    calls = iter([ToolCall("", "recall", ask) for ask in asks])

    def reply(request: w.Request) -> Any:
        if request.messages[-1].text.endswith("Write the notes."):
            return "notes"
        return next(calls, "the end")

    model = scripted(then=reply)
    out = await w.agent_loop(
        "go",
        model=model,
        messages=[*history, Message("user", "go on")],
        compact_threshold=1,
        compact_keep_last=0,
        compaction="summarize_all",
    )
    assert out.status == "done", out.error
    answers = [e for e in out.entries if type(e) is ToolResulted and e.tool == "recall"]
    return [entry.result.text for entry in answers]


def told(*texts: str) -> list[Message]:
    """A chat in which the model said these."""
    return [
        one
        for n, text in enumerate(texts)
        for one in (Message("user", f"question {n}"), Message("assistant", text))
    ]


async def test_the_words_are_found_where_they_stand_together():
    filler = "the gateway is slow today. " * 3_000
    text = f"{filler}The retry limit of the mail gateway is 7331. {filler}"
    (answer,) = await recalled(told(text, "no more"), {"query": "mail gateway retry limit"})
    assert "7331" in answer and len(answer) < 8_000


async def test_all_in_one_sentence_is_better_than_all_near_it():
    apart = [f"The mail of {n} is late. The gateway is up, the limit is high." for n in range(20)]
    (answer,) = await recalled(
        told(*apart[:10], "The limit of the mail gateway is 7331.", *apart[10:]),
        {"query": "mail gateway limit"},
    )
    assert "7331" in answer.split("\n\n")[0]


async def test_where_it_was_first_said_is_shown_beside_where_it_was_last():
    again = [f"The limit of the gateway matters for case {n}." for n in range(40)]
    history = told("The limit of the gateway is 7331.", *again, "The limit of the gateway is new.")
    first, more, rest = await recalled(
        history,
        {"query": "gateway limit"},
        {"query": "gateway limit", "start": 12},
        {"query": "gateway limit", "start": 99},
    )
    places = first.split("\n\n")
    assert "is new" in places[0] and "7331" in places[1]
    assert places[-1] == "[30 places more from start=12]" and len(places) == 13
    assert "7331" not in more and "case" in more
    assert rest == "there are no more places"


async def test_what_was_said_many_times_is_one_place():
    history = told(*[f"{n} apples. I have not seen the gateway again. So what?" for n in range(30)])
    (answer,) = await recalled(history, {"query": "the gateway again"})
    assert answer.count("seen the gateway again") == 1 and "29 apples" in answer
