"""Signatures that list the options of an entry point by name, for `help` and completion in a REPL."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from importlib import import_module
from inspect import Parameter, Signature, signature
from types import FunctionType, MappingProxyType
from typing import Final

from windlass.json_types import is_sequence

#: One function for each entry point, with its options as parameters.
_LISTS: Final = "windlass.engine.keyword_lists"


class OptionSignature(Signature):
    """The signature of a function whose options are listed elsewhere, read when somebody looks."""

    __slots__ = ("_function", "_list")

    def __init__(self, function: Callable[..., object], option_list: str) -> None:
        self._function, self._list = function, option_list

    @property
    def parameters(self) -> MappingProxyType[str, Parameter]:
        """The parameters by name: those of the function, with its options in place of `**more`."""
        own = list(_signature_of(self._function).parameters.values())
        options = signature(getattr(import_module(_LISTS), self._list)).parameters
        before = [one for one in own if one.kind is not Parameter.VAR_KEYWORD]
        taken = {one.name for one in before}
        after = [one for name, one in options.items() if name not in taken]
        listed = [_with_plain_hint(one) for one in (*before, *after)]
        return Signature(listed).parameters

    @property
    def return_annotation(self) -> object:
        """What the function returns."""
        return _Hint(_signature_of(self._function).return_annotation)

    def replace(
        self,
        *,
        parameters: Sequence[Parameter] | type[object] | None = None,
        return_annotation: object = None,
    ) -> Signature:
        """Return a plain signature with other parameters or another result."""
        chosen = list(self.parameters.values()) if not is_sequence(parameters) else parameters
        result = return_annotation or self.return_annotation
        return Signature(chosen, return_annotation=result)

    def __reduce__(self) -> tuple[object, ...]:
        return OptionSignature, (self._function, self._list)


class _Hint(str):
    """An annotation that is shown as it is written, without quotes."""

    __slots__ = ()

    def __repr__(self) -> str:
        return str(self)


def show_options(function: Callable[..., object], option_list: str) -> None:
    """Let `help` and completion show the options that a function takes as `**more`."""
    vars(function)["__signature__"] = OptionSignature(function, option_list)


def show_method_options(owner: type, lists: Mapping[str, str]) -> None:
    """Let `help` and completion show the options that methods of a class take as `**options`."""
    for name, option_list in lists.items():
        show_options(vars(owner)[name], option_list)


def _with_plain_hint(parameter: Parameter) -> Parameter:
    hint = parameter.annotation
    return parameter.replace(annotation=_Hint(hint)) if isinstance(hint, str) else parameter


def _signature_of(function: Callable[..., object]) -> Signature:
    """Return the signature that a function is written with."""
    assert isinstance(function, FunctionType)
    plain = FunctionType(function.__code__, function.__globals__, function.__name__)
    plain.__defaults__, plain.__kwdefaults__ = function.__defaults__, function.__kwdefaults__
    plain.__annotations__ = function.__annotations__
    return signature(plain)
