"""Lists of random rows of several applications, page by page, beside the same choice made in Python."""

from __future__ import annotations

import random
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import TYPE_CHECKING, Any, Final, get_args

import pytest

from gandy.model.owners import ALL_OWNERS, OneOwner
from gandy.store.reading import listings
from gandy.store.reading.listings import (
    EntryFilter,
    EntryStatus,
    Gate,
    LetterFilter,
    LetterStatus,
    RunFilter,
    list_entries,
    list_letters,
    list_runs,
)
from tests.support.history import Past

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from gandy.model.owners import Owners
    from gandy.store.reading.listings import Filter, Search
    from gandy.store.statements import Operation
    from tests.support.world import World

#: The third has nothing but finished runs: no group, no worker, no letter.
OWNERS_OF_GROUPS: Final = ("large", "small")
GONE: Final = "gone"
TRAINS: Final = ("send", "ship")
RUNS, ENTRIES, LETTERS = 150, 90, 60
ANY_OWNERS: Final[tuple[Owners, ...]] = (ALL_OWNERS, *map(OneOwner, (*OWNERS_OF_GROUPS, GONE)))
QUESTIONS: Final = 60


@dataclass
class Stored:
    """What was written, as the judge sees it."""

    runs: list[dict[str, Any]]
    entries: list[dict[str, Any]]
    letters: list[dict[str, Any]]


@pytest.fixture
def stored(world: World, monkeypatch: pytest.MonkeyPatch) -> Stored:
    """Random rows; the large application has nine tenths of them."""
    monkeypatch.setattr(listings, "SEARCHED", 25)
    past, dice = Past(world), random.Random(7)  # noqa: S311 replayable
    for owner in OWNERS_OF_GROUPS:
        now = world.clock.now
        past.insert("manifest_group", owner=owner, name="default", created_at=now, updated_at=now)
    groups = {row["owner"]: row["id"] for row in world.rows("SELECT id, owner FROM manifest_group")}
    return Stored(
        runs=sorted(_runs(past, dice, groups), key=lambda row: -row["id"]),
        entries=sorted(_entries(past, dice, groups), key=lambda row: -row["id"]),
        letters=sorted(_letters(past, dice, groups), key=lambda row: -row["id"]),
    )


def _owner(dice: random.Random, *others: str) -> str:
    return dice.choice(("small", *others)) if dice.random() < 0.1 else "large"


def _runs(past: Past, dice: random.Random, groups: dict[str, int]) -> Iterator[dict[str, Any]]:
    for _ in range(RUNS):
        owner, train = _owner(dice, GONE), dice.choice(TRAINS)
        state = dice.choices(
            ("completed", "failed", "cancelled", "in_progress", "pending"), (12, 2, 1, 1, 1)
        )[0]
        state = "completed" if owner == GONE and state in {"in_progress", "pending"} else state
        ago = timedelta(minutes=dice.randrange(20))
        more: dict[str, Any] = {"manifest_group_id": groups[owner]} if owner in groups else {}
        number = past.run(train, state=state, owner=owner, started=ago, **more)
        yield {"id": number, "owner": owner, "train": train, "state": state, "at": ago}


def _entries(past: Past, dice: random.Random, groups: dict[str, int]) -> Iterator[dict[str, Any]]:
    for number in range(1, ENTRIES + 1):
        owner, train = _owner(dice), dice.choice(TRAINS)
        status = dice.choices(("queued", "waiting", "skipped", "cancelled"), (10, 2, 2, 2))[0]
        gate = dice.choice(("open", "time", "manifest", "train")) if status == "queued" else "open"
        at = past.world.clock.now + timedelta(minutes=dice.randrange(20))
        settled = {"settled_at": at} if status in {"skipped", "cancelled"} else {}
        past.entry(
            entry_id=number, owner=owner, train_name=train, status=status, gate=gate, scheduled_at=at,
            manifest_group_id=groups[owner], **settled,
        )  # fmt: skip
        yield {"id": number, "owner": owner, "train": train, "status": status, "gate": gate, "at": at}


def _letters(past: Past, dice: random.Random, groups: dict[str, int]) -> Iterator[dict[str, Any]]:
    for _ in range(LETTERS):
        owner, train = _owner(dice), dice.choice(TRAINS)
        status = dice.choice(("awaiting_intervention", "retried", "acknowledged"))
        at = past.world.clock.now - timedelta(minutes=dice.randrange(20))
        resolved = {} if status == "awaiting_intervention" else {"resolved_at": at}
        number = past.letter(
            owner=owner, train_name=train, status=status, manifest_group_id=groups[owner], **resolved
        )
        yield {"id": number, "owner": owner, "train": train, "status": status, "at": at}


async def found(
    world: World, list_page: Callable[[Filter, Owners], Operation[Search]], wanted: Filter, owners: Owners
) -> list[int]:
    """All ids that the pages of a list name, in their order."""
    ids: list[int] = []
    before: int | None = None
    while True:
        page = await world.database.read(list_page(replace(wanted, before=before), owners))
        ids += [row.id for row in page.rows if row.is_match]
        if page.next is None:
            return ids
        before = int(page.next)


def chosen(rows: Sequence[dict[str, Any]], owners: Owners, **wanted: object) -> list[int]:
    """The ids of the rows that have these values, in their order."""
    wanted = {name: value for name, value in wanted.items() if value is not None}
    mine = [row for row in rows if owners.bound in {None, row["owner"]}]
    return [row["id"] for row in mine if all(row[name] == value for name, value in wanted.items())]


def _any_owners(dice: random.Random) -> Owners:
    return dice.choice(ANY_OWNERS)


async def test_runs_are_those_of_the_owner_with_the_train_and_state(world: World, stored: Stored) -> None:
    dice = random.Random(1)  # noqa: S311 replayable
    for _ in range(QUESTIONS):
        owners, limit = _any_owners(dice), dice.choice((1, 3, 10, 200))
        train = dice.choice((None, *TRAINS))
        state = dice.choice((None, "completed", "failed", "cancelled", "in_progress", "pending"))

        ids = await found(world, list_runs, RunFilter(train=train, state=state, limit=limit), owners)

        assert ids == chosen(stored.runs, owners, train=train, state=state), (owners, train, state, limit)


async def test_runs_by_start_have_the_latest_first(world: World, stored: Stored) -> None:
    rows = sorted(stored.runs, key=lambda row: (row["at"], -row["id"]))
    for owner in (*OWNERS_OF_GROUPS, GONE):
        for train in TRAINS:
            ids = await found(
                world, list_runs, RunFilter(train=train, sort="start_time", limit=3), OneOwner(owner)
            )

            assert ids == chosen(rows, OneOwner(owner), train=train), (owner, train)


async def test_entries_are_those_of_the_owner_with_the_status_and_gate(world: World, stored: Stored) -> None:
    dice = random.Random(2)  # noqa: S311 replayable
    live = [
        {**row, "status": "dispatched", "gate": "open"}
        for row in stored.runs
        if row["state"] in {"in_progress", "pending"}
    ]
    rows = sorted([*stored.entries, *live], key=lambda row: -row["id"])
    for _ in range(QUESTIONS):
        owners, limit = _any_owners(dice), dice.choice((1, 3, 10, 200))
        train = dice.choice((None, *TRAINS))
        status = dice.choice((None, *get_args(EntryStatus), "undispatched"))
        gate = dice.choice((None, None, *get_args(Gate)))

        ids = await found(
            world, list_entries, EntryFilter(train=train, status=status, gate=gate, limit=limit), owners
        )

        mine = [
            row
            for row in rows
            if (status != "undispatched" or row["status"] in {"queued", "waiting"})
            and (gate is None or row["status"] == "queued")
        ]
        kind = None if status == "undispatched" else status
        assert ids == chosen(mine, owners, train=train, status=kind, gate=gate), (
            owners,
            train,
            status,
            gate,
            limit,
        )


async def test_entries_by_time_have_the_soonest_first(world: World, stored: Stored) -> None:
    rows = sorted(stored.entries, key=lambda row: (row["at"], row["id"]))
    for owner in OWNERS_OF_GROUPS:
        ids = await found(
            world, list_entries, EntryFilter(gate="time", sort="scheduled_at", limit=3), OneOwner(owner)
        )

        assert ids == chosen(rows, OneOwner(owner), gate="time"), owner


async def test_letters_are_those_of_the_owner_with_the_train_and_status(world: World, stored: Stored) -> None:
    dice = random.Random(3)  # noqa: S311 replayable
    for _ in range(QUESTIONS):
        owners, limit = _any_owners(dice), dice.choice((1, 3, 10, 200))
        train = dice.choice((None, *TRAINS))
        status = dice.choice((None, *get_args(LetterStatus)))

        ids = await found(world, list_letters, LetterFilter(train=train, status=status, limit=limit), owners)

        assert ids == chosen(stored.letters, owners, train=train, status=status), (
            owners,
            train,
            status,
            limit,
        )


async def test_letters_by_resolution_have_the_latest_first(world: World, stored: Stored) -> None:
    resolved = [row for row in stored.letters if row["status"] == "retried"]
    rows = sorted(resolved, key=lambda row: (row["at"], row["id"]), reverse=True)
    for owners in ANY_OWNERS:
        ids = await found(
            world, list_letters, LetterFilter(status="retried", sort="resolved_at", limit=3), owners
        )

        assert ids == chosen(rows, owners), owners
