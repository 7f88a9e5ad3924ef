"""Layers around one model call, composed from the outside in.

```python
from windlass.callers import compose, default_llm_caller, with_fallback, with_retry

caller = compose([with_retry(max_attempts=4), with_fallback("openai:gpt-4o")])(default_llm_caller())
result = await w.agent_loop("…", llm_caller=caller)
```
Each layer is a model around a model underneath. What a layer remembers (a circuit, a budget, a cache,
a pace) belongs to the layer: the runs that use the same one share it.
"""

from __future__ import annotations

from windlass.callers.breaker import with_circuit_breaker
from windlass.callers.budget import with_budget
from windlass.callers.cache import with_cache
from windlass.callers.caller import Caller, Layer, compose, default_llm_caller
from windlass.callers.cassette import with_cassette
from windlass.callers.contract import Answer, Call
from windlass.callers.escalation import with_escalation
from windlass.callers.fallback import with_fallback
from windlass.callers.logs import with_logging
from windlass.callers.rate_limit import with_rate_limit
from windlass.callers.retry import with_retry
from windlass.callers.shadow import Comparison, with_shadow

__all__ = [
    "Answer",
    "Call",
    "Caller",
    "Comparison",
    "Layer",
    "compose",
    "default_llm_caller",
    "with_budget",
    "with_cache",
    "with_cassette",
    "with_circuit_breaker",
    "with_escalation",
    "with_fallback",
    "with_logging",
    "with_rate_limit",
    "with_retry",
    "with_shadow",
]
