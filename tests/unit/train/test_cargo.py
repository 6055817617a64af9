from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any, List, NamedTuple, NewType, Optional  # noqa: UP035

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gandy.errors import JunctionSignatureError, MissingCargoError
from gandy.model.run import Failed
from gandy.train.base import Train
from gandy.train.route import can_be_provided, key_of, parts_of, stands_for, type_name, union_of

UserId = NewType("UserId", int)
Name = NewType("Name", str)


class Animal: ...


class Dog(Animal): ...


TYPES: list[Any] = [int, str, Animal, Dog, UserId, list[int], dict[str, int], tuple[int, ...], type(None)]
types = st.recursive(
    st.sampled_from(TYPES),
    lambda inner: st.one_of(
        inner.map(lambda member: list[member]),  # type: ignore[valid-type]
        st.lists(inner, min_size=2, max_size=3).map(lambda members: union_of(tuple(members))),
        inner.map(lambda member: Annotated[member, "note"]),
    ),
    max_leaves=6,
)


@given(types)
def test_a_key_is_its_own_key_and_stands_for_itself(hint: object) -> None:
    key = key_of(hint)

    assert key_of(key) == key
    assert hash(key_of(key)) == hash(key)
    assert stands_for(key, key)


@given(types, types)
def test_a_type_stands_for_every_union_that_holds_it(one: object, other: object) -> None:
    union = union_of((key_of(one), key_of(other)))

    assert stands_for(key_of(one), union)
    assert stands_for(key_of(other), union)


@given(types)
def test_everything_has_a_name_without_modules(hint: object) -> None:
    name = type_name(key_of(hint))

    assert name
    assert "test_cargo" not in name
    assert "typing." not in name


@pytest.mark.parametrize(
    ("hint", "key"),
    [
        (List[int], list[int]),  # noqa: UP006
        (Optional[int], int | None),  # noqa: UP045
        (Annotated[int, "cents"], int),
        (list[Annotated[int, "cents"]], list[int]),
        (None, type(None)),
        (UserId, UserId),
    ],
)
def test_one_type_written_differently_is_one_key(hint: object, key: object) -> None:
    assert key_of(hint) == key


@pytest.mark.parametrize(
    ("source", "target", "fits"),
    [
        (Dog, Animal, True),
        (Animal, Dog, False),
        (UserId, int, True),
        (int, UserId, False),
        (Dog, Animal | None, True),
        (Dog | None, Animal, False),
        (Dog | None, Animal | None, True),
        (list[int], list, True),
        (list[int], Sequence[int], True),
        (list[Dog], list[Animal], False),
        (Dog, object, False),
        (Dog, Any, False),
    ],
)
def test_what_may_stand_for_what(source: object, target: object, fits: bool) -> None:
    assert stands_for(key_of(source), key_of(target)) is fits


@pytest.mark.parametrize(
    "hint", [int, str, list[int], dict[str, int], int | None, Any, object, tuple[int, str]]
)
def test_plain_data_cannot_be_provided(hint: object) -> None:
    assert not can_be_provided(key_of(hint))


@pytest.mark.parametrize("hint", [Animal, UserId])
def test_a_class_of_its_own_can_be_provided(hint: object) -> None:
    assert can_be_provided(key_of(hint))


def test_tuples_whose_elements_cannot_be_told_apart_are_carried_whole() -> None:
    assert parts_of(tuple[int, str]) == (int, str)
    assert parts_of(tuple[int, int]) == ()
    assert parts_of(tuple[int, ...]) == ()


async def test_a_tuple_is_stored_by_element_and_can_be_taken_as_a_tuple_again() -> None:
    def split(text: str) -> tuple[UserId, Name]:
        number, name = text.split()
        return UserId(int(number)), Name(name)

    def greet(name: Name) -> list[str]:
        return [f"hello {name}"]

    def join(pair: tuple[Name, UserId], greetings: list[str]) -> dict[str, int]:
        return {f"{greetings[0]} ({pair[0]})": pair[1]}

    class Greeting(Train[str, dict[str, int]]):
        route = (split, greet, join)

    assert await Greeting.run("7 ada") == {"hello ada (ada)": 7}


async def test_a_tuple_taken_again_holds_the_latest_value_of_each_element() -> None:
    def first(number: int) -> tuple[UserId, Name]:
        return UserId(number), Name("old")

    def rename(name: Name) -> Name:
        return Name(f"not {name}")

    def both(pair: tuple[UserId, Name]) -> str:
        return f"{pair[0]} {pair[1]}"

    class Renaming(Train[int, str]):
        route = (first, rename, both)

    assert await Renaming.run(1) == "1 not old"


async def test_a_tuple_of_one_type_is_carried_whole() -> None:
    def twice(number: int) -> tuple[int, int]:
        return number, number + 1

    def add(pair: tuple[int, int]) -> str:
        return str(sum(pair))

    class Adding(Train[int, str]):
        route = (twice, add)

    assert await Adding.run(2) == "5"


async def test_nested_tuples_are_laid_out_and_put_together_again() -> None:
    def split(number: int) -> tuple[UserId, tuple[Name, bytes]]:
        return UserId(number), (Name("ada"), b"key")

    def check(name: Name, whole: tuple[UserId, tuple[Name, bytes]]) -> str:
        return f"{name} {whole}"

    class Nesting(Train[int, str]):
        route = (split, check)

    assert await Nesting.run(1) == "ada (1, ('ada', b'key'))"


async def test_an_input_that_is_a_tuple_is_laid_out_too() -> None:
    def name_only(name: Name) -> str:
        return name.upper()

    class Upper(Train[tuple[UserId, Name], str]):
        route = (name_only,)

    assert await Upper.run((UserId(1), Name("ada"))) == "ADA"
    assert [timing.junction for timing in (await Upper.outcome((UserId(1), Name("a")))).timings] == [
        "name_only"
    ]


async def test_a_junction_that_returns_another_tuple_than_it_declares_fails() -> None:
    def wrong(number: int) -> tuple[UserId, Name]:
        return (number,)  # type: ignore[return-value]

    class Wrong(Train[int, Name]):
        route = (wrong,)

    outcome = await Wrong.outcome(1)

    assert isinstance(outcome, Failed)
    assert isinstance(outcome.exception, JunctionSignatureError)
    assert "a tuple of 2" in outcome.reason


async def test_a_named_tuple_is_one_value() -> None:
    class Point(NamedTuple):
        x: int
        y: int

    def make(number: int) -> Point:
        return Point(number, number)

    def show(point: Point) -> str:
        return f"{point.x},{point.y}"

    class Showing(Train[int, str]):
        route = (make, show)

    assert await Showing.run(3) == "3,3"


async def test_the_exact_type_is_preferred_to_a_later_one_that_could_stand_for_it() -> None:
    def make_animal(number: int) -> Animal:
        return Animal()

    def make_dog(number: int) -> Dog:
        return Dog()

    def name(animal: Animal) -> str:
        return type(animal).__name__

    class Exact(Train[int, str]):
        route = (make_animal, make_dog, name)

    class OnlyDog(Train[int, str]):
        route = (make_dog, name)

    assert await Exact.run(1) == "Animal"
    assert await OnlyDog.run(1) == "Dog"


async def test_a_later_value_of_a_type_hides_the_earlier_one() -> None:
    def add_one(number: int) -> int:
        return number + 1

    def show(number: int) -> str:
        return str(number)

    class Counting(Train[int, str]):
        route = (add_one, add_one, show)

    assert await Counting.run(1) == "3"


async def test_an_optional_result_is_taken_as_optional_and_not_as_the_bare_type() -> None:
    def find(number: int) -> Name | None:
        return None

    def use(name: Name | None) -> str:
        return name or "nobody"

    class Finding(Train[int, str]):
        route = (find, use)

    assert await Finding.run(1) == "nobody"

    def insist(names: list[Name]) -> str:
        return names[0]

    with pytest.raises(MissingCargoError, match=r"needs list\[Name\] .*available: int, .*Name"):

        class Insisting(Train[int, str]):
            route = (find, insist)


async def test_a_parameter_that_nothing_fills_takes_its_default() -> None:
    def shout(text: str, times: int = 2, *, mark: bytes = b"!") -> list[str]:
        return [text.upper() + mark.decode() * times]

    class Shouting(Train[str, list[str]]):
        route = (shout,)

    assert await Shouting.run("a") == ["A!!"]
