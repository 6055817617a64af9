"""Break a running program: functions get the code that their module would have with a mistake in it."""

from __future__ import annotations

import importlib
import sys
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from types import CodeType, FunctionType, ModuleType
from typing import TYPE_CHECKING, Any

from tests.support.replacing import SOURCE, TrialError, replaced

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator


@dataclass(frozen=True, slots=True)
class Piece:
    """A piece of one file that is replaced."""

    file: str  #: below src/gandy
    old: str
    new: str


@contextmanager
def switched_off(pieces: Iterable[Piece]) -> Iterator[None]:
    """Make all these mistakes in this process, and take them back."""
    with ExitStack() as stack:
        for piece in pieces:
            stack.enter_context(_broken(piece))
        yield


@contextmanager
def _broken(piece: Piece) -> Iterator[None]:
    module = importlib.import_module("gandy." + piece.file.removesuffix(".py").replace("/", "."))
    text = (SOURCE / piece.file).read_text(encoding="utf-8")
    mistaken = replaced(text, piece.old, piece.new, file=piece.file)
    changed = _changed(_codes(text, piece.file), _codes(mistaken, piece.file))
    before = {
        function: function.__code__
        for function in _functions(module)
        if function.__code__.co_qualname in changed
    }
    if not before:
        raise TrialError(f"no function of {piece.file} is changed by {piece.new!r}")
    try:
        for function in before:
            function.__code__ = changed[function.__code__.co_qualname]
        _forget(module.__package__ or "")
        yield
    finally:
        for function, code in before.items():
            function.__code__ = code
        _forget(module.__package__ or "")


def _codes(text: str, file: str) -> dict[str, CodeType]:
    """The code of every function that a module defines, by its qualified name."""

    def below(code: CodeType) -> Iterator[CodeType]:
        for each in code.co_consts:
            if isinstance(each, CodeType):
                yield each
                if "<locals>" not in each.co_qualname:
                    yield from below(each)

    return {code.co_qualname: code for code in below(compile(text, file, "exec"))}


def _changed(before: dict[str, CodeType], after: dict[str, CodeType]) -> dict[str, CodeType]:
    return {name: code for name, code in after.items() if _meaning(before[name]) != _meaning(code)}


def _meaning(code: CodeType) -> tuple[Any, ...]:
    """What a function does, wherever it stands."""
    values = [_meaning(each) if isinstance(each, CodeType) else each for each in code.co_consts]
    return code.co_code, repr(values), code.co_names, code.co_varnames


def _functions(module: ModuleType) -> Iterator[FunctionType]:
    """The functions and methods of a module, without what wraps them."""
    for thing in vars(module).values():
        if getattr(thing, "__module__", None) == module.__name__:
            if isinstance(thing, type):
                for member in vars(thing).values():
                    yield from _unwrapped(member)
            else:
                yield from _unwrapped(thing)


def _unwrapped(thing: object) -> Iterator[FunctionType]:
    for name in ("fget", "func", "__func__", "__wrapped__"):
        if (inner := getattr(thing, name, None)) is not None:
            yield from _unwrapped(inner)
            return
    if isinstance(thing, FunctionType):
        yield thing


def _forget(package: str) -> None:
    """Empty the caches of a package: they hold what its functions did before."""
    loaded = [(name, module) for name, module in sys.modules.items() if name.rpartition(".")[0] == package]
    for name, thing in ((name, thing) for name, module in loaded for thing in vars(module).values()):
        forget = getattr(thing, "cache_clear", None)
        if callable(forget) and thing.__module__ == name:
            forget()
