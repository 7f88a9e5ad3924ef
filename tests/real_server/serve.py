"""Serves a GGUF file with llama.cpp's own HTTP server, in a process of its own.

    python serve.py model.gguf

Prints the address it listens on, and ends when its standard input does.
"""

from __future__ import annotations

import os
import sys

import xllamacpp  # pyright: ignore[reportMissingImports]


def main(model: str) -> None:
    params = xllamacpp.CommonParams()
    params.model.path = model
    params.hostnames = ["127.0.0.1"]
    params.port = 0
    params.n_ctx, params.n_parallel, params.n_predict = 16384, 4, 256
    params.use_jinja, params.warmup, params.n_gpu_layers = True, False, 0
    params.cpuparams.n_threads = params.cpuparams_batch.n_threads = 1
    server = xllamacpp.Server(params)
    print(f"listening {server.listening_address}", flush=True)
    sys.stdin.read()
    os._exit(0)  # the server's threads have nothing to save


if __name__ == "__main__":
    main(sys.argv[1])
