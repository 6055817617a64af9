"""Ways in which hand-written deletion jobs went wrong; those not here stand with the rule they are about."""

from __future__ import annotations

from contextlib import closing
from typing import TYPE_CHECKING

from sqlalchemy import create_engine

from gandy.clock import ManualClock
from gandy.lifecycle import Contract, SweepOptions, Table, expires, older_than, run_contracts, terminal
from gandy.lifecycle.advisor.survey import survey
from gandy.lifecycle.database.target import open_target
from gandy.lifecycle.driver.levels import delete_rows
from gandy.lifecycle.selection.statements import delete_range, nth_row, rows_of
from gandy.lifecycle.selection.walks import AgeWalk
from tests.lifecycle.ground import NOW, ago, steps_of

if TYPE_CHECKING:
    from sqlalchemy.sql.elements import ClauseElement

    from gandy.lifecycle.selection.walks import Selection
    from tests.lifecycle.ground import Ground

LEASES = Table("lease", [expires("expires_at")])


def make(ground: Ground, rows: int, table: str = "lease") -> None:
    ground.run(f"CREATE TABLE {table} (id {{key}}, expires_at {{instant}})")
    ground.run(f"CREATE INDEX {table}_by_expiry ON {table} (expires_at)")
    ground.fill(table, [(n, ago(seconds=rows - n + 1)) for n in range(rows)])


def selection_of(ground: Ground) -> Selection:
    with open_target(ground.url) as session:
        [rule] = survey(session, Contract("app", [LEASES]), NOW).rules
    [walk] = rule.walks
    assert isinstance(walk, AgeWalk)
    return walk.frozen_at(NOW)


def test_no_delete_takes_its_rows_from_a_limited_sub_select(postgres: Ground) -> None:
    """`IN (SELECT ... LIMIT n FOR UPDATE SKIP LOCKED)` deleted 20 of 20 rows under one plan."""
    make(postgres, 3)
    selection = selection_of(postgres)
    end = (ago(seconds=1), 2)

    locked = rows_of(selection.table, has_locks=True).only([("16384", "(0,1)"), ("16384", "(0,2)")])
    for statement in (delete_range(selection, None, end), delete_rows(locked)):
        text = rendered(statement)
        assert "SKIP LOCKED" not in text
        assert "LIMIT" not in text
        assert "SELECT" not in text.removeprefix("SELECT")


def test_the_delete_itself_asks_whether_the_row_is_dead(postgres: Ground) -> None:
    """A lease renewed while the sweep waits was deleted, because only the sub-select tested the expiry."""
    make(postgres, 3)
    selection = selection_of(postgres)

    text = rendered(delete_range(selection, None, (ago(seconds=1), 2)))

    assert "lease.expires_at <=" in text


def test_every_batch_is_committed_on_its_own(ground: Ground) -> None:
    """All batches in one transaction bound nothing."""
    make(ground, 50)
    seen: list[int] = []
    contract = Contract("app", [LEASES], batch=steps_of(10))
    by = SweepOptions(clock=ManualClock(NOW), pruned=lambda *_: seen.append(len(ground.ids("lease"))))

    run_contracts([contract], ground.url, options=by)

    assert seen == [40, 30, 20, 10, 0]


def test_one_poison_row_does_not_stop_twelve_tables(ground: Ground) -> None:
    names = [f"t{number}" for number in range(12)]
    for name in names:
        make(ground, 20, name)
    ground.run("CREATE TABLE held (id {key}, t0_id bigint)")
    guard = {
        "postgresql": (
            "CREATE FUNCTION no() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RAISE EXCEPTION 'no'; END $$",
            "CREATE TRIGGER g BEFORE DELETE ON t0 FOR EACH ROW WHEN (OLD.id = 7) EXECUTE FUNCTION no()",
        ),
        "sqlite": (
            "CREATE TRIGGER g BEFORE DELETE ON t0 WHEN OLD.id = 7 BEGIN SELECT RAISE(ABORT, 'no'); END",
        ),
    }
    ground.run(*guard[ground.kind])

    for _ in range(2):
        ground.sweep(*(Table(name, [expires("expires_at")], triggers=["g"]) for name in names))

    assert [len(ground.ids(name)) for name in names] == [1, *[0] * 11]


def test_one_tick_sweeps_as_many_batches_as_there_is_work_for(ground: Ground) -> None:
    """One batch per tick caps the sweep below the arrival rate, in silence."""
    make(ground, 1_000)
    contract = Contract("app", [LEASES], batch=steps_of(10))

    [report] = run_contracts([contract], ground.url, options=SweepOptions(clock=ManualClock(NOW)))

    assert report.rules[0].batches == 100
    assert ground.ids("lease") == []


def test_a_walk_does_not_wade_through_what_it_deleted_while_a_snapshot_is_held(postgres: Ground) -> None:
    """Batches that restart at the head of the index slow down as they go."""
    make(postgres, 20_000)
    with closing(postgres.connect()) as old_snapshot:
        old_snapshot.execute("BEGIN ISOLATION LEVEL REPEATABLE READ")
        old_snapshot.execute("SELECT count(*) FROM lease")
        postgres.run("DELETE FROM lease WHERE id < 18000")
        selection = selection_of(postgres)
        cursor = (ago(seconds=20_000 - 17_999 + 1), 17_999)

        from_the_cursor = buffers(postgres, nth_row(selection, cursor, 100))
        from_the_head = buffers(postgres, nth_row(selection, None, 100))

    assert from_the_cursor <= 20
    assert from_the_head > 10 * from_the_cursor


def test_every_batch_of_a_rule_uses_the_index_made_for_its_state_alone(postgres: Ground) -> None:
    """One plan for all values of a statement knows none of them, and would read another index whole."""
    postgres.run(
        "CREATE TABLE job (id bigint PRIMARY KEY, state text, at timestamptz)",
        "CREATE INDEX failed_jobs ON job (at) WHERE state = 'failed'",
    )
    postgres.fill("job", [(n, "failed" if n % 2 else "queued", ago(days=2, seconds=n)) for n in range(2_000)])
    failed = Table("job", [terminal("state", states=["failed"], at="at", keep_for="1d")])
    contract = Contract("app", [failed], batch=steps_of(50))

    [report] = run_contracts([contract], postgres.url, options=SweepOptions(clock=ManualClock(NOW)))

    assert (report.failures, report.rules[0].batches) == ([], 20)
    used = dict(postgres.rows("SELECT indexrelname, idx_scan FROM pg_stat_user_indexes"))
    assert used["failed_jobs"] >= 2 * 20
    assert used["job_pkey"] == 0


def test_a_column_may_have_any_name(ground: Ground) -> None:
    ground.run('CREATE TABLE booking (id {key}, "end" {instant})', 'CREATE INDEX by_end ON booking ("end")')
    ground.fill("booking", [(1, ago(days=3)), (2, ago(days=2)), (3, ago(hours=1))])
    contract = Contract("app", [Table("booking", [older_than("end", keep_for="1d")])], batch=steps_of(1))

    [report] = run_contracts([contract], ground.url, options=SweepOptions(clock=ManualClock(NOW)))

    assert report.failures == []
    assert ground.ids("booking") == [3]


def rendered(statement: ClauseElement, *, literal_binds: bool = False) -> str:
    dialect = create_engine("postgresql+psycopg://").dialect
    return str(statement.compile(dialect=dialect, compile_kwargs={"literal_binds": literal_binds}))


def buffers(postgres: Ground, statement: ClauseElement) -> int:
    text = rendered(statement, literal_binds=True)
    with closing(postgres.connect()) as connection:
        connection.execute("SET enable_seqscan = off")
        connection.execute("SET enable_bitmapscan = off")
        [[[plan]]] = connection.execute(f"EXPLAIN (ANALYZE, BUFFERS, FORMAT JSON) {text}").fetchall()
    return int(plan["Plan"]["Shared Hit Blocks"]) + int(plan["Plan"]["Shared Read Blocks"])


def test_a_sweep_of_old_rows_is_not_confused_by_rows_of_the_same_instant(ground: Ground) -> None:
    ground.run("CREATE TABLE event (id {key}, at {instant})", "CREATE INDEX by_age ON event (at)")
    ground.fill(
        "event", [(n, ago(days=2)) for n in range(500)] + [(n, ago(hours=1)) for n in range(500, 600)]
    )
    contract = Contract("app", [Table("event", [older_than("at", keep_for="1d")])], batch=steps_of(7))

    [report] = run_contracts([contract], ground.url, options=SweepOptions(clock=ManualClock(NOW)))

    assert report.counts == {"event": 500}
    assert ground.ids("event") == list(range(500, 600))
