"""Values that no rule can read: their rows stay and are counted, the others go."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from itertools import product
from typing import TYPE_CHECKING

import pytest
from click.testing import CliRunner

from gandy.cli.main import main
from gandy.clock import ManualClock
from gandy.errors import ContractInvalidError, ContractRefusedError
from gandy.lifecycle import (
    Contract,
    Table,
    cap,
    check,
    keep,
    keep_last,
    loads,
    older_than,
    plan,
    run_contracts,
    stale_cursor,
    sweep,
    terminal,
)
from gandy.lifecycle.selection.findings import Severity
from tests.lifecycle.ground import NOW, ago, ahead

if TYPE_CHECKING:
    from pathlib import Path

    from gandy.lifecycle.contract.rules import Rule
    from tests.lifecycle.ground import Ground

RULE = older_than("at", keep_for="1h")
CLOCKS = ["05:06", "05:06:07", "05:06:07.5", "05:06:07.123456789"]
ZONES = ["", "Z", "+00:00", "+0000"]
TAILS = [
    "-10:00", "+02:00", "-0800", "+00", "-00:00", " PST", " or when paid", " ", "x", "ZZ", "Z+02:00",
    "+00:00Z", ".", ":", "\0", "\0-10:00", "\n", "é", "+00:00:01", " UTC", "z", "-", "0x",
]  # fmt: skip
HEADS = [" ", "-", "+", "x", "0", "1", "\0", "'"]
DAYS = [
    "2020-00-00", "2020-13-01", "2020-02-30", "2019-02-29", "1900-02-29", "2020-04-31", "0000-00-00",
    "0000-01-01", "2020-1-01", "20-01-01", "2020/01/01", "2020-01-32", "٢٠٢٠-01-01",
]  # fmt: skip
TIMES = [
    "24:00", "25:00:00", "99:99:99", "05:60", "05:06:60", "05:06:99.5", "5:06", "05:6:07", "05-06",
    "05:06:07,5", "05:06:07.5.5", "05:06.5", "", "05", "0506", "noon",
]  # fmt: skip
NO_INSTANTS = ["", " ", "never", "infinity", "NaN", b"\x00\xff", "0", "-1", 0, 2**62, 1.5, "2020-01-01+02:00"]


def texts(separator: str) -> list[object]:
    """Every way that is known to write an instant, and what is near to one."""
    clocks = [clock + zone for clock, zone in product(CLOCKS, ZONES)]
    ends = [separator + clock for clock in clocks] if separator else [""]
    good = [f"2020-03-04{end}" for end in ends] + [f"2999-12-31{end}" for end in ends]
    tailed = [f"{text}{tail}" for text, tail in product(good, TAILS)]
    headed = [f"{head}{text}" for head, text in product(HEADS, good)]
    days = [f"{day}{end}" for day, end in product(DAYS, ends[:3])]
    times = [f"2020-03-04{separator or ' '}{time}{zone}" for time, zone in product(TIMES, ZONES)]
    others = [f"2020-03-04{other}05:06:07" for other in " T_t" if other != separator]
    return list(dict.fromkeys([*good, *tailed, *headed, *days, *times, *others, *NO_INSTANTS]))


def instant_of(value: object, separator: str) -> datetime | None:
    """What a text means, by the letter of the forms that are documented."""
    if not isinstance(value, str) or not value.isascii():
        return None
    day, clock = value[:10], value[10:]
    if not separator:
        return instant(day, "%Y-%m-%d", length=10) if not clock else None
    if not clock.startswith(separator):
        return None
    for zone in ("Z", "+00:00", "+0000"):
        if clock.endswith(zone):
            clock = clock.removesuffix(zone)
            break
    whole, point, fraction = clock[1:].partition(".")
    if point and not (fraction.isdigit() and len(whole) == len("05:06:07")):
        return None
    minutes = instant(f"{day} {whole}", "%Y-%m-%d %H:%M", length=16)
    return minutes or instant(f"{day} {whole}", "%Y-%m-%d %H:%M:%S", length=19)


def instant(text: str, form: str, *, length: int) -> datetime | None:
    try:
        read = datetime.strptime(text, form).replace(tzinfo=UTC)
    except ValueError:
        return None
    return read if len(text) == length and read.strftime(form)[-5:] == text[-5:] else None


def make(ground: Ground, values: list[object], *, name: str = "event") -> None:
    ground.run(
        f"CREATE TABLE {name} (id INTEGER PRIMARY KEY, at)",
        f"CREATE INDEX {name}_at ON {name} (at)",
    )
    ground.fill(name, list(enumerate(values)))


@pytest.mark.parametrize("separator", ["", " ", "T"])
def test_only_whole_instants_of_the_columns_form_go(sqlite: Ground, separator: str) -> None:
    usual = ["", "05:06:07"][bool(separator)]
    many = [f"2001-{month:02}-{day:02}{separator}{usual}" for month in range(1, 13) for day in range(1, 29)]
    late = [value.replace("2001", "2998") for value in many]
    values: list[object] = [*many, *late, *texts(separator)]
    make(sqlite, values)

    report = sqlite.sweep(Table("event", [RULE]))

    assert report.is_clean
    assert [" rows are kept" in warning.message for warning in report.warnings] == [True]
    left = set(sqlite.ids("event"))
    read = [instant_of(value, separator) for value in values]
    stays = {index for index, at in enumerate(read) if at is None or at > NOW}
    assert [values[index] for index in sorted(left ^ stays)] == []


def test_a_part_of_a_microsecond_ahead_is_not_taken(sqlite: Ground) -> None:
    cut = ago(hours=1).strftime("%Y-%m-%dT%H:%M:%S.%f")
    make(sqlite, [cut + "Z", cut + "0001Z", cut + "9Z", cut + "+00:00", cut])

    sqlite.sweep(Table("event", [RULE]))

    assert sqlite.ids("event") == [1, 2]


@pytest.mark.parametrize("separator", ["", " ", "T"])
def test_the_index_serves_the_range_of_texts(sqlite: Ground, separator: str) -> None:
    clock = f"{separator}05:06:07" if separator else ""
    values = [f"{year}-03-04{clock}" for year in range(1000, 9000)] * 2
    make(sqlite, list(values))

    assert check([Contract("app", [Table("event", [RULE])])], sqlite.url) == []
    [planned] = plan([Contract("app", [Table("event", [RULE])])], sqlite.url)
    assert planned.index == "event_at"


@pytest.mark.parametrize("strange", NO_INSTANTS, ids=repr)
@pytest.mark.parametrize("copies", [1, 50])
def test_a_value_that_is_no_instant_stops_neither_its_rule_nor_another_table(
    sqlite: Ground, strange: object, copies: int
) -> None:
    values: list[object] = [ago(hours=2), ago(hours=9), ahead(days=9)]
    make(sqlite, [*values, *[strange] * copies])
    make(sqlite, values, name="other")
    contract = Contract("app", [Table("event", [RULE]), Table("other", [RULE])])
    clock = ManualClock(NOW)

    findings = check([contract], sqlite.url, clock=clock)
    [planned, other] = plan([contract], sqlite.url, clock=clock)
    report = sqlite.sweep(*contract.tables)

    assert [finding.severity for finding in findings] == [Severity.WARNING]
    assert f"{copies} rows are kept" in findings[0].message
    assert f"{copies} rows are kept" in planned.warnings[0]
    assert (planned.rows, other.rows) == (2, 2)
    assert report.is_clean
    assert len(sqlite.ids("event")) == 1 + copies
    assert sqlite.ids("other") == [2]


def test_many_strange_values_at_both_ends_are_counted_as_far_as_they_were_read(sqlite: Ground) -> None:
    make(sqlite, [*[""] * 1500, *[ago(hours=2)] * 40, *["never"] * 1500])

    report = sqlite.sweep(Table("event", [RULE]))

    assert report.is_clean
    assert len(sqlite.ids("event")) == 3000
    assert "at least 2,000 rows are kept" in report.warnings[0].message


@pytest.mark.parametrize(
    "values",
    [["never", ""], ["2020-01-01 00:00:00", "2020-01-01T00:00:00"], ["2020-01-01 00:00:00", 1_600_000_000]],
)
def test_a_column_without_one_form_stops_its_own_rule_alone(sqlite: Ground, values: list[object]) -> None:
    make(sqlite, values)
    make(sqlite, [ago(hours=2)], name="other")

    [report] = sweep([Contract("app", [Table("event", [RULE]), Table("other", [RULE])])], sqlite.url)

    assert [failure.table for failure in report.failures] == ["event"]
    assert len(sqlite.ids("event")) == len(values)
    assert sqlite.ids("other") == []


def test_a_renamed_hold_of_another_contract_stops_only_the_rules_it_may_hold_rows_of(ground: Ground) -> None:
    for name in ("held", "free"):
        ground.run(f"CREATE TABLE {name} (id {{key}}, at {{instant}}, flag {{flag}})")
        ground.fill(name, [(1, ago(hours=2), None)])
    rules = Contract("app", [Table("held", [RULE]), Table("free", [RULE])])
    hold = Contract("legal", [Table("held", [keep("hold", equals=True)])])
    unclear = Contract("other", [Table("held", [keep("flag", equals="perhaps")])])

    with pytest.raises(ContractRefusedError, match="no column hold"):
        sweep([hold], ground.url)
    for beside in [hold, unclear][: 2 if ground.kind == "postgresql" else 1]:
        findings = check([rules], ground.url, beside=[beside])
        assert {(found.table, found.severity) for found in findings if found.severity.stops} == {
            ("held", Severity.REFUSED)
        }

    report = run_contracts([rules, hold], ground.url)[0]

    assert [failure.table for failure in report.failures] == ["held"]
    assert ground.ids("held") == [1]
    assert ground.ids("free") == []


BROKEN = "CAST(x'ff' AS TEXT)"
CONTRACT = """
version = 1
[lifecycle.app]
batch = { start = 1, max = 2 }
[[lifecycle.app.tables]]
name = "event"
rules = [{ older_than = "at", keep_for = "1h" }]
triggers = ["t"]
children = { 'part.event' = "delete_first" }
[[lifecycle.app.tables]]
name = "other"
rules = [{ older_than = "at", keep_for = "1h" }]
"""


def broken(sqlite: Ground, *statements: str) -> None:
    """Rows whose keys are not UTF-8, and a second table."""
    sqlite.run(
        "CREATE TABLE event (id TEXT PRIMARY KEY, at TEXT)",
        "CREATE INDEX event_at ON event (at)",
        "CREATE TABLE part (id TEXT PRIMARY KEY, event TEXT REFERENCES event)",
        "CREATE INDEX part_event ON part (event)",
        "CREATE TABLE other (id INTEGER PRIMARY KEY, at TEXT)",
        "INSERT INTO other VALUES (1, '2020-01-01 00:00:00')",
        "INSERT INTO event VALUES ('a', '2020-01-01 00:00:00'), ('z', '2999-01-01 00:00:00')",
        f"INSERT INTO event VALUES ({BROKEN}, '2020-01-01 00:00:00')",  # noqa: S608  # a constant
        *statements,
    )


def call(sqlite: Ground, tmp_path: Path, command: str, *options: str) -> str:
    file = tmp_path / "lifecycle.toml"
    file.write_text(CONTRACT, encoding="utf-8")
    arguments = ["lifecycle", command, "--contract", str(file), "--target", sqlite.url, *options]
    told = CliRunner().invoke(main, arguments, prog_name="gandy")
    assert told.exit_code == 0, told.output
    return told.output


def keys(sqlite: Ground, table: str = "event") -> list[bytes]:
    return [row[0] for row in sqlite.rows(f"SELECT CAST(id AS BLOB) FROM {table} ORDER BY 1")]  # noqa: S608


def test_a_key_that_is_not_utf_8_goes_with_its_children(sqlite: Ground, tmp_path: Path) -> None:
    broken(sqlite, f"INSERT INTO part VALUES ({BROKEN}, {BROKEN}), ('p', 'a'), ('q', 'z')")  # noqa: S608

    call(sqlite, tmp_path, "check")
    call(sqlite, tmp_path, "plan")
    call(sqlite, tmp_path, "sweep", "--yes")

    assert keys(sqlite) == [b"z"]
    assert keys(sqlite, "part") == [b"q"]
    assert sqlite.ids("other") == []


def test_a_key_that_is_not_utf_8_is_quarantined_like_any_other(sqlite: Ground, tmp_path: Path) -> None:
    trigger = f"BEFORE DELETE ON event WHEN old.id = {BROKEN} BEGIN SELECT raise(ABORT, 'no'); END"
    broken(sqlite, f"CREATE TRIGGER t {trigger}")

    call(sqlite, tmp_path, "sweep", "--yes")

    assert keys(sqlite) == [b"z", b"\xff"]
    assert sqlite.ids("other") == []
    call(sqlite, tmp_path, "quarantine")
    [row] = json.loads(call(sqlite, tmp_path, "quarantine", "--json"))
    assert row["error"] == "no"
    assert json.loads(call(sqlite, tmp_path, "quarantine", "--release", "--json")) == {"released": 1}


def test_an_instant_that_is_not_utf_8_stays_and_is_counted(sqlite: Ground, tmp_path: Path) -> None:
    broken(sqlite, f"INSERT INTO event VALUES ('b', {BROKEN}), ('c', {BROKEN} || '2020-01-01')")  # noqa: S608

    assert "2 rows are kept" in call(sqlite, tmp_path, "check")
    assert "2 rows are kept" in call(sqlite, tmp_path, "plan")
    call(sqlite, tmp_path, "sweep", "--yes")

    assert keys(sqlite) == [b"b", b"c", b"z"]


@pytest.mark.parametrize(
    ("rule", "words"),
    [
        ("{ cap = 2147483648, order_by = 'at' }", "cap: must be between 1 and 2147483647"),
        ("{ keep_last = 9223372036854775808, order_by = 'at' }", "keep_last: must be between 1 and 2"),
        ("{ keep = { column = 'flag', equals = 9223372036854775808 } }", "equals: must be between -92"),
        (
            "{ terminal = 's', states = [-9223372036854775809], at = 'at', keep_for = '1h' }",
            "states: must be between",
        ),
        ("{ keep = { column = 'flag', equals = inf } }", "equals: needs a number"),
    ],
)
def test_numbers_that_no_database_holds_are_refused_with_their_range(rule: str, words: str) -> None:
    with pytest.raises(ContractInvalidError, match=words):
        loads(f'version = 1\n[lifecycle.app]\n[[lifecycle.app.tables]]\nname = "event"\nrules = [{rule}]\n')


def test_the_largest_numbers_are_swept_by(ground: Ground) -> None:
    ground.run("CREATE TABLE event (id {key}, at {instant}, state bigint)")
    ground.fill("event", [(1, ago(hours=2), 2**63 - 1), (2, ago(hours=2), -(2**63)), (3, ago(hours=2), 5)])
    rules: list[Rule] = [
        terminal("state", states=[5, 2**63 - 1], at="at", keep_for="1h"),
        keep("state", equals=2**63 - 1),
        cap(2**31 - 1, order_by="at"),
        keep_last(2**31 - 1, order_by="at", per=["state"]),
    ]

    report = ground.sweep(Table("event", rules))

    assert report.is_clean
    assert ground.ids("event") == [1, 2]


def test_an_unforeseen_exception_of_one_rule_leaves_the_others_to_go(
    ground: Ground, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("event", "other"):
        ground.run(f"CREATE TABLE {name} (id {{key}}, at {{instant}})")
        ground.fill(name, [(1, ago(hours=2))])

    def fail(*_: object) -> None:
        raise OverflowError("too large")

    monkeypatch.setattr("gandy.lifecycle.supervisor.run.CapSweep.run", fail)
    capped = Table("event", [cap(1, order_by="at")])

    late = Contract("late", [Table("event", [keep("id", equals=7)])])

    [report, second] = sweep([Contract("app", [capped, Table("other", [RULE])]), late], ground.url)

    assert [failure.error for failure in report.failures] == ["OverflowError: too large"]
    assert ground.ids("other") == []
    assert second.is_clean


def test_a_child_whose_name_holds_a_dot_is_named_in_quotes(ground: Ground) -> None:
    ground.run(
        "CREATE TABLE event (id {key}, at {instant})",
        'CREATE TABLE "my.part" (id {key}, event bigint REFERENCES event)',
    )
    ground.fill("event", [(1, ago(hours=2)), (2, ago(hours=2))])
    ground.fill('"my.part"', [(1, 1)])
    named = '"my.part".event'

    [refused] = check([Contract("app", [Table("event", [RULE])])], ground.url)
    assert f"children = {{ '{named}' = \"delete_first\" }}" in refused.message.replace("public.", "")
    assert ground.sweep(Table("event", [older_than("at", keep_for="1h", wait_for=[named])])).is_clean
    assert ground.ids("event") == [1]
    assert ground.sweep(Table("event", [RULE], children={named: "delete_first"})).is_clean
    assert ground.ids("event") == []


def test_a_key_to_a_missing_column_says_so(sqlite: Ground) -> None:
    make(sqlite, [ago(hours=2)])
    make(sqlite, [ago(hours=2)], name="other")
    sqlite.run("CREATE TABLE part (id INTEGER PRIMARY KEY, event INTEGER REFERENCES event (nope))")
    rule = older_than("at", keep_for="1h", wait_for=["part.event"])

    report = sqlite.sweep(Table("event", [rule]), Table("other", [RULE]))

    [failure] = report.failures
    assert "part.event refers to the column nope of event, which does not exist" in failure.error
    assert sqlite.ids("other") == []


@pytest.mark.parametrize("strange", ["2026-03-01T12:00:00.000000+10:00", "when paid", b"x"])
def test_a_log_with_a_value_that_is_no_instant_keeps_its_cursors(sqlite: Ground, strange: object) -> None:
    make(sqlite, [ago(hours=2)], name="reader")
    make(sqlite, [ago(hours=1), ahead(hours=1), strange], name="log")
    rule = stale_cursor("at", keep_for="1h", log="log", log_at="at")

    assert sqlite.sweep(Table("reader", [rule])).is_clean
    assert sqlite.ids("reader") == [0]

    sqlite.run("DELETE FROM log WHERE id = 2")
    sqlite.sweep(Table("reader", [rule]))
    assert sqlite.ids("reader") == []
