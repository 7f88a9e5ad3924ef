"""The options of permissions and approval, what each accepts, and the policies that they ask for."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, TypedDict, cast

from windlass.access.ceiling import LEVELS, Ceiling
from windlass.errors import ConfigError, safe_repr
from windlass.loop.policy import Policy
from windlass.options.checks import (
    boolean,
    check_struct,
    function,
    late,
    number,
    one_of,
    optional,
    texts,
)

if TYPE_CHECKING:
    from windlass.access.approval import ApprovalPolicy
    from windlass.access.permissions import Permissions


class AccessOptions(TypedDict, total=False):
    """What may run, and who is asked."""

    policy: dict[str, Any] | Ceiling
    permissions: dict[str, Any] | Permissions
    approval_policy: dict[str, Any] | ApprovalPolicy


_Check = Callable[[str, Any], Any]


def _folder(name: str, value: Any) -> str | None:
    if value is None:
        return None
    if not isinstance(value, (str, os.PathLike)) or not str(cast("object", value)):
        raise ConfigError(f"{name} is a folder, not {safe_repr(cast('object', value))}")
    return os.path.abspath(cast("str | os.PathLike[str]", value))


def _roots(name: str, value: Any) -> tuple[str, ...]:
    given = cast("list[object]", value) if isinstance(value, (list, tuple)) else ()
    written = [str(cast("object", one)) if isinstance(one, os.PathLike) else one for one in given]
    roots = texts(name, written if given else value)
    for root in roots:
        if not os.path.isabs(root):
            raise ConfigError(f"{name} are absolute paths, not {safe_repr(root)}")
    return roots


_ceiling: _Check = check_struct(
    Ceiling,
    {"tools": optional(texts), "side_effect_level": optional(one_of(*LEVELS))},
    flag=False,
)


@late
def _permissions() -> _Check:
    from windlass.access.permissions import Permissions, entries_of

    allow: _Check = optional(entries_of)
    deny: _Check = lambda name, value: allow(name, value) or ()  # noqa: E731
    fields = {"allow": allow, "deny": deny, "on_escalation": function}
    return check_struct(Permissions, fields, flag=False)


@late
def _approval() -> _Check:
    from windlass.access.approval import ApprovalPolicy, rule_of

    def rules(name: str, value: Any) -> Any:
        if not isinstance(value, (list, tuple)):
            raise ConfigError(f"{name} is a list of rules, not {safe_repr(value)}")
        several = cast("list[object]", value)
        return tuple([rule_of(f"{name}[{at}]", one) for at, one in enumerate(several)])

    fields: dict[str, _Check] = {
        "rules": rules,
        "external_roots": _roots,
        "workspace": _folder,
        "expires_in": number(0.001),
        "request_permission": function,
        "guards": boolean,
    }
    return check_struct(ApprovalPolicy, fields, flag=False)


CHECKS: dict[str, _Check] = {
    "policy": _ceiling,
    "permissions": _permissions,
    "approval_policy": _approval,
}


def policies(options: Mapping[str, Any]) -> list[Policy[Any]]:
    """The policies that these options ask for."""
    chosen: list[Policy[Any]] = []
    ceiling, lists = options.get("policy"), options.get("permissions")
    rules = options.get("approval_policy")
    if ceiling is not None:
        from windlass.policies.permissions import UnderCeiling

        chosen.append(UnderCeiling(ceiling))  # first: nothing lifts it
    if lists is not None:
        from windlass.policies.permissions import PermissionCheck

        chosen.append(
            PermissionCheck(lists)
        )  # before a person is asked: they need not see what is denied
    if rules is not None:
        from windlass.policies.approval import Approval

        chosen.append(Approval(rules))
    return chosen
