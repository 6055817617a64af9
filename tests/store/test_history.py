"""Where ended runs and their log lines are kept, and for how long."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

import pytest

from gandy.model.run import RunEnd, TrainState
from gandy.store.dispatching import dispatch
from gandy.store.finishing import finish_runs
from gandy.store.reports import LogRow, keep_logs, load_logs, settle_logs, write_live_logs
from gandy.store.runs import ProgressRow, RunStart, find_job, load_run, report_progress, start_run
from tests.store.work import RULES, WORKER, ask, count, ended, failed, queue, run_row
from tests.support.world import OWNER, OWNERS, open_world

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from gandy.model.run import ClaimedRun
    from tests.support.world import World


@pytest.fixture
async def today(migrated_url: str) -> AsyncIterator[World]:
    """A world on the day of its migration, for which there are partitions."""
    opened = await open_world(migrated_url, datetime.now(UTC).replace(hour=12, minute=0))
    yield opened
    await opened.database.close()


async def test_a_run_that_goes_on_is_live(today: World) -> None:
    run = await _running(today)

    assert _place(today, run.id) == "work_queue"


async def test_an_ended_run_goes_into_the_partition_of_the_day_it_dies(today: World) -> None:
    run = await _running(today)

    result = await today.database.run(finish_runs([ended(run)], RULES))

    day = (today.clock.now + timedelta(days=7)).date()
    assert result.finished[run.id] == (f"{day}/0" if _has_partitions(today) else None)
    assert _place(today, run.id) == (f"history_{day:%Y%m%d}" if _has_partitions(today) else "history")


@pytest.mark.parametrize("keep_for", [timedelta(0), timedelta(hours=23), timedelta(days=400)])
async def test_a_run_kept_for_less_than_a_day_or_beyond_the_partitions_is_pruned_by_row(
    today: World, keep_for: timedelta
) -> None:
    run = await _running(today)

    await today.database.run(finish_runs([ended(run, keep_for=keep_for)], RULES))

    row = run_row(today, run.id)
    assert row is not None
    assert _place(today, run.id) == ("history_rowwise" if _has_partitions(today) else "history")
    assert today.instant(row["keep_until"]) == today.clock.now + keep_for


async def test_each_run_of_a_set_is_kept_for_its_own_span(today: World) -> None:
    spans = [timedelta(days=7), timedelta(days=7), timedelta(days=9), timedelta(hours=3), timedelta(days=9)]
    await queue(today, *[None] * len(spans))
    runs = (await today.database.run(dispatch(ask()))).runs

    ends = [ended(run, keep_for=span) for run, span in zip(runs, spans, strict=True)]
    result = await today.database.run(finish_runs(ends, RULES))

    kept = [run_row(today, run.id) or {} for run in runs]
    assert [today.instant(row["keep_until"]) - today.clock.now for row in kept] == spans
    if _has_partitions(today):
        days = [f"{(today.clock.now + span).date()}/0" if span.days else "-infinity/0" for span in spans]
        assert [result.finished[run.id] for run in runs] == days


async def test_a_run_that_dies_on_the_last_day_with_a_partition_is_kept_there(today: World) -> None:
    run = await _running(today)

    await today.database.run(finish_runs([ended(run, keep_for=timedelta(days=33))], RULES))

    day = (today.clock.now + timedelta(days=33)).date()
    assert _place(today, run.id) == (f"history_{day:%Y%m%d}" if _has_partitions(today) else "history")


async def test_a_run_is_in_one_place_only_whatever_became_of_it(today: World) -> None:
    await queue(today, *[None] * 30)
    runs = (await today.database.run(dispatch(ask()))).runs
    states = [TrainState.COMPLETED, TrainState.FAILED, TrainState.CANCELLED]

    ends = [ended(run, states[number % 3]) for number, run in enumerate(runs)]
    await today.database.run(finish_runs(ends, RULES))

    assert count(today, "metadata") == 30
    assert count(today, "metadata", "train_state IN ('pending', 'in_progress')") == 0


async def test_a_job_is_found_wherever_it_stands(today: World) -> None:
    queued = await queue(today, '{"sku": 1}')
    waiting = await today.database.read(find_job(queued.ids[0], owners=OWNERS))
    (run,) = (await today.database.run(dispatch(ask()))).runs
    running = await today.database.read(find_job(run.id, owners=OWNERS))
    await today.database.run(finish_runs([ended(run, output_json='{"sold": true}')], RULES))
    over = await today.database.read(find_job(run.id, owners=OWNERS))
    nobody = await today.database.read(find_job(987_654, owners=OWNERS))

    assert [view.state for view in (waiting, running, over) if view] == ["queued", "in_progress", "completed"]
    assert over is not None
    assert over.output == '{"sold": true}'
    assert nobody is None


async def test_a_failed_run_says_what_went_wrong(today: World) -> None:
    run = await _running(today)
    await today.database.run(finish_runs([failed(run)], RULES))

    row = await today.database.read(load_run(run.id, owners=OWNERS))

    assert row is not None
    assert (row.failure_junction, row.failure_exception, row.failure_reason) == ("work", "ValueError", "no")


async def test_lines_of_a_running_run_are_read_in_their_order(today: World) -> None:
    run = await _running(today)

    await today.database.run(write_live_logs([_line(today, run, text) for text in ("one", "two", "three")]))

    assert await _lines(today, run.id) == ["one", "two", "three"]


async def test_who_no_longer_owns_a_run_writes_no_lines(today: World) -> None:
    run = await _running(today)
    stale = _line(today, run, "stale")._replace(fence=run.fence + 1)

    await today.database.run(write_live_logs([stale, _line(today, run, "mine")]))
    await today.database.run(finish_runs([ended(run)], RULES))
    await today.database.run(write_live_logs([_line(today, run, "late")]))

    assert await _lines(today, run.id) == ["mine"]


async def test_the_lines_of_an_ended_run_are_kept_where_the_run_is(today: World) -> None:
    run = await _running(today)
    await today.database.run(write_live_logs([_line(today, run, "during")]))

    async with today.database.transaction() as transaction:
        result = await transaction.run(finish_runs([ended(run)], RULES))
        await transaction.run(settle_logs(result.finished))
        await transaction.run(keep_logs([_line(today, run, "at the end")], result.finished))

    assert await _lines(today, run.id) == ["during", "at the end"]
    if _has_partitions(today):
        assert count(today, "log_live") == 0
        days = today.rows("SELECT DISTINCT bucket || '/' || piece AS bucket FROM log")
        assert [row["bucket"] for row in days] == [result.finished[run.id]]


async def test_the_last_lines_of_a_run_whose_end_was_refused_are_dropped(today: World) -> None:
    run = await _running(today)
    result = await today.database.run(finish_runs([ended(run, fence=9_999)], RULES))

    await today.database.run(keep_logs([_line(today, run, "stale")], result.finished))

    assert await _lines(today, run.id) == []


async def test_lines_are_read_page_by_page(today: World) -> None:
    run = await _running(today)
    await today.database.run(write_live_logs([_line(today, run, str(number)) for number in range(5)]))

    first = await today.database.read(load_logs(run.id, limit=3, owners=OWNERS))
    rest = await today.database.read(load_logs(run.id, after=first[-1].id, limit=3, owners=OWNERS))

    assert [row.message for row in first + rest] == ["0", "1", "2", "3", "4"]
    assert first[0].created_at == today.clock.now


async def test_texts_with_quotes_braces_and_breaks_are_kept_as_written(today: World) -> None:
    run = await _running(today)
    text = 'a "quoted" {brace}, a \\ and\na break, NULL, ünï'

    await today.database.run(write_live_logs([_line(today, run, text), _line(today, run, "")]))

    assert await _lines(today, run.id) == [text, ""]


async def test_progress_is_written_by_the_owner_alone(today: World) -> None:
    run = await _running(today)

    await today.database.run(
        report_progress(
            [
                ProgressRow(run.id, run.fence, 3, 10, "sell"),
                ProgressRow(run.id, run.fence + 1, 9, 10, "somebody else"),
            ]
        )
    )

    row = run_row(today, run.id)
    assert row is not None
    assert (row["progress_done"], row["progress_total"]) == (3, 10)


async def test_a_run_without_a_queue_entry_lives_and_ends_like_any_other(today: World) -> None:
    start = RunStart(
        owner=OWNER, train="Sell", input_json="1", worker_id=WORKER, timeout=timedelta(minutes=1)
    )
    started = await today.database.run(start_run(start))
    row = run_row(today, started.id)
    assert row is not None
    assert today.instant(row["deadline_at"]) == started.started_at + timedelta(minutes=1)
    queued = await queue(today)
    assert started.id not in queued.ids

    from_here = _as_end(started.id, started.fence)
    result = await today.database.run(finish_runs([from_here], RULES))

    assert set(result.finished) == {started.id}


async def _running(world: World) -> ClaimedRun:
    await queue(world)
    (run,) = (await world.database.run(dispatch(ask()))).runs
    return run


def _as_end(run_id: int, fence: int) -> RunEnd:
    return RunEnd(id=run_id, train="Sell", worker_id=WORKER, fence=fence, state=TrainState.COMPLETED)


def _line(world: World, run: ClaimedRun, text: str) -> LogRow:
    return LogRow(run.id, run.fence, world.clock.now, "info", "shop", text)


async def _lines(world: World, run_id: int) -> list[str]:
    return [row.message for row in await world.database.read(load_logs(run_id, owners=OWNERS))]


def _has_partitions(world: World) -> bool:
    return world.database.supports_partitions


def _place(world: World, run_id: int) -> str:
    """The table that really holds a run."""
    place = "tableoid::regclass::text" if _has_partitions(world) else "'history'"
    (row,) = world.rows(
        f"SELECT {place} AS place FROM history WHERE id = ? "  # noqa: S608 of this test
        "UNION ALL SELECT 'work_queue' FROM work_queue WHERE id = ?",
        *(run_id, run_id),
    )
    return str(row["place"]).removeprefix("gandy.")
