"""The doctor on servers that nobody here wrote: llama.cpp's, and npm `@copilotkit/aimock`."""

from __future__ import annotations

import pytest

from windlass.models.doctor import examine
from windlass.models.doctor.run import PROBES
from windlass.models.registry.providers import resolve

from .node import NotHere, aimock

pytestmark = pytest.mark.deep


@pytest.fixture(scope="session")
def mock(tmp_path_factory: pytest.TempPathFactory):
    try:
        with aimock(tmp_path_factory.mktemp("aimock") / "log.txt") as address:
            yield address
    except NotHere as missing:
        pytest.skip(str(missing))


def of(model: str, provider: str | None, base_url: str):
    def make(name=None, api_key=None):
        return resolve(name or model, provider, base_url=base_url, api_key=api_key or "test-key")

    return make


async def test_llama_holds_a_loop_with_a_model_that_knows_nothing(llama):
    """Its words are chance, so what depends on them may take more than one look."""
    for _ in range(5):
        report = await examine(of("tiny", None, f"{llama}/v1"))
        status = {it.name: it.status for it in report.findings}
        assert list(status) == list(PROBES)
        for name in ("reach", "stream_usage", "system", "json", "schema", "bad_model", "bad_key"):
            assert status[name] == "pass", report.findings
        for name in ("image", "thinking"):
            assert status[name] == "unsupported", report.findings
        assert "skipped" not in status.values()
        if report.holds_a_loop:
            break
    assert report.holds_a_loop, report.findings
    assert report.row["native_tools"] is True and "schema" in report.row["structured"]


@pytest.mark.parametrize(
    ("provider", "model", "path"),
    [
        ("openai", "gpt-4o", "/v1"),
        ("openai-responses", "gpt-4o", "/v1"),
        ("anthropic", "claude-sonnet-4-5", ""),
        ("gemini", "gemini-2.5-flash", ""),
        ("ollama", "llama3.2", ""),
    ],
)
async def test_aimock_holds_a_loop_on_every_wire_it_speaks(mock, provider, model, path):
    report = await examine(of(model, provider, mock + path), max_usd=10)
    status = {it.name: it.status for it in report.findings}
    assert report.holds_a_loop, report.findings
    for name in (
        "plain",
        "stream",
        "system",
        "parallel",
        "streamed_arguments",
        "image",
        "choice_required",
        "schema",
        "bad_model",
    ):
        assert status[name] == "pass", report.findings
    # it answers by what was said last, and looks at no tool_choice
    assert status["choice_named"] == "unsupported"
    assert "fail" not in status.values() and "skipped" not in status.values()
    assert report.row["native_tools"] is True
