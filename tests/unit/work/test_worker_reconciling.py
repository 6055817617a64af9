"""What a worker has in the database and does not hold: a lost answer, or one that is still on its way."""

from __future__ import annotations

from typing import Any

from gandy.work.lease import LeaseComparison


class Flights:
    """A claimer of which only the claims on their way matter."""

    def __init__(self) -> None:
        self.next_flight = 0
        self.flying: list[int] = []

    def depart(self) -> None:
        self.flying.append(self.next_flight)
        self.next_flight += 1

    def arrive(self) -> None:
        self.flying.pop(0)

    @property
    def oldest_flight(self) -> int:
        return min(self.flying, default=self.next_flight)


def comparison(*claimers: Flights) -> LeaseComparison:
    made: Any = claimers
    return LeaseComparison(made)


def test_a_run_that_no_claim_on_its_way_can_bring_is_unknown_at_once() -> None:
    assert comparison(Flights()).compare([1, 2, 3], held={1}, running=[1]).unknown == (2, 3)


def test_what_a_claim_on_its_way_may_still_bring_is_left_alone_until_that_claim_is_back() -> None:
    flights = Flights()
    compare = comparison(flights).compare
    flights.depart()
    assert compare([1], held=set(), running=[]).unknown == ()

    flights.depart()  # a later claim cannot bring what was there before it set out
    assert compare([1], held=set(), running=[]).unknown == ()
    flights.arrive()
    assert compare([1], held=set(), running=[]).unknown == (1,)


def test_what_has_arrived_meanwhile_is_held_and_forgotten() -> None:
    flights = Flights()
    compare = comparison(flights).compare
    flights.depart()
    compare([1], held=set(), running=[])
    flights.arrive()

    assert compare([1], held={1}, running=[]).unknown == ()
    flights.depart()
    assert compare([1], held=set(), running=[]).unknown == (), "missed again: another claim may bring it"


def test_the_claims_of_every_pool_count() -> None:
    here, apart = Flights(), Flights()
    compare = comparison(here, apart).compare
    apart.depart()
    assert compare([1], held=set(), running=[]).unknown == ()
    apart.arrive()
    assert compare([1], held=set(), running=[]).unknown == (1,)


def test_a_running_run_is_gone_when_the_database_does_not_name_it_twice() -> None:
    compare = comparison(Flights()).compare

    assert compare([], held={1, 2}, running=[1, 2]).gone == ()
    assert compare([2], held={1, 2}, running=[1, 2]).gone == (1,)
