"""What comes next: all manifests in the order of their next instants, and what will hold them back."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import pytest

from gandy.desk.groups import GroupChanges, GroupDesk
from gandy.desk.manifests import ManifestDesk
from gandy.desk.upcoming import UpcomingFilter, list_upcoming
from gandy.errors import OneOwnerNeededError, ValueBoundsError
from gandy.model.exclusion import Days, TimeWindow, Weekday
from gandy.model.owners import ALL_OWNERS, OneOwner, Operator
from gandy.model.schedule import Cron, Interval, Once
from tests.support.statements import statements
from tests.support.world import OWNER, OWNERS, START, manifest

if TYPE_CHECKING:
    from gandy.desk.upcoming import ComingManifests
    from gandy.store.statements import Step
    from tests.support.world import World

__all__ = ["statements"]

ADA = Operator("ada", "cli")
HOUR = timedelta(hours=1)


def at(hour: int, minute: int = 0, *, day: int = 5) -> datetime:
    return datetime(2026, 1, day, hour, minute, tzinfo=UTC)


async def ask(world: World, **options: Any) -> ComingManifests:  # noqa: ANN401 any field of it
    wanted = UpcomingFilter(**options)
    return await list_upcoming(world.database, OWNERS, wanted)


async def test_manifests_come_in_the_order_of_their_next_instants_with_all_within_the_span(
    world: World,
) -> None:
    await world.seed(
        manifest("hourly", schedule=Cron("30 * * * *")),
        manifest("quarterly", schedule=Cron("*/15 * * * *")),
        manifest("once", schedule=Once(at(12, 20))),
        manifest("nightly", schedule=Cron("0 3 * * *")),
    )

    found = await ask(world, within=HOUR)

    assert [(each.external_id, each.due_at) for each in found] == [
        ("quarterly", at(12, 15)),
        ("once", at(12, 20)),
        ("hourly", at(12, 30)),
    ]
    assert found[0].instants == (at(12, 15), at(12, 30), at(12, 45), at(13))
    assert (found.now, found.until, found.next) == (START, START + HOUR, None)
    assert [each.external_id for each in await ask(world)][-1] == "nightly"


async def test_many_instants_of_one_manifest_are_cut_and_say_so(world: World) -> None:
    await world.seed(manifest("busy", schedule=Interval(timedelta(seconds=1))))

    (busy,) = await ask(world)

    assert (len(busy.instants), busy.is_cut) == (100, True)


async def test_excluded_instants_are_left_out_however_many_there_are(world: World) -> None:
    noon = TimeWindow(at(11).time(), at(14).time())
    await world.seed(
        manifest("second", schedule=Interval(timedelta(seconds=1)), exclusions=(noon,)),
        manifest("hour", schedule=Cron("0 * * * *"), exclusions=(noon,)),
        manifest("never", schedule=Once(at(13)), exclusions=()),
    )
    world.rows(
        "UPDATE manifest SET next_scheduled_run = ? WHERE schedule_type = 'interval'", world.stamp(HOUR)
    )

    found = {each.external_id: each for each in await ask(world, within=3 * HOUR)}

    assert found["second"].due_at == at(14)
    assert found["hour"].instants == (at(14), at(15))
    assert [each.external_id for each in await ask(world, within=HOUR)] == ["never"]


async def test_what_is_switched_off_parked_or_active_is_listed_with_what_holds_it(world: World) -> None:
    await world.seed(
        *(manifest(name, schedule=Interval(HOUR)) for name in ("off", "gone", "runs")),
        manifest("of-group", schedule=Interval(HOUR), group="etl"),
        manifest("parked", schedule=Interval(HOUR), max_retries=1, train="Fails"),
        manifest("free", schedule=Cron("30 * * * *")),
    )
    await world.cycle()
    runs = {run.manifest: run for run in await world.claim()}
    await world.finish(*(runs[name] for name in ("off", "gone", "of-group")))
    await world.fail()
    world.advance(minutes=10)
    await ManifestDesk(world.database, ADA, owners=OWNERS).disable("off", "for the holidays")
    await GroupDesk(world.database, ADA, owners=OWNERS).set("etl", GroupChanges(is_enabled=False))
    world.rows("UPDATE manifest SET orphaned_at = ? WHERE external_id = 'gone'", world.stamp())

    found = {each.external_id: each for each in await ask(world)}

    assert {name: each.held_by for name, each in found.items()} == {
        "off": "disabled",
        "gone": "orphaned",
        "of-group": "group",
        "runs": "active",
        "parked": "active",
        "free": None,
    }
    assert found["off"].why == "it is switched off: for the holidays"
    assert found["off"].what_to_do == "gandy manifests enable off"
    assert "is skipped" in str(found["runs"].why)


async def test_a_held_manifest_whose_instant_has_passed_stands_at_its_next_one(world: World) -> None:
    await world.seed(
        manifest("off", schedule=Cron("40 * * * *"), is_enabled=False),
        manifest("late", schedule=Cron("10 * * * *")),
        manifest("free", schedule=Cron("30 * * * *")),
        manifest("once", schedule=Once(at(12, 20)), is_enabled=False),
    )
    world.advance(minutes=65)

    found = await ask(world, within=HOUR)

    assert [(each.external_id, each.due_at) for each in found] == [
        ("late", at(12, 10)),
        ("once", at(12, 20)),
        ("free", at(12, 30)),
        ("off", at(13, 40)),
    ]


async def test_pages_meet_without_a_gap_or_a_repeat(world: World) -> None:
    await world.seed(
        *(manifest(f"m-{number:02}", schedule=Cron(f"{number % 7} * * * *")) for number in range(20)),
        *(manifest(f"off-{number}", schedule=Cron("3 * * * *"), is_enabled=False) for number in range(4)),
    )
    world.advance(minutes=4)
    names: list[str] = []
    after: str | None = None
    while True:
        found = await ask(world, within=HOUR, limit=5, after=after)
        names += [each.external_id for each in found]
        if found.next is None:
            break
        after = str(found.next)

    whole = await ask(world, within=HOUR, limit=100)
    assert names == [each.external_id for each in whole]
    assert len(set(names)) == len(names) == 24
    assert [each.due_at for each in whole] == sorted(each.due_at for each in whole)


async def test_an_unreadable_schedule_hides_no_other(world: World) -> None:
    await world.seed(
        manifest("good", schedule=Cron("30 * * * *")), manifest("bad", schedule=Cron("20 * * * *"))
    )
    world.rows("UPDATE manifest SET timezone = 'Nowhere/Land' WHERE external_id = 'bad'")

    found = {each.external_id: each.held_by for each in await ask(world)}

    assert found == {"good": None, "bad": "unreadable"}


async def test_all_owners_are_listed_together_and_no_other_owner_alone(world: World) -> None:
    await world.seed(manifest("mine", schedule=Cron("30 * * * *")))
    await world.seed(manifest("theirs", schedule=Cron("15 * * * *")), owner="bakery")

    everything = await list_upcoming(world.database, ALL_OWNERS, UpcomingFilter())
    alone = await list_upcoming(world.database, OneOwner("bakery"), UpcomingFilter())

    assert [(each.owner, each.external_id) for each in everything] == [("bakery", "theirs"), (OWNER, "mine")]
    assert [each.external_id for each in alone] == ["theirs"]
    with pytest.raises(OneOwnerNeededError):
        await list_upcoming(world.database, ALL_OWNERS, UpcomingFilter(after=alone[0].place))


@pytest.mark.parametrize(
    "place",
    ["", "x", "2026-01-05T12:00:00+00:00,1,x", "2026-01-05T12:00:00,1", "2026-01-05T12:00:00+00:00,x", ",1"],
)
async def test_a_place_that_no_page_gave_is_refused(world: World, place: str) -> None:
    with pytest.raises(ValueBoundsError, match="after"):
        await ask(world, after=place)


async def walked(world: World, **options: Any) -> list[tuple[str, datetime]]:  # noqa: ANN401 any field of it
    """All pages of a walk."""
    rows: list[tuple[str, datetime]] = []
    after: str | None = None
    while True:
        found = await ask(world, after=after, **options)
        rows += [(each.external_id, each.due_at) for each in found]
        if found.next is None:
            return rows
        after = str(found.next)


async def seed_excluded(world: World) -> None:
    """Many manifests whose stored instants are excluded, before and between others."""
    noon = TimeWindow(at(12).time(), at(14).time())
    await world.seed(
        *(manifest(f"late-{n}", schedule=Cron(f"{n} * * * *"), exclusions=(noon,)) for n in range(1, 9)),
        *(manifest(f"free-{n}", schedule=Cron(f"{5 * n} 12,13,15 * * *")) for n in range(1, 9)),
    )


@pytest.mark.parametrize("limit", [1, 2, 5, 16, 100])
async def test_rows_are_in_the_order_of_the_instants_that_are_shown(world: World, limit: int) -> None:
    await seed_excluded(world)

    rows = await walked(world, within=6 * HOUR, limit=limit)

    assert rows[0] == ("free-1", at(12, 5))
    assert [due for _, due in rows] == sorted(due for _, due in rows)
    assert len(rows) == len({name for name, _ in rows}) == 16
    assert rows[8:] == [(f"late-{n}", at(14, n)) for n in range(1, 9)]


async def test_an_excluded_day_does_not_put_a_manifest_before_an_earlier_one(world: World) -> None:
    monday = Days(frozenset({Weekday.MONDAY}))
    await world.seed(
        manifest("kath", schedule=Cron("0 13 * * *"), exclusions=(monday,)),
        manifest("apia", schedule=Cron("0 15 * * *")),
    )

    assert [name for name, _ in await walked(world, within=timedelta(days=7))] == ["apia", "kath"]
    assert [each.external_id for each in await ask(world, within=timedelta(days=7), limit=1)] == ["apia"]


async def test_a_walk_repeats_no_held_manifest_as_time_passes(world: World) -> None:
    await world.seed(
        manifest("off", schedule=Cron("*/10 * * * *"), is_enabled=False),
        *(manifest(f"m-{n}", schedule=Cron(f"{40 + n} * * * *")) for n in range(4)),
    )
    world.advance(minutes=18)
    first = await ask(world, within=HOUR, limit=2)
    world.advance(minutes=3)

    rest = await ask(world, within=HOUR, after=str(first.next))

    assert [(each.external_id, each.due_at) for each in first] == [("off", at(12, 20)), ("m-0", at(12, 40))]
    assert [each.external_id for each in rest] == ["m-1", "m-2", "m-3"]
    assert rest.now == first.now

    world.advance(minutes=30)
    assert (await ask(world, within=HOUR, after=str(first.next))).now == world.clock.now


async def test_reading_on_ends_with_the_page(world: World, statements: list[Step]) -> None:
    await world.seed(*(manifest(f"m-{n:02}", schedule=Cron(f"{n} * * * *")) for n in range(1, 50)))
    statements.clear()

    await ask(world, within=HOUR, limit=5)

    assert [step.name for step in statements].count("load_upcoming") == 2
