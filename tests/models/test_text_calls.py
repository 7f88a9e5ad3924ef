"""Which blocks of a text are calls, over generated text around them; and what a stream shows of it."""

from __future__ import annotations

import asyncio
import re
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st
from markdown_it import MarkdownIt

from windlass.events import LiveEvent, TextDelta
from windlass.messages import Message
from windlass.models.base import Response
from windlass.models.wrappers.text_calls import find_calls, find_intended, read_body
from windlass.models.wrappers.text_tools import WithoutCalls, read_reply


def block(name: str, text: str = "x") -> str:
    return f'<tool_call>{{"name": "{name}", "arguments": {{"text": "{text}"}}}}</tool_call>'


QUOTED = block("quoted")
PROSE = st.sampled_from(
    ["Some words.", "a < b", "1. one\n2. two", "# Head", "- item", "It's 5\" wide.", "\\", "***"]
)
#: Each quotes a block and closes what it opens.
QUOTES = st.sampled_from(
    [
        f"```\n{QUOTED}\n```",
        f"```py\n\n{QUOTED}\n{QUOTED}\n```",
        f"~~~\n```\n{QUOTED}\n~~~",
        f"`````\n```\n{QUOTED}\n`````",
        f"> {QUOTED}",
        f"> words\n{QUOTED}",
        f"`{QUOTED}`",
        f"see `{QUOTED}` there",
        f"``\n{QUOTED}\n``",
        f"    {QUOTED}",
        f"\t{QUOTED}",
        f"- {QUOTED}",
        f"words {QUOTED}",
        f"<!--\n{QUOTED}\n-->",
        f"<pre>\n{QUOTED}\n</pre>",
        f"<think>\n{QUOTED}\n</think>",
        f'<tool_result name="a" id="b">\n{QUOTED}\n</tool_result>',
        f"  > a\n> {QUOTED}",
        f"words `{QUOTED}\n` words",
        f"1. ```\n   {QUOTED}\n   ```",
    ]
)
AROUND = st.lists(st.one_of(PROSE, QUOTES), max_size=4).map("\n\n".join)
ARGUMENTS = st.sampled_from(
    ["x", "`a`", "```", "</tool_call>", "<tool_call>", "\\n\\n", "> y", '\\"', "<!--", "<pre>"]
)


@st.composite
def standing(draw: st.DrawFn) -> tuple[str, list[str]]:
    """A text with calls that stand by themselves, and their names."""
    count = draw(st.integers(1, 4))
    blocks = [block(f"t{n}", draw(ARGUMENTS)) for n in range(count)]
    glue = [draw(st.sampled_from(["\n", "\n\n", " ", "", "\n \t\n", "\r\n"])) for _ in blocks[1:]]
    calls = "".join([one + between for one, between in zip(blocks, [*glue, ""], strict=True)])
    before, after = draw(AROUND), draw(st.sampled_from(["", "Words.", f"```\n{QUOTED}\n```"]))
    text = (before + "\n\n" if before else "") + calls + ("\n\n" + after if after else "")
    return text, [f"t{n}" for n in range(count)]


def names(text: str) -> list[str]:
    bodies = [read_body(one.body) for one in find_calls(text)]
    return ["?" if body is None else body.name for body in bodies]


@given(standing())
def test_calls_that_stand_by_themselves_are_found_and_no_others(made: tuple[str, list[str]]):
    text, expected = made
    assert names(text) == expected


@given(AROUND, st.sampled_from(["\n\n", "\n"]))
def test_quoted_blocks_are_never_calls(text: str, glue: str):
    assert names(text) == []
    assert names(glue + text + glue) == []


@given(st.lists(st.sampled_from([block("a"), block("b"), "words"]), min_size=2, max_size=5))
def test_words_between_blocks_make_text_of_all(parts: list[str]):
    first = next((n for n, one in enumerate(parts) if one != "words"), None)
    last = next((n for n in range(len(parts) - 1, -1, -1) if parts[n] != "words"), None)
    text = "\n".join(parts)
    if first is None or last is None:
        assert names(text) == []
    elif "words" in parts[first:last]:
        assert names(text) == [] and find_intended(text, {"a", "b"})
    else:
        assert len(names(text)) == last - first + 1


# --------------------------------------------------------------------------- any text, in any pieces

PIECE = st.sampled_from(
    [
        "<tool_call>",
        "</tool_call>",
        '{"name": "a", "arguments": {}}',
        "\n",
        "\r",
        "\r\n",
        "\n\n",
        " ",
        "    ",
        "\t",
        "`",
        "``",
        "```",
        "~~~",
        ">",
        "> ",
        "words",
        '"',
        "\\",
        "<!--",
        "-->",
        "<pre>",
        "</pre>",
        "<think>",
        "</think>",
        "- ",
        "<tool",
        "_call>",
        "{",
        "}",
    ]
)


def show(pieces: list[str]) -> tuple[str, list[str]]:
    """What a stream shows of a reply in these pieces, and the calls that are read."""
    seen: list[str] = []

    def emit(event: LiveEvent) -> None:
        assert isinstance(event, TextDelta) and event.text
        seen.append(event.text)

    text = "".join(pieces)
    stream = WithoutCalls(emit)
    for piece in pieces:
        stream.feed(TextDelta(piece))
    calls = find_calls(text)
    assert "".join(stream.streamed) == text
    stream.flush(calls)
    read = asyncio.run(read_reply(Response(Message("assistant", text)), calls)).message
    return "".join(seen), [call.raw or call.name for call in read.tool_calls]


@settings(max_examples=400)
@given(st.lists(PIECE, max_size=24), st.data())
def test_a_stream_shows_all_but_what_is_run(pieces: list[str], data: st.DataObject):
    text = "".join(pieces)
    whole = show([text] if text else [])
    assert show(pieces) == whole
    assert show(list(text)) == whole
    cut = data.draw(st.integers(0, len(text)))
    assert show([part for part in (text[:cut], text[cut:]) if part]) == whole
    left, at = "", 0
    for call in find_calls(text):
        left, at = left + text[at : call.start], call.end
    assert whole[0] == left + text[at:]


def test_a_large_delta_is_shown_without_its_calls():
    words = "Well then.\n" * 4000
    for start in ("", "so ", "so\n"):
        shown, calls = show([part for part in (start, words, block("a"), "\n") if part])
        assert shown == f"{start}{words}\n" and calls == ["a"]
    assert show(["so ", words, f"`{QUOTED}`"]) == (f"so {words}`{QUOTED}`", [])


@settings(max_examples=400)
@given(st.lists(PIECE, max_size=24))
def test_whatever_is_run_starts_a_line_and_ends_one(pieces: list[str]):
    text = "".join(pieces)
    calls = find_calls(text)
    for one, other in zip(calls, calls[1:], strict=False):
        assert not text[one.end : other.start].strip(" \t\r\n")
    if calls:
        before, after = text[: calls[0].start], text[calls[-1].end :]
        line = before.replace("\r", "\n").rpartition("\n")[2]
        assert len(line) <= 3 and not line.strip(" ")
        assert not after.replace("\r", "\n").partition("\n")[0].strip(" \t")
        assert "\n```" not in "\n" + before or before.count("```") > 1


# --------------------------------------------------------------------------- a second opinion

MARKDOWN = st.sampled_from(
    [
        "\n",
        "\n\n",
        "`",
        "``",
        "```",
        "~~~",
        "> ",
        ">",
        "- ",
        "1. ",
        "    ",
        "  ",
        "\t",
        "words",
        "\\",
        "<!--",
        "-->",
        "<pre>x",
        "x</pre>",
        "# ",
        "***",
        "[",
        "](",
        ")",
        "\n```\n",
        "\n~~~\n",
        "<?",
        "?>",
        "\r",
        "\r\n",
        "* ",
        "    - ",
    ]
)


def spoken(text: str) -> set[str]:
    """The blocks that a reader of Markdown takes for words at the start of a line, by their names."""
    quotes, found = 0, set[str]()
    for token in MarkdownIt("commonmark").parse(text):
        quotes += (token.type == "blockquote_open") - (token.type == "blockquote_close")
        starts = True
        for child in token.children or () if not quotes else ():
            if starts and child.type == "text":
                found.update(re.findall(r'^<tool_call>{"name": "(\w+)"', child.content))
            starts = child.type in ("softbreak", "hardbreak")
    return found


@settings(max_examples=600)
@given(st.lists(st.one_of(st.just(None), MARKDOWN), min_size=2, max_size=12))
def test_no_call_is_quoted_to_a_reader_of_markdown(pieces: list[str | None]):
    text = "".join([block(f"n{at}") if one is None else one for at, one in enumerate(pieces)])
    heard = spoken(text)
    for at, call in enumerate(find_calls(text)):
        body = read_body(call.body)
        assert body is not None
        if (
            at == 0 or text[: call.start].rstrip(" \t")[-1:] in "\r\n"
        ):  # else it follows on its line
            assert body.name in heard, text


# --------------------------------------------------------------------------- time


class Counting(str):
    """A text that counts the characters that are cut out of it."""

    cut = 0

    def __getitem__(self, key: Any) -> str:
        piece = str.__getitem__(self, key)
        Counting.cut += len(piece)
        return piece


HOSTILE = [
    "<tool_call>",
    "<tool_call>\n",
    '<tool_call>{"',
    '<tool_call>{"a": "\n',
    "x <tool_call>{\n",
    'x <tool_call>{"\n',
    "`\n<tool_call>",
    "``` ` ",
    "<!--\n",
    "<pre <pre\n",
    "> x\n",
    "<think>\n</think>\n",
    "<tool_call>{}</tool_call>\n",
    '\\"<tool_call>{',
    "\r",
    "- - - - ```\n",
    "-   ",
    "- " * 40 + "x\n",
    "1.   ",
    "<tool_call>{}</tool_call> x\n",
    "`" * 3 + "\n\n",
]


def test_ten_times_the_text_cuts_ten_times_the_characters():
    for hostile in HOSTILE:
        work: list[int] = []
        for size in (2_000, 20_000):
            Counting.cut = 0
            text = Counting((hostile * (size // len(hostile) + 1))[:size] + "\n" + block("a"))
            find_calls(text)
            find_intended(text, {"a"})
            work.append(Counting.cut + size)
        assert work[1] <= 15 * work[0], hostile
