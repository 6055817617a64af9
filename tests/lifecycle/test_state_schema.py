"""One set of state tables for each database: roles with other search paths share leases and holds."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from gandy.clock import ManualClock
from gandy.errors import StateObstructedError
from gandy.lifecycle import (
    Contract,
    SweepOptions,
    Table,
    check,
    forget,
    inline,
    keep,
    older_than,
    plan,
    quarantine,
    release,
    run_contracts,
)
from gandy.lifecycle.entry import delete_old_rows
from tests.lifecycle.ground import NOW, ago, steps_of
from tests.lifecycle.paths import STATE_TABLES, execute, on_path, two_paths
from tests.support.waiting import wait_until

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from gandy.lifecycle.supervisor.report import ContractReport
    from tests.lifecycle.ground import Ground
    from tests.lifecycle.paths import Paths

RULE = older_than("at", keep_for="7d")
NOTES = Table("note", [RULE], schema="app")
HELD = Table("note", [keep("held", equals=True), inline("the application")], schema="app")
SWEEPS, LEGAL = Contract("sweeps", [NOTES]), Contract("legal", [HELD])
BY = SweepOptions(clock=ManualClock(NOW))
WAITING = "SELECT count(*) FROM pg_locks WHERE NOT granted AND locktype = 'advisory'"


@pytest.fixture
def paths(postgres: Ground) -> Iterator[Paths]:
    with two_paths(postgres) as found:
        yield found


def swept(ground: Ground, contract: Contract, by: SweepOptions = BY) -> ContractReport:
    [report] = run_contracts([contract], ground.url, options=by)
    return report


def by_sweep(ground: Ground) -> None:
    assert swept(ground, SWEEPS).failures == []


def by_train(ground: Ground) -> None:
    delete_old_rows(NOTES, ground.url, options=BY)


def by_plan(ground: Ground) -> None:
    assert [planned.rows for planned in plan([SWEEPS], ground.url, clock=ManualClock(NOW))] == [2]
    by_sweep(ground)


@pytest.mark.parametrize("schema", ["left_side", 'Odd "50%" side', "it's [here]"])
@pytest.mark.parametrize("door", [by_sweep, by_train, by_plan])
def test_a_hold_of_a_role_with_another_search_path_counts(
    postgres: Ground, schema: str, door: Callable[[Ground], None]
) -> None:
    with two_paths(postgres, schema) as paths:
        paths.share()
        assert swept(paths.left, LEGAL).failures == []

        door(paths.right)

        assert paths.sets() == [schema]
        assert postgres.ids("app.note") == [2]


def test_a_lease_excludes_a_role_with_another_search_path(paths: Paths) -> None:
    paths.share()
    assert swept(paths.left, LEGAL).failures == []
    beside: list[ContractReport] = []
    by = replace(BY, pruned=lambda *_: beside.append(swept(paths.right, SWEEPS)))

    assert swept(paths.left, replace(SWEEPS, batch=steps_of(10)), by).counts == {"app.note": 2}

    assert [report.is_skipped for report in beside] == [True]


def test_two_sweeps_that_start_at_once_make_one_set(paths: Paths) -> None:
    paths.share()
    with closing(paths.owner.connect()) as first, ThreadPoolExecutor() as pool:
        first.execute("SELECT pg_advisory_lock(hashtext('gandy_lifecycle_setup'))")
        sweeping = [pool.submit(swept, ground, LEGAL) for ground in (paths.left, paths.right)]
        wait_until(lambda: paths.owner.rows(WAITING) == [(2,)], "both are about to make the tables")
        first.execute("SELECT pg_advisory_unlock(hashtext('gandy_lifecycle_setup'))")
        assert [report.result().failures for report in sweeping] == [[], []]

    assert len(paths.sets()) == 1


def split(paths: Paths) -> None:
    """What a version left behind that looked for its state on the search path; the right one holds rows."""
    swept(paths.left, Contract("other", [HELD]))
    for table in STATE_TABLES:
        made = f"gandy_lifecycle_{table}"
        execute(
            paths.owner,
            f"CREATE TABLE right_side.{made} (LIKE left_side.{made} INCLUDING ALL)",
            f"GRANT ALL ON right_side.{made} TO {paths.right_role}",
        )
    execute(
        paths.owner,
        "INSERT INTO right_side.gandy_lifecycle_hold VALUES ('legal', 'app', 'note', 'held', 'true')",
        "TRUNCATE left_side.gandy_lifecycle_hold",
    )


@pytest.mark.parametrize(
    "door",
    [
        lambda ground: swept(ground, SWEEPS, replace(BY, is_strict=True)),
        lambda ground: plan([SWEEPS], ground.url),
        lambda ground: quarantine(ground.url),
        lambda ground: release(ground.url),
        lambda ground: forget(ground.url, "legal"),
    ],
    ids=["sweep", "plan", "quarantine", "release", "forget"],
)
def test_a_state_that_is_in_two_schemas_is_refused_and_the_remedy_keeps_the_holds(
    paths: Paths, door: Callable[[Ground], object]
) -> None:
    paths.share()
    split(paths)

    for ground in (paths.left, paths.right):
        [found] = check([SWEEPS], ground.url)
        assert "left_side and right_side" in found.message
        with pytest.raises(StateObstructedError, match="left_side and right_side"):
            door(ground)
    assert paths.owner.ids("app.note") == [1, 2, 3]

    execute(paths.owner, *found.remedy.partition("owner: ")[2].split("; "))
    for ground in (paths.left, paths.right):
        assert swept(ground, SWEEPS).failures == []
    assert (paths.sets(), paths.owner.ids("app.note")) == (["left_side"], [2])


def test_a_table_of_the_application_is_not_taken_for_the_state(paths: Paths) -> None:
    execute(
        paths.owner,
        *(f"CREATE TABLE right_side.gandy_lifecycle_{table} (id bigint)" for table in STATE_TABLES),
    )
    [refused] = swept(paths.right, SWEEPS).failures
    assert "right_side.gandy_lifecycle_audit is no table of the lifecycle" in refused.error

    paths.share()
    assert swept(paths.left, LEGAL).failures == []
    assert swept(paths.right, SWEEPS).failures == []
    assert paths.owner.ids("app.note") == [2]
    assert paths.owner.ids("right_side.gandy_lifecycle_lease") == []


def test_rows_in_quarantine_are_shared_too(paths: Paths) -> None:
    paths.share()
    swept(paths.left, LEGAL)
    execute(
        paths.owner,
        "CREATE TABLE app.page (id bigint, note_id bigint REFERENCES app.note (id))",
        "CREATE INDEX by_note ON app.page (note_id)",
        f"GRANT SELECT, UPDATE, DELETE ON app.page TO {paths.left_role}, {paths.right_role}",
        "CREATE FUNCTION app.stay() RETURNS trigger LANGUAGE plpgsql AS"
        " 'BEGIN IF OLD.id = 3 THEN RAISE ''never''; END IF; RETURN OLD; END'",
        "CREATE TRIGGER stay BEFORE DELETE ON app.note FOR EACH ROW EXECUTE FUNCTION app.stay()",
    )
    table = Table("note", [RULE], schema="app", triggers=["stay"], children={"page.note_id": "delete_first"})
    contract = Contract("sweeps", [table])

    swept(paths.right, contract)
    [row] = quarantine(paths.left.url)
    assert (row.key, paths.owner.ids("app.note")) == ((3,), [2, 3])
    assert swept(paths.left, contract).counts == {}
    assert release(paths.right.url) == 1


TENANT = (
    "CREATE SCHEMA {name}",
    "CREATE TABLE {name}.note (id bigint PRIMARY KEY, at timestamptz, held boolean)",
    "CREATE INDEX by_age ON {name}.note (at)",
)


def test_bare_names_on_two_search_paths_are_remembered_apart(postgres: Ground) -> None:
    tenants = {name: on_path(postgres, name) for name in ("one", "two", "three")}
    for name in tenants:
        execute(postgres, *(step.format(name=name) for step in TENANT))
        postgres.fill(f"{name}.note", [(1, ago(days=9), False), (2, ago(days=9), True)])
    legal = Contract("legal", [replace(HELD, schema=None)])
    bare = Contract("sweeps", [replace(NOTES, schema=None)])

    for contract in (legal, legal, bare):
        for ground in tenants.values():
            assert swept(ground, contract).failures == []

    assert [postgres.ids(f"{name}.note") for name in tenants] == [[2], [2], [2]]
    assert forget(postgres.url, "legal@two")["holds"] == 1
    for ground in tenants.values():
        swept(ground, bare)
    assert [postgres.ids(f"{name}.note") for name in tenants] == [[2], [], [2]]
