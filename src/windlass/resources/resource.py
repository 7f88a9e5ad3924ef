"""The base class of resources: rows of the user's own whose verbs are tools."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from windlass.json_types import JsonObject
from windlass.resources.row import Row, RowMeta

if TYPE_CHECKING:
    from typing import Self

    from windlass.resources.query import Page, Query
    from windlass.resources.tx import ResourceTx


class Resource(Row):
    """Rows in the runtime's store whose verbs are tools, under permissions.

    ```python
    @w.export
    class Product(w.Resource):
        id: str
        name: str
        price: float
        stock: int = 0
        mcp_tools = ["restock"]

        def allow_update(self, caller: w.Caller) -> bool:
            return "manager" in caller.roles

        def restock(self, tx: w.ResourceTx, amount: int) -> "Product":
            "Put more of it on the shelf."
            self.stock += amount
            return tx.save(self)
    ```
    Rows belong to the tenant of the caller who created them; no verb reaches rows of another
    tenant. `id` is given or generated; `version` counts the changes of a row.
    """

    # What the verbs do, in the transaction of the call. A class may do it otherwise.

    @classmethod
    def get(cls, tx: ResourceTx, id: Any) -> Self | None:
        """Return the row with this id, or None."""
        return tx.get(cls, id)

    @classmethod
    def search(cls, tx: ResourceTx, query: Query) -> Page[Self]:
        """Return the rows that match."""
        return tx.page(cls, query)

    @classmethod
    def create(cls, tx: ResourceTx, values: JsonObject) -> Self:
        """Create a row."""
        return tx.create(cls, values)

    @classmethod
    def update(cls, tx: ResourceTx, id: Any, values: JsonObject, version: int | None) -> Self:
        """Change some fields of a row."""
        return tx.update(cls, id, values, version)

    @classmethod
    def delete(cls, tx: ResourceTx, id: Any, version: int | None) -> Self:
        """Delete a row, and return it as it was."""
        return tx.delete(cls, id, version)


def new_class(
    name: str, fields: Mapping[str, Any], defaults: Mapping[str, Any], **namespace: Any
) -> Any:
    """Build a class of rows from types by name, and some defaults."""
    return RowMeta(name, (Resource,), {"__annotations__": dict(fields), **defaults, **namespace})
