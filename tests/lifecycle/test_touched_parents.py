"""Triggers of children that change the parent while it goes: it goes whole, or stays with all it had."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from gandy.lifecycle import SweepOptions, Table, keep, older_than
from tests.lifecycle.ground import ago

if TYPE_CHECKING:
    from gandy.lifecycle.contract.rules import Rule
    from tests.lifecycle.ground import Ground

PARENTS, CHILDREN = 30, 2
REVIVED = {3, 12, 30}
MODES = ("delete_first", "cascade", "set_null")
#: What a trigger does to the parent of a child that goes or lets go; of some parents only.
TOUCHES = {
    "counts": "UPDATE parent SET children = children - 1 WHERE id = old.parent_id",
    "renews": "UPDATE parent SET at = '2999-01-01T00:00:00.000000Z' WHERE id = old.parent_id AND revives = 1",
    "holds": "UPDATE parent SET held = 1 WHERE id = old.parent_id AND revives = 1",
}
CASES = [(touch, mode) for touch in TOUCHES for mode in MODES]


def make(ground: Ground, touch: str, mode: str) -> None:
    key = (
        "" if mode == "set_null" else f"REFERENCES parent {'ON DELETE CASCADE' if mode == 'cascade' else ''}"
    )
    ground.run(
        "CREATE TABLE parent (id {key}, at {instant}, children bigint, revives bigint, held bigint)",
        f"CREATE TABLE child (id {{key}}, parent_id bigint {key})",
        "CREATE INDEX parents ON parent (at, id)",
        "CREATE INDEX children ON child (parent_id)",
    )
    ground.fill(
        "parent", [(n, ago(days=40 - n), CHILDREN, int(n in REVIVED), None) for n in range(1, PARENTS + 1)]
    )
    ground.fill("child", [(CHILDREN * n + m, n) for n in range(1, PARENTS + 1) for m in range(CHILDREN)])
    event = "UPDATE" if mode == "set_null" else "DELETE"
    if ground.kind == "sqlite":
        ground.run(f"CREATE TRIGGER touch AFTER {event} ON child BEGIN {TOUCHES[touch]}; END")
        return
    body = f"BEGIN {TOUCHES[touch]}; RETURN old; END"
    ground.run(
        f"CREATE FUNCTION touch() RETURNS trigger LANGUAGE plpgsql AS $${body}$$",
        f"CREATE TRIGGER touch AFTER {event} ON child FOR EACH ROW EXECUTE FUNCTION touch()",
    )


def tables(mode: str) -> list[Table]:
    rules: list[Rule] = [older_than("at", keep_for="7d"), keep(column="held", equals=1)]
    listed = [] if mode == "set_null" else ["child.touch"]
    return [Table("parent", rules, children={"child.parent_id": mode}, triggers=listed)]


@pytest.mark.parametrize(("touch", "mode"), CASES, ids=["-".join(case) for case in CASES])
def test_no_parent_stays_with_less_than_it_had(ground: Ground, touch: str, mode: str) -> None:
    make(ground, touch, mode)

    report = ground.sweep(*tables(mode), by=SweepOptions(confirm=lambda _held: True))

    stayed = set(ground.ids("parent"))
    assert stayed <= REVIVED
    kept = ground.rows("SELECT parent_id, count(*) FROM child WHERE parent_id IS NOT NULL GROUP BY 1")
    assert {parent: count for parent, count in kept if parent in stayed} == dict.fromkeys(stayed, CHILDREN)
    assert {parent for parent, _ in kept} <= stayed
    if touch == "counts":
        assert stayed == set()
    elif mode != "cascade":  # the key itself deletes them, together with the parent
        assert stayed == REVIVED
    assert report.counts["parent"] == PARENTS - len(stayed)
    assert ground.rows("SELECT sum(children) FROM parent") == [(CHILDREN * len(stayed) or None,)]


@pytest.mark.parametrize("mode", ["delete_first", "set_null"])
def test_the_parent_that_comes_back_to_life_is_told(ground: Ground, mode: str) -> None:
    make(ground, "renews", mode)

    ground.sweep(*tables(mode), by=SweepOptions(confirm=lambda _held: True))

    told = ground.rows("SELECT row_key, error FROM gandy_lifecycle_quarantine ORDER BY row_key")
    assert len(told) == len(REVIVED)
    assert all("changes when rows that refer to it" in error and "touch" in error for _, error in told)
