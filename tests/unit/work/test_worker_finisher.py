"""Ends are kept until the database has them: through faults, beside bad ends, and when the loop breaks."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest

from gandy.errors import DatabaseReadOnlyError, RowBusyError, RowConflictError
from gandy.model.run import EndedBy, Failure, RunEnd, TrainState
from gandy.work import finisher as module
from gandy.work.finisher import Finisher
from gandy.work.tally import RunTally
from tests.support.waiting import eventually

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Sequence


class Record:
    """The database's side: it refuses what the test wants, and keeps the rest."""

    def __init__(self, refuses: Callable[[Any], BaseException | None]) -> None:
        self.refuses = refuses
        self.kept: dict[int, RunEnd] = {}
        self.writes = 0
        self.alone: list[int] = []

    async def run_apart(self, taken: Sequence[Any]) -> Any:  # noqa: ANN401 - what a stubbed operation gives
        result = await self.run(taken)
        self.alone += [finished.claimed.id for finished in taken]
        return result

    async def run(self, taken: Sequence[Any]) -> Any:  # noqa: ANN401 - what a stubbed operation gives
        self.writes += 1
        await asyncio.sleep(0)
        for finished in taken:
            error = self.refuses(finished)
            if error is not None:
                raise error
        self.kept.update({finished.claimed.id: finished.end for finished in taken})
        return SimpleNamespace(refused=(), parked=(), retried=0, makes_room=False, measures=())


class Finished(SimpleNamespace):
    """An end as the runner hands it over."""

    def _replace(self, **changes: Any) -> Finished:  # noqa: ANN401 - as a named tuple's
        return Finished(**{**self.__dict__, **changes})


def end(run_id: int, **changes: Any) -> Any:  # noqa: ANN401 - stands for a FinishedRun
    ended = RunEnd(run_id, "job", "w", 1, TrainState.COMPLETED, EndedBy.ITSELF, output_json="1")
    return Finished(
        claimed=SimpleNamespace(id=run_id, train="job", is_capped=False),
        end=ended._replace(**changes),
        report=None,
    )


@pytest.fixture(autouse=True)
def _quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "FIRST_PAUSE", 0.001)
    monkeypatch.setattr(module, "LONGEST_PAUSE", 0.002)
    monkeypatch.setattr(module, "write_ends", lambda taken, _: taken)
    monkeypatch.setattr(module, "announce_ends", lambda *_, **__: None)


def finisher(record: Record, *, batch: int = 1_000) -> Finisher:
    unused: Any = None
    session: Any = record
    return Finisher(
        (session, session),
        unused,
        batch=batch,
        hooks=unused,
        events=unused,
        on_drained=lambda: None,
        on_room=lambda: None,
        join=lambda _: [],
        is_busy=lambda: False,
        tally=RunTally("shop"),
    )


async def written(under_test: Finisher) -> None:
    await eventually(is_so(lambda: not under_test.unwritten), "every end is written")


def is_so(condition: Callable[[], bool]) -> Callable[[], Awaitable[bool]]:
    async def ask() -> bool:
        return condition()

    return ask


async def test_a_fault_of_the_database_is_waited_out_and_charged_to_no_end() -> None:
    faults = iter([DatabaseReadOnlyError("standby")] * 5)
    record = Record(lambda _: next(faults, None))
    under_test = finisher(record)
    for number in range(1, 31):
        under_test.add(end(number))
    loop = asyncio.create_task(under_test.run())
    await written(under_test)
    loop.cancel()

    assert {ended.state for ended in record.kept.values()} == {TrainState.COMPLETED}
    assert len(record.kept) == 30


@pytest.mark.parametrize("error", [RowConflictError("c", "d"), RuntimeError("a bug"), UnicodeError("x")])
async def test_an_end_that_is_refused_is_stripped_and_the_others_are_untouched(error: Exception) -> None:
    def refuses(finished: Any) -> Exception | None:  # noqa: ANN401 - stands for a FinishedRun
        return error if finished.claimed.id in {7, 8} and finished.end.output_json else None

    record = Record(refuses)
    under_test = finisher(record)
    for number in range(1, 31):
        under_test.add(end(number))
    loop = asyncio.create_task(under_test.run())
    await written(under_test)
    loop.cancel()

    failed = {run_id for run_id, ended in record.kept.items() if ended.state is TrainState.FAILED}
    assert failed == {7, 8}
    assert len(record.kept) == 30
    assert record.writes < 30, "the bad ends are found by halving"


async def test_a_failure_keeps_its_own_words_when_the_rest_of_its_end_is_refused() -> None:
    own = Failure("step", "BadAddress", "no such street", "trace")
    record = Record(lambda finished: RowConflictError("c", "d") if finished.end.progress_done else None)
    under_test = finisher(record)
    under_test.add(end(1, state=TrainState.FAILED, output_json=None, failure=own, progress_done=5))
    loop = asyncio.create_task(under_test.run())
    await written(under_test)
    loop.cancel()

    assert record.kept[1].failure == own


async def test_an_end_that_is_refused_in_every_form_is_kept_and_delays_no_other() -> None:
    stubborn = {1}
    record = Record(lambda finished: RowConflictError("c", "d") if finished.claimed.id in stubborn else None)
    under_test = finisher(record)
    under_test.add(end(1))
    loop = asyncio.create_task(under_test.run())
    for number in range(2, 40):
        under_test.add(end(number))
        await asyncio.sleep(0)
    await eventually(is_so(lambda: len(record.kept) == 38), "the others are written")
    assert (under_test.unwritten, under_test.ids) == (1, [1])

    stubborn.clear()
    await written(under_test)
    loop.cancel()
    assert record.kept[1].state is TrainState.FAILED


async def test_where_every_end_is_refused_alike_none_is_charged_before_it_was_tried_often() -> None:
    rounds = 0

    def refuses(finished: Any) -> Exception | None:  # noqa: ANN401 - stands for a FinishedRun
        nonlocal rounds
        rounds += finished.claimed.id == 1
        return RowConflictError("c", "d") if rounds < 8 else None

    record = Record(refuses)
    under_test = finisher(record)
    for number in range(1, 5):
        under_test.add(end(number))
    loop = asyncio.create_task(under_test.run())
    await written(under_test)
    loop.cancel()

    assert {ended.state for ended in record.kept.values()} == {TrainState.COMPLETED}


async def test_what_was_being_written_when_the_loop_broke_is_written_by_the_next_one() -> None:
    is_broken = True

    def refuses(_: object) -> Exception | None:
        if is_broken:
            raise KeyboardInterrupt  # not to be caught by anything that writes
        return None

    record = Record(refuses)
    under_test = finisher(record)
    under_test.add(end(1))
    under_test.add(end(2))
    with pytest.raises(KeyboardInterrupt):
        await under_test.run()
    is_broken = False
    loop = asyncio.create_task(under_test.run())
    await written(under_test)
    loop.cancel()

    assert set(record.kept) == {1, 2}


async def test_an_end_whose_row_stays_locked_is_written_later_and_delays_no_other() -> None:
    locked = {3}
    record = Record(lambda finished: RowBusyError("locked") if finished.claimed.id in locked else None)
    under_test = finisher(record)
    for number in range(1, 21):
        under_test.add(end(number))
    loop = asyncio.create_task(under_test.run())
    await eventually(is_so(lambda: len(record.kept) == 19), "the others are written")
    locked.clear()
    await written(under_test)
    loop.cancel()

    assert record.kept[3].state is TrainState.COMPLETED, "it is not stripped: its row was only busy"


class HeldRecord(Record):
    """It answers the first write only when the test lets it."""

    def __init__(self) -> None:
        super().__init__(lambda _: None)
        self.answers = asyncio.Event()
        self.sets: list[list[int]] = []

    async def run(self, taken: Sequence[Any]) -> Any:  # noqa: ANN401 - as above
        self.sets.append([finished.claimed.id for finished in taken])
        if len(self.sets) == 1:
            await self.answers.wait()
        return await super().run(taken)


NOT_PLAIN: dict[str, dict[str, Any]] = {
    "of a manifest": {"manifest_id": 1},
    "with a key": {"unique_key": "key"},
    "failed": {"state": TrainState.FAILED},
    "cancelled": {"state": TrainState.CANCELLED},
}


@pytest.mark.parametrize(
    ("changes", "has_report"),
    [({}, False), ({}, True), ({"manifest_id": 5}, False), ({"state": TrainState.FAILED}, False)],
)
async def test_only_plain_ends_without_reports_need_no_transaction(
    changes: dict[str, Any], *, has_report: bool
) -> None:
    record = Record(lambda _: None)
    under_test = finisher(record)
    under_test.add(end(1))
    other = end(2, **changes)
    other.report = SimpleNamespace() if has_report else None
    under_test.add(other)
    loop = asyncio.create_task(under_test.run())
    await written(under_test)
    loop.cancel()

    is_plain = not changes and not has_report
    assert (sorted(record.alone), sorted(record.kept)) == ([1, 2] if is_plain else [], [1, 2])


@pytest.mark.parametrize("kind", [*NOT_PLAIN, "under a cap"])
async def test_plain_ends_alone_are_written_while_the_database_is_busy_with_others(kind: str) -> None:
    record = HeldRecord()
    under_test = finisher(record, batch=4)
    loops = [asyncio.create_task(under_test.run()), asyncio.create_task(under_test.run_beside())]
    under_test.add(end(1))
    await eventually(is_so(lambda: record.sets == [[1]]), "the first end is being written")
    other = end(2, **NOT_PLAIN.get(kind, {}))
    other.claimed.is_capped = kind == "under a cap"
    under_test.add(other)
    for number in range(3, 8):
        under_test.add(end(number))
    await eventually(is_so(lambda: len(record.kept) == 4), "a batch of plain ends is written")
    assert record.sets == [[1], [3, 4, 5, 6]]
    assert set(under_test.ids) == {1, 2, 7}

    record.answers.set()
    await written(under_test)
    for loop in loops:
        loop.cancel()
    assert sorted(number for taken in record.sets for number in taken) == [1, 2, 3, 4, 5, 6, 7]


async def test_the_main_lane_writes_what_the_side_lane_was_writing_when_it_broke() -> None:
    record = HeldRecord()
    under_test = finisher(record, batch=2)
    main = asyncio.create_task(under_test.run())
    under_test.add(end(1))
    await eventually(is_so(lambda: record.sets == [[1]]), "the first end is being written")
    record.refuses = lambda _: KeyboardInterrupt()
    under_test.add(end(2))
    under_test.add(end(3))
    with pytest.raises(KeyboardInterrupt):
        await under_test.run_beside()
    assert set(under_test.ids) == {1, 2, 3}

    record.refuses = lambda _: None
    beside = asyncio.create_task(under_test.run_beside())
    record.answers.set()
    await written(under_test)
    main.cancel()
    beside.cancel()
    assert set(record.kept) == {1, 2, 3}
