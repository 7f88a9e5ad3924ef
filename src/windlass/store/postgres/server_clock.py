"""The clock of the server, as this process knows it: measured now and then, and carried on here.

Leases and times that several machines compare are by this clock, however wrong that of a machine is.
"""

from __future__ import annotations

from windlass import seams
from windlass.store.postgres.connection import Connection

MEASURE_SECONDS = (
    10.0  # between two measurements: clocks drift by less than a millisecond meanwhile
)


class ServerClock:
    """The time of a server: `clock.now()`, from any thread."""

    def __init__(self) -> None:
        self._ahead: float | None = None  # of the monotonic clock of this process
        self._measured = 0.0

    @property
    def is_old(self) -> bool:
        """Whether it is to be measured again."""
        if seams.virtual:
            return False
        return self._ahead is None or seams.monotonic() - self._measured > MEASURE_SECONDS

    def now(self) -> float:
        """Return epoch seconds; by this machine while the server was never asked."""
        if self._ahead is None or seams.virtual:
            return seams.now()
        return seams.monotonic() + self._ahead

    async def measure(self, connection: Connection) -> None:
        """Ask the server for the time."""
        began = seams.monotonic()
        found = await connection.fetchval("SELECT extract(epoch FROM clock_timestamp())::float8")
        ended = seams.monotonic()
        self._ahead, self._measured = found - (began + ended) / 2, ended
