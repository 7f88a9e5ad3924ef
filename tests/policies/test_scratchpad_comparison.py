"""The comparison of the specification: no pad, one that is only appended to, one that is reorganised."""

from __future__ import annotations

import pytest

from bench.scratchpad import compare, main, table


async def test_a_reorganised_pad_keeps_most_for_the_smallest_tail():
    none, appended, periodic = figures = await compare(48)
    assert [each.way for each in figures] == ["none", "append-only", "periodic"]
    assert periodic.kept == periodic.planted == 12
    assert none.kept < appended.kept < periodic.kept
    assert none.tail_tokens == 0 < periodic.tail_tokens < appended.tail_tokens / 2
    assert none.input_tokens < periodic.input_tokens < appended.input_tokens
    assert (none.calls, appended.calls, periodic.calls) == (49, 49, 49 + 16)
    assert await compare(48) == figures, "the same figures every time"
    lines = table(figures).splitlines()
    assert len(lines) == 5 and "100%" in lines[-1] and "retention" in lines[0]


def test_one_command_prints_the_table(capsys: pytest.CaptureFixture[str]):
    main(["16"])
    printed = capsys.readouterr().out
    assert "periodic" in printed and "16 pages" in printed
