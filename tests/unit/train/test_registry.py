from __future__ import annotations

from dataclasses import dataclass

import pytest

from gandy.errors import DuplicateTrainError, MissingProvidedError, PayloadError, UnknownTrainError
from gandy.train.base import Train
from gandy.train.definition import define_function
from gandy.train.registry import Registry


@dataclass
class Invoice:
    number: int


class Mailer: ...


async def send_invoice(invoice: Invoice, mailer: Mailer) -> str:
    return str(invoice.number)


class CloseMonth(Train[Invoice, str]):
    route = (send_invoice,)


@pytest.fixture
def registry() -> Registry:
    registry = Registry()
    registry.add(define_function(send_invoice))
    registry.add(CloseMonth.definition)
    return registry


def test_trains_are_found_by_name_by_function_and_by_class(registry: Registry) -> None:
    assert registry.names == ("CloseMonth", "send_invoice")
    assert registry.get("send_invoice") is registry.resolve(send_invoice) is registry.resolve("send_invoice")
    assert registry.resolve(CloseMonth) is CloseMonth.definition
    assert "CloseMonth" in registry
    assert len(registry) == 2


def test_two_trains_of_one_name_are_refused_naming_both_places(registry: Registry) -> None:
    async def other(invoice: Invoice) -> None: ...

    with pytest.raises(DuplicateTrainError) as raised:
        registry.add(define_function(other, name="send_invoice"))

    assert raised.value.first.startswith("tests.unit.train.test_registry.send_invoice (line ")
    assert "other (line " in raised.value.second


def test_an_unknown_name_lists_what_exists_and_what_is_close(registry: Registry) -> None:
    with pytest.raises(UnknownTrainError, match="did you mean send_invoice") as raised:
        registry.get("send_invoise")

    assert raised.value.known == ("CloseMonth", "send_invoice")
    with pytest.raises(UnknownTrainError, match="Known trains: CloseMonth, send_invoice"):
        registry.get("zzz")


def test_a_function_that_was_not_registered_is_refused(registry: Registry) -> None:
    async def forgotten(invoice: Invoice) -> None: ...

    with pytest.raises(UnknownTrainError, match=r"@app\.train"):
        registry.resolve(forgotten)


def test_a_train_whose_input_has_no_json_form_is_refused_when_registered() -> None:
    async def odd(mailer: Mailer) -> None: ...

    with pytest.raises(PayloadError, match="the input of train odd"):
        Registry().add(define_function(odd))


def test_every_missing_provided_value_is_named_at_once(registry: Registry) -> None:
    with pytest.raises(MissingProvidedError) as raised:
        registry.check_provided({})

    assert len(raised.value.missing) == 2
    assert "train send_invoice: junction send_invoice needs Mailer" in str(raised.value)
    assert "train CloseMonth: junction send_invoice needs Mailer" in str(raised.value)
    registry.check_provided({Mailer: Mailer()})
