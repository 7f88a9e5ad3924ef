"""Names for JSON values: what tool arguments, schemas and requests of providers are made of."""

from __future__ import annotations

from typing import Any, TypeAlias

#: A JSON object: `{"city": "Oslo", "days": 3}`.
JsonObject: TypeAlias = dict[str, Any]
