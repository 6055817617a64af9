"""Write the ends of runs in batches, and announce them."""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from contextlib import contextmanager, suppress
from dataclasses import replace
from functools import partial
from itertools import zip_longest
from typing import TYPE_CHECKING, Final

from gandy.errors import DatabaseFaultError, RowBusyError, SetRefusedError
from gandy.loops.wakeups import wait_within
from gandy.model.run import Failure, TrainState
from gandy.rules.ending import spans_of
from gandy.store.finishing import FinishRules, finish_runs
from gandy.store.manifests import announce_work
from gandy.store.reports import keep_logs, settle_logs
from gandy.store.runs import claim_shortly
from gandy.store.statements import write_bisecting
from gandy.work.announcing import announce_ends
from gandy.work.runner import input_problems

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from gandy.context import Context
    from gandy.events import EventBus
    from gandy.model.run import RunEnd
    from gandy.store.dispatching import Dispatched
    from gandy.store.drivers.database import DatabaseSession
    from gandy.store.finishing import FinishResult
    from gandy.store.statements import Operation
    from gandy.train.hooks import HookDelivery
    from gandy.work.buffer import JoinedClaim
    from gandy.work.runner import FinishedRun
    from gandy.work.tally import RunTally


_LEAST: Final = Failure(None, "EndNotStored", "its end could not be stored")


def write_ends(taken: Sequence[FinishedRun], rules: FinishRules) -> Operation[FinishResult]:
    """Record ends together with the last lines of their run logs."""
    result = yield from finish_runs([finished.end for finished in taken], rules)
    reports = [finished.report for finished in taken if finished.report is not None]
    lines = [line for report in reports for line in report.lines]
    if lines:
        yield from keep_logs(lines, result.finished)
    early = {
        report.run.id: result.finished[report.run.id]
        for report in reports
        if report.has_written_lines and report.run.id in result.finished
    }
    if early:
        yield from settle_logs(early)
    return result


def simplified_end(finished: FinishedRun, error: Exception) -> FinishedRun:
    """Return a refused end in the next simpler form, or the end itself if no simpler form exists.

    First remove its log lines, then output, timings, progress and activations, then the failure's texts.
    """
    end = finished.end
    if finished.report is not None:
        return finished._replace(report=None)
    if end.state is not TrainState.FAILED or _has_extras(end):
        failure = end.failure
        if end.state is TrainState.COMPLETED or failure is None:
            failure = Failure(None, type(error).__name__, f"its end could not be stored: {error}")
        return finished._replace(end=_bare(end, failure))
    if end.failure == _LEAST:
        return finished
    return finished._replace(end=_bare(end, _LEAST)._replace(is_bare=True))


def _has_extras(end: RunEnd) -> bool:
    extras = (end.output_json, end.junctions_json, end.progress_done, end.progress_total)
    return any(each is not None for each in extras) or bool(end.activations)


def _bare(end: RunEnd, failure: Failure) -> RunEnd:
    return end._replace(
        state=TrainState.FAILED,
        failure=failure,
        output_json=None,
        junctions_json=None,
        progress_done=None,
        progress_total=None,
        retry_after=None,
        activations=(),
    )


_log = logging.getLogger("gandy.worker")

FIRST_PAUSE: Final = 0.1
LONGEST_PAUSE: Final = 5.0
GATHER_SECONDS: Final = 0.01
CHARGED_AFTER: Final = 3  # consecutive rounds in which every end of a set was refused with the same error
ISOLATED_AFTER: Final = 2  # rounds that failed because a row was locked


class WritingLane:
    """A connection that writes ends, and the ends that it is writing."""

    def __init__(self, session: DatabaseSession) -> None:
        self.session = session
        self.writing: list[FinishedRun] = []


class Finisher:
    """Writes ends as fast as the database takes them; a fault of the database only delays them.

    An end is kept in memory until the database has stored it. A refused end is simplified step by step, down
    to the bare fact that the run failed; if even that is refused, it is retried later.

    There are two lanes, so that the database does not wait while this process prepares the next ends. The
    main lane takes every end in turn. The side lane takes plain ends only, and only while there are many:
    plain ends lock no row but their own, so that the lanes never wait for each other.
    """

    def __init__(
        self,
        sessions: tuple[DatabaseSession, DatabaseSession],
        rules: FinishRules,
        *,
        batch: int,
        hooks: HookDelivery,
        events: EventBus,
        on_drained: Callable[[], None],
        on_room: Callable[[], None],
        join: Callable[[str], list[JoinedClaim]],
        is_busy: Callable[[], bool],
        tally: RunTally,
    ) -> None:
        """Take `is_busy`, which returns whether more ends will follow soon and can be written in one batch.

        `join` returns claims that join the transaction of an end of a train under a cap, for its place.
        """
        self._main, self._side = map(WritingLane, sessions)
        self._rules = rules
        self._batch = batch
        self._hooks = hooks
        self._events = events
        self._waiting: list[FinishedRun] = []
        self._stubborn: list[FinishedRun] = []
        self._on_drained = on_drained
        self._on_room = on_room
        self._join = join
        self._is_busy = is_busy
        self._tally = tally
        self._is_urgent = False
        self._full = asyncio.Event()
        self._many = asyncio.Event()
        self._wake = asyncio.Event()
        self._room = asyncio.Event()
        self._room.set()
        self._held_back: frozenset[int] = frozenset()
        self._released = asyncio.Event()
        self.retried = 0
        self.parked = 0

    def add(self, finished: FinishedRun) -> None:
        """Queue an end for the next batch."""
        self._waiting.append(finished)
        if finished.claimed.is_capped:  # others wait for its place: do not wait for a full batch
            self._is_urgent = True
            self._full.set()
        if len(self._waiting) == 1:  # with more ends queued, the loop is already awake
            self._wake.set()
        if len(self._waiting) >= self._batch:
            self._full.set()
            self._many.set()
            if len(self._waiting) >= 2 * self._batch:
                self._room.clear()

    @property
    def has_room(self) -> bool:
        """Whether fewer than two batches are queued."""
        return self._room.is_set()

    async def wait_for_room(self) -> None:
        """Apply backpressure to a slot while the database does not keep up."""
        await self._room.wait()

    @contextmanager
    def holding_back(self, run_ids: Iterable[int]) -> Iterator[None]:
        """Delay the ends of these runs while their log lines are written: settle_logs must find the lines."""
        self._held_back = frozenset(run_ids)
        try:
            yield
        finally:
            self._held_back = frozenset()
            self._released.set()

    @property
    def unwritten(self) -> int:
        """The number of ends that are not recorded yet."""
        return sum(map(len, self._kept()))

    @property
    def ids(self) -> list[int]:
        """The ids of the runs whose ends are not recorded yet."""
        return [finished.claimed.id for ends in self._kept() for finished in ends]

    def _kept(self) -> tuple[list[FinishedRun], ...]:
        return self._waiting, self._main.writing, self._side.writing, self._stubborn

    async def run(self) -> None:
        """Write for ever; begin with the ends that a crashed predecessor of this loop was writing."""
        self._take_over(self._main)
        while True:
            await self._wake.wait()
            self._wake.clear()
            while self._waiting:
                await self._gather()
                self._is_urgent = False
                self._main.writing = self._waiting[: self._batch]
                self._waiting = self._waiting[self._batch :]
                await self._write_persistently(self._main)
                self._room.set()
            self._on_drained()

    async def run_beside(self) -> None:
        """Write plain ends for ever, while a whole batch of them waits for the main lane."""
        self._take_over(self._side)
        while True:
            await self._many.wait()
            self._many.clear()
            if self._main.writing and len(self._waiting) >= self._batch:
                self._take_plain()
                await self._write_persistently(self._side)
                self._room.set()
                self._on_drained()

    def _take_over(self, lane: WritingLane) -> None:
        """Queue again what a crashed predecessor of the lane's loop was writing."""
        self._waiting, lane.writing = [*lane.writing, *self._waiting], []
        if self._waiting:
            self._wake.set()

    def _take_plain(self) -> None:
        """Move up to a batch of plain ends to the side lane; the others keep their order."""
        others: list[FinishedRun] = []
        for finished in self._waiting:
            is_mine = len(self._side.writing) < self._batch and _is_plain(finished)
            (self._side.writing if is_mine else others).append(finished)
        self._waiting = others

    async def _gather(self) -> None:
        """Wait briefly for a full batch while more ends will follow soon."""
        if len(self._waiting) < self._batch and self._is_busy() and not self._is_urgent:
            self._full.clear()
            with suppress(TimeoutError):
                await wait_within(self._full, GATHER_SECONDS)

    async def _write_persistently(self, lane: WritingLane) -> None:
        """Write a batch, with back-off after database faults, until every end is recorded or set aside."""
        pause, refused_alike, busy = FIRST_PAUSE, 0, 0
        while lane.writing:
            try:
                result = await write_bisecting(
                    lane.writing,
                    partial(self._write, lane),
                    charges_all=refused_alike >= CHARGED_AFTER or busy >= ISOLATED_AFTER,
                    isolates_busy=busy >= ISOLATED_AFTER,
                )
            except DatabaseFaultError as error:
                refused_alike += isinstance(error, SetRefusedError)
                busy += isinstance(error, RowBusyError)
                _log.warning("%d ends not written yet: %s", len(lane.writing), error)
                await asyncio.sleep(pause)
                pause = min(pause * 2, LONGEST_PAUSE)
            else:
                for refused in result.refused:
                    self._strip(lane, refused.item, refused.error)

    async def _write(self, lane: WritingLane, taken: Sequence[FinishedRun]) -> None:
        """Write a set, remove it from the lane's batch, and announce it."""
        while self._held_back and any(finished.claimed.id in self._held_back for finished in taken):
            self._released.clear()
            await self._released.wait()
        result = await self._write_and_claim(lane.session, taken)
        self._tally.count(result.measures)
        if len(taken) == len(lane.writing):
            lane.writing = []
        else:
            written = {finished.claimed.id for finished in taken}
            lane.writing = [each for each in lane.writing if each.claimed.id not in written]
        try:
            self._tell(taken, result)
        except Exception:  # noqa: BLE001 - recorded ends must not be written again
            _log.exception("%d ends are recorded, but not all listeners were notified", len(taken))

    async def _write_and_claim(self, session: DatabaseSession, taken: Sequence[FinishedRun]) -> FinishResult:
        """Write a set; if it frees places under a cap, fill them in the same transaction."""
        capped = next((each.claimed.train for each in taken if each.claimed.is_capped), None)
        claims = [] if capped is None else self._join(capped)
        if not claims:
            writing = write_ends(taken, self._rules)
            # One statement records plain ends; a transaction around it would be two round trips more.
            return await (session.run_apart(writing) if all(map(_is_brief, taken)) else session.run(writing))
        found: list[Dispatched] = []
        try:
            result, found = await session.run(self._finish_and_claim(taken, claims))
        except DatabaseFaultError:
            raise
        except Exception as error:  # noqa: BLE001 - either the claim failed, or the ends alone fail again below
            _log.warning("ends with a claim were refused; writing the ends alone: %s", error)
            return await session.run(write_ends(taken, self._rules))
        finally:
            for joined, runs in zip_longest(claims, found):
                joined.deliver(runs)
        return result

    def _finish_and_claim(
        self, taken: Sequence[FinishedRun], claims: Sequence[JoinedClaim]
    ) -> Operation[tuple[FinishResult, list[Dispatched]]]:
        """Record ends and claim for the freed places; notify other workers of places that remain free."""
        result = yield from write_ends(taken, replace(self._rules, tells_room=False))
        found: list[Dispatched] = []
        for joined in claims:
            found.append((yield from claim_shortly(joined.request, joined.caps)))
            if not result.makes_room or self._are_filled(taken, result, found):
                return replace(result, makes_room=False), found
        yield from announce_work([self._rules.owner])
        return result, found

    def _are_filled(
        self, taken: Sequence[FinishedRun], result: FinishResult, found: Sequence[Dispatched]
    ) -> bool:
        """Return whether the claims filled all freed places, of the global cap or of each capped group."""
        runs = [run for each in found for run in each.runs]
        if self._rules.is_capped:
            return len(runs) >= len(result.finished)
        ended = (each.claimed for each in taken if each.claimed.id in result.finished)
        freed = Counter(claimed.group_id for claimed in ended if claimed.is_capped)
        return freed <= Counter(run.group_id for run in runs)

    def _strip(self, lane: WritingLane, finished: FinishedRun, error: Exception) -> None:
        """Replace a refused end by its next simpler form, or set it aside for a later retry."""
        _log.error("the end of run %d cannot be stored unchanged: %s", finished.end.id, error)
        barer = finished if isinstance(error, RowBusyError) else simplified_end(finished, error)
        if barer is not finished:
            lane.writing = [barer if each is finished else each for each in lane.writing]
            return
        lane.writing = [each for each in lane.writing if each is not finished]
        self._stubborn.append(finished)
        asyncio.get_running_loop().call_later(LONGEST_PAUSE, self._try_again, finished)

    def _try_again(self, finished: FinishedRun) -> None:
        self._stubborn.remove(finished)
        self.add(finished)

    def _tell(self, taken: Sequence[FinishedRun], result: FinishResult) -> None:
        """Count and announce recorded ends."""
        self.retried += result.retried
        self.parked += len(result.parked)
        if result.makes_room:
            self._on_room()
        if result.refused:
            _log.warning("%d ends refused: their runs now belong to other workers", len(result.refused))
        announce_ends(taken, result, events=self._events, hooks=self._hooks)


def _is_plain(finished: FinishedRun) -> bool:
    """Return whether an end has no effect beyond its own run: no manifest, cap, key, retry or letter."""
    claimed, end = finished.claimed, finished.end
    return (
        end.state is TrainState.COMPLETED
        and end.manifest_id is None
        and end.unique_key is None
        and not claimed.is_capped
    )


def _is_brief(finished: FinishedRun) -> bool:
    """Return whether one statement records an end."""
    return finished.report is None and _is_plain(finished)


def finish_rules(context: Context) -> FinishRules:
    """Build the rules of finishing: retention, retries, and the limit on dead letters."""
    retention = context.settings.retention
    return FinishRules(
        owner=context.owner,
        retention=spans_of(retention, context.settings.cleanup),
        max_awaiting_letters_per_train=retention.max_awaiting_letters_per_train,
        retry=context.settings.retry,
        is_capped=isinstance(context.settings.dispatcher.max_active_jobs, int),
        problem_of_input=input_problems(context.registry),
    )
