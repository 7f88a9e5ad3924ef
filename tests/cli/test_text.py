"""The words and lines underneath the commands."""

from __future__ import annotations

import io
import json
from typing import Any, get_args

import pytest

from windlass.cli import text, timeline
from windlass.cli.console import ConsoleOutput
from windlass.cli.views import Plain, Redacting, Terminal, View
from windlass.errors import ConfigError
from windlass.events import (
    IterationStart,
    JournalEntry,
    Replied,
    StreamRestarted,
    TextDelta,
    ThinkingDelta,
    ToolCallStarted,
    ToolCallUpdate,
    ToolResulted,
)
from windlass.messages import Message, ToolResult
from windlass.redaction.redactor import Redactor
from windlass.usage import Usage


@pytest.mark.parametrize(
    ("given", "shown"),
    [
        ("plain\ttext\n", "plain\ttext\n"),
        ("\x1b[31mred\x1b[0m", "red"),
        ("\x1b]0;title\x07after", "after"),
        ("\x1b]8;;http://x\x1b\\link\x1b]8;;\x1b\\", "link"),
        ("\x1bP1$r\x1b\\dcs", "dcs"),
        ("a\rb\x00c\x7fd\x9be", "abcde"),
        ("abc\u202edef\u2066", "abcdef"),
        ("\x1b", ""),
        ("lone \ud800 half", "lone  half"),
    ],
)
def test_clean(given: str, shown: str):
    assert text.clean(given) == shown
    assert not set(text.clean_piece(given)) & set("\x1b\r\x00\x7f\x9b\u202e\u2066\ud800")


def test_one_line():
    assert text.one_line(" a\n\n b\tc ") == "a b c"
    assert text.one_line("abcdef", 4) == "abc…"
    assert len(text.one_line("x " * 10_000_000, 50)) == 50


@pytest.mark.parametrize(
    ("seconds", "shown"),
    [
        (0, "0 ms"),
        (0.0126, "13 ms"),
        (0.9996, "1.0 s"),
        (59.94, "59.9 s"),
        (59.96, "1 min 00 s"),
        (3599.6, "1 h 00 min"),
        (7500, "2 h 05 min"),
    ],
)
def test_duration(seconds: float, shown: str):
    assert text.duration(seconds) == shown


@pytest.mark.parametrize(
    ("usd", "shown"),
    [
        (0, "$0.00"),
        (0.00001, "$1e-05"),
        (0.0042, "$0.0042"),
        (0.5, "$0.5000"),
        (1234.5, "$1,234.50"),
    ],
)
def test_money(usd: float, shown: str):
    assert text.money(usd) == shown


def test_ages():
    assert [text.age(a) for a in ("90s", "1.5h", "30d", " 2W ")] == [90, 5400, 2592000, 1209600]
    for bad in ("", "30", "d", "-1d", "1y"):
        with pytest.raises(ConfigError, match="no age"):
            text.age(bad)
    shown = [text.ago(s) for s in (5, 65, 7200, 86400, 3 * 86400)]
    assert shown == ["just now", "1 min ago", "2 hours ago", "1 day ago", "3 days ago"]


def test_the_timeline_knows_every_entry():
    assert set(get_args(JournalEntry)) == set(timeline._TOLD)


def test_a_table_is_aligned():
    file = io.StringIO()
    ConsoleOutput(file).table(("NAME", "N"), [("a", "1"), ("long name", "100")], ("N",))
    assert file.getvalue() == "NAME         N\na            1\nlong name  100\n"


class Seen(View):
    def __init__(self) -> None:
        self.events: list = []

    def __call__(self, event) -> None:
        self.events.append(event)


def reply(words: str) -> Replied:
    return Replied(Message("assistant", words), Usage(), "end_turn", "p", "m", 0, "f")


def test_a_secret_in_two_pieces_is_not_shown():
    seen, redactor = Seen(), Redactor(["canary-secret"])
    sink = Redacting(seen, lambda: redactor)
    for piece in ("the can", "ary-", "secret", " is out", " and cana"):
        sink(TextDelta(piece))
    sink(ThinkingDelta("canary-"))
    sink(ThinkingDelta("secret"))
    sink(reply("x"))
    sink(TextDelta("next"))
    text = "".join(e.text for e in seen.events if isinstance(e, TextDelta))
    assert text == "the [redacted] is out and cananext"
    thought = "".join(e.text for e in seen.events if isinstance(e, ThinkingDelta))
    assert thought == "[redacted]"
    kinds = [type(event) for event in seen.events]
    assert kinds.index(Replied) > max(i for i, k in enumerate(kinds) if k is ThinkingDelta)


def plain() -> tuple[Plain, io.StringIO, io.StringIO]:
    view, answer, progress = Plain(), io.StringIO(), io.StringIO()
    view.answer, view.progress = ConsoleOutput(answer), ConsoleOutput(progress)
    return view, answer, progress


def test_a_model_that_does_not_stream_is_shown_when_it_answers():
    view, answer, _ = plain()
    view(IterationStart(1))
    view(reply("all at once"))
    view(TextDelta("piece by "))
    view(TextDelta("piece"))
    view(reply("piece by piece"))
    assert answer.getvalue() == "all at once\npiece by piece\n"


def test_a_broken_stream_starts_again_on_a_new_line():
    view, answer, progress = plain()
    view(TextDelta("half an ans"))
    view(StreamRestarted("connection lost"))
    view(TextDelta("half an answer, whole"))
    view(reply("half an answer, whole"))
    assert answer.getvalue() == "half an ans\nhalf an answer, whole\n"
    assert "connection lost" in progress.getvalue()


@pytest.mark.parametrize(
    ("progress", "shown"),
    [
        ({"output": "one\ntwo\n"}, "one two"),
        ({"progress": 1.0, "total": 2.0}, "1 of 2"),
        ({"progress": 3, "total": 4, "message": "copying"}, "3 of 4: copying"),
        ({"progress": 0.5}, "0.5"),
        ({"rows": 3}, "{'rows': 3}"),
        ("half", "half"),
        (0.5, "0.5"),
    ],
)
def test_progress_of_a_tool_is_shown_in_words(progress: Any, shown: str):
    view, _, notes = plain()
    view(ToolCallUpdate("1", "in_progress", progress))
    assert notes.getvalue() == f"    {shown}\n"


def test_the_status_line_names_a_tool_until_it_has_answered():
    view = Terminal(ConsoleOutput(io.StringIO()))
    view.progress = ConsoleOutput(io.StringIO())

    def result(call: str, tool: str) -> ToolResulted:
        return ToolResulted(call, tool, "ok", ToolResult(call, "done", name=tool))

    seen: list[str] = []
    for event in (
        IterationStart(1),
        ToolCallStarted("1", "slow", {}),
        ToolCallStarted("2", "quick", {}),
        result("2", "quick"),
        result("1", "slow"),
    ):
        view(event)
        seen.append(view.doing)
    assert seen == ["thinking", "slow", "quick", "slow", "thinking"]


def test_json_of_a_name_that_is_no_text():
    assert json.loads(text.json_text({"file": "odd\udcff"})) == {"file": "odd\udcff"}
