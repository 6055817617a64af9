"""Every key of every schema counts, whatever the search path is and whatever the role may see."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING
from urllib.parse import quote

import pytest
from click.testing import CliRunner, Result

from gandy.cli.main import main
from gandy.lifecycle import Contract, Table, audit, check, drop_partition, older_than, plan
from tests.lifecycle.ground import Ground, ago

if TYPE_CHECKING:
    from pathlib import Path

RULE = older_than("at", keep_for="7d")
ACTIONS = ["NO ACTION", "RESTRICT", "CASCADE", "SET NULL", "SET DEFAULT"]
SESSIONS = """
version = 1
[lifecycle.app]
[[lifecycle.app.tables]]
name = "session"
rules = [{ older_than = "at", keep_for = "7d" }]
"""


@pytest.fixture
def billed(postgres: Ground) -> Ground:
    """Sessions of the default schema."""
    postgres.run(
        "CREATE SCHEMA billing",
        "CREATE TABLE session (id {key}, at {instant})",
        "CREATE INDEX by_age ON session (at)",
    )
    postgres.fill("session", [(1, ago(days=9)), (2, ago(days=8)), (3, ago(days=1))])
    return postgres


def add_invoices(ground: Ground, action: str, *, more: str = "") -> None:
    ground.run(
        "CREATE TABLE billing.invoice (id {key}, session_id bigint DEFAULT 3"
        f" REFERENCES session (id) ON DELETE {action} {more})",
        "CREATE INDEX by_session ON billing.invoice (session_id)",
    )
    ground.fill("billing.invoice", [(11, 1), (21, 2), (31, 3)])


def call(ground: Ground, folder: Path, contract: str, *arguments: str) -> Result:
    file = folder / "lifecycle.toml"
    file.write_text(contract, encoding="utf-8")
    command, *options = arguments
    given = ["lifecycle", command, "--contract", str(file), "--target", ground.url, *options]
    return CliRunner().invoke(main, given, prog_name="gandy")


def through(ground: Ground, setting: str) -> Ground:
    """The same database with another setting of the session."""
    mark = "&" if "?" in ground.url else "?"
    return Ground(f"{ground.url}{mark}options={quote(f'-c {setting}')}")


@pytest.mark.parametrize(
    ("action", "more"),
    [*((action, "") for action in ACTIONS), ("NO ACTION", "DEFERRABLE INITIALLY DEFERRED")],
)
def test_a_key_of_another_schema_stops_the_rule_and_is_named(
    billed: Ground, tmp_path: Path, action: str, more: str
) -> None:
    add_invoices(billed, action, more=more)

    checked = call(billed, tmp_path, SESSIONS, "check", "--json")
    planned = call(billed, tmp_path, SESSIONS, "plan", "--json")
    swept = call(billed, tmp_path, SESSIONS, "sweep")

    assert (checked.exit_code, planned.exit_code, swept.exit_code) == (1, 1, 1)
    assert "billing.invoice.session_id" in json.loads(checked.stdout)[0]["message"]
    assert "billing.invoice.session_id" in json.loads(planned.stdout)[0]["refused"]
    assert billed.rows("SELECT id, session_id FROM billing.invoice ORDER BY id") == [
        (11, 1),
        (21, 2),
        (31, 3),
    ]
    assert billed.ids("session") == [1, 2, 3]


@pytest.mark.parametrize(
    ("action", "mode"), [(action, "delete_first") for action in ACTIONS] + [("CASCADE", "cascade")]
)
def test_a_declared_child_of_another_schema_goes_and_is_counted(
    billed: Ground, action: str, mode: str
) -> None:
    add_invoices(billed, action)

    report = billed.sweep(Table("session", [RULE], children={"billing.invoice.session_id": mode}))

    assert report.counts == {"session": 2, "billing.invoice": 2}
    assert (billed.ids("session"), billed.ids("billing.invoice")) == ([3], [31])


@pytest.mark.parametrize("action", ACTIONS)
def test_a_key_of_another_schema_can_be_waited_for(billed: Ground, action: str) -> None:
    add_invoices(billed, action)
    billed.run("DELETE FROM billing.invoice WHERE id = 21")
    waiting = older_than("at", keep_for="7d", wait_for=["billing.invoice.session_id"])

    report = billed.sweep(Table("session", [waiting]))

    assert (report.counts, billed.ids("session")) == ({"session": 1}, [1, 3])


@pytest.mark.parametrize("path", ["billing", "billing,public", '"$user"', "pg_catalog,billing"])
def test_the_search_path_changes_no_verdict(billed: Ground, path: str) -> None:
    add_invoices(billed, "CASCADE")
    elsewhere = through(billed, f"search_path={path}")
    table = Table("session", [RULE], schema="public")

    findings = check([Contract("app", [table])], elsewhere.url)

    assert ["billing.invoice.session_id" in found.message for found in findings if found.rule] == [True]


def test_a_table_of_a_later_schema_of_the_search_path_is_found_with_its_children(billed: Ground) -> None:
    add_invoices(billed, "CASCADE")
    billed.run("CREATE TABLE note (id {key}, session_id bigint REFERENCES session (id))")
    billed.run("CREATE TABLE billing.note (id {key}, session_id bigint)")
    elsewhere = through(billed, "search_path=billing,public")
    children = {"note.session_id": "delete_first", "billing.invoice.session_id": "cascade"}

    report = elsewhere.sweep(Table("session", [RULE], children=children))

    assert (report.failures, billed.ids("session")) == ([], [3])


@pytest.mark.parametrize("schema", [None, "app"])
def test_a_bare_reference_means_the_schema_of_its_own_table(postgres: Ground, schema: str | None) -> None:
    home = schema or "public"
    other = "app" if schema is None else "public"
    postgres.run("CREATE SCHEMA app")
    for space in (home, other):
        postgres.run(f"CREATE TABLE {space}.child (id {{key}}, parent_id bigint)")
    postgres.run(f"CREATE TABLE {home}.parent (id {{key}}, at {{instant}})")
    postgres.fill(f"{home}.parent", [(n, ago(days=9)) for n in range(10)])
    postgres.fill(f"{home}.child", [(n, n) for n in range(10)])
    waiting = older_than("at", keep_for="7d", wait_for=["child.parent_id"])

    report = postgres.sweep(Table("parent", [waiting], schema=schema))

    assert (report.failures, len(postgres.ids(f"{home}.parent"))) == ([], 10)


def test_a_bare_reference_that_is_only_in_another_schema_is_an_error(postgres: Ground) -> None:
    postgres.run(
        "CREATE SCHEMA app",
        "CREATE TABLE app.parent (id {key}, at {instant})",
        "CREATE TABLE child (id {key}, parent_id bigint)",
    )
    waiting = older_than("at", keep_for="7d", wait_for=["child.parent_id"])

    findings = check([Contract("app", [Table("parent", [waiting], schema="app")])], postgres.url)

    assert [finding.severity for finding in findings] == ["wrong"]
    assert "there is no table child in the schema app; name another one" in findings[0].message


def test_set_null_of_some_columns_leaves_the_others(postgres: Ground) -> None:
    postgres.run(
        "CREATE TABLE parent (tenant bigint, id bigint, at {instant}, PRIMARY KEY (tenant, id))",
        "CREATE TABLE child (id {key}, tenant bigint NOT NULL, parent_id bigint, FOREIGN KEY"
        " (tenant, parent_id) REFERENCES parent (tenant, id) ON DELETE SET NULL (parent_id))",
    )
    postgres.fill("parent", [(7, 1, ago(days=9)), (7, 2, ago(days=1))])
    postgres.fill("child", [(11, 7, 1), (21, 7, 2)])

    report = postgres.sweep(Table("parent", [RULE], children={"child.tenant,parent_id": "set_null"}))

    assert (report.failures, report.counts) == ([], {"parent": 1})
    assert postgres.rows("SELECT * FROM child ORDER BY id") == [(11, 7, None), (21, 7, 2)]


@pytest.fixture
def partitioned(postgres: Ground) -> Ground:
    postgres.run(
        "CREATE TABLE parent (id bigint, at {instant}, PRIMARY KEY (id, at)) PARTITION BY RANGE (at)",
        "CREATE TABLE parent_old PARTITION OF parent FOR VALUES FROM (MINVALUE) TO ('2026-02-27')",
        "CREATE TABLE parent_new PARTITION OF parent FOR VALUES FROM ('2026-02-27') TO (MAXVALUE)",
        "CREATE TABLE child (id bigint, parent_id bigint, parent_at {instant}) PARTITION BY LIST (id)",
        "CREATE TABLE child_one PARTITION OF child FOR VALUES IN (1, 2, 3)",
    )
    postgres.fill("parent", [(1, ago(days=9)), (2, ago(days=9)), (3, ago(days=1))])
    postgres.fill("child", [(1, 1, ago(days=9)), (3, 3, ago(days=1))])
    return postgres


@pytest.mark.parametrize("rule_on", ["parent", "parent_old"])
@pytest.mark.parametrize("key_on", ["child", "child_one"])
@pytest.mark.parametrize("key_to", ["parent", "parent_old"])
def test_keys_of_partitions_and_to_partitions_are_seen(
    partitioned: Ground, rule_on: str, key_on: str, key_to: str
) -> None:
    partitioned.run(
        "DELETE FROM child WHERE id = 3",
        f"ALTER TABLE {key_on} ADD FOREIGN KEY (parent_id, parent_at) REFERENCES {key_to} (id, at)"
        " ON DELETE CASCADE",
    )
    reference = f"{key_on}.parent_id,parent_at"

    unseen = partitioned.sweep(Table(rule_on, [RULE]))
    kept = len(partitioned.ids("child"))
    report = partitioned.sweep(Table(rule_on, [RULE], children={reference: "cascade"}))

    assert reference in unseen.failures[0].error
    assert kept == 1
    assert (report.failures, report.counts) == ([], {rule_on: 2, key_on: 1})


def test_a_key_to_a_partition_whose_values_may_recur_is_only_waited_for(postgres: Ground) -> None:
    postgres.run(
        "CREATE TABLE parent (id bigint, at {instant}, PRIMARY KEY (id, at)) PARTITION BY RANGE (at)",
        "CREATE TABLE parent_old PARTITION OF parent FOR VALUES FROM (MINVALUE) TO ('2026-02-20')",
        "CREATE TABLE parent_new PARTITION OF parent (UNIQUE (id)) FOR VALUES FROM ('2026-02-20')"
        " TO (MAXVALUE)",
        "CREATE TABLE child (id {key}, parent_id bigint REFERENCES parent_new (id))",
    )

    waiting = older_than("at", keep_for="7d", wait_for=["child.parent_id"])
    for rule, children in ((RULE, {}), (RULE, {"child.parent_id": "delete_first"}), (waiting, {})):
        failures = postgres.sweep(Table("parent", [rule], children=children)).failures
        assert ["child.parent_id" in failure.error for failure in failures] == [True] * (rule is RULE)
    assert postgres.sweep(Table("parent_old", [RULE])).failures == []


def test_a_key_to_an_inheriting_table_counts_for_the_root(postgres: Ground) -> None:
    postgres.run(
        "CREATE TABLE event (id {key}, at {instant})",
        "CREATE TABLE special (PRIMARY KEY (id)) INHERITS (event)",
        "CREATE TABLE note (id {key}, special_id bigint REFERENCES special (id) ON DELETE CASCADE)",
    )
    postgres.fill("event", [(1, ago(days=9))])
    postgres.fill("special", [(1, ago(days=9))])
    postgres.fill("note", [(11, 1)])

    for children in ({}, {"note.special_id": "cascade"}, {"note.special_id": "delete_first"}):
        report = postgres.sweep(Table("event", [RULE], children=children))
        assert "note.special_id" in report.failures[0].error
    waiting = older_than("at", keep_for="7d", wait_for=["note.special_id"])
    assert "special" in postgres.sweep(Table("event", [waiting])).failures[0].error

    assert (postgres.ids("note"), postgres.ids("event")) == ([11], [1, 1])


def test_an_inheriting_table_without_keys_is_swept_with_its_root(postgres: Ground) -> None:
    postgres.run("CREATE TABLE event (id {key}, at {instant})", "CREATE TABLE special () INHERITS (event)")
    postgres.fill("event", [(1, ago(days=9))])
    postgres.fill("special", [(1, ago(days=1)), (2, ago(days=9))])

    report = postgres.sweep(Table("event", [RULE]))

    assert (report.failures, postgres.rows("SELECT id FROM event")) == ([], [(1,)])
    assert postgres.ids("special") == [1]


def test_a_child_that_other_tables_inherit_is_not_taken_along(postgres: Ground) -> None:
    postgres.run(
        "CREATE TABLE parent (id {key}, at {instant})",
        "CREATE TABLE child (id {key}, parent_id bigint REFERENCES parent (id) ON DELETE CASCADE)",
        "CREATE TABLE special () INHERITS (child)",
    )
    postgres.fill("parent", [(1, ago(days=9))])
    postgres.fill("special", [(1, 1)])

    report = postgres.sweep(Table("parent", [RULE], children={"child.parent_id": "delete_first"}))

    assert "special" in report.failures[0].error
    assert postgres.ids("special") == [1]


@pytest.mark.parametrize("action", ACTIONS)
def test_a_key_to_the_own_table_must_be_covered(ground: Ground, action: str) -> None:
    ground.run(
        "CREATE TABLE node (id {key}, parent_id bigint DEFAULT 3 REFERENCES node (id)"
        f" ON DELETE {action}, at {{instant}})"
    )
    ground.fill("node", [(3, None, ago(days=1)), (1, 3, ago(days=9)), (2, 1, ago(days=1))])

    report = ground.sweep(Table("node", [RULE]))

    assert "node.parent_id" in report.failures[0].error
    assert ground.ids("node") == [1, 2, 3]


@pytest.mark.parametrize("children", [{}, {"child.parent_id": "cascade"}])
def test_set_default_is_no_way_to_go_unseen(ground: Ground, children: dict[str, str]) -> None:
    ground.run(
        "CREATE TABLE parent (id {key}, at {instant})",
        "CREATE TABLE child (id {key}, parent_id bigint DEFAULT 3 REFERENCES parent (id)"
        " ON DELETE SET DEFAULT)",
    )
    ground.fill("parent", [(1, ago(days=9)), (3, ago(days=1))])
    ground.fill("child", [(11, 1)])

    report = ground.sweep(Table("parent", [RULE], children=children))

    assert "child.parent_id" in report.failures[0].error
    assert ground.rows("SELECT id, parent_id FROM child") == [(11, 1)]


def test_two_keys_of_one_column_count_its_rows_once(ground: Ground) -> None:
    ground.run(
        "CREATE TABLE parent (id {key}, at {instant})",
        "CREATE TABLE child (id {key}, parent_id bigint REFERENCES parent (id) ON DELETE CASCADE,"
        " FOREIGN KEY (parent_id) REFERENCES parent (id) ON DELETE CASCADE)",
    )
    ground.fill("parent", [(1, ago(days=9))])
    ground.fill("child", [(11, 1)])

    report = ground.sweep(Table("parent", [RULE], children={"child.parent_id": "cascade"}))

    assert report.counts == {"parent": 1, "child": 1}


def test_a_declared_child_that_refers_to_another_table_is_refused(ground: Ground) -> None:
    ground.run(
        "CREATE TABLE parent (id {key}, at {instant})",
        "CREATE TABLE other (id {key})",
        "CREATE TABLE child (id {key}, parent_id bigint REFERENCES other (id))",
    )
    ground.fill("parent", [(1, ago(days=9))])

    report = ground.sweep(Table("parent", [RULE], children={"child.parent_id": "delete_first"}))

    assert "not to" in report.failures[0].error
    assert ground.ids("parent") == [1]


NAMES = ["my table", 'say "hi"', "Upper", "50% off", "it's", "a.b", "select"]


def in_quotes(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


@pytest.mark.parametrize("name", NAMES)
def test_names_of_any_letters_are_swept_by_their_index(ground: Ground, name: str) -> None:
    table, child = in_quotes(name), in_quotes(f"{name} 2")
    ground.run(
        f"CREATE TABLE {table} (id {{key}}, at {{instant}})",
        f"CREATE INDEX {in_quotes(f'{name} by (at)')} ON {table} (at)",
        f"CREATE TABLE {child} (id {{key}}, {table} bigint REFERENCES {table} (id) ON DELETE CASCADE)",
        f"CREATE INDEX {in_quotes(f'{name} by parent')} ON {child} ({table})",
    )
    percent = "%%" if ground.kind == "postgresql" else "%"
    ground.fill(table.replace("%", percent), [(1, ago(days=9)), (2, ago(days=1))])
    ground.fill(child.replace("%", percent), [(11, 1), (21, 2)])
    reference = f"{child}.{table}" if "." in name else f"{name} 2.{name}"
    declared = Table(name, [RULE], children={reference: "cascade"})

    findings = check([Contract("app", [declared])], ground.url)
    [planned] = plan([Contract("app", [declared])], ground.url)
    report = ground.sweep(declared)

    assert (findings, planned.index) == ([], f"{name} by (at)")
    assert report.counts == {name: 1, f"{name} 2": 1}
    assert (ground.ids(table), ground.ids(child)) == ([2], [21])


def test_a_key_that_writes_its_parent_in_another_case_is_followed(sqlite: Ground) -> None:
    sqlite.run(
        "CREATE TABLE Parent (Id INTEGER PRIMARY KEY, at TEXT)",
        "CREATE TABLE child (id INTEGER PRIMARY KEY, parent_id INTEGER REFERENCES PARENT (ID))",
    )
    sqlite.fill("Parent", [(1, ago(days=9))])
    sqlite.fill("child", [(11, 1)])

    report = sqlite.sweep(Table("Parent", [RULE], children={"child.parent_id": "delete_first"}))

    assert report.counts == {"Parent": 1, "child": 1}


@pytest.mark.parametrize("style", ["German", "SQL,DMY", "Postgres,MDY"])
def test_the_date_style_of_the_role_does_not_matter(postgres: Ground, tmp_path: Path, style: str) -> None:
    postgres.run(
        "CREATE TABLE log (at {instant} NOT NULL, day date NOT NULL) PARTITION BY RANGE (at)",
        "CREATE TABLE log_old PARTITION OF log FOR VALUES FROM ('2020-01-02') TO ('2020-02-03')",
        "CREATE TABLE log_new PARTITION OF log FOR VALUES FROM ('2020-02-03') TO (MAXVALUE)",
        "CREATE TABLE days (day date NOT NULL) PARTITION BY RANGE (day)",
        "CREATE TABLE days_old PARTITION OF days FOR VALUES FROM ('2020-01-02') TO ('2020-02-03')",
        "CREATE TABLE session (id {key}, at {instant})",
    )
    postgres.fill("log", [(ago(days=1), ago(days=1).date())])
    postgres.fill("session", [(1, ago(days=300))])
    contract = f"""{SESSIONS}
        [[lifecycle.app.tables]]
        name = "log"
        rules = [{{ drop_partition = "at", keep_for = "90d" }}]
        [[lifecycle.app.tables]]
        name = "days"
        rules = [{{ drop_partition = "day", keep_for = "90d" }}]
    """
    styled = through(postgres, f"DateStyle={style}")

    planned = call(styled, tmp_path, contract, "plan", "--json")
    swept = call(styled, tmp_path, contract, "sweep", "--yes")
    audited = call(styled, tmp_path, contract, "audit")

    assert [result.exit_code for result in (planned, swept, audited)] == [0, 0, 0]
    assert [rule["batches"] for rule in json.loads(planned.stdout)] == [1, 1, 1]
    left = postgres.rows("SELECT relname FROM pg_class WHERE relispartition ORDER BY 1")
    assert (left, postgres.ids("session")) == ([("log_new",)], [])


def test_a_partition_by_number_ends_where_its_bound_says(postgres: Ground) -> None:
    postgres.run(
        "CREATE TABLE log (at_s integer NOT NULL) PARTITION BY RANGE (at_s)",
        "CREATE TABLE log_old PARTITION OF log FOR VALUES FROM (1000000000) TO (1100000000)",
        "CREATE TABLE log_new PARTITION OF log FOR VALUES FROM (1100000000) TO (2100000000)",
    )
    postgres.run("INSERT INTO log VALUES (1050000000), (1900000000)")

    postgres.sweep(Table("log", [drop_partition("at_s", keep_for="90d", unit="s")]))

    assert postgres.rows("SELECT relname FROM pg_class WHERE relispartition") == [("log_new",)]


def test_sizes_count_partitions_at_every_depth(postgres: Ground) -> None:
    postgres.run(
        "CREATE TABLE log (id bigint, at {instant}) PARTITION BY RANGE (id)",
        "CREATE TABLE log_1 PARTITION OF log FOR VALUES FROM (0) TO (1000000) PARTITION BY RANGE (id)",
        "CREATE TABLE log_1_1 PARTITION OF log_1 FOR VALUES FROM (0) TO (1000000)",
        "INSERT INTO log SELECT n, now() FROM generate_series(1, 5000) AS n",
    )

    [audited] = [table for table in audit([], postgres.url) if table.table == "log"]

    assert (audited.bytes or 0) > 100_000
