from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

from gandy.model.run import RunEnd, TrainState
from gandy.store.finishing import FinishRules, finish_runs
from gandy.store.reports import (
    LogRow,
    keep_last_lines,
    keep_logs,
    load_logs,
    settle_logs,
    write_live_logs,
    write_reports,
)
from gandy.store.runs import JobView, ProgressRow, RunStart, StartedRun, find_job, load_run, start_run
from tests.support.poison import poison
from tests.support.world import OWNER, OWNERS, SPANS, START, WORKER

if TYPE_CHECKING:
    from tests.support.world import World

RULES = FinishRules(OWNER, SPANS, max_awaiting_letters_per_train=10)
LOCAL = RunStart(owner=OWNER, train="Report", input_json="1", worker_id=WORKER, timeout=timedelta(minutes=1))


def lines(run: StartedRun, *messages: str, fence: int | None = None) -> list[LogRow]:
    return [
        LogRow(run.id, run.fence if fence is None else fence, START, "info", "gandy.run", message)
        for message in messages
    ]


async def messages(world: World, run: StartedRun) -> list[str]:
    return [row.message for row in await world.database.read(load_logs(run.id, owners=OWNERS))]


async def test_lines_of_a_run_that_goes_on_are_kept_in_their_order(world: World) -> None:
    run = await world.database.run(start_run(LOCAL))
    await world.database.run(write_live_logs(lines(run, *(str(number) for number in range(50)))))
    await world.database.run(write_live_logs(lines(run, "last")))

    assert await messages(world, run) == [*(str(number) for number in range(50)), "last"]


async def test_who_no_longer_owns_a_run_writes_no_lines(world: World) -> None:
    run = await world.database.run(start_run(LOCAL))
    await world.database.run(write_live_logs(lines(run, "stale", fence=run.fence - 1)))

    assert await messages(world, run) == []


async def test_lines_follow_their_run_when_it_ends(world: World) -> None:
    # Partitions are made from the day of the migration on.
    world.advance(seconds=(datetime.now(UTC) - START).total_seconds())
    first = await world.database.run(start_run(LOCAL))
    second = await world.database.run(start_run(LOCAL))
    await world.database.run(write_live_logs(lines(first, "early") + lines(second, "early too")))
    ends = [
        RunEnd(
            id=run.id,
            train="Report",
            worker_id=WORKER,
            fence=run.fence,
            state=TrainState.COMPLETED,
            keep_for=keep_for,
        )
        for run, keep_for in ((first, timedelta(days=3)), (second, timedelta(minutes=5)))
    ]
    async with world.database.transaction() as transaction:
        result = await transaction.run(finish_runs(ends, RULES))
        await transaction.run(settle_logs(result.finished))
        await transaction.run(keep_logs(lines(first, "late") + lines(second, "late too"), result.finished))

    assert await messages(world, first) == ["early", "late"]
    assert await messages(world, second) == ["early too", "late too"]
    if world.database.supports_partitions:
        found = world.rows("SELECT DISTINCT bucket || '/' || piece AS bucket FROM gandy.log ORDER BY bucket")
        assert [row["bucket"] for row in found] == sorted(map(str, result.finished.values()))
        assert len(found) == 2


async def test_lines_of_a_run_whose_end_was_refused_are_dropped(world: World) -> None:
    run = await world.database.run(start_run(LOCAL))
    await world.database.run(keep_logs(lines(run, "too late"), {}))

    assert await messages(world, run) == []


async def test_a_job_is_found_wherever_it_stands(world: World) -> None:
    assert await world.database.read(find_job(12_345, owners=OWNERS)) is None
    run = await world.database.run(start_run(LOCAL))
    assert await world.database.read(find_job(run.id, owners=OWNERS)) == JobView(
        run.id, "Report", "in_progress"
    )

    end = RunEnd(
        id=run.id,
        train="Report",
        worker_id=WORKER,
        fence=run.fence,
        state=TrainState.COMPLETED,
        output_json="42",
    )
    await world.database.run(finish_runs([end], RULES))
    assert await world.database.read(find_job(run.id, owners=OWNERS)) == JobView(
        run.id, "Report", "completed", output="42"
    )
    kept = await world.database.read(load_run(run.id, owners=OWNERS))
    assert kept is not None
    assert kept.keep_until == START + SPANS.completed


async def test_a_line_that_is_refused_costs_no_other_line_of_any_run(world: World) -> None:
    poison(world, "log", "NEW.message = 'bad'")
    runs = [await world.database.run(start_run(LOCAL)) for _ in range(4)]
    said = [lines(run, "first", "bad", "last") if run is runs[1] else lines(run, "first") for run in runs]
    progress = [ProgressRow(run.id, run.fence, 1, 2, "work") for run in runs]

    dropped = await write_reports(world.database, [line for each in said for line in each], progress)

    assert dropped == 1
    assert [await messages(world, run) for run in runs] == [
        ["first"],
        ["first", "last"],
        ["first"],
        ["first"],
    ]
    assert {row["progress_done"] for row in world.rows("SELECT progress_done FROM metadata")} == {1}


async def test_bad_lines_of_every_run_at_once_cost_only_themselves(world: World) -> None:
    poison(world, "log", "NEW.message = 'bad'")
    runs = [await world.database.run(start_run(LOCAL)) for _ in range(3)]

    dropped = await write_reports(
        world.database, [line for run in runs for line in lines(run, "bad", "good")]
    )

    assert dropped == 3
    assert [await messages(world, run) for run in runs] == [["good"]] * 3


async def test_the_last_lines_of_ended_runs_are_kept_but_for_a_bad_one(world: World) -> None:
    poison(world, "log", "NEW.message = 'bad'")
    run = await world.database.run(start_run(LOCAL))
    end = RunEnd(id=run.id, train="Report", worker_id=WORKER, fence=run.fence, state=TrainState.COMPLETED)
    result = await world.database.run(finish_runs([end], RULES))

    dropped = await keep_last_lines(world.database, lines(run, "a", "bad", "z"), result.finished)

    assert (dropped, await messages(world, run)) == (1, ["a", "z"])
