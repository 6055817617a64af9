from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from typing import Any, Generic, TypeVar

import pytest

from gandy.errors import (
    JunctionSignatureError,
    MissingCargoError,
    MissingOutputError,
    MissingProvidedError,
    TrainDefinitionError,
)
from gandy.model.run import Failed
from gandy.train.base import Train
from gandy.train.failure import End
from gandy.train.run import Run


@dataclass
class Month:
    number: int


@dataclass
class Invoices:
    total: int


@dataclass
class Report:
    text: str


class Mailer: ...


def load_invoices(month: Month) -> Invoices:
    return Invoices(month.number * 10)


async def write_report(invoices: Invoices) -> Report:
    return Report(f"total {invoices.total}")


async def test_a_train_carries_its_input_through_its_junctions() -> None:
    class CloseMonth(Train[Month, Report]):
        route = (load_invoices, write_report)

    assert await CloseMonth.run(Month(3)) == Report("total 30")


def test_a_type_that_nothing_produces_is_refused_with_junction_type_and_what_is_available() -> None:
    def count(lines: list[str]) -> Report:
        return Report(str(len(lines)))

    with pytest.raises(MissingCargoError) as raised:

        class Counting(Train[Month, Report]):
            route = (load_invoices, count)

    error = raised.value
    assert (error.train, error.junction, error.missing) == ("Counting", "count", "list[str]")
    assert error.available == ("Month", "Invoices")
    for word in ("Counting", "count", "list[str]", "Month, Invoices"):
        assert word in str(error)


def test_a_type_that_only_a_later_junction_makes_is_refused_naming_that_junction() -> None:
    with pytest.raises(MissingCargoError, match="move load_invoices before write_report") as raised:

        class Backwards(Train[Month, Report]):
            route = (write_report, load_invoices)

    assert raised.value.made_later_by == "load_invoices"


def test_an_output_that_no_junction_makes_is_refused() -> None:
    with pytest.raises(MissingOutputError, match="Report") as raised:

        class Unfinished(Train[Month, Report]):
            route = (load_invoices,)

    assert raised.value.available == ("Month", "Invoices")
    assert raised.value.junction == "load_invoices"


async def test_an_unknown_class_may_be_provided_and_is_missed_only_when_the_train_runs() -> None:
    async def send(report: Report, mailer: Mailer) -> None: ...

    class Sending(Train[Report, None]):
        route = (send,)

    assert [need.key for need in Sending.definition.required] == [Mailer]
    with pytest.raises(MissingProvidedError, match=r"junction send needs Mailer .*available there: Report"):
        await Sending.run(Report("x"))
    outcome = await Sending.outcome(Report("x"))
    assert isinstance(outcome, Failed)
    assert outcome.junction == "send"
    await Sending.run(Report("x"), provide={Mailer: Mailer()})


def test_a_parameter_without_annotation_is_refused() -> None:
    def nameless(month) -> Report:  # type: ignore[no-untyped-def]  # noqa: ANN001
        return Report(str(month))

    with pytest.raises(JunctionSignatureError, match="nameless: parameter 'month' has no annotation"):

        class Nameless(Train[Month, Report]):
            route = (nameless,)


def test_a_result_without_annotation_is_refused() -> None:
    def silent(month: Month):  # type: ignore[no-untyped-def]  # noqa: ANN202
        return month

    with pytest.raises(JunctionSignatureError, match="silent: its result has no annotation"):

        class Silent(Train[Month, Report]):
            route = (silent,)


def test_an_annotation_that_cannot_be_resolved_is_refused_by_name() -> None:
    def load(month: Nowhere) -> Report:  # type: ignore[name-defined]  # noqa: F821
        return Report(str(month))

    with pytest.raises(JunctionSignatureError, match="'Nowhere' cannot be resolved"):

        class Lost(Train[Month, Report]):
            route = (load,)


def test_parameters_that_take_anything_are_refused() -> None:
    def greedy(*months: Month) -> Report:
        return Report(str(months))

    with pytest.raises(JunctionSignatureError, match=r"\*months: .*takes anything"):

        class Greedy(Train[Month, Report]):
            route = (greedy,)


@pytest.mark.parametrize("step", [42, "load_invoices", None])
def test_a_step_that_cannot_be_called_is_refused(step: object) -> None:
    with pytest.raises(JunctionSignatureError, match="cannot be called"):
        type("Odd", (Train,), {"route": (step,), "__orig_bases__": (Train[Month, Report],)})


def test_an_empty_route_is_refused() -> None:
    with pytest.raises(TrainDefinitionError, match="route is empty"):

        class Empty(Train[Month, Report]):
            route = ()


def test_a_train_that_declares_no_types_is_refused() -> None:
    with pytest.raises(TrainDefinitionError, match=r"Train\[Input, Output\]"):

        class Untyped(Train):  # type: ignore[type-arg]
            route = (load_invoices,)


def test_ending_early_with_another_type_than_the_output_is_refused() -> None:
    def decide(month: Month) -> Invoices | End[Month]:
        return End(month)

    with pytest.raises(JunctionSignatureError, match="decide: it ends Deciding with Month"):

        class Deciding(Train[Month, Report]):
            route = (decide, write_report)


@pytest.mark.parametrize(
    ("option", "value", "problem"),
    [
        ("priority", 32, "priority must be a whole number from 0 to 31, not 32"),
        ("timeout", 30, "timeout must be a duration from 1us to 3650d, or none, not 30"),
        ("retry_delay", timedelta(-1), "retry_delay must be a duration from 0s to 3650d, not -1d"),
        ("max_retries", -1, "max_retries must be a whole number from 0 to 2147483647, not -1"),
        ("group", " ", "group must be 1 to 200 characters"),
    ],
)
def test_an_option_out_of_range_is_refused(option: str, value: object, problem: str) -> None:
    body = {"route": (load_invoices, write_report), "__orig_bases__": (Train[Month, Report],), option: value}

    with pytest.raises(TrainDefinitionError, match=problem):
        type("Optional", (Train,), body)


def test_options_are_class_attributes_and_are_inherited_but_the_name_is_not() -> None:
    class Base(Train[Month, Report]):
        name = "base"
        group = "etl"
        timeout = timedelta(minutes=1)
        route = (load_invoices, write_report)

    class Derived(Base):
        priority = 7

    assert Base.definition.name == "base"
    assert Derived.definition.name == "Derived"
    assert Derived.definition.options.group == "etl"
    assert Derived.definition.options.timeout == timedelta(minutes=1)
    assert Derived.definition.options.priority == 7


Item = TypeVar("Item")


async def test_types_are_found_through_generic_bases() -> None:
    class Describing(Train[Item, Report], Generic[Item]):
        pass

    async def describe(month: Month) -> Report:
        return Report(f"month {month.number}")

    class DescribeMonth(Describing[Month]):
        route = (describe,)

    assert DescribeMonth.definition.plan.input_key is Month
    assert await DescribeMonth.run(Month(2)) == Report("month 2")


async def test_a_train_without_input_is_run_without_one() -> None:
    async def tick(run: Run) -> str:
        return run.train

    class Nightly(Train[None, str]):
        route = (tick,)

    assert not Nightly.definition.takes_input
    assert await Nightly.run() == "Nightly"


def test_a_train_is_not_instantiated() -> None:
    class CloseMonth(Train[Month, Report]):
        route = (load_invoices, write_report)

    make: Any = CloseMonth
    with pytest.raises(TrainDefinitionError, match=r"call \.run"):
        make(None)
