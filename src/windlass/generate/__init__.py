"""The loop behind a model API: `scope.models.generate`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from windlass.lazy import load_names

if TYPE_CHECKING:
    from windlass.generate.api import GenerateChunk as GenerateChunk
    from windlass.generate.api import GenerateResult as GenerateResult
    from windlass.generate.api import Models as Models
    from windlass.generate.api import ToolTraceEntry as ToolTraceEntry
    from windlass.generate.keywords import GenerateOpts as GenerateOpts
else:  # a checker that saw it would take every name for one of the package
    __getattr__ = load_names(
        __name__,
        {
            "GenerateChunk": "generate.api",
            "GenerateOpts": "generate.keywords",
            "GenerateResult": "generate.api",
            "Models": "generate.api",
            "ToolTraceEntry": "generate.api",
        },
    )

# Written by scripts/make_stub.py.
__all__ = ["GenerateChunk", "GenerateOpts", "GenerateResult", "Models", "ToolTraceEntry"]
