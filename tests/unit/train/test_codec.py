from __future__ import annotations

import json
import math
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from enum import Enum
from typing import Any
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import Base64Bytes, BaseModel, ConfigDict, Secret, SecretBytes, SecretStr, computed_field
from typing_extensions import TypedDict

from gandy.errors import PayloadError, PayloadTooLargeError
from gandy.model.layout import MASK, Layouts
from gandy.train.codec import PayloadCodec

JSON_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=20,
)


class Size(Enum):
    SMALL = "small"


class Address(BaseModel):
    street: str


@dataclass
class Order:
    number: int
    at: datetime
    on: date
    price: Decimal
    id: UUID
    size: Size
    took: timedelta
    weight: float
    to: Address
    notes: dict[str, list[int]] = field(default_factory=dict)


class Options(TypedDict):
    limit: int


class Sealed(BaseModel):
    word: SecretStr


class Login(BaseModel):
    user: str
    password: SecretStr
    keys: list[SecretBytes] = []
    pin: Secret[int] = Secret(1234)


ORDER = Order(
    number=1,
    at=datetime(2024, 1, 2, 3, 4, 5, 678901, tzinfo=UTC),
    on=date(2024, 1, 2),
    price=Decimal("9.90"),
    id=UUID(int=5),
    size=Size.SMALL,
    took=timedelta(seconds=90),
    weight=2,
    to=Address(street="Hafenweg"),
    notes={"a": [1, 2]},
)


def codec(declared: object) -> PayloadCodec[Any]:
    return PayloadCodec(declared, train="send_invoice", part="input")


@given(JSON_VALUES)
def test_plain_json_round_trips(value: object) -> None:
    plain = codec(Any)

    assert plain.decode(plain.encode(value)) == value


@given(JSON_VALUES)
def test_the_canonical_text_of_a_value_does_not_depend_on_its_order(value: object) -> None:
    def reversed_keys(part: object) -> object:
        if isinstance(part, dict):
            return {key: reversed_keys(part[key]) for key in reversed(part)}
        return [reversed_keys(item) for item in part] if isinstance(part, list) else part

    assert codec(Any).canonical(value) == codec(Any).canonical(reversed_keys(value))


@pytest.mark.parametrize(
    ("declared", "value"),
    [
        (Order, ORDER),
        (Address, Address(street="Hafenweg")),
        (Options, {"limit": 3}),
        (list[Address], [Address(street="a")]),
        (int | str, "7"),
        (Order | None, None),
        (type(None), None),
        (tuple[int, str], (1, "a")),
        (set[int], {1, 2}),
        (bytes, "größer".encode()),
        (Base64Bytes, b"aGVsbG8=\n"),
    ],
)
def test_values_of_declared_types_round_trip(declared: object, value: object) -> None:
    chosen = codec(declared)
    if declared is Base64Bytes:
        value = chosen.adapter.validate_python(value)

    assert chosen.decode(chosen.encode(value)) == value


@pytest.mark.parametrize(
    ("declared", "value", "problem"),
    [
        (Order, Address(street="x"), "instance of Order"),
        (Order, {"number": 1}, "instance of Order"),
        (Address, Order, "valid dictionary or instance of Address"),
        (int, "5", "valid integer"),
        (list[int], [1, "2"], "1: Input should be a valid integer"),
    ],
)
def test_a_value_of_another_type_is_refused_naming_the_train(
    declared: object, value: object, problem: str
) -> None:
    with pytest.raises(PayloadError, match=problem) as raised:
        codec(declared).encode(value)

    assert "the input of train send_invoice" in str(raised.value)


def test_a_wrong_field_of_a_dataclass_is_found_and_named() -> None:
    wrong = Order(**{**vars(ORDER), "number": "one"})

    with pytest.raises(PayloadError, match="number: Input should be a valid integer"):
        codec(Order).encode(wrong)


def test_a_stored_text_that_does_not_fit_names_every_field() -> None:
    with pytest.raises(PayloadError) as raised:
        codec(Login).decode('{"user": 3}')

    assert raised.value.problems == ("user: Input should be a valid string", "password: Field required")


def test_a_stored_text_that_is_no_json_is_refused() -> None:
    with pytest.raises(PayloadError, match="Invalid JSON"):
        codec(int).decode("{")


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
@pytest.mark.parametrize("declared", [float, float | None])
def test_numbers_without_a_json_form_are_refused_even_where_null_would_fit(
    declared: object, value: float
) -> None:
    with pytest.raises(PayloadError):
        codec(declared).encode(value)


def test_bytes_that_are_no_text_are_refused_with_a_way_out() -> None:
    with pytest.raises(PayloadError, match="Base64Bytes"):
        codec(bytes).encode(b"\xff\xfe")


def test_a_type_without_a_json_form_is_refused_when_it_is_compiled() -> None:
    class Socket: ...

    with pytest.raises(PayloadError, match="use a pydantic model, a dataclass or plain JSON types"):
        _ = codec(Socket).adapter


def test_a_payload_beyond_the_limit_is_refused_with_its_size() -> None:
    with pytest.raises(PayloadTooLargeError, match="at most 10 are stored") as raised:
        codec(str).encode("x" * 20, limit=10)

    assert (raised.value.size, raised.value.limit) == (22, 10)


def test_computed_fields_are_not_stored() -> None:
    class Square(BaseModel):
        model_config = ConfigDict(extra="forbid")
        side: int

        @computed_field  # type: ignore[prop-decorator]
        @property
        def area(self) -> int:
            return self.side**2

    assert codec(Square).encode(Square(side=2)) == '{"side":2}'


class TestSecrets:
    login = Login(user="ada", password=SecretStr("hunter22"), keys=[SecretBytes(b"key-one")])

    def test_are_stored_as_they_are_and_come_back(self) -> None:
        text = codec(Login).encode(self.login)

        assert json.loads(text) == {"user": "ada", "password": "hunter22", "keys": ["key-one"], "pin": 1234}
        assert codec(Login).decode(text) == self.login

    def test_are_masked_for_display(self) -> None:
        shown = Layouts([codec(Login).layout]).shown(codec(Login).encode(self.login))

        assert shown == {"user": "ada", "password": MASK, "keys": [MASK], "pin": MASK}

    @pytest.mark.parametrize(
        ("kind", "value"),
        [
            (Secret[Sealed], Secret(Sealed(word=SecretStr("hidden-word")))),
            (Secret[list[SecretStr]], Secret([SecretStr("hidden-word")])),
            (list[Secret[dict[str, SecretStr]]], [Secret({"a": SecretStr("hidden-word")})]),
        ],
    )
    def test_inside_of_secrets_are_kept(self, kind: Any, value: object) -> None:  # noqa: ANN401 a type
        codec = PayloadCodec[Any](kind, train="Open", part="input")

        text = codec.encode(value)

        assert codec.decode(text) == value
        assert "hidden-word" in text
        assert any("hidden-word" in secret for secret in codec.secrets(value))

    @pytest.mark.parametrize("kind", [Any, object, dict[str, Any], list[object]])
    def test_where_the_type_declares_none_are_refused(self, kind: Any) -> None:  # noqa: ANN401 a type
        secret = SecretStr("hidden-word")
        value = {"a": secret} if "dict" in str(kind) else [secret] if "list" in str(kind) else secret

        with pytest.raises(PayloadError, match="declare it as SecretStr"):
            PayloadCodec[Any](kind, train="Open", part="input").encode(value)

    def test_are_known_as_texts_to_mask(self) -> None:
        assert codec(Login).secrets(self.login) == ("hunter22", "key-one", "1234")
        assert codec(Order).secrets(ORDER) == ()

    def test_do_not_show_in_errors(self) -> None:
        with pytest.raises(PayloadError) as raised:
            codec(Login).decode('{"user": ["x"], "password": "hunter22", "pin": "no"}')

        assert "hunter22" not in str(raised.value)

    def test_a_text_that_does_not_decode_is_masked_whole(self) -> None:
        assert Layouts([codec(Login).layout]).shown('{"password": "hunter22"') == "*** (23 bytes)"

    def test_a_type_without_secrets_is_shown_as_it_is(self) -> None:
        assert not codec(Order).has_secrets
        assert Layouts([codec(Order).layout]).shown('{"a": 1}') == {"a": 1}

    def test_decide_the_canonical_text(self) -> None:
        other = self.login.model_copy(update={"password": SecretStr("other")})

        assert codec(Login).canonical(self.login) != codec(Login).canonical(other)


def test_equal_values_have_one_canonical_text() -> None:
    assert codec(Order).canonical(ORDER) == codec(Order).canonical(Order(**{**vars(ORDER), "weight": 2.0}))
    assert codec(set[str]).canonical({"b", "a", "c"}) == '["a","b","c"]'
    assert codec(dict[str, int]).canonical({"b": 1, "a": 2}) == '{"a":2,"b":1}'
