"""Guards before all approval rules: names of secrets, and paths outside the workspace."""

from __future__ import annotations

import os.path
import re
from collections.abc import Sequence
from typing import Final

from windlass.access.facts import CallFacts
from windlass.access.paths import LONGEST, read_path, relate_to
from windlass.globs import like, path_like

#: Names that hold secrets on most machines, and places under a home.
SENSITIVE: Final = (
    ".env",
    ".env.*",
    "*.pem",
    "*.key",
    "*.p12",
    "*.pfx",
    "*.jks",
    "*.keystore",
    "id_rsa",
    "id_dsa",
    "id_ecdsa",
    "id_ed25519",
    "id_ecdsa_sk",
    "id_ed25519_sk",
    ".netrc",
    "_netrc",
    ".pgpass",
    ".npmrc",
    ".pypirc",
    ".git-credentials",
    ".htpasswd",
    "credentials.json",
    "service-account*.json",
    "application_default_credentials.json",
    "secrets.yaml",
    "secrets.yml",
    "kubeconfig",
)
_PLACES: Final = (
    "**/.aws/credentials",
    "**/.aws/config",
    "**/.azure/**",
    "**/.config/gcloud/**",
    "**/.ssh/**",
    "**/.kube/config",
    "**/.docker/config.json",
    "**/.gnupg/**",
    "/proc/*/environ",
    "/etc/shadow",
)


#: What every path has in it that falls under one of them.
_STEMS: Final = re.compile(
    r"\.env|\.pem|\.key|\.p12|\.pfx|\.jks|id_(?:rsa|dsa|ecdsa|ed25519)|[._]netrc|\.pgpass|\.npmrc|\.pypirc"
    r"|\.git-credentials|\.htpasswd|credentials\.json|service-account|secrets\.ya?ml|kubeconfig|\.aws|\.azure"
    r"|gcloud|\.ssh|\.kube|\.docker|\.gnupg|environ|shadow"
)
MOST_SUSPECTS: Final = 500  # words of commands that are checked closely


def sensitive(path: str) -> str | None:
    """Return the pattern of secrets that the path matches, or None."""
    lowered = path.replace("\\", "/").lower().rstrip("/. ")
    if not _STEMS.search(lowered):
        return None
    name = os.path.basename(lowered)
    for pattern in SENSITIVE:
        if like(pattern, name):
            return pattern
    return next((place for place in _PLACES if path_like(place, lowered)), None)


def find_violation(facts: CallFacts, workspace: str, roots: Sequence[str]) -> str | None:
    """Return why the call may not run whatever the rules allow, or None."""
    for path in facts.paths:
        if not path or len(path) > LONGEST:
            continue  # which is no place
        try:
            places = read_path(path, workspace)
        except ValueError:
            return f"{path[:200]!r} is no path that a file can have"
        for place in (path, *places):
            if (pattern := sensitive(place)) is not None:
                return f"{path!r} is kept from tools: {pattern} holds secrets"
        allowed = [workspace, *map(os.path.realpath, roots)]
        if not all([any([relate_to(place, root) for root in allowed]) for place in places]):
            return (
                f"{path!r} is outside the workspace; name its folder in "
                "approval_policy.external_roots to let tools use it"
            )
    return _guard_commands(facts)


def _guard_commands(facts: CallFacts) -> str | None:
    if not any([_STEMS.search(command.lower()) for command in facts.commands]):
        return None
    left = MOST_SUSPECTS
    for word in facts.words:
        if len(word) > LONGEST or not _STEMS.search(word.lower()):
            continue  # which names no file, or none of these
        if (pattern := sensitive(word)) is not None:
            return f"the command names {word!r}: {pattern} holds secrets"
        left -= 1
        if not left:
            return f"the command holds more than {MOST_SUSPECTS} words that look like secrets"
    return None
