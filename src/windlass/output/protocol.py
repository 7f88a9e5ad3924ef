"""What a result asks of the policy that wants a value for an answer; `policy.py` is that policy."""

from __future__ import annotations

from abc import abstractmethod
from typing import TYPE_CHECKING, Any

from windlass.loop.policy import Policy
from windlass.messages import Message

if TYPE_CHECKING:
    from windlass.output.plan import Reading


class Answering(Policy[None]):
    """It can read the value that a run's last words give."""

    kind: Any  # the type asked for

    @property
    @abstractmethod
    def nothing(self) -> Reading:
        """What a run says whose model was never heard."""

    @abstractmethod
    def read(self, message: Message, stop_reason: str, sentinel: str | None) -> Reading:
        """The value that a message gives, or what is wrong with it."""
