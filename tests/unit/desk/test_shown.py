from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import pytest

from gandy.desk.audit import shown


@dataclass(frozen=True, slots=True, kw_only=True)
class Parcel:
    """What a person sees of a row."""

    id: int
    address: str
    weight: float = 1.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Tally:
    """A field that every row seems to have: tuples count."""

    id: int
    count: int


class ParcelRow(NamedTuple):
    id: int
    address: str
    weight: float
    place: int


class BareRow(NamedTuple):
    id: int
    address: str


ROW = ParcelRow(7, "Main Street", 2.5, 1)


def test_fields_are_filled_from_the_columns_of_their_names_and_other_columns_are_left() -> None:
    assert shown(Parcel, ROW) == Parcel(id=7, address="Main Street", weight=2.5)


def test_a_computed_value_stands_over_the_column() -> None:
    assert shown(Parcel, ROW, address="***") == Parcel(id=7, address="***", weight=2.5)
    assert shown(Parcel, ROW) == Parcel(id=7, address="Main Street", weight=2.5), "and only for that call"


def test_a_field_that_is_neither_a_column_nor_given_is_an_error_even_with_a_default() -> None:
    with pytest.raises(AttributeError, match="weight"):
        shown(Parcel, BareRow(7, "Main Street"))

    assert shown(Parcel, BareRow(7, "Main Street"), weight=3.0).weight == 3.0


def test_a_computed_value_without_a_field_is_an_error() -> None:
    with pytest.raises(TypeError, match="colour"):
        shown(Parcel, ROW, colour="red")


def test_a_method_of_the_row_is_not_taken_for_a_column() -> None:
    with pytest.raises(TypeError, match=r"Tally\.count has to be given"):
        shown(Tally, ROW)

    assert shown(Tally, ROW, count=3) == Tally(id=7, count=3)
