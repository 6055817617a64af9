"""A trigger that keeps a reference which is set to NULL: its parent stays whole, and every other goes."""

from __future__ import annotations

from itertools import cycle
from typing import TYPE_CHECKING

import pytest

from gandy.clock import ManualClock
from gandy.lifecycle import Contract, SweepOptions, Table, check, expires, older_than, plan, run_contracts
from tests.lifecycle.ground import NOW, ago, steps_of

if TYPE_CHECKING:
    from gandy.lifecycle.contract.rules import Rule
    from tests.lifecycle.ground import Ground

KEYS = {
    "none": "",
    "plain": " REFERENCES parent (id)",
    "set null": " REFERENCES parent (id) ON DELETE SET NULL",
    "deferred": " REFERENCES parent (id) DEFERRABLE INITIALLY DEFERRED",
}
_BACK = (
    "IF NEW.parent_id IS NULL THEN UPDATE child SET parent_id = OLD.parent_id WHERE id = 20; END IF;"
    " RETURN NULL;"
)
RULES: dict[str, Rule] = {"older_than": older_than("at", keep_for="1d"), "expires": expires("at")}
# How a trigger may keep the reference of the row 20, by database.
SQLITE = {
    "ignore": "BEFORE UPDATE ON child WHEN OLD.id = 20 BEGIN SELECT RAISE(IGNORE); END",
    "ignore this column": (
        "BEFORE UPDATE OF parent_id ON child WHEN OLD.id = 20 BEGIN SELECT RAISE(IGNORE); END"
    ),
    "write it back": (
        "AFTER UPDATE ON child WHEN NEW.id = 20 AND NEW.parent_id IS NULL"
        " BEGIN UPDATE child SET parent_id = OLD.parent_id WHERE id = 20; END"
    ),
}
POSTGRES = {
    "skip": ("TRIGGER stay BEFORE UPDATE ON child", "RETURN NULL;"),
    "keep the old row": ("TRIGGER stay BEFORE UPDATE ON child", "RETURN OLD;"),
    "keep the old value": (
        "TRIGGER stay BEFORE UPDATE OF parent_id ON child",
        "NEW.parent_id := OLD.parent_id; RETURN NEW;",
    ),
    "write it back": ("TRIGGER stay AFTER UPDATE ON child", _BACK),
    "write it back at the commit": (
        "CONSTRAINT TRIGGER stay AFTER UPDATE ON child DEFERRABLE INITIALLY DEFERRED",
        _BACK,
    ),
}
CASES = [*(("sqlite", way) for way in SQLITE), *(("postgres", way) for way in POSTGRES)]


def make(ground: Ground, key: str) -> None:
    """Three parents with two children each."""
    ground.run(
        "CREATE TABLE parent (id {key}, at {instant})",
        "CREATE INDEX by_at ON parent (at)",
        f"CREATE TABLE child (id {{key}}, parent_id bigint{key})",
        "CREATE INDEX by_parent ON child (parent_id)",
    )
    ground.fill("parent", [(n, ago(days=2)) for n in (1, 2, 3)])
    ground.fill("child", [(n, n // 10) for n in (10, 11, 20, 21, 30, 31)])


def keep_reference(ground: Ground, way: str) -> None:
    if ground.kind == "sqlite":
        ground.run(f"CREATE TRIGGER stay {SQLITE[way]}")
        return
    declared, body = POSTGRES[way]
    ground.run(
        "CREATE FUNCTION stay() RETURNS trigger LANGUAGE plpgsql AS"
        f" $$ BEGIN IF OLD.id = 20 THEN {body} END IF; RETURN NEW; END $$",
        f"CREATE {declared} FOR EACH ROW EXECUTE FUNCTION stay()",
    )


def references(ground: Ground) -> list[tuple[int, int | None]]:
    return [(row[0], row[1]) for row in ground.rows("SELECT id, parent_id FROM child ORDER BY id")]


def quarantined(ground: Ground) -> list[tuple[str, bool]]:
    found = ground.rows("SELECT row_key, error FROM gandy_lifecycle_quarantine")
    return [(key, "a trigger keeps a reference" in error and "stay" in error) for key, error in found]


@pytest.mark.parametrize(("key", "rule"), list(zip(KEYS, cycle(RULES), strict=False)))
@pytest.mark.parametrize(("kind", "way"), CASES)
def test_a_kept_reference_keeps_its_parent_and_all_its_references(
    request: pytest.FixtureRequest, kind: str, way: str, key: str, rule: str
) -> None:
    ground: Ground = request.getfixturevalue(kind)
    make(ground, KEYS[key])
    keep_reference(ground, way)
    table = Table("parent", [RULES[rule]], children={"child.parent_id": "set_null"})

    report = ground.sweep(table)

    assert ground.ids("parent") == [2]
    assert references(ground) == [(10, None), (11, None), (20, 2), (21, 2), (30, None), (31, None)]
    assert quarantined(ground) == [("[2]", True)]
    assert report.counts == {"parent": 2}
    assert ground.sweep(table).counts == {}


@pytest.mark.parametrize("count", [12, 60])
@pytest.mark.parametrize(("kind", "way"), CASES)
def test_a_heavy_parent_loses_no_reference(
    request: pytest.FixtureRequest, kind: str, way: str, count: int
) -> None:
    ground: Ground = request.getfixturevalue(kind)
    make(ground, KEYS["plain"])
    keep_reference(ground, way)
    ground.fill("child", [(n, 2) for n in range(100, 100 + count)])
    table = Table("parent", [RULES["older_than"]], children={"child.parent_id": "set_null"})
    contract = Contract("app", [table], batch=steps_of(3))

    run_contracts([contract], ground.url, options=SweepOptions(clock=ManualClock(NOW)))

    assert ground.ids("parent") == [2]
    assert sum(parent == 2 for _, parent in references(ground)) == count + 2
    assert [key for key, _ in quarantined(ground)] == ["[2]"]


def test_a_kept_reference_below_a_child_that_goes_keeps_the_whole_family(ground: Ground) -> None:
    make(ground, KEYS["plain"])
    ground.run("CREATE TABLE leaf (id {key}, child_id bigint REFERENCES child (id))")
    ground.fill("leaf", [(n, n) for n in (10, 20, 30)])
    if ground.kind == "sqlite":
        ground.run(
            "CREATE TRIGGER stay BEFORE UPDATE ON leaf WHEN OLD.id = 20 BEGIN SELECT RAISE(IGNORE); END"
        )
    else:
        ground.run(
            "CREATE FUNCTION stay() RETURNS trigger LANGUAGE plpgsql AS"
            " $$ BEGIN IF OLD.id = 20 THEN RETURN NULL; END IF; RETURN NEW; END $$",
            "CREATE TRIGGER stay BEFORE UPDATE ON leaf FOR EACH ROW EXECUTE FUNCTION stay()",
        )
    children = {"child.parent_id": "delete_first", "leaf.child_id": "set_null"}

    report = ground.sweep(Table("parent", [RULES["older_than"]], children=children))

    assert (ground.ids("parent"), ground.ids("child")) == ([2], [20, 21])
    assert ground.rows("SELECT id, child_id FROM leaf ORDER BY 1") == [(10, None), (20, 20), (30, None)]
    assert report.counts == {"parent": 2, "child": 4}
    assert quarantined(ground) == [("[2]", True)]


def test_a_trigger_that_lets_references_go_stops_nothing_and_is_named(ground: Ground) -> None:
    make(ground, KEYS["plain"])
    if ground.kind == "sqlite":
        ground.run("CREATE TRIGGER tell AFTER UPDATE ON child BEGIN SELECT 1; END")
    else:
        ground.run(
            "CREATE FUNCTION tell() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RETURN NEW; END $$",
            "CREATE TRIGGER tell BEFORE UPDATE ON child FOR EACH ROW EXECUTE FUNCTION tell()",
        )
    for listed in ([], ["child.tell"]):
        table = Table(
            "parent", [RULES["older_than"]], children={"child.parent_id": "set_null"}, triggers=listed
        )
        findings = check([Contract("app", [table])], ground.url)
        assert ["references are set to NULL" in finding.message for finding in findings] == [True]
        [planned] = plan([Contract("app", [table])], ground.url)
        assert planned.triggers == ("child.tell",)

    assert ground.sweep(table).counts == {"parent": 3}
    assert {parent for _, parent in references(ground)} == {None}


def test_a_trigger_on_other_columns_is_not_named(postgres: Ground) -> None:
    make(postgres, KEYS["plain"])
    postgres.run(
        "CREATE FUNCTION tell() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RETURN NULL; END $$",
        "CREATE TRIGGER tell BEFORE UPDATE OF id ON child FOR EACH ROW EXECUTE FUNCTION tell()",
    )
    table = Table("parent", [RULES["older_than"]], children={"child.parent_id": "set_null"})

    assert check([Contract("app", [table])], postgres.url) == []
    assert postgres.sweep(table).counts == {"parent": 3}


@pytest.mark.parametrize("condition", ["", " WHERE OLD.id = 20"])
@pytest.mark.parametrize("key", ["none", "plain", "set null"])
def test_a_rule_that_replaces_the_update_is_refused(postgres: Ground, key: str, condition: str) -> None:
    make(postgres, KEYS[key])
    postgres.run(f"CREATE RULE stay AS ON UPDATE TO child{condition} DO INSTEAD NOTHING")
    before = references(postgres)

    [failure] = postgres.sweep(
        Table("parent", [RULES["older_than"]], children={"child.parent_id": "set_null"})
    ).failures

    assert "the rule stay of public.child" in failure.error
    assert (postgres.ids("parent"), references(postgres)) == ([1, 2, 3], before)
