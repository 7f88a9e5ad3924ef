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
    """A place to run agents: `async with w.Runtime(store="sqlite:///agents.db") as scope: …`

    Inside the block it is the current Runtime for everything that names no other; several tasks may
    be inside, and the last that leaves closes it. `environ` are the variables that hold here, in
    place of the process's: keys, addresses, proxies, `WINDLASS_…`. `resources` are
    the classes it offers as tools, by default all that the process has exported; `tools` are more
    tools beside them, granted as `tool.<name>`; `roles` says who may do what: grants, `fn(caller)`, or `w.Roles`.
    `audit_anchor` is where seals of the record are kept outside of the store: a file, a callable
    that sends one away, or an object with `put` and `get`.
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
        """One loop behind a model API: `await scope.models.generate("…", caller=ann)`."""
        return Models(self)

    @cached_property
    def audit(self) -> Audit:
        """What agents did here, and whether the record is whole: `await scope.audit.query(…)`."""
        return Audit(self)
