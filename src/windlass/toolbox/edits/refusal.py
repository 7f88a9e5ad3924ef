"""The error of an edit that was refused, with a message that a model can act on."""

from __future__ import annotations

from typing import Literal, TypeAlias

from windlass.tools.tool import Retry

RefusalCode: TypeAlias = Literal[
    "ambiguous", "changed", "collision", "file", "language", "not_found", "syntax", "text"
]


class EditRefused(Retry):
    """An edit that was refused; nothing was written: `error.code`, `error.candidates`.

    ```python
    try:
        await w.edit_apply_node("cart.py", "def total(self): …", node="total")
    except w.EditRefused as error:
        print(error.code, error.candidates)  # ambiguous, each `class:Cart/function:total (line 12)`
    ```
    """

    def __init__(self, code: RefusalCode, message: str, candidates: tuple[str, ...] = ()) -> None:
        super().__init__(message)
        self.code: RefusalCode = code
        self.candidates = candidates
