from __future__ import annotations

import copy
import importlib
import inspect
import pickle
import pkgutil
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from inspect import Parameter
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from gandy import errors
from gandy.errors import (
    DatabaseBusyError,
    DeclarationError,
    DuplicateDeclarationError,
    GandyError,
    JobTimeoutError,
    RowBusyError,
    RunNotFoundError,
    TokenMissingError,
    TrainDefinitionError,
)

if TYPE_CHECKING:
    from collections.abc import Callable

#: A value for each annotation of a parameter; braces and quotes must arrive unchanged in the text.
SAMPLES: dict[str, object] = {
    "str": "{a} 'word'",
    "str | None": "another",
    "int": 7,
    "int | None": 3,
    "tuple[str, ...]": ("one", "two"),
    "Sequence[str]": ["one", "two"],
    "Path": Path("folder/file.txt"),
    "tuple[Path, ...]": (Path("one"), Path("two")),
    "datetime": datetime(2026, 3, 1, 12, tzinfo=UTC),
    "timedelta": timedelta(seconds=5),
    "timedelta | str": timedelta(seconds=5),
    "tuple[SettingProblem, ...]": (errors.SettingProblem("gandy.toml", "key", None, "is unknown"),),
    "Sequence[ContractProblem]": [errors.ContractProblem(message="is unknown", table="orders")],
}


def errors_of_modules() -> list[type[GandyError]]:
    modules = [
        importlib.import_module(found.name)
        for found in pkgutil.iter_modules(errors.__path__, f"{errors.__name__}.")
    ]
    return [
        kind
        for module in modules
        for kind in vars(module).values()
        if isinstance(kind, type) and issubclass(kind, GandyError) and kind.__module__ == module.__name__
    ]


def sample(kind: type[GandyError]) -> GandyError:
    if not inspect.isfunction(kind.__init__):
        return kind("text")  # a base of others, which takes a text as every exception does
    positional: list[object] = []
    named: dict[str, object] = {}
    for parameter in inspect.signature(kind).parameters.values():
        if parameter.kind is Parameter.KEYWORD_ONLY:
            named[parameter.name] = SAMPLES[parameter.annotation]
        elif parameter.kind is Parameter.VAR_POSITIONAL:
            positional += ["one", "two"]
        elif parameter.kind is Parameter.POSITIONAL_OR_KEYWORD:
            positional.append(SAMPLES[parameter.annotation])
    make: Callable[..., GandyError] = kind
    return make(*positional, **named)


def pickled(error: GandyError) -> GandyError:
    restored = pickle.loads(pickle.dumps(error))  # noqa: S301 - written in the same line
    assert isinstance(restored, type(error))
    return restored


def seen(error: GandyError) -> tuple[object, ...]:
    return type(error), vars(error), error.args, str(error), repr(error), error.exit_code


def test_errors_are_found() -> None:
    assert len(errors_of_modules()) > 100


@pytest.mark.parametrize("kind", errors_of_modules())
def test_every_error_is_imported_from_the_package(kind: type[GandyError]) -> None:
    assert getattr(errors, kind.__name__) is kind


@pytest.mark.parametrize("make_again", [pickled, copy.copy, copy.deepcopy])
@pytest.mark.parametrize("kind", errors_of_modules())
def test_every_error_can_be_pickled_and_copied(
    kind: type[GandyError], make_again: Callable[[GandyError], GandyError]
) -> None:
    error = sample(kind)
    error.add_note("while testing")

    assert seen(make_again(error)) == seen(error)
    assert str(error)


def test_the_message_shows_the_fields_and_is_the_only_argument() -> None:
    error = RunNotFoundError(7)

    assert error.run_id == 7
    assert str(error) == "there is no run 7; `gandy runs list` shows the stored runs"
    assert error.args == (str(error),)
    assert repr(error) == f"RunNotFoundError({str(error)!r})"


def test_a_field_is_not_read_as_a_part_of_the_template() -> None:
    assert str(DatabaseBusyError("{problem!r} {0}")) == "the database is busy: {problem!r} {0}; try again"


def test_an_error_without_fields_takes_no_argument() -> None:
    make: Callable[..., GandyError] = TokenMissingError

    with pytest.raises(TypeError):
        make("text")


@pytest.mark.parametrize(
    ("kind", "arguments"),
    [
        (RunNotFoundError, ()),
        (TrainDefinitionError, ("train", "problem")),
        (DeclarationError, ("a", "b", "c")),
    ],
)
def test_a_wrong_argument_is_refused(kind: Callable[..., GandyError], arguments: tuple[str, ...]) -> None:
    with pytest.raises(TypeError):
        kind(*arguments)


def test_a_subclass_inherits_fields_and_message() -> None:
    busy, duplicate = RowBusyError("locked"), DuplicateDeclarationError("a", what="train", known=("a",))

    assert (busy.problem, str(busy)) == ("locked", "the database is busy: locked; try again")
    assert (duplicate.what, duplicate.known) == ("train", ("a",))
    assert str(duplicate) == "train 'a': it is already declared; declared so far: a"


def test_an_error_of_a_builtin_kind_is_caught_as_one() -> None:
    error = JobTimeoutError(7, "Close", waited=timedelta(seconds=5), state="queued")

    assert isinstance(error, TimeoutError)
    assert str(error) == "job 7 (Close) is still queued after 0:00:05; it continues"
    assert (error.errno, error.strerror) == (None, None)


class PaymentError(GandyError):
    """Of an application, with a text only."""


class CardError(GandyError):
    """Of an application, with a constructor of its own."""

    code: int

    def __init__(self, code: int, *, bank: str) -> None:
        super().__init__(f"{bank} refused with {code}")
        self.code = code


@dataclass(eq=False)
class RefundError(GandyError):
    """Of an application, as a dataclass."""

    code: int


@pytest.mark.parametrize(
    ("error", "text"),
    [
        (PaymentError("no money"), "no money"),
        (PaymentError("no money", 3), "('no money', 3)"),
        (CardError(5, bank="A {bank}"), "A {bank} refused with 5"),
        (RefundError(5), "5"),
    ],
)
def test_applications_derive_errors_as_from_any_exception(error: GandyError, text: str) -> None:
    assert str(error) == text
    assert error.exit_code == 1
    assert seen(pickled(error)) == seen(error)
