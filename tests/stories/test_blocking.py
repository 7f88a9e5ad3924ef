"""The same calls, blocking: in scripts, threads, beside a running loop, and in a notebook."""

from __future__ import annotations

import asyncio
import contextvars
import subprocess
import sys
import textwrap
import threading
from pathlib import Path
from typing import Any

import pytest

import windlass as w
from tests.stories.helpers import add
from windlass.testing import call, scripted


def test_an_agent_runs_in_a_plain_script():
    model = scripted(call("add", a=1, b=2), "3")
    out = w.Agent(model, tools=[add]).run_sync("1+2?", session_id="s")
    assert (out.status, out.output, out.session_id) == ("done", "3", "s")


def test_every_async_function_has_a_blocking_form():
    from windlass import sync

    assert sync.agent_loop("go", model=scripted("x")).final_text == "x"
    assert sync.llm_call("go", model=scripted("y")).text == "y"
    sync.agent_session_open("s")
    assert "s" in [info.id for info in sync.agent_session_list()]
    assert sync.agent_session_close("s") is True
    assert {"agent_loop", "llm_call", "llm_stream", "agent_session_fork"} <= set(dir(sync))
    for name in dir(sync):
        assert callable(getattr(sync, name)), name


def test_a_stream_blocks_piece_by_piece():
    from windlass import sync

    pieces = [str(chunk) for chunk in sync.llm_stream("go", model=scripted("a b", stream=True))]
    assert "".join(pieces) == "a b"
    for chunk in sync.llm_stream("go", model=scripted("a b c", stream=True)):
        assert chunk.text == "a"
        break


def test_what_is_not_async_has_no_blocking_form():
    from windlass import sync

    with pytest.raises(AttributeError, match="llm_mock"):
        _ = sync.llm_mock


async def test_it_works_beside_a_running_loop():
    """As in a notebook, whose own loop is busy with the cell."""
    assert w.Agent(scripted("x")).run_sync("go").output == "x"


def test_it_works_from_many_threads():
    agent = w.Agent(scripted(then=lambda request: request.messages[-1].text))
    outs: list[str] = []

    def work(n: int) -> None:
        outs.append(agent.run_sync(str(n)).output)

    threads = [threading.Thread(target=work, args=(n,)) for n in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(outs) == [str(n) for n in range(8)]


def test_context_variables_are_copied_in():
    place: contextvars.ContextVar[str] = contextvars.ContextVar("place", default="nowhere")
    seen: list[str] = []

    @w.tool
    async def look() -> str:
        seen.append(place.get())
        return "ok"

    place.set("Delft")
    w.Agent(scripted(call("look"), "ok"), tools=[look]).run_sync("go")
    assert seen == ["Delft"]


def test_errors_come_out():
    from windlass import sync

    with pytest.raises(w.AuthFailed, match="no key"):
        sync.llm_call("go", model=scripted(w.AuthFailed("no key")))
    with pytest.raises(w.ConfigError):
        w.Agent(scripted("x")).run_sync("go", max_turn=1)


def test_waiting_inside_the_background_loop_is_refused():
    @w.tool
    async def nested() -> str:
        return w.Agent(scripted("x")).run_sync("go").output

    out = w.Agent(scripted(call("nested"), "ok"), tools=[nested]).run_sync("go")
    assert out.tool_calls[0].outcome == "error"
    assert "wait for itself" in out.tool_calls[0].result


def test_a_sync_tool_may_use_the_blocking_form():
    inner = w.Agent(scripted("inside"))

    @w.tool
    def nested() -> str:
        return inner.run_sync("go").output

    out = w.Agent(scripted(call("nested"), "ok"), tools=[nested]).run_sync("go")
    assert out.tool_calls[0].result == "inside"


SCRIPT = """
    import asyncio, os, signal, sys, threading
    import windlass as w
    from windlass.testing import scripted, call

    signal.signal(signal.SIGINT, signal.default_int_handler)  # ignored, where a test runs behind &

    @w.tool
    async def wait() -> str:
        threading.Timer(0.005, os.kill, (os.getpid(), signal.SIGINT)).start()
        await asyncio.sleep(60)
        return "never"

    try:
        w.Agent(scripted(call("wait")), tools=[wait], store="sqlite:///" + sys.argv[1]).run_sync(
            "go", session_id="s"
        )
    except KeyboardInterrupt:
        print("interrupted")
"""


@pytest.mark.skipif(sys.platform == "win32", reason="signals are different there")
def test_ctrl_c_cancels_the_run_on_the_record(tmp_path: Path):
    file = tmp_path / "s.db"
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(SCRIPT), str(file)],
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.stdout == "interrupted\n", done.stderr

    async def read() -> Any:
        async with w.Runtime(store=f"sqlite:///{file}", environ={}):
            return await w.agent_session_read("s")

    session = asyncio.run(read())
    assert session.status == "cancelled"
    assert session.messages[-1].role == "tool", "the open call is answered"


def test_a_real_notebook(tmp_path: Path):
    """One cell awaits, one blocks, and a result shows its timeline."""
    import nbformat
    from nbclient import NotebookClient

    cells = [
        """
        import windlass as w
        from windlass.testing import scripted, call

        @w.tool
        async def add(a: int, b: int) -> int:
            return a + b

        agent = w.Agent(scripted(call("add", a=1, b=2), "3", call("add", a=2, b=2), "4"), tools=[add])
        """,
        """
        out = await agent.run("1+2?")
        print(out.status, out.output)
        """,
        """
        again = agent.run_sync("2+2?")
        print(again.status, again.output)
        """,
        "again",
    ]
    notebook = nbformat.v4.new_notebook(
        cells=[nbformat.v4.new_code_cell(textwrap.dedent(cell)) for cell in cells],
        metadata={"kernelspec": {"name": "python3", "display_name": "Python 3"}},
    )
    NotebookClient(notebook, timeout=60, resources={"metadata": {"path": str(tmp_path)}}).execute()
    outputs = [cell.outputs for cell in notebook.cells]
    assert outputs[1][0].text == "done 3\n"
    assert outputs[2][0].text == "done 4\n"
    assert "<iframe sandbox=" in outputs[3][0].data["text/html"]
