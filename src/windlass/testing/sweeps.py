"""Both sweeps: kill a process everywhere, and interrupt a run everywhere."""

from windlass.testing.cancel import CancelReport, Trial, cancel_sweep
from windlass.testing.effects import EffectLog
from windlass.testing.kill import (
    KillReport,
    Scene,
    Seen,
    kill_sweep,
)

__all__ = [
    "CancelReport",
    "EffectLog",
    "KillReport",
    "Scene",
    "Seen",
    "Trial",
    "cancel_sweep",
    "kill_sweep",
]
