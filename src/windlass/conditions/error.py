"""The error of conditions and trigger specs that mean nothing, with the path of the field."""

from __future__ import annotations

from typing import ClassVar

from windlass.errors import ConfigError


class InvalidCondition(ConfigError):
    """A resume condition or trigger spec that cannot be met: `error.path` names the field.

    ```python
    try:
        w.parse_resume_conditions({"timeout": "soon"})
    except w.InvalidCondition as error:
        print(error.code, error.path)               # WL-SUS-002 conditions.timeout
    ```
    """

    code: ClassVar[str] = "WL-SUS-002"

    def __init__(self, path: str, problem: str) -> None:
        super().__init__(f"{self.code}: {path}: {problem}")
        self.path, self.problem = path, problem

    def __reduce__(self) -> tuple[type[InvalidCondition], tuple[str, str]]:
        return type(self), (self.path, self.problem)
