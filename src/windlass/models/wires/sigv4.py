"""Signing a request with AWS credentials, by botocore: the extra `windlass[bedrock]`.

Finding credentials may read files or ask another machine, and signing hashes the whole body, so
both happen in a thread.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from hashlib import sha256
from importlib import import_module
from importlib.util import find_spec
from threading import Lock
from typing import Any

from windlass.errors import AuthFailed, ConfigError


class Signer:
    """Signs for one service: `await Signer("bedrock").headers(url, "us-east-1", body)`."""

    def __init__(self, service: str, profile: str | None = None) -> None:
        self.service, self.profile = service, profile
        self._credentials: Any = None
        self._lock = Lock()

    def check(self, otherwise: str) -> None:
        """Raise `ConfigError` when there is nothing to sign with."""
        if find_spec("botocore") is None:
            raise ConfigError(
                f"to sign with AWS credentials, pip install windlass[bedrock]; {otherwise}"
            )

    async def headers(self, url: str, region: str, body: Sequence[bytes]) -> dict[str, str]:
        """The headers that sign this POST."""
        return await asyncio.to_thread(self._sign, url, region, body)

    def _sign(self, url: str, region: str, body: Sequence[bytes]) -> dict[str, str]:
        # by name, since it is an extra that brings no types
        auth, awsrequest, exceptions, sessions = (
            import_module(f"botocore.{part}")
            for part in ("auth", "awsrequest", "exceptions", "session")
        )
        digest = sha256()
        for piece in body:
            digest.update(piece)
        request = awsrequest.AWSRequest(
            "POST",
            url,
            {"content-type": "application/json", "x-amz-content-sha256": digest.hexdigest()},
        )
        try:
            with self._lock:
                if self._credentials is None:
                    session = sessions.Session(profile=self.profile)
                    self._credentials = session.get_credentials()
                if self._credentials is None:
                    raise AuthFailed(
                        "no AWS credentials: set AWS_BEARER_TOKEN_BEDROCK or AWS_ACCESS_KEY_ID,"
                        " or name a profile"
                    )
                frozen = self._credentials.get_frozen_credentials()
        except exceptions.BotoCoreError as error:
            raise AuthFailed(f"AWS credentials cannot be used: {error}") from error
        auth.SigV4Auth(frozen, self.service, region).add_auth(request)
        return {str(name).lower(): str(value) for name, value in request.headers.items()}
