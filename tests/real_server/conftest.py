"""llama.cpp's server with a model that knows nothing, one for all tests of this folder."""

from __future__ import annotations

import select
import subprocess
import sys
from pathlib import Path

import pytest

STARTS_WITHIN = 60.0  # seconds


@pytest.fixture(scope="session")
def llama(tmp_path_factory: pytest.TempPathFactory):
    """Provide the server's URL, such as http://127.0.0.1:40000."""
    for package in ("xllamacpp", "gguf", "numpy"):
        pytest.importorskip(
            package, reason="a real model server needs: pip install xllamacpp gguf numpy"
        )
    from .tiny_gguf import write_model

    folder = tmp_path_factory.mktemp("llama")
    model = write_model(folder / "tiny.gguf")
    serve = Path(__file__).with_name("serve.py")
    with (folder / "log.txt").open("wb") as log:
        process = subprocess.Popen(
            [sys.executable, str(serve), str(model)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=log,
        )
    with process:  # leaving closes its standard input, which ends it
        try:
            yield _address(process, folder / "log.txt")
        finally:
            process.kill()


def _address(process: subprocess.Popen[bytes], log: Path) -> str:
    assert process.stdout is not None
    ready, _, _ = select.select([process.stdout], [], [], STARTS_WITHIN)
    line = process.stdout.readline().decode() if ready else ""
    if not line.startswith("listening "):
        raise RuntimeError(f"llama.cpp did not start:\n{log.read_text(errors='replace')[-2000:]}")
    return line.split()[1]
