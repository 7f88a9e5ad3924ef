"""`Runtime`: an environment for runs, with the interfaces that a host works with."""

from __future__ import annotations

from functools import cached_property, wraps
from inspect import signature
from typing import TYPE_CHECKING

from windlass.engine.environment import Environment
from windlass.errors import ConfigError, nearest
from windlass.generate.api import Models
from windlass.runtime.audit import Audit


class Runtime(Environment):
    """What agents share: `async with w.Runtime(store="sqlite:///agents.db") as scope: …`.

    Inside the block it is the current Runtime. Several tasks may be inside; the last one that
    leaves closes it. `environ` replaces the environment variables of the process (keys, addresses,
    proxies, `WINDLASS_…`). `resources` are the classes whose verbs are tools, by default all that
    are exported. `tools` are further tools, granted as `tool.<name>`. `roles` are grants,
    `fn(caller)`, or
    `w.Roles`. `audit_anchor` is where seals are kept outside of the store: a file, a callable, or an
    object with `put` and `get`.
    """

    if not TYPE_CHECKING:  # checkers see the arguments themselves

        @wraps(Environment.__init__)
        def __init__(self, *args: object, **options: object) -> None:
            known = signature(Environment.__init__).parameters
            for name in options:
                if name not in known:
                    hint = nearest(name, known, "options") or "; help(windlass.Runtime) lists them"
                    raise ConfigError(f"Runtime has no option {name!r}{hint}")
            super().__init__(*args, **options)

    @cached_property
    def models(self) -> Models:
        """The model API: `await scope.models.generate("…", caller=ann)`."""
        return Models(self)

    @cached_property
    def audit(self) -> Audit:
        """The audit log: `await scope.audit.query(…)`, `await scope.audit.verify()`."""
        return Audit(self)
