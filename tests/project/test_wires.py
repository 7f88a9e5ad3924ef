"""A wire is named in its folder, in the registry and in its fake, and nowhere else."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

from windlass.models.registry.capabilities import WIRES

SOURCE = Path(__file__).parents[2] / "src" / "windlass"
HOMES = ("models/wires/", "models/registry/capabilities.py", "testing/providers/")
# Files that name a provider, or declare a wire for editors, and why.
ALLOWED = {
    "models/__init__.py": "the classes that editors and type checkers see",
    "models/registry/config.py": "a provider whose address may be a bare host; a dialect",
    "models/registry/providers.py": "the default provider",
    "models/registry/prices.py": "providers without a price, or with the prices of another",
    "observe/otel.py": "names of providers in the OpenTelemetry conventions",
    "policies/tool_search/plan.py": "the provider whose tool search is preferred",
}


def texts(path: Path) -> Iterator[str]:
    for node in ast.walk(ast.parse(path.read_text("utf-8"))):
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield node.value


def test_wires_are_named_in_three_places_only():
    named: dict[str, set[str]] = {}
    for path in sorted(SOURCE.rglob("*.py")):
        name = path.relative_to(SOURCE).as_posix()
        if not name.startswith(HOMES) and (found := set(texts(path)) & set(WIRES)):
            named[name] = found
    assert named.keys() == ALLOWED.keys()


def test_every_wire_says_what_is_particular_to_it():
    for wire, (module, name) in WIRES.items():
        model = getattr(__import__(module, fromlist=[name]), name)
        assert model.wire == wire
        assert model.rules.startswith(module.rpartition(".")[0])
