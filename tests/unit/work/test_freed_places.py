"""Whose claim joins the end of a run under a cap."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from gandy.work.pool import OTHERS_FIRST, FreedPlaces


def pool(name: str, *, is_free: bool = True) -> Any:  # noqa: ANN401 - stands for a Pool
    claimer = SimpleNamespace(join_end=lambda: name if is_free else None)
    return SimpleNamespace(trains=frozenset({name}), claimer=claimer)


def test_a_place_is_filled_by_the_pool_of_the_train_that_frees_it() -> None:
    places: Any = FreedPlaces([pool("async"), pool("process")])

    assert [places.join("process"), places.join("async")] == [["process"], ["async"]]


def test_now_and_then_the_other_pool_has_the_first_choice() -> None:
    places: Any = FreedPlaces([pool("async"), pool("process")])

    joined = [places.join("process") for _ in range(2 * OTHERS_FIRST)]

    turns = [["process"]] * (OTHERS_FIRST - 1) + [["async", "process"]]
    assert joined == turns * 2


def test_a_pool_without_a_free_slot_claims_nothing() -> None:
    places = FreedPlaces([pool("async", is_free=False), pool("process", is_free=False)])

    assert [places.join("process") for _ in range(OTHERS_FIRST)] == [[]] * OTHERS_FIRST
