"""The mutation itself: while `windlass` is imported, nothing is changed on disk."""

from __future__ import annotations

import ast
import copy
import sys
from collections.abc import Mapping
from importlib.machinery import ModuleSpec, PathFinder, SourceFileLoader
from typing import Any, cast

import msgspec

from mutation.lines import Line, found

PACKAGE = "windlass."
#: The functions that all options of a run or a call pass: what each returns or takes is thinned.
DOORS = {("options.parse", "parse_options"), ("agents.agent", "arguments_for")}


class BadMutant(Exception):
    """A mutant that changes nothing: its place is gone."""


def install(mutant: str) -> None:
    """From now on `windlass` is imported with this mutant in it."""
    early = [name for name in sys.modules if name.removeprefix(PACKAGE) in touched(mutant)]
    if early:
        raise BadMutant(f"{early[0]} is imported already: load mutation.plugin first")
    sys.meta_path.insert(0, _Finder(mutant))


class _Finder:
    def __init__(self, mutant: str) -> None:
        self.mutant = mutant

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> ModuleSpec | None:
        """The module as it would be found, with a loader that mutates it, if it is concerned."""
        if name.removeprefix(PACKAGE) not in touched(self.mutant):
            return None
        spec = PathFinder.find_spec(name, path, target)
        if spec is not None and isinstance(spec.loader, SourceFileLoader):
            spec.loader = _Loader(spec.loader.name, spec.loader.path, self.mutant)
        return spec


class _Loader(SourceFileLoader):
    def __init__(self, name: str, path: str, mutant: str) -> None:
        super().__init__(name, path)
        self.mutant = mutant

    def get_code(self, fullname: str) -> Any:
        """From the source, always: a mutant must neither come from a cache nor get into one."""
        tree = ast.parse(self.get_data(self.path), self.path)
        mutated(tree, fullname.removeprefix(PACKAGE), self.mutant)
        return compile(tree, self.path, "exec", dont_inherit=True)

    def exec_module(self, module: Any) -> None:
        """With what the changed lines call."""
        module.__dropped__ = dropper(self.mutant)
        module.__default__ = default_of
        super().exec_module(module)


def touched(mutant: str) -> frozenset[str]:
    """The modules of the package that a mutant changes."""
    if "@" in mutant:
        return frozenset({Line.of(mutant).module})
    return frozenset(module for module, _ in DOORS)


def mutated(tree: ast.Module, module: str, mutant: str) -> None:
    """Change the tree of a module that the mutant touches."""
    if "@" in mutant:
        line = Line.of(mutant)
        for each, expression in found(tree, module, frozenset({line.option})):
            if each == line:
                _Replace(expression, line.option).visit(tree)
                ast.fix_missing_locations(tree)
                return
        raise BadMutant(f"no line {mutant}")
    for function in [door for where, door in DOORS if where == module]:
        _thinned(tree, function)
    ast.fix_missing_locations(tree)


class _Replace(ast.NodeTransformer):
    """Puts the default of an option in place of one expression that reads it."""

    def __init__(self, expression: ast.expr, option: str) -> None:
        self.expression, self.option = expression, option

    def visit(self, node: ast.AST) -> Any:
        """The node, or what stands in its place."""
        if node is self.expression:
            default: ast.expr = ast.Name("__default__", ast.Load())
            return ast.Call(default, [ast.Constant(self.option)], [])
        return super().visit(node)


def default_of(option: str) -> Any:
    """What an option is that nobody gives."""
    from windlass.options.parse import find_group

    return getattr(find_group(option)(), option)


def _thinned(tree: ast.Module, name: str) -> None:
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef) and node.name == name:
            if name == "parse_options":
                for part in ast.walk(node):
                    if isinstance(part, ast.Return) and part.value is not None:
                        part.value = _call(part.value, ast.Name("given", ast.Load()))
            else:
                taken: ast.expr = ast.Name("options", ast.Load())
                store = ast.Assign([ast.Name("options", ast.Store())], _call(taken, taken))
                node.body.insert(0, store)
            return
    raise BadMutant(f"no function {name}: where do options pass now?")


def _call(value: ast.expr, typed: ast.expr) -> ast.expr:
    return ast.Call(ast.Name("__dropped__", ast.Load()), [value, typed], [])


def dropper(mutant: str) -> Any:
    """What takes the mutant's option, or the key of one, out of options that are checked already."""
    option, *keys = mutant.split(".")

    def dropped(checked: Mapping[str, Any], typed: Mapping[str, Any]) -> Mapping[str, Any]:
        from windlass.options.index import ALIASES

        gone = ALIASES.get(option, option)
        if gone not in checked or (option in ALIASES and option not in typed):
            return checked
        if not keys:
            return {name: checked[name] for name in checked if name != gone}
        return {**checked, gone: without(checked[gone], keys)}

    return dropped


def without(value: Any, keys: list[str]) -> Any:
    """The dict or struct with this key as if it had not been given."""
    key, *deeper = keys
    if isinstance(value, Mapping):
        return {name: value[name] for name in value if name != key}
    if isinstance(value, tuple):  # of each of several
        return tuple([without(one, keys) for one in cast("tuple[Any, ...]", value)])
    if not isinstance(value, msgspec.Struct) or key not in value.__struct_fields__:
        return value  # a short form that has no keys, or another form with others
    copied = copy.copy(value)  # its own checks are not asked again: this is no user's mistake
    if deeper:
        usual = without(getattr(value, key), deeper)
    else:
        field = next(f for f in msgspec.structs.fields(value) if f.encode_name == key)
        made = field.default_factory
        usual = field.default if made is msgspec.NODEFAULT else made()
    msgspec.structs.force_setattr(copied, key, usual)
    return copied
