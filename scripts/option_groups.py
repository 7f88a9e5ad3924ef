"""What the option groups declare, read from the source: types, defaults and docstrings."""

from __future__ import annotations

import ast
import sys
from importlib import import_module
from pathlib import Path
from typing import Any, Final, NamedTuple, get_args, get_type_hints

import msgspec

ROOT = Path(__file__).resolve().parents[1]
SOURCE = ROOT / "src" / "windlass"
sys.path.insert(0, str(ROOT / "src"))


class Declared(NamedTuple):
    """An option as its group declares it."""

    name: str
    module: str
    group: str
    doors: frozenset[str]
    aliases: tuple[tuple[str, frozenset[str]], ...]
    scope: str
    type: str
    default: str
    words: str
    deprecated: str | None
    choice: str | None
    in_file: bool


_KNOWN: Final = {
    **dict.fromkeys(("Any", "Literal"), "typing"),
    **dict.fromkeys(("Callable", "Mapping", "Sequence"), "collections.abc"),
}


def find_modules() -> list[str]:
    """Return the modules that declare option groups."""
    found: list[str] = []
    for path in sorted(SOURCE.rglob("*.py")):
        if "(OptionGroup, frozen" in path.read_text("utf-8") and path.name != "group.py":
            found.append(".".join(path.relative_to(SOURCE).with_suffix("").parts))
    return found


def read_module(module: str) -> tuple[list[Declared], dict[str, str]]:
    """Return the options that a module declares, and where the names in their types are from."""
    from windlass.options.group import Alias, OptionGroup, read_options

    loaded = import_module(f"windlass.{module}")
    source = (SOURCE / Path(*module.split("."))).with_suffix(".py").read_text("utf-8")
    tree = ast.parse(source)
    declared: list[Declared] = []
    for node in tree.body:
        if not isinstance(node, ast.ClassDef):
            continue
        group: Any = getattr(loaded, node.name)
        if not (isinstance(group, type) and issubclass(group, OptionGroup)):
            continue
        options = read_options(group)
        for at, field in enumerate(node.body):
            if not isinstance(field, ast.AnnAssign) or not isinstance(field.target, ast.Name):
                continue
            if field.target.id not in options:
                continue
            option = options[field.target.id]
            after = node.body[at + 1] if at + 1 < len(node.body) else None
            if not isinstance(after, ast.Expr) or not isinstance(after.value, ast.Constant):
                raise SystemExit(f"{module}: {field.target.id} has no docstring")
            assert isinstance(field.annotation, ast.Subscript)
            assert isinstance(field.annotation.slice, ast.Tuple)
            doors = group.doors if option.doors is None else option.doors
            aliases = [
                (one, doors) if isinstance(one, str) else (one.name, one.doors or doors)
                for one in option.aliases
                if isinstance(one, (str, Alias))
            ]
            declared.append(
                Declared(
                    field.target.id,
                    module,
                    node.name,
                    frozenset(doors),
                    tuple(aliases),
                    option.scope,
                    option.accepts or ast.unparse(field.annotation.slice.elts[0]),
                    _show_default(getattr(group(), field.target.id), field.value),
                    str(after.value.value),
                    option.deprecated,
                    option.choice or group.choice,
                    option.in_file,
                )
            )
    return declared, _origins(tree, module)


def _show_default(value: object, source: ast.expr | None) -> str:
    if value is None or isinstance(value, (bool, int, float, str, tuple)):
        return repr(value)
    return "" if source is None else ast.unparse(source)


def read_keys(kind: type[Any]) -> list[tuple[str, str, str, str]]:
    """Return the keys of a struct of options: name, type, default and docstring."""
    source = Path(sys.modules[kind.__module__].__file__ or "").read_text("utf-8")
    keys: list[tuple[str, str, str, str]] = []
    for node in ast.parse(source).body:
        if isinstance(node, ast.ClassDef) and node.name == kind.__name__:
            for field, after in zip(node.body, node.body[1:], strict=False):
                match field, after:
                    case (
                        ast.AnnAssign(
                            target=ast.Name(id=name),
                            annotation=ast.Subscript(slice=ast.Tuple(elts=[shape, *_])),
                        ),
                        ast.Expr(value=ast.Constant(value=str(words))),
                    ):
                        shown = "" if field.value is None else _default_of(kind, name, field.value)
                        keys.append((name, ast.unparse(shape), shown, words))
                    case _:
                        pass
    return keys


def _default_of(kind: type[Any], name: str, source: ast.expr) -> str:
    for field in msgspec.structs.fields(kind):
        if field.name == name:
            return _show_default(field.default, source)
    return ast.unparse(source)


def structs_of(module: str, group: str, option: str) -> list[type[Any]]:
    """Return the structs that an option may be, as a dict or itself."""
    from windlass.options.group import OptionStruct

    hint = get_type_hints(getattr(import_module(f"windlass.{module}"), group))[option]
    kinds = get_args(hint) or (hint,)
    return [kind for kind in kinds if isinstance(kind, type) and issubclass(kind, OptionStruct)]


def _origins(tree: ast.Module, module: str) -> dict[str, str]:
    origins: dict[str, str] = {}
    for node in ast.walk(tree):
        match node:
            case ast.ImportFrom(module=str(home), names=names):
                origins |= {name.asname or name.name: home for name in names}
            case ast.Import(names=names):
                origins |= {name.name: "" for name in names}
            case ast.ClassDef(name=name):
                origins[name] = f"windlass.{module}"
            case ast.AnnAssign(target=ast.Name(id=name)) | ast.Assign(targets=[ast.Name(id=name)]):
                origins.setdefault(name, f"windlass.{module}")
            case _:
                pass
    return {**_KNOWN, **origins}


def read_all() -> tuple[list[Declared], dict[str, str]]:
    """Return every option there is, and the imports that their types need, by name."""
    declared: list[Declared] = []
    imports: dict[str, str] = {}
    for module in find_modules():
        options, origins = read_module(module)
        declared += options
        for option in options:
            for node in ast.walk(ast.parse(option.type)):
                if isinstance(node, ast.Name) and node.id in origins:
                    imports[node.id] = origins[node.id]
    names = [name for one in declared for name in (one.name, *(a for a, _ in one.aliases))]
    twice = {name for name in names if names.count(name) > 1}
    if twice:
        raise SystemExit(f"declared twice: {', '.join(sorted(twice))}")
    return sorted(declared), imports
