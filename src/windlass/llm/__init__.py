"""Single model calls outside a run."""

from __future__ import annotations

from typing import TYPE_CHECKING

from windlass.lazy import load_names

if TYPE_CHECKING:
    from windlass.llm.call import Chunk as Chunk
    from windlass.llm.call import LLMResult as LLMResult
    from windlass.llm.call import llm_call as llm_call
    from windlass.llm.call import llm_stream as llm_stream
    from windlass.llm.completion import llm_completion as llm_completion
    from windlass.llm.cost import SessionCost as SessionCost
    from windlass.llm.cost import llm_budget as llm_budget
    from windlass.llm.cost import llm_budget_remaining as llm_budget_remaining
    from windlass.llm.cost import llm_cost as llm_cost
    from windlass.llm.cost import llm_session_cost as llm_session_cost
    from windlass.llm.transcript_compaction import transcript_compact as transcript_compact
    from windlass.llm.transcript_compaction import transcript_summarize as transcript_summarize
else:  # a checker that saw it would take every name for one of the package
    __getattr__ = load_names(
        __name__,
        {
            "Chunk": "llm.call",
            "LLMResult": "llm.call",
            "SessionCost": "llm.cost",
            "llm_budget": "llm.cost",
            "llm_budget_remaining": "llm.cost",
            "llm_call": "llm.call",
            "llm_completion": "llm.completion",
            "llm_cost": "llm.cost",
            "llm_session_cost": "llm.cost",
            "llm_stream": "llm.call",
            "transcript_compact": "llm.transcript_compaction",
            "transcript_summarize": "llm.transcript_compaction",
        },
    )

# Written by scripts/make_stub.py.
__all__ = [
    "Chunk",
    "LLMResult",
    "SessionCost",
    "llm_budget",
    "llm_budget_remaining",
    "llm_call",
    "llm_completion",
    "llm_cost",
    "llm_session_cost",
    "llm_stream",
    "transcript_compact",
    "transcript_summarize",
]
