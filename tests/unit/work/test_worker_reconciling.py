"""What a worker has in the database and does not hold: a lost answer, or one that is still on its way."""

from __future__ import annotations

from typing import Any

from gandy.work.lease import LeaseComparison


class OpenClaims:
    """A claimer of which only the claims on their way matter."""

    def __init__(self) -> None:
        self.next_claim = 0
        self.open: list[int] = []

    def start(self) -> None:
        self.open.append(self.next_claim)
        self.next_claim += 1

    def end(self) -> None:
        self.open.pop(0)

    @property
    def oldest_open_claim(self) -> int:
        return min(self.open, default=self.next_claim)


def comparison(*claimers: OpenClaims) -> LeaseComparison:
    made: Any = claimers
    return LeaseComparison(made)


def test_a_run_that_no_claim_on_its_way_can_bring_is_unknown_at_once() -> None:
    assert comparison(OpenClaims()).compare([1, 2, 3], held={1}, running=[1]).unknown == (2, 3)


def test_what_a_claim_on_its_way_may_still_bring_is_left_alone_until_that_claim_is_back() -> None:
    claims = OpenClaims()
    compare = comparison(claims).compare
    claims.start()
    assert compare([1], held=set(), running=[]).unknown == ()

    claims.start()  # a later claim cannot bring what was there before it started
    assert compare([1], held=set(), running=[]).unknown == ()
    claims.end()
    assert compare([1], held=set(), running=[]).unknown == (1,)


def test_what_has_arrived_meanwhile_is_held_and_forgotten() -> None:
    claims = OpenClaims()
    compare = comparison(claims).compare
    claims.start()
    compare([1], held=set(), running=[])
    claims.end()

    assert compare([1], held={1}, running=[]).unknown == ()
    claims.start()
    assert compare([1], held=set(), running=[]).unknown == (), "missed again: another claim may bring it"


def test_the_claims_of_every_pool_count() -> None:
    here, apart = OpenClaims(), OpenClaims()
    compare = comparison(here, apart).compare
    apart.start()
    assert compare([1], held=set(), running=[]).unknown == ()
    apart.end()
    assert compare([1], held=set(), running=[]).unknown == (1,)


def test_a_running_run_is_gone_when_the_database_does_not_name_it_twice() -> None:
    compare = comparison(OpenClaims()).compare

    assert compare([], held={1, 2}, running=[1, 2]).gone == ()
    assert compare([2], held={1, 2}, running=[1, 2]).gone == (1,)
