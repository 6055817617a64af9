"""The pieces of a day on PostgreSQL: opened by size, dropped with their day or alone."""

from __future__ import annotations

import secrets
from dataclasses import replace
from datetime import timedelta
from typing import TYPE_CHECKING

import psycopg
import pytest

from gandy.desk.doctor import Doctor
from gandy.errors import RowBusyError
from gandy.model.run import RunEnd, TrainState
from gandy.settings import DatabaseSettings, RetentionSettings, Settings
from gandy.store.finishing import finish_runs
from gandy.store.partitions import list_pieces
from gandy.store.reports import LogRow, keep_logs, load_logs, settle_logs, write_live_logs
from gandy.store.runs import RunStart, start_run
from gandy.upkeep.partitions import drop_piece
from gandy.upkeep.pruning import PruningShift
from tests.store.work import RULES, WORKER
from tests.support.world import OWNER, OWNERS, SPANS, manifest
from tests.upkeep.table_maintenance.test_days import database_home, days, leaves, reader

if TYPE_CHECKING:
    from datetime import date

    from gandy.rules.pieces import Piece
    from tests.support.history import Past

__all__ = ["database_home"]

SIZE = 1_048_576
LOCAL = RunStart(owner=OWNER, train="Report", input_json="1", worker_id=WORKER, timeout=timedelta(minutes=1))


def fill(past: Past, *, ahead: int, number: int = 0, size: int = SIZE) -> int:
    """Write a run of this size, and a line."""
    output = secrets.token_bytes(size).hex()
    run = past.run("SendMail", bucket=past.day(ahead), output=f'"{output}"', piece=number)
    past.insert(
        "log", metadata_id=run, bucket=past.day(ahead), piece=number, created_at=past.world.clock.now,
        level="info", logger="test", message="a line",
    )  # fmt: skip
    return run


async def pieces(past: Past, ahead: int = 7) -> list[Piece]:
    found = await past.world.database.read(list_pieces())
    return [piece for piece in found if str(piece.day) == past.day(ahead)]


async def end(past: Past, line: str = "a line") -> int:
    """Run and end a job, which is kept for a week, with a line before its end and one after it."""
    world = past.world
    run = await world.database.run(start_run(LOCAL))
    rows = [LogRow(run.id, run.fence, world.clock.now, "info", "test", text) for text in ("early", line)]
    await world.database.run(write_live_logs(rows[:1]))
    ended = RunEnd(
        id=run.id, train="Report", worker_id=WORKER, fence=run.fence, state=TrainState.COMPLETED,
        keep_for=SPANS.completed,
    )  # fmt: skip
    async with world.database.transaction() as transaction:
        result = await transaction.run(finish_runs([ended], RULES))
        await transaction.run(settle_logs(result.finished))
        await transaction.run(keep_logs(rows[1:], result.finished))
    return run.id


def place(past: Past, run_id: int) -> set[str]:
    """Name the partitions that have a run and its lines."""
    rows = past.world.rows(
        "SELECT tableoid::regclass::text AS leaf FROM history WHERE id = ? "
        "UNION SELECT tableoid::regclass::text FROM log WHERE metadata_id = ?",
        run_id,
        run_id,
    )
    return {str(row["leaf"]).removeprefix("gandy.") for row in rows}


def name(day: str | None, number: int) -> set[str]:
    suffix = f"{day}".replace("-", "") + (f"_{number}" if number else "")
    return {f"history_{suffix}", f"log_{suffix}"}


async def open_piece(past: Past, *, ahead: int = 7, number: int = 0) -> None:
    fill(past, ahead=ahead, number=number)
    await past.table_maintenance(piece_bytes=SIZE)
    assert (await past.table_maintenance()).pieces_opened == 1


async def test_a_large_day_goes_on_in_another_piece_with_the_lines_of_its_runs(past: Past) -> None:
    before = await end(past)
    assert place(past, before) == name(past.day(7), 0)
    fill(past, ahead=7)

    first = await past.table_maintenance(piece_bytes=SIZE)
    between = await end(past)
    second = await past.table_maintenance()
    after = await end(past)
    third = await past.table_maintenance()

    assert [each.pieces_opened for each in (first, second, third)] == [0, 1, 0]
    assert place(past, between) == name(past.day(7), 0), "it was created, and is opened by the next cycle"
    assert place(past, after) == name(past.day(7), 1)
    assert [(each.number, each.is_current) for each in await pieces(past)] == [(0, False), (1, True)]
    assert [(each.number, each.is_current) for each in await pieces(past, 8)] == [(0, True)]
    lines = await past.world.database.read(load_logs(after, OWNERS))
    assert [line.message for line in lines] == ["early", "a line"]


async def test_a_small_day_stays_one_piece(past: Past) -> None:
    fill(past, ahead=7, size=10_000)

    for _ in range(3):
        assert (await past.table_maintenance(piece_bytes=SIZE)).pieces_opened == 0

    assert past.count("history_piece") == 0
    assert leaves(past) == 68


async def test_a_failed_job_is_retried_and_parked_from_whatever_piece(past: Past) -> None:
    world = past.world
    await open_piece(past, ahead=30)
    await world.seed(manifest("report", max_retries=2))
    await world.cycle()
    assert await world.fail() == 1
    world.advance(hours=1)
    await world.cycle()
    assert await world.fail() == 1

    failed = past.ids("history", "train_state = 'failed'")
    assert {leaf for each in failed for leaf in place(past, each)} <= name(past.day(30), 1)
    assert len(failed) == 2
    assert past.count("dead_letter") == 1


async def test_the_check_up_knows_a_piece_that_was_not_closed_at_its_size(past: Past) -> None:
    settings = replace(
        Settings(),
        database=DatabaseSettings(url=past.world.url),
        retention=RetentionSettings(piece_bytes=SIZE),
    )

    async def found() -> list[str]:
        report = await Doctor(settings, owners=OWNERS).examine(clock=past.world.clock)
        return [finding.what for finding in report.findings if "piece" in finding.what]

    fill(past, ahead=7, size=SIZE // 2)
    assert await found() == []
    fill(past, ahead=7, size=2 * SIZE)
    fill(past, ahead=8, size=3 * SIZE)

    (what,) = await found()

    assert what.startswith(
        f"2 pieces of history not closed at their size; the largest, of {past.day(8)}, has"
    )
    await past.table_maintenance(piece_bytes=SIZE)
    await past.table_maintenance()
    assert await found() == []


async def test_with_its_day_every_piece_is_dropped(past: Past) -> None:
    await open_piece(past, ahead=1)
    await open_piece(past, ahead=1, number=1)
    assert len(await pieces(past, 1)) == 3
    past.world.advance(days=2)

    result = await past.table_maintenance()

    assert result.days_dropped == 8
    assert result.rows["log"] == 2
    assert past.count("history_piece") == 0
    assert leaves(past) == 68


async def test_a_closed_piece_is_dropped_alone_and_the_current_one_never(past: Past) -> None:
    await open_piece(past)
    run = await end(past)
    closed, current = await pieces(past)
    assert (closed.bytes > SIZE, current.bytes < SIZE) == (True, True)
    shift = PruningShift(past.world.database)

    assert (await drop_piece(current, shift)).leaves == 0
    dropped = await drop_piece(closed, shift)

    assert (dropped.leaves, dropped.rows) == (2, {"metadata": 1, "log": 1})
    assert await pieces(past) == [current]
    assert place(past, run) == name(past.day(7), 1)
    await open_piece(past, number=1)
    assert [each.number for each in await pieces(past)] == [1, 2]


async def test_a_piece_whose_dropping_gives_way_to_a_reader_is_dropped_later(past: Past) -> None:
    await open_piece(past)
    closed, _ = await pieces(past)
    shift = PruningShift(past.world.database)
    with reader(past):
        assert (await drop_piece(closed, shift)).leaves == 0
        assert past.count("pg_inherits", "inhdetachpending") > 0
        assert place(past, await end(past)) == name(past.day(7), 1)

    assert (await drop_piece(closed, shift)).leaves == 2
    assert past.count("pg_inherits", "inhdetachpending") == 0


async def test_a_current_piece_that_a_person_has_dropped_is_created_again(past: Past) -> None:
    await open_piece(past)
    past.world.rows(f"DROP TABLE {', '.join(sorted(name(past.day(7), 1)))}")
    with pytest.raises(RowBusyError):  # a worker sets this end aside, and writes it later
        await end(past)

    await past.table_maintenance()

    assert [(each.number, each.is_current, each.is_there) for each in await pieces(past)] == [
        (0, False, True),
        (1, True, True),
    ]
    assert place(past, await end(past)) == name(past.day(7), 1)


async def test_pieces_are_left_to_another_server_that_changes_the_layout(past: Past) -> None:
    fill(past, ahead=7)
    with psycopg.connect(past.world.url, autocommit=True) as link:
        link.execute("SELECT pg_advisory_lock(hashtext('gandy_history'))")
        await past.table_maintenance(piece_bytes=SIZE)
        link.execute("SELECT pg_advisory_unlock(hashtext('gandy_history'))")
        assert len(await pieces(past)) == 1

    await past.table_maintenance()

    assert len(await pieces(past)) == 2


async def test_a_writer_that_knows_the_piece_before_is_not_refused(past: Past) -> None:
    fill(past, ahead=7)
    world = past.world
    run = await world.database.run(start_run(LOCAL))
    with psycopg.connect(world.url, options="-c search_path=gandy") as link:
        link.execute("SELECT set_config('gandy.now', %s, false)", [world.clock.now.isoformat()])
        link.execute("SELECT count(*) FROM history_piece")  # its transaction has begun
        await past.table_maintenance(piece_bytes=SIZE)
        await past.table_maintenance()
        link.execute(
            "INSERT INTO history "
            "(id, bucket, owner, name, train_state, created_at, start_time, end_time, keep_until) "
            "SELECT %s, %s, 'shop', 'Report', 'completed', now(), now(), now(), now()",
            [run.id, past.day(7)],
        )

    assert place(past, run.id) == {min(name(past.day(7), 0))}


@pytest.mark.parametrize("ahead", [0, 33])
async def test_the_days_are_made_and_dropped_as_before(past: Past, ahead: int) -> None:
    await open_piece(past, ahead=ahead)
    made: list[date] = days(past)
    past.world.advance(days=1)

    result = await past.table_maintenance()

    assert (result.days_made, result.days_dropped) == (1, 4 if ahead == 0 else 2)
    assert len(set(days(past)) - set(made)) == 1
