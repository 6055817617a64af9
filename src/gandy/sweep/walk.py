"""The walk over dead rows as a generator of requests, and its drivers."""

from __future__ import annotations

from collections.abc import Generator
from dataclasses import dataclass, field
from datetime import timedelta
from typing import TYPE_CHECKING, Generic, assert_never

from gandy.sweep.protocol import (
    Answer,
    Attempt,
    BatchSize,
    Budget,
    Checkpoint,
    Contended,
    K,
    Pace,
    PassOver,
    Refused,
    Request,
    Rest,
    SetAsideRequest,
    SweepEnding,
    SweepResult,
    SweptBatch,
    Verdict,
)

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable


_STRIKES_BEFORE_PASSING_OVER = 2
_FIRST_REST = timedelta(milliseconds=50)
_LONGEST_REST = timedelta(seconds=5)

Steps = Generator[Request[K], Answer[K], SweepResult[K]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Patience:
    """How many rows one sweep may set aside or pass over before it gives up."""

    set_aside: int | None = 100  # None: no limit
    passed_over: int = 100


@dataclass(slots=True)
class _Tally(Generic[K]):
    cursor: K | None
    rows: int = 0
    batches: int = 0
    set_aside: int = 0
    passed_over: int = 0
    elapsed: timedelta = timedelta(0)
    longest_batch: timedelta = timedelta(0)
    reason: str | None = None
    strikes: int = 0
    suspects: int = 0

    def take(self, answer: SweptBatch[K]) -> None:
        self.rows += answer.rows
        self.set_aside += answer.set_aside
        self.batches += 1 if answer.rows or answer.along else 0
        self.cursor = answer.cursor
        self.reason = answer.reason or self.reason
        self.strikes = 0
        self.spend(answer.elapsed)

    def spend(self, elapsed: timedelta) -> None:
        self.elapsed += elapsed
        self.longest_batch = max(self.longest_batch, elapsed)

    def result(self, ending: SweepEnding) -> SweepResult[K]:
        return SweepResult(
            ending=ending,
            rows=self.rows,
            batches=self.batches,
            set_aside=self.set_aside,
            passed_over=self.passed_over,
            cursor=self.cursor,
            elapsed=self.elapsed,
            longest_batch=self.longest_batch,
            reason=self.reason,
        )


@dataclass(slots=True)
class _Sweep(Generic[K]):
    tally: _Tally[K]
    size: BatchSize
    budget: Budget
    patience: Patience
    rest_for: timedelta = field(default=_FIRST_REST)

    def steps(self) -> Steps[K]:
        while True:
            ending = yield from self._pause()
            if ending is None:
                ending = self._spent()
            if ending is None:
                ending = yield from self._step()
            if ending is not None:
                return self.tally.result(ending)

    def _pause(self) -> Generator[Request[K], Answer[K], SweepEnding | None]:
        """Hold while a throttle requires it, with exponential back-off."""
        answer = yield Checkpoint()
        while answer is Verdict.HOLD:
            if (ending := self._spent()) is not None:
                return ending
            rest_for, self.rest_for = self.rest_for, min(self.rest_for * 2, _LONGEST_REST)
            answer = yield Rest(rest_for)
            self.tally.elapsed += rest_for
            if answer is not Verdict.STOP:
                answer = yield Checkpoint()
        self.rest_for = _FIRST_REST
        return SweepEnding.STOPPED if answer is Verdict.STOP else None

    def _spent(self) -> SweepEnding | None:
        if self.budget.rows_left(self.tally.rows) == 0:
            return SweepEnding.ROWS_SPENT
        if self.budget.is_out_of_time(self.tally.elapsed):
            return SweepEnding.TIME_SPENT
        return None

    def _step(self) -> Generator[Request[K], Answer[K], SweepEnding | None]:
        if self.tally.suspects == 1:
            return (yield from self._set_aside())
        limit = self._limit()
        answer = yield Attempt(self.tally.cursor, limit)
        match answer:
            case SweptBatch():
                return self._swept(answer, limit)
            case Refused():
                self.tally.spend(answer.elapsed)
                self.tally.reason = answer.reason
                self.tally.suspects = limit  # bisect: the refused row is among the next `limit` rows
                return None
            case Contended():
                self.tally.spend(answer.elapsed)
                return (yield from self._give_way(limit))
            case Verdict():
                raise AssertionError(answer)
            case _:
                assert_never(answer)

    def _limit(self) -> int:
        limit = self.size.rows
        if self.tally.suspects:
            limit = min(limit, self.tally.suspects // 2)
        left = self.budget.rows_left(self.tally.rows)
        return max(1, limit if left is None else min(limit, left))

    def _swept(self, answer: SweptBatch[K], limit: int) -> SweepEnding | None:
        self.tally.take(answer)
        if not answer.is_full:
            return SweepEnding.EXHAUSTED
        if self.tally.suspects:
            self.tally.suspects -= limit
        elif limit == self.size.rows:  # a batch that the budget shortened is not representative
            self.size.learn(answer.elapsed)
        return None

    def _give_way(self, limit: int) -> Generator[Request[K], Answer[K], SweepEnding | None]:
        """Retry with fewer rows; pass over a single row that stays locked."""
        self.size.halve()
        if limit > 1:
            return None
        self.tally.strikes += 1
        if self.tally.strikes < _STRIKES_BEFORE_PASSING_OVER:
            return None
        self.tally.passed_over += 1
        return (yield from self._pass(PassOver(self.tally.cursor)))

    def _set_aside(self) -> Generator[Request[K], Answer[K], SweepEnding | None]:
        self.tally.suspects = 0
        return (yield from self._pass(SetAsideRequest(self.tally.cursor)))

    def _pass(
        self, request: SetAsideRequest[K] | PassOver[K]
    ) -> Generator[Request[K], Answer[K], SweepEnding | None]:
        answer = yield request
        if not isinstance(answer, SweptBatch):
            return SweepEnding.CONTENDED
        self.tally.take(answer)
        if self.patience.set_aside is not None and self.tally.set_aside >= self.patience.set_aside:
            return SweepEnding.POISONED
        if self.tally.passed_over >= self.patience.passed_over:
            return SweepEnding.CONTENDED
        return None if answer.is_full else SweepEnding.EXHAUSTED


def walk(
    after: K | None,
    *,
    pace: Pace | None = None,
    budget: Budget | None = None,
    patience: Patience | None = None,
) -> Steps[K]:
    """Sweep all dead rows after the cursor, as a generator of requests."""
    sweep = _Sweep(
        tally=_Tally(cursor=after),
        size=BatchSize(pace or Pace()),
        budget=budget or Budget(),
        patience=patience or Patience(),
    )
    return sweep.steps()


def drive(steps: Steps[K], perform: Callable[[Request[K]], Answer[K]]) -> SweepResult[K]:
    """Perform every request of the sweep in turn and return its result."""
    try:
        request = next(steps)
        while True:
            request = steps.send(perform(request))
    except StopIteration as end:
        result: SweepResult[K] = end.value
        return result


async def drive_async(
    steps: Steps[K], perform: Callable[[Request[K]], Awaitable[Answer[K]]]
) -> SweepResult[K]:
    """Perform every request of the sweep on the event loop and return its result."""
    try:
        request = next(steps)
        while True:
            request = steps.send(await perform(request))
    except StopIteration as end:
        result: SweepResult[K] = end.value
        return result
