"""The resolver of each language."""

from __future__ import annotations

from typing import Final

from windlass.toolbox.edits.scopes.c import CResolver
from windlass.toolbox.edits.scopes.go import GoResolver
from windlass.toolbox.edits.scopes.java import JavaResolver
from windlass.toolbox.edits.scopes.javascript import JavaScriptResolver
from windlass.toolbox.edits.scopes.python import PythonResolver
from windlass.toolbox.edits.scopes.resolver import Binding, Resolver
from windlass.toolbox.edits.scopes.rust import RustResolver
from windlass.toolbox.edits.source import Source

RESOLVERS: Final[dict[str, type[Resolver]]] = {
    "c": CResolver,
    "cpp": CResolver,
    "go": GoResolver,
    "java": JavaResolver,
    "javascript": JavaScriptResolver,
    "python": PythonResolver,
    "rust": RustResolver,
    "tsx": JavaScriptResolver,
    "typescript": JavaScriptResolver,
}


def resolve_symbols(source: Source) -> list[Binding]:
    """Return the symbols of a file; none for languages without scopes."""
    resolver = RESOLVERS.get(source.language.name)
    return [] if resolver is None else resolver(source).run()
