"""Dependents of every kind, made at every door, after every end of their parents, on every database."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING, Any, Final

import pytest

from gandy import Days, Gandy
from gandy.errors import DeclarationError, OverrideError, TriggerInputMissingError
from tests.doors.calls import client_of
from tests.doors.neighbours import TOKEN, rows
from tests.support.worlds import migrated_url

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["migrated_url"]


@dataclass
class Order:
    """What a parent is asked to do, and what it passes on."""

    number: int
    fails: bool = False


ran: list[tuple[str, int]] = []


def sell(order: Order) -> Order:
    if order.fails:
        raise ValueError("sold out")
    return Order(order.number + 100)


def follow(order: Order) -> None:
    ran.append(("passed" if order.number > 100 else "told", order.number))


def count(n: int) -> None:
    ran.append(("counted", n))


#: Each dependent: its id, its place, and its input, which tells in `ran` which one ran.
DEPENDENTS: Final[Mapping[str, tuple[dict[str, Any], int | None]]] = {
    "on-success": ({"after": "one"}, 1),
    "on-failure": ({"after": "one", "on": "failure"}, 2),
    "on-end": ({"after": "one", "on": "end"}, 3),
    "both": ({"after": ["one", "two"]}, 4),
    "both-failed": ({"after": ["one", "two"], "on": "failure"}, 5),
    "both-ended": ({"after": ["one", "two"], "on": "end"}, 6),
    "passed": ({"after": "one", "pass_output": True}, None),
}


def shop(url: str) -> Gandy:
    app = Gandy("shop", database=url, worker={"slots": 4}, web={"token": TOKEN})
    for function in (sell, follow, count):
        app.train(function)
    for name in ("one", "two"):
        app.schedule(name, sell, Order(1), retry=False)
    return app


def declare(app: Gandy) -> None:
    for name, (place, number) in DEPENDENTS.items():
        if number is None:
            app.schedule(name, follow, **place)
        else:
            app.schedule(name, count, number, **place)


async def by_add_schedule(app: Gandy) -> None:
    for name, (place, number) in DEPENDENTS.items():
        if number is None:
            await app.add_schedule(name, follow, **place)
        else:
            await app.add_schedule(name, count, number, **place)


async def by_verb(app: Gandy) -> None:
    for name, (place, number) in DEPENDENTS.items():
        given = place if number is None else {"input": number, **place}
        await app.manifests.add(name, "follow" if number is None else "count", **given)


async def by_rest(app: Gandy) -> None:
    async with client_of(app) as client:
        for name, (place, number) in DEPENDENTS.items():
            given = {} if number is None else {"input": number}
            train = "follow" if number is None else "count"
            body = {"external_id": name, "train": train, **given, **place}
            answer = await client.post("/api/v1/manifests", json=body)
            assert answer.status_code in {200, 201}, answer.text


#: How the parents end, and the dependents that run after that, by what they leave in `ran`.
LIVES: Final[Mapping[str, tuple[list[tuple[str, Order]], list[tuple[str, int]]]]] = {
    "one succeeds": ([("one", Order(1))], [("counted", 1), ("counted", 3), ("passed", 101)]),
    "one fails": ([("one", Order(1, fails=True))], [("counted", 2), ("counted", 3)]),
    "both succeed": (
        [("one", Order(1)), ("two", Order(2))],
        [("counted", 1), ("counted", 3), ("counted", 4), ("counted", 6), ("passed", 101)],
    ),
    "both fail": (
        [("one", Order(1, fails=True)), ("two", Order(2, fails=True))],
        [("counted", 2), ("counted", 3), ("counted", 5), ("counted", 6)],
    ),
    "one succeeds, the other fails": (
        [("one", Order(7)), ("two", Order(2, fails=True))],
        [("counted", 1), ("counted", 3), ("counted", 6), ("passed", 107)],
    ),
}


async def work(app: Gandy) -> list[tuple[str, int]]:
    """Run all that may run, dependents too, and return what they did."""
    ran.clear()
    await app.work(asyncio.Event(), until_idle=True)
    await app.tick("manifest-manager")
    await app.work(asyncio.Event(), until_idle=True)
    return sorted(ran)


async def test_every_door_makes_the_same_edges(migrated_url: str) -> None:
    app = shop(migrated_url)
    declare(app)
    async with app:
        await app.seed()
        declared = edges(migrated_url)
    assert len(declared) == 10
    async with shop(migrated_url) as app:
        await app.seed()
        for make in (by_add_schedule, by_verb, by_rest):
            for name in DEPENDENTS:
                assert await app.manifests.delete(name)
            assert edges(migrated_url) == []
            await make(app)
            assert edges(migrated_url) == declared, make.__name__


def edges(url: str) -> list[dict[str, Any]]:
    return rows(
        url,
        "SELECT c.external_id AS child, p.external_id AS parent, e.kind, e.place, e.seen, "
        "CASE WHEN e.is_output_passed THEN 1 ELSE 0 END AS is_passed, CAST(c.properties AS text) AS input "
        "FROM manifest_edge e JOIN manifest c ON c.id = e.child_id JOIN manifest p ON p.id = e.parent_id "
        "ORDER BY 1, 2",
    )


async def test_dependents_run_after_the_ends_that_they_follow(migrated_url: str) -> None:
    app = shop(migrated_url)
    declare(app)
    async with app:
        await app.seed()
        for said, (ends, followed) in LIVES.items():
            for order in (Order(0), Order(0, fails=True)):  # then no end of an earlier life is pending
                for name in ("one", "two"):
                    await app.trigger(name, input=order)
                await work(app)
            for name, order in ends:
                await app.trigger(name, input=order)
            assert await work(app) == followed, said
            assert await work(app) == [], said


async def test_the_output_must_fit_at_run_time_too(migrated_url: str) -> None:
    app = shop(migrated_url)
    async with app:
        await app.seed()
        with pytest.raises(DeclarationError, match="train sell gives Order, and train count takes int"):
            await app.add_schedule("bad", count, after="one", pass_output=True)
        with pytest.raises(DeclarationError, match="leave out pass_output"):
            await app.manifests.add("bad", "count", after="one", pass_output=True)

        await app.add_schedule("good", follow, after="one", pass_output=True)
        with pytest.raises(TriggerInputMissingError):
            await app.trigger("good")
        await app.trigger("good", input=Order(50))
        assert await work(app) == [("told", 50)]


OF_INSTANTS: Final[Mapping[str, Any]] = {
    "exclude": [Days.on("sat")],
    "variance": timedelta(minutes=5),
    "misfire": "catch_up",
    "misfire_threshold": timedelta(minutes=5),
}


@pytest.mark.parametrize("dormant", [False, True], ids=["dependent", "dormant"])
@pytest.mark.parametrize("option", OF_INSTANTS)
async def test_an_option_of_instants_has_no_place_on_a_dependent(
    migrated_url: str, option: str, dormant: bool
) -> None:
    app, given = shop(migrated_url), {option: OF_INSTANTS[option]}
    refused = f"{option}: a dependent has no instants of its own"
    with pytest.raises(DeclarationError, match=refused):
        app.schedule("late", count, 1, after="one", dormant=dormant, **given)
    async with app:
        await app.seed()
        with pytest.raises(DeclarationError, match=refused):
            await app.add_schedule("late", count, 1, after="one", dormant=dormant, **given)
        with pytest.raises(DeclarationError, match=refused):
            await app.manifests.add("late", "count", input=1, after="one", dormant=dormant, **given)
        await app.add_schedule("late", count, 1, after="one", dormant=dormant)
        with pytest.raises(OverrideError, match=refused):
            await app.manifests.set("late", **given)
        assert (await app.manifests.show("late")).external_id == "late"
