"""What cannot be judged stops its rule, and says which table, which role and what would help."""

from __future__ import annotations

import json
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

import pytest
from click.testing import CliRunner, Result

import gandy.store.migrations
from gandy.cli.main import main
from gandy.clock import ManualClock
from gandy.errors import ContractInvalidError
from gandy.lifecycle import (
    Contract,
    SweepOptions,
    Table,
    check,
    drop_partition,
    inline,
    keep,
    loads,
    older_than,
    plan,
    run_contracts,
    stale_cursor,
    sweep,
)
from gandy.store.drivers.opening import migrate
from tests.lifecycle.ground import NOW, Ground, ago, ahead

if TYPE_CHECKING:
    from collections.abc import Iterator

RULE = older_than("at", keep_for="7d")
OTHER = Table("other", [RULE])
TELL = "INSERT INTO fired VALUES (OLD.id);"
MODES = {"child.parent_id": "delete_first"}
CONTRACT = """
version = 1
[lifecycle.app]
[[lifecycle.app.tables]]
name = "parent"
rules = [{ older_than = "at", keep_for = "7d" }]
children = { "child.parent_id" = "delete_first" }
triggers = [TRIGGERS]
[[lifecycle.app.tables]]
name = "other"
rules = [{ older_than = "at", keep_for = "7d" }]
"""


@pytest.fixture
def family(ground: Ground) -> Ground:
    make(ground)
    return ground


def make(ground: Ground) -> None:
    ground.run(
        "CREATE TABLE parent (id {key}, at {instant})",
        "CREATE INDEX by_age ON parent (at)",
        "CREATE TABLE child (id {key}, parent_id bigint REFERENCES parent (id) ON DELETE CASCADE)",
        "CREATE INDEX by_parent ON child (parent_id)",
        "CREATE TABLE other (id {key}, at {instant})",
        "CREATE INDEX other_by_age ON other (at)",
        "CREATE TABLE fired (id bigint)",
    )
    ground.fill("parent", [(1, ago(days=9)), (2, ahead(days=9_000))])  # commands go by the real clock
    ground.fill("child", [(11, 1), (21, 2)])
    ground.fill("other", [(1, ago(days=9))])


@pytest.fixture
def role(postgres: Ground) -> Iterator[str]:
    """A role that owns nothing and may do nothing yet, but keep the lifecycle's state."""
    make(postgres)
    name = f"sweeper_{urlsplit(postgres.url).path[1:]}"
    postgres.run(f"CREATE ROLE {name} LOGIN", f"GRANT CREATE, USAGE ON SCHEMA public TO {name}")
    yield name
    postgres.run(f"DROP OWNED BY {name}", f"DROP ROLE {name}")


def as_role(ground: Ground, role: str) -> Ground:
    parts = urlsplit(ground.url)
    return Ground(parts._replace(netloc=f"{role}@{parts.netloc.rpartition('@')[2]}").geturl())


def call(ground: Ground, folder: Path, triggers: str, *arguments: str) -> Result:
    file = folder / "lifecycle.toml"
    file.write_text(CONTRACT.replace("TRIGGERS", triggers), encoding="utf-8")
    command, *options = arguments
    given = ["lifecycle", command, "--contract", str(file), "--target", ground.url, *options]
    return CliRunner().invoke(main, given, prog_name="gandy")


GRANTS = {
    "parent": {"SELECT", "DELETE", "UPDATE"},
    "child": {"SELECT", "DELETE", "UPDATE"},
    "other": {"SELECT", "DELETE"},
}


def grant(ground: Ground, role: str, *, but: tuple[str, str] = ("", "")) -> None:
    for table, rights in GRANTS.items():
        given = sorted(right for right in rights if (table, right) != but)
        ground.run(f"GRANT {', '.join(given)} ON {table} TO {role}")


@pytest.mark.parametrize(
    ("table", "right"), [(table, right) for table, rights in GRANTS.items() for right in sorted(rights)]
)
def test_a_missing_privilege_stops_its_rule_alone_and_check_says_the_grant(
    postgres: Ground, role: str, tmp_path: Path, table: str, right: str
) -> None:
    grant(postgres, role, but=(table, right))
    them = as_role(postgres, role)

    checked = call(them, tmp_path, "", "check", "--json")
    swept = call(them, tmp_path, "", "sweep")

    stopped = "other" if table == "other" else "parent"
    [finding] = [each for each in json.loads(checked.stdout) if each["severity"] == "refused"]
    assert finding["table"] == stopped
    assert (f"public.{table}" in finding["message"], role in finding["message"]) == (True, True)
    assert f"GRANT {right} ON public.{table} TO {role}" in finding["remedy"]
    assert (checked.exit_code, swept.exit_code) == (1, 1)
    left = {"parent": 1, "child": 1, "other": 0} | ({"other": 1} if stopped == "other" else {})
    left |= {} if stopped == "other" else {"parent": 2, "child": 2}
    assert {name: len(postgres.ids(name)) for name in left} == left


def test_a_role_with_just_what_it_needs_sweeps(postgres: Ground, role: str, tmp_path: Path) -> None:
    grant(postgres, role)
    them = as_role(postgres, role)

    assert call(them, tmp_path, "", "check", "--json").exit_code == 0
    assert call(them, tmp_path, "", "sweep").exit_code == 0

    assert (postgres.ids("parent"), postgres.ids("child"), postgres.ids("other")) == ([2], [21], [])


@pytest.mark.parametrize(
    ("action", "mode"),
    [
        *((action, None) for action in ("NO ACTION", "RESTRICT", "CASCADE", "SET NULL", "SET DEFAULT")),
        *(("CASCADE", mode) for mode in ("delete_first", "cascade", "set_null", "wait_for")),
    ],
)
def test_children_in_a_schema_that_the_role_may_not_enter_stop_the_rule(
    postgres: Ground, role: str, action: str, mode: str | None
) -> None:
    grant(postgres, role)
    postgres.run(
        "CREATE SCHEMA hidden",
        "CREATE TABLE hidden.invoice (id {key}, parent_id bigint DEFAULT 2 REFERENCES parent (id)"
        f" ON DELETE {action})",
    )
    postgres.fill("hidden.invoice", [(11, 1)])
    reference = "hidden.invoice.parent_id"
    rule = older_than("at", keep_for="7d", wait_for=[reference] if mode == "wait_for" else [])
    children = MODES if mode in {None, "wait_for"} else {**MODES, reference: str(mode)}
    tables = [Table("parent", [rule], children=children), OTHER]

    report = as_role(postgres, role).sweep(*tables)

    [failure] = report.failures
    assert "hidden.invoice" in failure.error
    assert mode is None or f"GRANT USAGE ON SCHEMA hidden TO {role}" in failure.error
    assert postgres.rows("SELECT id, parent_id FROM hidden.invoice") == [(11, 1)]
    assert (len(postgres.ids("parent")), postgres.ids("other")) == (2, [])


def test_a_hold_of_another_contract_in_a_schema_that_the_role_may_not_enter_stops_no_other_rule(
    postgres: Ground, role: str
) -> None:
    grant(postgres, role)
    postgres.run(
        'CREATE SCHEMA "hid den"',
        'CREATE TABLE "hid den".invoice (id {key}, held boolean)',
        f'GRANT ALL ON ALL TABLES IN SCHEMA "hid den" TO {role}',
    )
    hold = Table("invoice", [keep("held", equals=True), inline("the application")], schema="hid den")
    contracts = [Contract("app", [OTHER]), Contract("legal", [hold])]
    them = as_role(postgres, role)

    findings = check(contracts, them.url)
    planned = {(rule.table, rule.refused is None): rule.rows for rule in plan(contracts, them.url)}
    swept, kept = run_contracts(contracts, them.url, options=SweepOptions(clock=ManualClock(NOW)))

    assert {finding.remedy for finding in findings} == {f'Run: GRANT USAGE ON SCHEMA "hid den" TO {role}'}
    assert planned == {("other", True): 1, ("hid den.invoice", False): 0}
    assert (swept.failures, postgres.ids("other")) == ([], [])
    assert "GRANT USAGE" in kept.failures[0].error


@pytest.mark.parametrize(
    ("hidden", "mode"),
    [
        ("parent", "cascade"),
        ("child", "cascade"),
        ("child", "delete_first"),
        ("child", "set_null"),
        ("child", "wait_for"),
    ],
)
def test_rows_that_row_level_security_may_hide_stop_the_rule(
    postgres: Ground, role: str, hidden: str, mode: str
) -> None:
    grant(postgres, role)
    postgres.run(
        f"ALTER TABLE {hidden} ENABLE ROW LEVEL SECURITY",
        f"CREATE POLICY part ON {hidden} USING (id > 1 AND id <> 11)",
    )
    waits = ["child.parent_id"] if mode == "wait_for" else []
    children = {} if mode == "wait_for" else {"child.parent_id": mode}
    table = Table("parent", [older_than("at", keep_for="7d", wait_for=waits)], children=children)

    report = as_role(postgres, role).sweep(table, OTHER)

    [failure] = report.failures
    assert f"row level security of public.{hidden} is active for the role {role}" in failure.error
    assert (postgres.ids("parent"), postgres.ids("child"), postgres.ids("other")) == ([1, 2], [11, 21], [])


@pytest.mark.parametrize("declared", ["{instant}", "bigint"])  # the unit of numbers is judged by their values
def test_the_table_that_a_rule_reads_must_be_readable(postgres: Ground, role: str, declared: str) -> None:
    grant(postgres, role)
    postgres.run(
        f"CREATE TABLE log (id {{key}}, at {declared})",
        f"CREATE TABLE cursor (id {{key}}, at {declared})",
        f"GRANT SELECT, DELETE, UPDATE ON cursor TO {role}",
    )
    cursor = Table("cursor", [stale_cursor("at", keep_for="1d", log="log", log_at="at")])
    them = as_role(postgres, role)

    [refused, planned] = plan([Contract("app", [cursor, OTHER])], them.url, clock=ManualClock(NOW))
    [failure] = them.sweep(cursor, OTHER).failures

    assert f"GRANT SELECT ON public.log TO {role}" in failure.error
    assert failure.error.partition(";")[0] in (refused.refused or "")
    assert (planned.rows, postgres.ids("other")) == (1, [])


def test_only_the_owner_drops_partitions(postgres: Ground, role: str) -> None:
    postgres.run(
        "CREATE TABLE log (at {instant}) PARTITION BY RANGE (at)",
        "CREATE TABLE log_old PARTITION OF log FOR VALUES FROM ('2020-01-01') TO ('2020-02-01')",
        f"GRANT SELECT, DELETE ON log TO {role}",
    )

    [failure] = as_role(postgres, role).sweep(Table("log", [drop_partition("at", keep_for="1d")])).failures

    assert f"ALTER TABLE public.log OWNER TO {role}" in failure.error


def test_a_role_that_may_not_keep_the_state_is_told_by_check_and_stopped_by_sweep(
    postgres: Ground, role: str, tmp_path: Path
) -> None:
    grant(postgres, role)
    postgres.run(f"REVOKE CREATE ON SCHEMA public FROM {role}", "REVOKE CREATE ON SCHEMA public FROM public")
    them = as_role(postgres, role)
    contract = Contract("app", [OTHER])

    [finding] = check([contract], them.url)
    assert f"GRANT CREATE ON SCHEMA public TO {role}" in finding.remedy
    swept = call(them, tmp_path, "", "sweep")
    assert (swept.exit_code, "GRANT CREATE" in swept.stderr) == (1, True)
    [failure] = them.sweep(OTHER).failures
    assert (failure.table, "GRANT CREATE" in failure.error) == ("", True)

    postgres.sweep(Table("other", [older_than("at", keep_for="900d")]))
    [finding] = check([contract], them.url)
    assert "GRANT SELECT, INSERT, UPDATE, DELETE ON public.gandy_lifecycle_audit" in finding.remedy
    with closing(postgres.connect()) as connection:
        connection.execute(
            "GRANT SELECT, INSERT, UPDATE, DELETE ON gandy_lifecycle_audit, gandy_lifecycle_hold,"
            f" gandy_lifecycle_lease, gandy_lifecycle_quarantine, gandy_lifecycle_rule TO {role}"
        )
    assert check([contract], them.url) == []
    assert them.sweep(OTHER).counts == {"other": 1}


def test_an_audit_without_create_reads_keeps_no_history_and_says_so(postgres: Ground, role: str) -> None:
    postgres.run(
        "REVOKE CREATE ON SCHEMA public FROM public",
        f"REVOKE CREATE ON SCHEMA public FROM {role}",
        "CREATE SCHEMA hidden",
        "CREATE TABLE hidden.invoice (id {key}, parent_id bigint REFERENCES parent (id))",
    )
    them = as_role(postgres, role)
    arguments = ["lifecycle", "audit", "--target", them.url, "--json"]

    result = CliRunner().invoke(main, arguments, prog_name="gandy")

    assert result.exit_code == 0, result.output
    audited = {table["table"]: table for table in json.loads(result.stdout)}
    assert {"parent", "child", "other"} <= audited.keys()
    assert "GRANT CREATE" in audited["parent"]["no_history"]
    assert "no history was kept" in result.stderr
    assert postgres.rows("SELECT relname FROM pg_class WHERE relname LIKE 'gandy%'") == []


def guard(ground: Ground, table: str, name: str) -> None:
    """A trigger that tells of each row that is deleted."""
    if ground.kind == "postgresql":
        ground.run(
            f"CREATE FUNCTION {name}() RETURNS trigger LANGUAGE plpgsql"
            f" AS $$ BEGIN {TELL} RETURN OLD; END $$",
            f"CREATE TRIGGER {name} BEFORE DELETE ON {table} FOR EACH ROW EXECUTE FUNCTION {name}()",
        )
    else:
        ground.run(f"CREATE TRIGGER {name} AFTER DELETE ON {table} BEGIN {TELL} END")


@pytest.mark.parametrize(
    ("table", "listed"), [("parent", "tell"), ("parent", "parent.tell"), ("child", "child.tell")]
)
def test_a_trigger_that_is_not_listed_stops_its_rule_and_one_that_is_fires(
    family: Ground, tmp_path: Path, table: str, listed: str
) -> None:
    guard(family, table, "tell")
    shortest = "tell" if table == "parent" else "child.tell"

    checked = call(family, tmp_path, "", "check", "--json")
    planned = call(family, tmp_path, "", "plan", "--json")
    swept = call(family, tmp_path, "", "sweep")
    kept = (family.ids("parent"), family.ids("child"), family.ids("fired"), family.ids("other"))
    agreed = call(family, tmp_path, f'"{listed}"', "sweep")

    assert [result.exit_code for result in (checked, planned, swept)] == [1, 1, 1]
    [finding] = [each for each in json.loads(checked.stdout) if each["severity"] == "refused"]
    assert "the trigger tell of" in finding["message"]
    assert f'triggers = ["{shortest}"]' in finding["remedy"]
    assert kept == ([1, 2], [11, 21], [], [])
    assert agreed.exit_code == 0
    assert (family.ids("parent"), family.ids("child")) == ([2], [21])
    assert family.ids("fired") == [1 if table == "parent" else 11]


def test_triggers_that_will_fire_are_named_by_check_and_plan_without_a_warning(
    family: Ground, tmp_path: Path
) -> None:
    guard(family, "parent", "tell")
    guard(family, "child", "tell_child")
    names = '"tell", "child.tell_child"'

    checked = call(family, tmp_path, names, "check", "--json")
    planned = call(family, tmp_path, names, "plan", "--json")
    shown = call(family, tmp_path, names, "plan")

    assert (checked.exit_code, planned.exit_code) == (0, 0)
    findings = json.loads(checked.stdout)
    assert [finding["severity"] for finding in findings] == ["information", "information"]
    assert ["tell_child" in finding["message"] for finding in findings] == [False, True]
    assert [rule["triggers"] for rule in json.loads(planned.stdout)] == [["tell", "child.tell_child"], []]
    assert "fires: table parent" in shown.stderr


@pytest.mark.parametrize("event", ["INSERT", "UPDATE", "UPDATE OF id"])
def test_triggers_of_other_events_stop_nothing(sqlite: Ground, event: str) -> None:
    make(sqlite)
    sqlite.run(f'CREATE TRIGGER "after delete" AFTER {event} ON parent BEGIN SELECT 1; END')
    sqlite.run(f"CREATE TRIGGER [delete on] {event} ON child BEGIN SELECT 1; END")

    assert sqlite.sweep(Table("parent", [RULE], children=MODES)).failures == []


@pytest.mark.parametrize("name", ['"after insert"', "[insert on]", "`insert`", "'insert'", "plain"])
def test_a_delete_trigger_is_known_whatever_its_name_is(sqlite: Ground, name: str) -> None:
    make(sqlite)
    sqlite.run(f"create trigger if not exists {name} delete ON parent BEGIN SELECT 1; END")

    [failure] = sqlite.sweep(Table("parent", [RULE], children=MODES)).failures

    assert name.strip("\"[]`'") in failure.error


def test_a_disabled_trigger_stops_nothing_and_a_listed_one_that_is_gone_is_told(postgres: Ground) -> None:
    make(postgres)
    guard(postgres, "parent", "tell")
    postgres.run("ALTER TABLE parent DISABLE TRIGGER tell")
    table = Table("parent", [RULE], children=MODES, triggers=["tell"])

    [finding] = check([Contract("app", [table])], postgres.url)

    assert (finding.severity, "no DELETE trigger tell" in finding.message) == ("warning", True)
    assert postgres.sweep(Table("parent", [RULE], children=MODES)).counts == {"parent": 1, "child": 1}


def test_a_trigger_of_a_partition_is_one_of_the_table(postgres: Ground) -> None:
    make(postgres)
    postgres.run(
        "CREATE TABLE log (id bigint, at {instant}, PRIMARY KEY (id, at)) PARTITION BY RANGE (at)",
        "CREATE TABLE log_all PARTITION OF log FOR VALUES FROM (MINVALUE) TO (MAXVALUE)",
    )
    postgres.fill("log", [(1, ago(days=9))])
    guard(postgres, "log_all", "tell")

    [failure] = postgres.sweep(Table("log", [RULE])).failures
    assert "the trigger tell of public.log_all" in failure.error
    assert postgres.sweep(Table("log", [RULE], triggers=["tell"])).counts == {"log": 1}
    assert postgres.ids("fired") == [1]


def test_a_rule_on_delete_is_listed_like_a_trigger(postgres: Ground) -> None:
    make(postgres)
    postgres.run("CREATE RULE quietly AS ON DELETE TO other DO ALSO INSERT INTO fired VALUES (OLD.id)")

    [failure] = postgres.sweep(OTHER).failures
    assert 'triggers = ["quietly"]' in failure.error
    assert (postgres.ids("other"), postgres.ids("fired")) == ([1], [])


TWO = """
version = 1
[lifecycle.one]
[[lifecycle.one.tables]]
name = "event"
rules = [{ older_than = "at", keep_for = "7d" }]
[lifecycle.two]
DATABASE
[[lifecycle.two.tables]]
name = "event"
SCHEMA
rules = [RULE]
"""
BOUND = '{ older_than = "at", keep_for = "1d" }'


@pytest.mark.parametrize("schema", ["", 'schema = "public"'])
def test_one_table_in_two_contracts_of_a_file_is_refused(schema: str) -> None:
    with pytest.raises(ContractInvalidError, match="bounded by the contract one already"):
        loads(TWO.replace("RULE", BOUND).replace("DATABASE", "").replace("SCHEMA", schema))


@pytest.mark.parametrize(
    ("database", "schema"), [('database = { env = "ELSEWHERE" }', ""), ("", 'schema = "archive"')]
)
def test_two_tables_of_one_name_are_not_one_table(database: str, schema: str) -> None:
    text = TWO.replace("RULE", BOUND).replace("DATABASE", database).replace("SCHEMA", schema)

    assert [contract.name for contract in loads(text)] == ["one", "two"]


@pytest.mark.parametrize("act", [check, plan, sweep])
def test_one_table_in_two_contracts_of_a_call_is_refused(family: Ground, act: object) -> None:
    contracts = [Contract("one", [OTHER], database="sqlite:///elsewhere.db"), Contract("two", [OTHER])]
    assert callable(act)

    with pytest.raises(ContractInvalidError, match="bounded by the contract one already"):
        act(contracts, family.url)

    assert family.ids("other") == [1]


@pytest.mark.parametrize("name", ["gandy", "Gandy"])
def test_a_contract_named_like_gandy_itself_is_refused(name: str) -> None:
    with pytest.raises(ContractInvalidError, match="choose another name"):
        Contract(name, [OTHER])


@pytest.mark.parametrize(
    ("name", "schema"),
    [("gandy_lifecycle_rule", None), ("gandy_lifecycle_audit", "app"), ("metadata", "gandy")],
)
def test_rules_on_tables_of_gandy_and_of_the_lifecycle_are_refused(name: str, schema: str | None) -> None:
    with pytest.raises(ContractInvalidError, match="itself"):
        Table(name, [RULE], schema=schema)


def test_rules_on_tables_of_gandys_own_file_are_refused_and_on_others_of_that_name_not(
    ground: Ground,
) -> None:
    tables = [Table("history", [older_than("end_time", keep_for="7d")])]
    make(ground)
    ground.run("CREATE TABLE history (id {key}, end_time {instant})")
    assert ground.sweep(*tables).failures == []
    ground.run("DROP TABLE history")
    migrate(ground.url)
    inside = ground
    if ground.kind == "postgresql":
        inside = Ground(
            f"{ground.url}{'&' if '?' in ground.url else '?'}options=-c%20search_path%3Dgandy,public"
        )

    report = inside.sweep(*tables, OTHER)

    assert ["a table of Gandy itself" in failure.error for failure in report.failures] == [True]
    assert ground.ids("other") == []


def test_the_names_of_gandys_tables_are_those_of_its_migrations() -> None:
    from gandy.lifecycle.contract.names import GANDY_TABLES  # noqa: PLC0415  # this test alone needs it

    folder = Path(gandy.store.migrations.__path__[0])
    lines = [line for file in sorted(folder.rglob("*.sql")) for line in file.read_text().splitlines()]
    heads = [line for line in lines if line.startswith("CREATE TABLE ") and " PARTITION OF " not in line]
    made = {line.split()[2].removeprefix("gandy.") for line in heads}
    renamed = {line.split()[2] for line in lines if line.startswith("ALTER TABLE ") and " RENAME TO " in line}

    assert made - renamed == GANDY_TABLES


@pytest.mark.parametrize("field", ["keep_for", "grace"])
def test_a_duration_beyond_all_calendars_is_refused_with_the_range(
    family: Ground, tmp_path: Path, field: str
) -> None:
    rule = {
        "keep_for": '{ older_than = "at", keep_for = "9999999d" }',
        "grace": '{ expires = "at", grace = "9999999d" }',
    }
    file = tmp_path / "long.toml"
    text = f'version = 1\n[[lifecycle.app.tables]]\nname = "other"\nrules = [{rule[field]}]\n'
    file.write_text(text, encoding="utf-8")

    for command in ("check", "plan", "sweep"):
        arguments = ["lifecycle", command, "--contract", str(file), "--target", family.url]
        result = CliRunner().invoke(main, arguments, prog_name="gandy")
        assert (result.exit_code, "between 0 and 36500d" in result.stderr) == (2, True)


def test_a_role_that_may_only_read_plans_with_holds_that_are_recorded(postgres: Ground, role: str) -> None:
    postgres.run("CREATE TABLE note (id {key}, at {instant}, held {flag})", "CREATE INDEX ON note (at)")
    postgres.fill("note", [(1, ago(days=9), False), (2, ago(days=9), True)])
    postgres.sweep(Table("note", [keep("held", equals=True)]))
    postgres.run(f"GRANT SELECT ON ALL TABLES IN SCHEMA public TO {role}", f"GRANT DELETE ON note TO {role}")

    rule = older_than("at", keep_for="7d")
    contract = Contract("another", [Table("note", [rule])])
    [planned] = plan([contract], as_role(postgres, role).url, clock=ManualClock(NOW))

    assert (planned.rows, planned.refused) == (1, None)
