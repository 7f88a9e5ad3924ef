"""The secrets that the command line keeps out of what it prints."""

from __future__ import annotations

import os

from windlass.config.loader import load
from windlass.errors import ConfigError
from windlass.redaction.redactor import RedactingFilter as RedactingFilter
from windlass.redaction.redactor import Redactor


def secrets_here() -> Redactor:
    """Return a redactor that knows the secrets of the environment and of the configuration."""
    redactor = Redactor()
    redactor.add_env(os.environ)
    try:
        for secret in load().secrets():
            redactor.add(secret)
    except (ConfigError, OSError):
        pass  # it is broken; the command that needs it reports that
    return redactor
