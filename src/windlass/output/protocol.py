"""The interface of the policy that reads a typed answer; `policy.py` implements it."""

from __future__ import annotations

from abc import abstractmethod
from typing import TYPE_CHECKING, Any

from windlass.loop.policy import Policy
from windlass.messages import Message

if TYPE_CHECKING:
    from windlass.output.partial_view import PartialView
    from windlass.output.plan import Reading


class Answering(Policy[None]):
    """A policy that can read the value in a run's last message."""

    kind: Any  # the type asked for

    @property
    @abstractmethod
    def nothing(self) -> Reading:
        """The answer of a run whose model never replied."""

    @abstractmethod
    def read(self, message: Message, stop_reason: str, sentinel: str | None) -> Reading:
        """Return the value that a message gives, or its problems."""

    @abstractmethod
    def build_partial_view(self, sentinel: str | None) -> PartialView:
        """Build the view of the answer while it is being written."""
