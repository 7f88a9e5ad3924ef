"""The option `plan`: which approved plan of effects a run does."""

from __future__ import annotations

from typing import Annotated, Any

from windlass.errors import ConfigError, safe_repr
from windlass.json_types import JsonObject
from windlass.options.group import Flag, Option, OptionGroup
from windlass.policies.preview.plan import EffectPlan


def _check_plan(name: str, value: Any) -> JsonObject | None:
    if value is None:
        return None
    if isinstance(value, str) and value.strip():
        return {"session_id": value, "id": None}
    if isinstance(value, EffectPlan):
        return {"session_id": value.session_id, "id": value.id}
    raise ConfigError(
        f'{name} is a plan (`out.plan` of a run with dry_run="plan") or the id of its session, '
        f"not {safe_repr(value)}"
    )


class PreviewOptions(OptionGroup, frozen=True, kw_only=True):
    """Approved plans."""

    plan: Annotated[
        JsonObject | None,
        Option(
            _check_plan,
            accepts="str | EffectPlan | None",
            flags=(Flag(metavar="ID", begins=True, note="Anything else parks the run."),),
            in_file=False,
        ),
    ] = None
    """The approved plan that the run carries out. `out.plan` of a preview, or its session id."""
