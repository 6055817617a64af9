"""Many inputs are encoded as each alone would be, or not at all."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Annotated, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import (
    AfterValidator,
    BaseModel,
    ConfigDict,
    Field,
    PlainSerializer,
    SecretStr,
    SerializeAsAny,
    computed_field,
)
from typing_extensions import TypedDict

from gandy.errors import PayloadError
from gandy.model.layout import MASK
from gandy.train.codec import PayloadCodec


class Invoice(BaseModel):
    invoice: int
    customer: str
    note: str | None = None


class Seconds(BaseModel):
    model_config = ConfigDict(ser_json_timedelta="float", val_json_bytes="base64", ser_json_bytes="base64")

    took: timedelta
    raw: bytes = b"\xff"


class Named(BaseModel):
    number: int = Field(alias="no")

    @computed_field
    def double(self) -> int:
        return 2 * self.number


class Tree(BaseModel):
    name: str
    children: list[Tree] = []


class Base(BaseModel):
    name: str


class Wide(Base):
    size: int = 3


class Holder(BaseModel):
    item: SerializeAsAny[Base]


class Limits(TypedDict):
    limit: int


@dataclass
class Order:
    at: datetime
    tags: set[str] = field(default_factory=set)


class Positive(BaseModel):
    number: int = Field(gt=0)


class Sealed(BaseModel):
    word: SecretStr


class Stream(BaseModel):
    numbers: Iterable[int]


NOW = datetime(2026, 1, 5, tzinfo=UTC)
USUAL: list[tuple[Any, list[Any]]] = [
    (Invoice, [Invoice(invoice=n, customer=f"c-{n}", note="null" if n % 2 else None) for n in range(5)]),
    (Seconds, [Seconds(took=timedelta(seconds=n), raw=bytes([n, 255])) for n in range(3)]),
    (Named, [Named(no=n) for n in range(3)]),
    (Tree, [Tree(name="a", children=[Tree(name="b")]), Tree(name="c")]),
    (Holder, [Holder(item=Wide(name="w")), Holder(item=Base(name="b"))]),
    (Limits, [Limits(limit=n) for n in range(3)]),
    (Order, [Order(NOW, {"x"}), Order(NOW)]),
    (int | str, [1, "two", 3]),
    (float | None, [1.5, None]),
    (dict[str, Any], [{"a": [1, None, "é\x00"]}, {}]),
    (bytes, [b"one", b"two"]),
]


@pytest.mark.parametrize(("declared", "values"), USUAL, ids=lambda each: getattr(each, "__name__", None))
def test_each_text_is_the_one_of_its_value_alone(declared: Any, values: list[Any]) -> None:  # noqa: ANN401 - a type
    codec: PayloadCodec[Any] = PayloadCodec(declared, train="sync", part="input")

    assert codec.encode_together(values) == [codec.encode(value) for value in values]


@given(st.lists(st.dictionaries(st.text(), st.none() | st.integers() | st.text()), min_size=2))
def test_any_texts_stay_apart(values: list[dict[str, int | str | None]]) -> None:
    codec: PayloadCodec[Any] = PayloadCodec(dict[str, int | str | None], train="sync", part="input")
    try:
        alone = [codec.encode(value) for value in values]
    except PayloadError:
        alone = None

    assert codec.encode_together(values) == alone


def _explode(value: int) -> int:
    raise SystemExit(value)


UNUSUAL: list[tuple[Any, list[Any]]] = [
    (int, [1]),
    (None, [None, None]),
    (Invoice, [Invoice(invoice=1, customer="a"), Invoice.model_construct(invoice="x", customer="a")]),
    (Invoice, [Invoice(invoice=1, customer="a"), {"invoice": 1}]),
    (Positive, [Positive(number=1), Positive.model_construct(number=-1)]),
    (float, [1.0, float("nan")]),
    (dict[str, Any], [{"a": 1}, {"a": float("inf")}]),
    (Sealed, [Sealed(word=SecretStr("open")), Sealed(word=SecretStr("sesame"))]),
    (dict[str, Any], [{"a": 1}, {"a": SecretStr("sesame")}]),
    (str, ["a", MASK]),
    (Any, [1, object()]),
    (str, ["a", "\ud800"]),
    (Annotated[int, AfterValidator(_explode)], [1, 2]),
    (Annotated[int, PlainSerializer(_explode)], [1, 2]),
]


@pytest.mark.parametrize(("declared", "values"), UNUSUAL, ids=lambda each: getattr(each, "__name__", None))
def test_what_is_unusual_is_left_to_be_looked_at_one_by_one(declared: Any, values: list[Any]) -> None:  # noqa: ANN401 - a type
    codec: PayloadCodec[Any] = PayloadCodec(declared, train="sync", part="input")

    assert codec.encode_together(values) is None


def test_large_values_are_checked_alone() -> None:
    codec: PayloadCodec[str] = PayloadCodec(str, train="sync", part="input")

    assert codec.encode_together(["a" * 600_000, "b" * 600_000]) is None
    assert codec.encode_together(["a" * 60, "b" * 60], limit=100) is None


def test_a_value_that_can_be_read_once_is_stored_whole() -> None:
    codec: PayloadCodec[Stream] = PayloadCodec(Stream, train="sync", part="input")
    values = [Stream(numbers=iter([1, 2])), Stream(numbers=iter([3]))]

    assert codec.encode_together(values) == ['{"numbers":[1,2]}', '{"numbers":[3]}']


def test_an_interrupt_is_not_taken_for_an_unusual_value() -> None:
    def interrupt(_: int) -> int:
        raise KeyboardInterrupt

    codec: PayloadCodec[Any] = PayloadCodec(
        Annotated[int, AfterValidator(interrupt)], train="sync", part="input"
    )

    with pytest.raises(KeyboardInterrupt):
        codec.encode_together([1, 2])
