"""Signatures of requests with AWS credentials, by botocore: the extra `windlass[bedrock]`.

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
from windlass.models.registry.scope import current_environ


class Signer:
    """Signer for one AWS service: `await Signer("bedrock").headers(url, "us-east-1", body)`."""

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
        """Compute the headers that sign this POST."""
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
                found = self._find_credentials(sessions)
                if found is None:
                    raise AuthFailed(
                        "no AWS credentials: set AWS_BEARER_TOKEN_BEDROCK or AWS_ACCESS_KEY_ID,"
                        " or name a profile"
                    )
                frozen = found.get_frozen_credentials()
        except exceptions.BotoCoreError as error:
            raise AuthFailed(f"AWS credentials cannot be used: {error}") from error
        auth.SigV4Auth(frozen, self.service, region).add_auth(request)
        return {str(name).lower(): str(value) for name, value in request.headers.items()}

    def _find_credentials(self, sessions: Any) -> Any:
        """Find the credentials; variables given to a Runtime hide those of the process."""
        given = current_environ.get()
        if given is None or self.profile is not None:
            if self._credentials is None:
                self._credentials = sessions.Session(profile=self.profile).get_credentials()
            return self._credentials
        key, secret = given.get("AWS_ACCESS_KEY_ID"), given.get("AWS_SECRET_ACCESS_KEY")
        if key and secret:
            credentials = import_module("botocore.credentials")
            return credentials.Credentials(key, secret, given.get("AWS_SESSION_TOKEN"))
        profile = given.get("AWS_PROFILE")
        return sessions.Session(profile=profile).get_credentials() if profile else None
