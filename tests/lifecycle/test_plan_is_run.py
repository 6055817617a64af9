"""The plan's numbers are the run's numbers: rule by rule, table by table."""

from __future__ import annotations

import random
from collections import Counter
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any

import pytest
from click.testing import CliRunner

from gandy.cli.main import main
from gandy.clock import ManualClock
from gandy.lifecycle import (
    Contract,
    SweepOptions,
    Table,
    cap,
    drop_partition,
    expires,
    keep,
    keep_last,
    older_than,
    plan,
    stale_cursor,
    sweep,
    terminal,
)
from tests.lifecycle.ground import NOW, ago

if TYPE_CHECKING:
    from gandy.lifecycle.contract.rules import Rule
    from gandy.lifecycle.reports.plan import PlannedRule
    from gandy.lifecycle.supervisor.report import ContractReport
    from tests.lifecycle.ground import Ground

CASES = 8
ROOT = (
    "CREATE TABLE root (id {key}, k text NOT NULL, state text, hold integer, at {instant} NOT NULL,"
    " exp {instant})"
)


def planned(ground: Ground, *tables: Table) -> list[PlannedRule]:
    return plan([Contract("app", tables)], ground.url, clock=ManualClock(NOW))


def swept(ground: Ground, *tables: Table) -> ContractReport:
    by = SweepOptions(clock=ManualClock(NOW))
    [report] = sweep([Contract("app", tables)], ground.url, options=by)
    return report


def by_table(rules: list[PlannedRule]) -> dict[str, int]:
    counted: Counter[str] = Counter()
    for rule in rules:
        counted[rule.table] += rule.rows
        counted.update(rule.children)
    return {table: rows for table, rows in counted.items() if rows}


def assert_same(ground: Ground, *tables: Table) -> list[PlannedRule]:
    """Plan, then sweep: the same numbers; all of them are returned."""
    before = planned(ground, *tables)
    report = swept(ground, *tables)

    assert report.failures == []
    foreseen = [(rule.table, rule.rule, rule.rows) for rule in before if not rule.rule.startswith("keep ")]
    assert foreseen == [(rule.table, rule.rule, rule.rows) for rule in report.rules]
    assert by_table(before) == report.counts
    return before


@dataclass(frozen=True)
class Reference:
    """How a column refers to its parent, and what the contract says about it."""

    clause: str
    mode: str

    @property
    def column(self) -> str:
        return f"root_id bigint {self.clause}"


@dataclass
class Case:
    """A random contract on three tables that refer to each other, and their rows."""

    dice: random.Random
    schema: list[str] = field(default_factory=list)
    tables: list[Table] = field(default_factory=list)

    def __post_init__(self) -> None:
        kid, leaf, shortcut = self.reference("root"), self.reference("kid"), self.reference("root")
        self.schema = [
            ROOT,
            f"CREATE TABLE kid (id {{key}}, at {{instant}}, hold integer, root_id bigint {kid.clause})",
            f"CREATE TABLE leaf (id {{key}}, at {{instant}}, kid_id bigint {leaf.clause}, {shortcut.column})",
            *(
                f"CREATE INDEX {table}_{'_'.join(columns)} ON {table} ({', '.join(columns)})"
                for table, columns in [
                    ("root", ["at"]),
                    ("root", ["exp"]),
                    ("root", ["k", "at"]),
                    ("root", ["state", "at"]),
                    ("kid", ["root_id", "at"]),
                    ("kid", ["at"]),
                    ("leaf", ["kid_id"]),
                    ("leaf", ["root_id"]),
                    ("leaf", ["at"]),
                ]
            ),
        ]
        modes = {"kid.root_id": kid.mode, "leaf.kid_id": leaf.mode, "leaf.root_id": shortcut.mode}
        self.tables = [
            self.table("root", self.root_rules, modes),
            self.table("kid", self.kid_rules, {"leaf.kid_id": leaf.mode}),
            self.table("leaf", lambda _: [older_than("at", keep_for=self.span())], {}),
        ]
        self.dice.shuffle(self.tables)

    def reference(self, parent: str) -> Reference:
        action = self.dice.choice(["NO ACTION", "CASCADE", "SET NULL"])
        modes = ["wait_for", "delete_first", "set_null"]
        mode = self.dice.choice(["cascade", "wait_for"] if action == "CASCADE" else modes)
        return Reference(f"REFERENCES {parent} (id) ON DELETE {action}", mode)

    def table(self, name: str, rules: Any, modes: dict[str, str]) -> Table:  # noqa: ANN401  # a method
        waits = [child for child, mode in modes.items() if mode == "wait_for" and self.is_direct(name, child)]
        children = {child: mode for child, mode in modes.items() if child not in waits}
        # What only hangs on rows that stay needs a mode too where they may go with others.
        children = {child: "set_null" if mode == "wait_for" else mode for child, mode in children.items()}
        return Table(name, rules(waits), children=children)

    @staticmethod
    def is_direct(parent: str, child: str) -> bool:
        return child.endswith(f".{parent}_id")

    def root_rules(self, waits: list[str]) -> list[Rule]:
        rules: list[Rule] = [
            older_than("at", keep_for=self.span(), wait_for=waits),
            expires("exp", wait_for=waits),
            terminal(
                "state",
                states=["a", "b"],
                at="at",
                keep_for={"a": self.span(), "b": self.span()},
                wait_for=waits,
            ),
            cap(self.dice.randint(1, 6), per=["k"], order_by="at", wait_for=waits),
            keep_last(self.dice.randint(5, 20), order_by="at", wait_for=waits),
        ]
        chosen = self.dice.sample(rules, self.dice.randint(1, 4))
        return [*chosen, keep("hold", equals=1)] if self.dice.random() < 0.5 else chosen

    def kid_rules(self, waits: list[str]) -> list[Rule]:
        rules: list[Rule] = [
            older_than("at", keep_for=self.span(), wait_for=waits),
            cap(self.dice.randint(1, 4), per=["root_id"], order_by="at", wait_for=waits),
        ]
        return [self.dice.choice(rules), keep("hold", equals=1)][: self.dice.randint(1, 2)]

    def span(self) -> timedelta:
        return timedelta(hours=self.dice.randint(1, 40))

    def at(self) -> datetime:
        return ago(hours=self.dice.randint(0, 40))

    def rows(self) -> dict[str, list[tuple[object, ...]]]:
        dice = self.dice
        return {
            "root": [
                (n, dice.choice("xyz"), dice.choice("abc"), dice.choice([0, 0, 0, 1]), self.at(), self.exp())
                for n in range(30)
            ],
            "kid": [(n, self.at(), dice.choice([0, 0, 0, 0, 1]), dice.randrange(30)) for n in range(30)],
            "leaf": [(n, self.at(), self.some(), self.some()) for n in range(30)],
        }

    def exp(self) -> datetime | None:
        return self.dice.choice([None, self.at(), NOW + timedelta(hours=1)])

    def some(self) -> int | None:
        return self.dice.choice([None, self.dice.randrange(30)])


def test_a_random_contract_takes_what_was_planned(ground: Ground) -> None:
    taken: Counter[str] = Counter()
    for seed in range(CASES):
        case = Case(random.Random(seed))  # noqa: S311  # repeatable
        ground.run(*(f"DROP TABLE IF EXISTS {name}" for name in ("leaf", "kid", "root")), *case.schema)
        for table, rows in case.rows().items():
            ground.fill(table, rows)
        taken.update(by_table(assert_same(ground, *case.tables)))

    assert all(taken[table] > CASES for table in ("root", "kid", "leaf")), taken


def make_events(ground: Ground) -> None:
    ground.run(
        "CREATE TABLE event (id {key}, k text NOT NULL, hold integer, at {instant})",
        "CREATE INDEX by_at ON event (at)",
        "CREATE INDEX by_k ON event (k, at)",
    )
    ground.fill("event", [(n, "xy"[n % 2], int(n % 5 == 0), ago(hours=n)) for n in range(40)])


@pytest.mark.parametrize("rule", [cap(5, per=["k"], order_by="at"), keep_last(5, order_by="at")])
def test_a_cap_is_planned_with_holds(ground: Ground, rule: Rule) -> None:
    make_events(ground)

    before = assert_same(ground, Table("event", [rule, keep("hold", equals=1)]))

    assert 0 < before[0].rows < 35


def test_a_cap_is_planned_after_the_rules_before_it(ground: Ground) -> None:
    make_events(ground)

    rules = assert_same(
        ground, Table("event", [older_than("at", keep_for="20h"), cap(5, per=["k"], order_by="at")])
    )

    assert [rule.rows for rule in rules] == [20, 10]


def test_a_cap_is_planned_with_what_waits_and_what_is_quarantined(postgres: Ground) -> None:
    make_events(postgres)
    postgres.run(
        "CREATE TABLE note (id bigint PRIMARY KEY, event_id bigint REFERENCES event (id))",
        "CREATE INDEX by_event ON note (event_id)",
        "CREATE FUNCTION never() RETURNS trigger LANGUAGE plpgsql AS"
        " $$ BEGIN IF OLD.id IN (31, 33) THEN RAISE EXCEPTION 'no'; END IF; RETURN OLD; END $$",
        "CREATE TRIGGER never BEFORE DELETE ON event FOR EACH ROW EXECUTE FUNCTION never()",
    )
    postgres.fill("note", [(n, 20 + n) for n in range(5)])
    rule_of_cap = cap(5, per=["k"], order_by="at", wait_for=["note.event_id"])
    table = Table("event", [rule_of_cap], triggers=["never"])
    swept(postgres, table)
    postgres.fill("event", [(100 + n, "x", 0, ago(hours=1)) for n in range(9)])

    [rule] = assert_same(postgres, table)

    assert (rule.rows, rule.quarantined) == (9, 2)


def test_a_row_that_two_rules_match_is_counted_by_the_first(ground: Ground) -> None:
    make_events(ground)

    rules = assert_same(
        ground, Table("event", [older_than("at", keep_for="20h"), expires("at", grace="10h")])
    )

    assert [rule.rows for rule in rules] == [20, 10]


def test_what_waits_for_rows_of_the_same_sweep_is_planned(ground: Ground) -> None:
    make_events(ground)
    ground.run(
        "CREATE TABLE note (id {key}, event_id bigint REFERENCES event (id), at {instant})",
        "CREATE INDEX by_event ON note (event_id)",
        "CREATE INDEX by_age ON note (at)",
    )
    ground.fill("note", [(n, n, ago(hours=n)) for n in range(40)])

    rules = assert_same(
        ground,
        Table("event", [older_than("at", keep_for="20h", wait_for=["note.event_id"])]),
        Table("note", [older_than("at", keep_for="30h")]),
    )

    assert [rule.rows for rule in rules] == [10, 10]


def test_cursors_are_planned_after_their_log(ground: Ground) -> None:
    ground.run(
        "CREATE TABLE log (id {key}, at {instant})",
        "CREATE INDEX by_log ON log (at)",
        "CREATE TABLE reader (id {key}, at {instant})",
        "CREATE INDEX by_reader ON reader (at)",
    )
    ground.fill("log", [(n, ago(hours=n)) for n in range(60)])
    ground.fill("reader", [(n, ago(hours=n)) for n in range(60)])

    rules = assert_same(
        ground,
        Table("reader", [stale_cursor("at", keep_for="24h", log="log", log_at="at")]),
        Table("log", [older_than("at", keep_for="24h")]),
    )

    assert [rule.rows for rule in rules] == [36, 36]


def test_children_that_two_paths_reach_are_counted_once(ground: Ground) -> None:
    ground.run(
        "CREATE TABLE root (id {key}, at {instant})",
        "CREATE INDEX by_at ON root (at)",
        *(
            f"CREATE TABLE {side} (id {{key}}, root_id bigint REFERENCES root (id) ON DELETE CASCADE)"
            for side in ("one", "two")
        ),
        "CREATE TABLE leaf (id {key}, one_id bigint REFERENCES one (id) ON DELETE CASCADE,"
        " two_id bigint REFERENCES two (id) ON DELETE CASCADE)",
        "CREATE INDEX a ON one (root_id)",
        "CREATE INDEX b ON two (root_id)",
        "CREATE INDEX c ON leaf (one_id)",
        "CREATE INDEX d ON leaf (two_id)",
    )
    ground.fill("root", [(n, ago(days=n)) for n in range(4)])
    for side in ("one", "two"):
        ground.fill(side, [(n, n) for n in range(4)])
    ground.fill("leaf", [(0, 2, 3), (1, 3, 3), (2, 2, 0), (3, 0, 0), (4, None, 2)])
    modes = dict.fromkeys(["one.root_id", "two.root_id", "leaf.one_id", "leaf.two_id"], "cascade")

    [rule] = planned(ground, Table("root", [older_than("at", keep_for="36h")], children=modes))

    assert (rule.rows, rule.children) == (2, {"one": 2, "two": 2, "leaf": 4})


def test_references_that_are_set_to_null_are_told_apart(ground: Ground) -> None:
    make_events(ground)
    ground.run(
        "CREATE TABLE note (id {key}, event_id bigint REFERENCES event (id))",
        "CREATE INDEX by_event ON note (event_id)",
    )
    ground.fill("note", [(n, n) for n in range(40)])

    [rule] = assert_same(
        ground, Table("event", [older_than("at", keep_for="20h")], children={"note.event_id": "set_null"})
    )

    assert (rule.children, rule.set_null) == ({}, {"note": 20})


def make_partitions(postgres: Ground) -> None:
    postgres.run(
        "CREATE TABLE event (id bigint, hold boolean, at timestamptz) PARTITION BY RANGE (at)",
        "CREATE INDEX by_at ON event (at)",
        *(
            f"CREATE TABLE event_{n} PARTITION OF event FOR VALUES FROM"
            f" ('2026-02-{n:02} 00:00+00') TO ('2026-02-{n + 1:02} 00:00+00')"
            for n in range(20, 28)
        ),
    )
    days = [datetime.fromisoformat(f"2026-02-{n:02}T12:00:00+00:00") for n in range(20, 28)]
    postgres.fill("event", [(n, n == 9, days[n % 8]) for n in range(800)])


@pytest.mark.parametrize("is_analysed", [True, False])
def test_partitions_are_counted_and_held_ones_left_out(postgres: Ground, is_analysed: bool) -> None:
    make_partitions(postgres)
    if is_analysed:
        postgres.run("ANALYZE event")
        postgres.run("INSERT INTO event SELECT n, false, '2026-02-20 11:00+00' FROM generate_series(1, 50) n")

    [rule, _] = assert_same(
        postgres, Table("event", [drop_partition("at", keep_for="4d"), keep("hold", equals=True)])
    )

    assert rule.rows == (450 if is_analysed else 400)


ENDLESS = ["-infinity", "infinity", "0044-03-15 BC", "20000-01-01"]


@pytest.mark.parametrize("declared", ["timestamptz", "timestamp", "date"])
@pytest.mark.parametrize("rule", [older_than("at", keep_for="1h"), cap(2, order_by="at")])
def test_instants_that_python_cannot_write_are_planned(postgres: Ground, declared: str, rule: Rule) -> None:
    postgres.run(
        f"CREATE TABLE event (id bigint PRIMARY KEY, at {declared})", "CREATE INDEX by_at ON event (at)"
    )
    for number, value in enumerate([*ENDLESS, "2020-01-01", "2030-01-01"]):
        postgres.run(f"INSERT INTO event VALUES ({number}, '{value}')")  # noqa: S608  # test values

    [found] = planned(postgres, Table("event", [rule]))

    assert found.refused is None
    assert found.rows == (3 if isinstance(found.oldest, datetime) else 4)
    if found.oldest is not None:
        assert (found.oldest.year, found.newest and found.newest.year) == (1, 2020)


def test_one_instant_of_minus_infinity_is_planned_by_the_command(
    postgres: Ground,
    tmp_path: Any,  # noqa: ANN401
) -> None:
    postgres.run(
        "CREATE TABLE event (id bigint PRIMARY KEY, at timestamptz)",
        "CREATE INDEX by_at ON event (at)",
        "INSERT INTO event VALUES (1, '-infinity'), (2, '2020-01-01')",
    )
    file = tmp_path / "lifecycle.toml"
    file.write_text(
        'version = 1\n[lifecycle.app]\n[[lifecycle.app.tables]]\nname = "event"\n'
        'rules = [{ older_than = "at", keep_for = "1h" }]\n'
    )

    result = CliRunner().invoke(
        main, ["lifecycle", "plan", "--json", "--contract", str(file), "--target", postgres.url]
    )

    assert result.exit_code == 0, result.output
    assert '"rows": 2' in result.output


def test_a_plan_names_what_it_cannot_know(ground: Ground) -> None:
    ground.run(
        "CREATE TABLE node (id {key}, parent_id bigint REFERENCES node (id), at {instant})",
        "CREATE INDEX by_parent ON node (parent_id)",
        "CREATE INDEX by_at ON node (at)",
    )

    [waiting, capped] = planned(
        ground,
        Table(
            "node",
            [
                older_than("at", keep_for="1h", wait_for=["node.parent_id"]),
                cap(3, order_by="at", wait_for=["node.parent_id"]),
            ],
        ),
    )

    assert any("own table" in note for note in waiting.notes)
    assert any("after the locks" in note for note in capped.notes)
