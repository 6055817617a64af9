"""Sweeps that are wrong, made by hand: the judge must notice each."""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import pytest

from tests.lifecycle.fuzz.bench import Bench
from tests.lifecycle.fuzz.contracts import Contracts
from tests.lifecycle.fuzz.data import written
from tests.lifecycle.fuzz.judge import Judge
from tests.lifecycle.fuzz.shapes import MARK, NOW, Column, Limit, Link, Row, Shape, TableShape
from tests.lifecycle.fuzz.verdict import Planned, Said, Verdict
from tests.lifecycle.fuzz.writers import Writers, Written

if TYPE_CHECKING:
    from collections.abc import Iterator

OLD, NEW = NOW - timedelta(days=9), NOW + timedelta(days=9)
EXPIRES = 'rules = [{ expires = "at1" }]'


@dataclass(slots=True)
class Court:
    """Parents, children and grandchildren in one database, and a sweep that was made by hand."""

    bench: Bench
    shape: Shape
    rows: dict[str, list[Row]]

    def label(self, name: str) -> str:
        return name if self.bench.database == "sqlite" else f"public.{name}"

    def add(self, name: str, mark: int, **values: Any) -> None:  # noqa: ANN401  # of whatever type
        table = self.shape.table(self.label(name))
        row: Row = dict.fromkeys(column.name for column in table.columns)
        row |= {MARK: mark, "k0": mark, "at1": OLD, **values}
        for column in table.columns:
            if hasattr(row[column.name], "strftime"):
                row[column.name] = written(row[column.name], column.kind, "%Y-%m-%dT%H:%M:%SZ")
        self.rows.setdefault(table.label, []).append(row)

    def with_kind(self, kind: str) -> None:
        """Let parents write their instants otherwise."""
        parent = self.shape.tables[0]
        columns = tuple(replace(one, kind=kind) if one.name == "at1" else one for one in parent.columns)
        self.shape = replace(self.shape, tables=(replace(parent, columns=columns), *self.shape.tables[1:]))

    def with_action(self, action: str, **more: Any) -> None:  # noqa: ANN401  # of whatever type
        """Let every key act so when its parent goes."""
        self.shape = replace(
            self.shape, links=tuple(replace(link, action=action, **more) for link in self.shape.links)
        )

    def faults(self, text: str, *statements: str, said: Said | None = None) -> list[str]:
        """What the judge says of statements that pretend to be a sweep."""
        self.bench.make(self.shape)
        self.bench.refill(self.shape, self.rows)
        judge = Judge(Contracts(f"version = 1\n{text}", self.shape), self.bench.read(self.shape), NOW)
        self.bench.run(*statements)
        after = self.bench.read(self.shape)
        gone = len(judge.world.places() - after.places())
        return Verdict(judge, after, said or Said(counted=gone)).faults()

    def too_many(self, text: str, *statements: str) -> bool:
        return any(fault.startswith("row too many") for fault in self.faults(text, *statements))


@pytest.fixture
def court(database_url: str) -> Iterator[Court]:
    yield from _court(Bench(database_url))


@pytest.fixture
def postgres_court(postgres_url: str) -> Iterator[Court]:
    yield from _court(Bench(postgres_url))


@pytest.fixture
def sqlite_court(sqlite_url: str) -> Iterator[Court]:
    yield from _court(Bench(sqlite_url))


def _court(bench: Bench) -> Iterator[Court]:
    schema = None if bench.database == "sqlite" else "public"
    instant = "iso" if bench.database == "sqlite" else "timestamptz"

    def table(name: str, *more: Column) -> TableShape:
        own = (Column(MARK, "bigint", is_nullable=False), Column("k0", "int", is_nullable=False))
        usual = (Column("at1", instant), Column("state", "state"), Column("hold", "flag_text"))
        numbers = (Column("grp", "small"), Column("seq", "small"))
        return TableShape(schema=schema, name=name, columns=(*own, *usual, *numbers, *more), key=("k0",))

    parent, child = table("parent"), table("child", Column("parent_id", "int"))
    grandchild = table("grandchild", Column("child_id", "int"))
    links = tuple(
        Link(child=one.label, columns=(column,), parent=other.label, parent_columns=("k0",))
        for one, column, other in ((child, "parent_id", parent), (grandchild, "child_id", child))
    )
    yield Court(bench, Shape(bench.database, (parent, child, grandchild), links), {})
    bench.close()


def contract(name: str, *tables: str) -> str:
    """A contract of these tables."""
    return "\n".join([f"[lifecycle.{name}]", *(f"[[lifecycle.{name}.tables]]\n{table}" for table in tables)])


def parents(rules: str, children: str = '"child.parent_id" = "delete_first"') -> str:
    """The usual contract of parents: children go along."""
    return f'name = "parent"\n{rules}\nchildren = {{ {children} }}'


CHILDREN = '"child.parent_id" = "delete_first", "grandchild.child_id" = "delete_first"'


def test_right_sweep_is_not_blamed(court: Court) -> None:
    court.add("parent", 1)
    court.add("parent", 2, at1=NEW)
    court.add("child", 3, parent_id=1)

    text = contract("app", parents(EXPIRES, CHILDREN))

    assert court.faults(text, "DELETE FROM child WHERE mark = 3", "DELETE FROM parent WHERE mark = 1") == []


@pytest.mark.parametrize("values", [{"at1": NEW}, {"at1": None}], ids=["not yet expired", "never expires"])
def test_live_row_is_missed(court: Court, values: Row) -> None:
    court.add("parent", 1, **values)

    assert court.too_many(contract("app", parents(EXPIRES, CHILDREN)), "DELETE FROM parent")


@pytest.mark.parametrize("value", ["true", "T", "maybe"])
def test_held_row_is_missed(court: Court, value: str) -> None:
    court.add("parent", 1, hold=value)
    rules = 'rules = [{ expires = "at1" }, { keep = { column = "hold", equals = true } }]'

    assert court.too_many(contract("app", parents(rules, CHILDREN)), "DELETE FROM parent")


@pytest.mark.parametrize("value", ["F", "", None])
def test_row_whose_hold_is_clearly_false_has_to_go(court: Court, value: str | None) -> None:
    court.add("parent", 1, hold=value)
    rules = 'rules = [{ expires = "at1" }, { keep = { column = "hold", equals = true } }]'

    [fault] = court.faults(contract("app", parents(rules, CHILDREN)))

    assert fault.startswith("row too few")


@pytest.mark.parametrize("action", ["NO ACTION", "CASCADE"])
def test_held_grandchild_of_another_contract_is_missed(court: Court, action: str) -> None:
    court.with_action(action)
    court.add("parent", 1)
    court.add("child", 2, parent_id=1)
    court.add("grandchild", 3, child_id=2, hold="true")
    held = 'name = "grandchild"\nrules = [{ keep = { column = "hold", equals = true } }]'
    text = "\n".join([contract("app", parents(EXPIRES, CHILDREN)), contract("law", held)])

    assert court.too_many(text, "DELETE FROM grandchild", "DELETE FROM child", "DELETE FROM parent")


@pytest.mark.parametrize(
    ("deleted", "is_wrong"),
    [((5,), False), ((5, 6), False), ((5, 4), True), ((5, 7), True)],
    ids=["below the other", "below both", "held", "beside the held one"],
)
def test_row_goes_along_where_only_its_own_way_is_left(
    court: Court, deleted: tuple[int, ...], *, is_wrong: bool
) -> None:
    court.add("parent", 1)
    court.add("child", 2, parent_id=1)
    court.add("child", 3, parent_id=1, at1=NOW)  # at the cutoff: its own rule may take it, or leave it
    court.add("child", 8, parent_id=1)
    for mark, child, hold in ((4, 2, "true"), (5, 3, None), (6, 8, None), (7, 2, None)):
        court.add("grandchild", mark, child_id=child, hold=hold)
    own = f'name = "child"\n{EXPIRES}\nchildren = {{ "grandchild.child_id" = "set_null" }}'
    held = 'name = "grandchild"\nrules = [{ keep = { column = "hold", equals = true } }]'
    text = contract("app", parents(EXPIRES, CHILDREN), own, held)
    marks = ", ".join(map(str, deleted))

    faults = court.faults(
        text,
        f"DELETE FROM grandchild WHERE mark IN ({marks})",  # noqa: S608  # numbers of ours
        "UPDATE grandchild SET child_id = NULL",
        "DELETE FROM child",
        "DELETE FROM parent",
    )

    wrong = [f"row too many: {(court.label('grandchild'), deleted[-1])} went, and no rule may take it"]
    assert faults == (wrong if is_wrong else [])


@pytest.mark.parametrize("action", ["CASCADE", "SET NULL"])
def test_awaited_row_is_missed(court: Court, action: str) -> None:
    court.with_action(action)
    court.add("parent", 1)
    court.add("child", 2, parent_id=1, at1=NEW)
    rules = 'rules = [{ expires = "at1", wait_for = ["child.parent_id"] }]'

    assert court.too_many(contract("app", parents(rules, "")), "DELETE FROM parent")


@pytest.mark.parametrize("action", ["NO ACTION", "CASCADE", "SET NULL"])
def test_rule_with_an_uncovered_key_takes_nothing(court: Court, action: str) -> None:
    court.with_action(action)
    court.add("parent", 1)

    assert court.too_many(contract("app", parents(EXPIRES, "")), "DELETE FROM parent")


def test_uncovered_key_of_a_grandchild_stops_the_rule(court: Court) -> None:
    court.add("parent", 1)

    assert court.too_many(contract("app", parents(EXPIRES)), "DELETE FROM parent")


def test_row_of_another_table_is_missed(court: Court) -> None:
    court.with_action("CASCADE")
    court.add("parent", 1)
    court.add("child", 2, parent_id=1)
    text = contract("app", parents(EXPIRES, '"child.parent_id" = "set_null"'))

    assert court.too_many(text, "DELETE FROM parent")


def test_reference_that_is_cut_without_leave_is_noticed(court: Court) -> None:
    court.add("parent", 1, at1=NEW)
    court.add("child", 2, parent_id=1)
    text = contract("app", parents(EXPIRES, '"child.parent_id" = "set_null"'))

    [fault] = court.faults(text, "UPDATE child SET parent_id = NULL")

    assert fault.startswith("changed: parent_id")


def test_reference_to_a_row_that_went_may_be_cut(court: Court) -> None:
    court.add("parent", 1)
    court.add("child", 2, parent_id=1)
    text = contract("app", parents(EXPIRES, '"child.parent_id" = "set_null"'))

    assert court.faults(text, "UPDATE child SET parent_id = NULL", "DELETE FROM parent") == []


def bounded(rules: str, bound: int) -> str:
    """Parents that one batch holds with this many rows, children included."""
    text = contract("app", parents(rules, CHILDREN))
    return text.replace("[lifecycle.app]", f"[lifecycle.app]\nbatch = {{ start = 1, max = {bound} }}", 1)


@pytest.mark.parametrize("bound", [1, 2])
def test_row_that_goes_with_too_many_at_once_stays_whole(court: Court, bound: int) -> None:
    court.add("parent", 1)
    for mark in range(2, 13):
        court.add("child", mark, parent_id=1)
    text, is_heavy = bounded(EXPIRES, bound), bound < 2

    assert court.too_many(text, "DELETE FROM child", "DELETE FROM parent") == is_heavy
    assert court.too_many(text, "DELETE FROM child WHERE mark = 2")
    assert bool(court.faults(text)) != is_heavy


def test_row_that_stays_dead_may_lose_its_children_first_and_has_to_go(court: Court) -> None:
    court.add("parent", 1)
    court.add("child", 2, parent_id=1)
    court.add("child", 3, parent_id=1)
    text = bounded('rules = [{ older_than = "at1", keep_for = "1d" }]', 2)

    assert court.faults(text, "DELETE FROM child", "DELETE FROM parent") == []
    [*faults] = court.faults(text, "DELETE FROM child WHERE mark = 2")
    assert [fault.partition(":")[0] for fault in faults] == ["row too few"]


@pytest.mark.parametrize(
    ("state", "days"), [("open", 9), ("done", 3), (None, 9)], ids=["not final", "too young", "no state"]
)
def test_row_that_is_not_terminal_is_missed(court: Court, state: str | None, days: int) -> None:
    court.add("parent", 1, state=state, at1=NOW - timedelta(days=days))
    rules = 'rules = [{ terminal = "state", states = ["done"], at = "at1", keep_for = "7d" }]'

    assert court.too_many(contract("app", parents(rules, CHILDREN)), "DELETE FROM parent")


@pytest.mark.parametrize(
    ("deleted", "fault"), [(3, "row too many"), (1, None), ("1 OR mark = 2", "row too many")]
)
def test_cap_is_held_to_its_number(court: Court, deleted: object, fault: str | None) -> None:
    for mark, seq in ((1, 0), (2, 0), (3, 1)):
        court.add("parent", mark, grp=1, seq=seq)
    rules = 'rules = [{ cap = 2, per = ["grp"], order_by = "seq" }]'

    found = court.faults(
        contract("app", parents(rules, CHILDREN)),
        f"DELETE FROM parent WHERE mark = {deleted}",  # noqa: S608  # numbers of ours
    )

    assert (found and found[0].partition(":")[0]) == (fault or [])


def test_cursor_whose_log_is_unread_is_missed(court: Court) -> None:
    court.add("parent", 1)
    court.add("child", 2, at1=OLD - timedelta(days=1))
    rules = 'rules = [{ stale_cursor = "at1", keep_for = "1d", log = "child", log_at = "at1" }]'

    assert court.too_many(contract("app", parents(rules, CHILDREN)), "DELETE FROM parent")


def test_cursor_whose_log_has_a_row_of_unknown_age_is_missed(sqlite_court: Court) -> None:
    sqlite_court.add("parent", 1)
    sqlite_court.add("child", 2, at1="soon")
    rules = 'rules = [{ stale_cursor = "at1", keep_for = "1d", log = "child", log_at = "at1" }]'

    assert sqlite_court.too_many(contract("app", parents(rules, CHILDREN)), "DELETE FROM parent")


@pytest.mark.parametrize(
    ("kind", "value"),
    [("s", 0), ("ms", -1), ("us", 2**62), ("ns", 1_700_000_000), ("yyyymmdd", 19_700_101), ("s", 20_200_101)],
)
def test_number_that_fits_no_unit_is_missed(court: Court, kind: str, value: int) -> None:
    court.with_kind(kind)
    court.add("parent", 1, at1=value)
    rules = f'rules = [{{ expires = "at1", unit = "{kind}" }}]'

    assert court.too_many(contract("app", parents(rules, CHILDREN)), "DELETE FROM parent")


def test_day_that_is_not_over_is_missed(court: Court) -> None:
    court.with_kind("yyyymmdd")
    court.add("parent", 1, at1=20_260_301)
    rules = 'rules = [{ expires = "at1", unit = "yyyymmdd" }]'

    assert court.too_many(contract("app", parents(rules, CHILDREN)), "DELETE FROM parent")


def test_trigger_that_is_not_listed_stops_the_rule(court: Court) -> None:
    first, *others = court.shape.tables
    court.shape = replace(court.shape, tables=(replace(first, trigger="audit_parent"), *others))
    court.add("parent", 1)
    listed = parents(f'{EXPIRES}\ntriggers = ["audit_parent"]', CHILDREN)

    assert court.too_many(contract("app", parents(EXPIRES, CHILDREN)), "DELETE FROM parent")
    assert not court.too_many(contract("app", listed), "DELETE FROM parent")


def test_table_in_two_contracts_loses_nothing(court: Court) -> None:
    court.add("parent", 1)
    text = "\n".join(contract(name, parents(EXPIRES, CHILDREN)) for name in ("app", "law"))

    assert court.too_many(text, "DELETE FROM parent")


def test_bare_name_means_a_table_of_the_same_schema(postgres_court: Court) -> None:
    court = postgres_court
    side = replace(court.shape.tables[1], schema="side")
    link = replace(court.shape.links[0], child=side.label)
    court.shape = replace(court.shape, tables=(court.shape.tables[0], side), links=(link,))
    court.add("parent", 1)
    rules = 'rules = [{ expires = "at1", wait_for = ["child.parent_id"] }]'

    assert court.too_many(contract("app", parents(rules, "")), "DELETE FROM parent")


@pytest.mark.parametrize("what", ["usage", "select", "delete", "rows"])
def test_table_that_the_role_cannot_judge_stops_the_rule(postgres_court: Court, what: str) -> None:
    _close_grandchild(postgres_court, what)
    text = contract("app", parents(f'schema = "side"\n{EXPIRES}', CHILDREN))

    assert postgres_court.too_many(text, "DELETE FROM side.parent")


def test_table_below_a_child_that_is_waited_for_need_not_be_readable(postgres_court: Court) -> None:
    _close_grandchild(postgres_court, "select")
    waiting = 'rules = [{ expires = "at1", wait_for = ["child.parent_id"] }]'
    text = contract("app", parents(f'schema = "side"\n{waiting}', CHILDREN))

    assert not postgres_court.too_many(text, "DELETE FROM side.parent")


def _close_grandchild(court: Court, what: str) -> None:
    *others, grandchild = (replace(table, schema="side") for table in court.shape.tables)
    links = tuple(
        replace(link, child=f"side{link.child[6:]}", parent=f"side{link.parent[6:]}")
        for link in court.shape.links
    )
    court.shape = Shape("postgresql", (*others, grandchild), links, Limit(grandchild.label, what))
    court.rows = {"side.parent": [_row(court, 1)]}


def _row(court: Court, mark: int) -> Row:
    empty = dict.fromkeys(column.name for column in court.shape.tables[0].columns)
    return {**empty, MARK: mark, "k0": mark, "at1": OLD.isoformat()}


@pytest.mark.parametrize("value", ["infinity", None])
def test_row_that_never_expires_is_missed(postgres_court: Court, value: str | None) -> None:
    postgres_court.add("parent", 1, at1=value)

    assert postgres_court.too_many(contract("app", parents(EXPIRES, CHILDREN)), "DELETE FROM parent")


def test_rows_that_went_uncounted_are_noticed(court: Court) -> None:
    court.add("parent", 1)

    [fault] = court.faults(contract("app", parents(EXPIRES, CHILDREN)), "DELETE FROM parent", said=Said())

    assert fault.startswith("miscounted")


@pytest.mark.parametrize("planned", [Planned(rows=2), Planned(rows=1), Planned(rows=1, children=5)])
def test_plan_is_held_to_its_numbers(court: Court, planned: Planned) -> None:
    court.add("parent", 1)
    court.add("child", 2, parent_id=1)
    said = Said(counted=2, planned={("app", court.label("parent")): planned})
    text = contract("app", parents(EXPIRES, CHILDREN))

    faults = court.faults(text, "DELETE FROM child", "DELETE FROM parent", said=said)

    assert {fault.partition(":")[0] for fault in faults} == {"misplanned"}


@pytest.mark.parametrize("what", ["hold", "renew", "refer"])
def test_row_that_a_writer_protected_is_missed(court: Court, what: str) -> None:
    court.add("parent", 1)
    court.add("child", 2, at1=NEW)
    rules = (
        'rules = [{ expires = "at1", wait_for = ["child.parent_id"] },'
        ' { keep = { column = "hold", equals = true } }]'
    )
    court.bench.make(court.shape)
    court.bench.refill(court.shape, court.rows)
    before = court.bench.read(court.shape)
    contracts = Contracts(f"version = 1\n{contract('app', parents(rules, ''))}", court.shape)
    writers = Writers.idle(court.bench, contracts, before)
    place, child = (court.label("parent"), 1), (court.label("child"), 9)
    row = {**before.rows[court.label("child")][2], MARK: 9, "k0": 9, "parent_id": 1}
    one = Written("refer", child, row, place) if what == "refer" else Written(what, place)
    writers.log.append(one)
    court.bench.run("DELETE FROM parent")

    faults = writers.faults(court.bench.read(court.shape))

    assert f"row too many: {place} went after {one}" in faults
