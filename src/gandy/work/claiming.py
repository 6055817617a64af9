"""Claim runs: how many, how often, and for which slots."""

from __future__ import annotations

import asyncio
import logging
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from gandy.errors import DatabaseFaultError, GandyError, SetRefusedError
from gandy.loops.wakeups import wait_for_wake
from gandy.rules.ending import is_suspect
from gandy.store.dispatching import (
    NOTHING,
    Dispatched,
    DispatchRequest,
    choose_entries,
    claim_pending,
    dispatch,
    dispatch_entries,
    load_ready,
)
from gandy.store.reaping import Refusal, refuse_entries
from gandy.store.runs import claim_plain, fits_plainly
from gandy.store.statements import write_bisecting
from gandy.work.buffer import Answer, ClaimPace, JoinedClaim, dispatch_request

if TYPE_CHECKING:
    from collections.abc import Sequence

    from gandy.context import Context
    from gandy.loops.wakeups import Wakeups
    from gandy.store.drivers.database import DatabaseSession, Transaction
    from gandy.store.statements import Row
    from gandy.work.buffer import Claiming, RunBuffer, SlotDemand


_log = logging.getLogger("gandy.worker")

LANES: Final = 2  # concurrent claims: a claim may start before the previous one has returned
FIRST_RETRY_SECONDS: Final = 0.05  # a cut connection is usually restored at once
LONGEST_RETRY_SECONDS: Final = 1.0
FIRST_CONTENDED_SECONDS: Final = 0.005  # another claim is about to commit
LONGEST_CONTENDED_SECONDS: Final = 0.5
MOST_DOUBLINGS: Final = 10
EARLY_AFTER: Final = 3  # consecutive claims that found groups with ready work, but no entry to claim
CHARGED_AFTER: Final = 3  # consecutive claims of which every entry was refused


class Claimer:
    """Keeps the slots of one kind busy: claims when a slot is free or the buffer is below its low-water mark.

    Three numbers decide: running runs, held runs, and runs requested by open claims. Their sum is kept
    at the number of slots plus the prefetch of the pace. A claim that returns fewer runs than requested means
    that the queue is empty: the next claim waits for a wake-up (work was queued, an end made room under a
    cap) or for the poll. A claim that met locks of another claim is repeated after a short back-off.
    """

    def __init__(
        self,
        context: Context,
        worker: Claiming,
        places: SlotDemand,
        *,
        wakeups: Wakeups,
        ready: RunBuffer,
        suspects: RunBuffer,
    ) -> None:
        settings = context.settings.worker
        self._context = context
        self._worker = worker
        self._slots = places.slots
        self._trains = places.trains
        self._busy = 0
        self._ready = ready
        self._suspects = suspects
        self._poll = settings.poll_every.total_seconds()
        self._pace = ClaimPace(slots=places.slots, most=places.prefetch)
        self._sessions = [context.database.session() for _ in range(LANES)]
        self._free_sessions = list(self._sessions)
        self._changed = asyncio.Event()
        wakeups.on("work", self.look)
        wakeups.on("pending", self.look_for_pending)
        self._open_claims: dict[int, int] = {}  # open claims: the number of requested runs, by serial
        self._tasks: set[asyncio.Task[None]] = set()
        self._serial = 0
        self._coming = 0
        self._is_resting = False
        self._is_cut = False  # the remaining entries are capped: claim them only for free slots
        self._rests_until = 0.0
        self._last_wake = 0
        self._last_full = -1
        self._has_pending = True
        self._plain_caps: Sequence[int] | None = None  # caps to lock for a claim in one statement
        self._contended = 0
        self._faults = 0
        self._refused_alike = 0
        self.refused = 0  #: entries that could not become runs
        self._turn = 0
        self.is_open = True

    # Notifications

    def look(self) -> None:
        """Claim again at once: there may be work, or room under a cap."""
        self._last_wake = self._serial
        self._is_cut = False
        if not self._faults:  # after a fault the back-off stays in force
            self._is_resting = False
            self._changed.set()

    def look_for_pending(self) -> None:
        """Let the next claim take the pending runs of a dispatcher first."""
        self._has_pending = True
        self.look()

    def rest_on(self) -> None:
        """Rest for another two polls: the worker looked on behalf of all claimers, and found nothing.

        A back-off after a fault or a contention stays as short as it is. A worker that ends when it is idle
        needs claims of its own: only these show that the queue is empty.
        """
        is_backing_off = self._faults > 0 or self._contended > 0
        if self._is_resting and not is_backing_off and not self._worker.ends_when_idle:
            self._rest_for(2 * self._poll)

    @property
    def busy(self) -> int:
        """The number of busy slots."""
        return self._busy

    @property
    def begun(self) -> int:
        """The number of runs that have begun so far."""
        return self._pace.begun

    def begin(self) -> None:
        """Count a run that begins, and claim before the buffer is empty."""
        self._busy += 1
        self._pace.begun += 1
        if not self._is_resting and self._is_worth_it():
            self._changed.set()

    def end(self, *, is_capped: bool = False) -> None:
        """Count a run that has ended; claim if no held run can take its slot, or with the end under a cap."""
        self._busy -= 1
        if not is_capped and not self._ready.runs and not self._is_resting and self._is_worth_it():
            self._changed.set()

    def _is_worth_it(self) -> bool:
        """Return whether a slot would stay idle, or the buffer is below its low-water mark."""
        held = len(self._ready.runs) + self._coming
        if self._slots - self._busy > held:
            return True
        return not self._is_cut and held + self._pace.unit <= self._pace.ahead

    def stall(self) -> None:
        """Prefetch nothing until jobs begin again."""
        self._pace.stall()

    @property
    def oldest_open_claim(self) -> int:
        """The serial of the oldest open claim, or of the next claim if there is none."""
        return min(self._open_claims, default=self._serial)

    @property
    def next_claim(self) -> int:
        """The serial of the next claim."""
        return self._serial

    # The loop

    async def run(self) -> None:
        """Claim for ever; sleep only while no slot is free or the queue is empty."""
        while True:
            wanted = self._wanted()
            if wanted:
                self._start_claim(wanted)
            else:
                await self._rest()

    async def settle(self, seconds: float) -> None:
        """Stop claiming, and wait for the open claims."""
        self.is_open = False
        if self._tasks:
            await asyncio.wait(self._tasks, timeout=seconds)

    @property
    def session(self) -> DatabaseSession:
        """The connection that puts back runs that were not begun."""
        return self._sessions[0]

    async def close(self) -> None:
        """Close the connections."""
        for session in self._sessions:
            await session.close()

    def _free_slots(self) -> int:
        """Return the number of slots without a running, held or requested run."""
        return self._slots - self._busy - len(self._ready.runs) - self._coming

    def _free(self) -> int:
        """Return how many more runs may be running, held or requested."""
        return self._free_slots() + self._pace.ahead

    def _wanted(self) -> int:
        """Return the number of runs to request now; 0: too few for a claim, or no claim may start."""
        if not self.is_open or self._is_resting or not self._free_sessions:
            return 0
        self._pace.measure()
        return max(self._free(), 0) if self._is_worth_it() else 0

    async def _rest(self) -> None:
        """Sleep until a wake-up or the timeout; a timeout ends the rest, since a notification may be lost."""
        now = asyncio.get_running_loop().time
        seconds = self._rests_until - now() if self._is_resting else self._poll
        if not await wait_for_wake(self._changed, seconds) and now() >= self._rests_until:
            self._is_resting = False

    def _rest_for(self, seconds: float) -> None:
        self._is_resting = True
        self._rests_until = asyncio.get_running_loop().time() + seconds

    # One claim

    def _start_claim(self, limit: int) -> None:
        """Start a claim as a task that is never cancelled: runs that it commits must reach the buffer."""
        session, request = self._free_sessions.pop(), self._request(limit)
        serial = self._reserve(limit)
        task = asyncio.create_task(self._claim_and_note(request, session, serial), name="gandy-claim")
        self._tasks.add(task)

        def close(_: object) -> None:
            self._tasks.discard(task)
            self._free_sessions.append(session)
            self._release(serial)

        task.add_done_callback(close)

    def _reserve(self, limit: int) -> int:
        """Reserve room for up to `limit` runs, and return the serial of the claim."""
        serial = self._serial
        self._serial += 1
        self._coming += limit
        self._open_claims[serial] = limit
        return serial

    def _release(self, serial: int) -> None:
        self._coming -= self._open_claims.pop(serial)
        self._changed.set()

    async def _claim_and_note(self, request: DispatchRequest, session: DatabaseSession, serial: int) -> None:
        was_quiet = self._worker.is_quiet and len(self._open_claims) == 1
        try:
            answer = await self._claim(request, session, serial)
        except Exception as error:  # noqa: BLE001 - after any exception the next claim tries again
            self._note_fault(error)
            return
        self._note_answer(serial, answer)
        is_alone = was_quiet and len(self._open_claims) == 1
        self._worker.note_idle(self, is_idle=is_alone and not answer.claimed and not answer.is_contended)

    def _note_answer(self, serial: int, answer: Answer) -> None:
        """Derive from a claim's result whether the queue has more entries."""
        self._faults = 0
        is_full = answer.claimed >= self._open_claims[serial]
        self._is_cut = answer.is_cut and not is_full and serial >= self._last_wake
        if is_full:
            self._last_full = max(self._last_full, serial)
        elif answer.is_contended:
            self._note_contention(answer.claimed)
        elif not answer.is_cut and serial >= self._last_wake and serial > self._last_full:
            # The queue is empty, and no wake-up or full claim came after this one started: wait for the poll.
            self._contended = 0
            self._rest_for(self._poll)

    def _note_fault(self, error: Exception) -> None:
        if isinstance(error, GandyError):
            _log.warning("nothing claimed: %s", error)
        else:
            _log.error("nothing claimed", exc_info=error)
        self._rest_for(min(FIRST_RETRY_SECONDS * 2**self._faults, LONGEST_RETRY_SECONDS))
        self._faults = min(self._faults + 1, MOST_DOUBLINGS)
        self._has_pending = True

    def _note_contention(self, claimed: int) -> None:
        """Repeat a claim that met locks of another claim, with exponential back-off."""
        self._contended = 0 if claimed else min(self._contended + 1, MOST_DOUBLINGS)
        self._rest_for(min(FIRST_CONTENDED_SECONDS * 2**self._contended, LONGEST_CONTENDED_SECONDS))

    def join_end(self) -> JoinedClaim | None:
        """Return a claim for the free slots, to be made in the transaction of an end under a cap."""
        free = self._free_slots()
        if not self.is_open or free <= 0 or self._faults:
            return None
        caps = self._plain_caps if self.session.saves_trips else None
        return JoinedClaim(self, self._request(free), self._reserve(free), caps)

    def deliver(self, joined: JoinedClaim, found: Dispatched | None) -> None:
        """Take the runs that a joined claim returned; None: it was not committed."""
        if found is not None:
            self._plain_caps = found.plain_caps
            self._note_answer(joined.serial, Answer.of(found, self._hold(found, joined.request)))
        self._release(joined.serial)

    def _request(self, limit: int) -> DispatchRequest:
        self._turn += 1
        request = dispatch_request(
            self._context,
            limit,
            worker_id=self._worker.id,
            trains=self._trains,
            turn=self._turn,
            free_slots=max(self._free_slots(), 0),
        )
        return replace(request, closes_early=True) if self._contended >= EARLY_AFTER else request

    async def _claim(self, request: DispatchRequest, session: DatabaseSession, serial: int) -> Answer:
        claimed = 0
        caps = None if self._has_pending or not session.saves_trips else self._plain_caps
        if caps is not None and fits_plainly(request, caps, is_woken=serial == self._last_wake):
            found = await self._claim_plainly(request, session, caps)
            if found.runs:
                return Answer.of(found, self._hold(found, request))
        if self._has_pending:
            self._has_pending = False
            claimed = self._hold(await session.run(claim_pending(request)), request)
        if claimed >= request.limit:
            self._has_pending = True
            return Answer(claimed)
        found = await self._dispatch(replace(request, limit=request.limit - claimed), session)
        self._plain_caps = found.plain_caps
        return Answer.of(found, claimed + self._hold(found, request))

    async def _claim_plainly(
        self, request: DispatchRequest, session: DatabaseSession, caps: Sequence[int]
    ) -> Dispatched:
        """Claim in one round trip, or in a short transaction under caps."""
        claiming = claim_plain(request, caps)
        try:
            return await (session.run(claiming) if caps else session.run_apart(claiming))
        except DatabaseFaultError:
            raise
        except Exception:  # noqa: BLE001 - the usual claim finds the entry that cannot become a run, and says so
            return NOTHING

    async def _dispatch(self, request: DispatchRequest, session: DatabaseSession) -> Dispatched:
        try:
            return await session.run(dispatch(request))
        except DatabaseFaultError:
            raise
        except Exception as error:  # noqa: BLE001 - halving finds the entry that cannot become a run
            _log.warning("a claim was refused; retrying its entries in smaller sets: %s", error)
            return await self._dispatch_apart(request)

    async def _dispatch_apart(self, request: DispatchRequest) -> Dispatched:
        """Claim in savepoints: an entry that the database refuses becomes a dead letter with the error."""
        charges_all = self._refused_alike >= CHARGED_AFTER
        try:
            async with self._context.database.transaction() as transaction:
                dispatched = await self._dispatch_in(transaction, request, charges_all=charges_all)
        except SetRefusedError:
            self._refused_alike += 1
            raise
        self._refused_alike = 0
        return dispatched

    async def _dispatch_in(
        self, transaction: Transaction, request: DispatchRequest, *, charges_all: bool
    ) -> Dispatched:
        work = await transaction.run(load_ready(request))
        chosen = choose_entries(work, request)
        if not chosen:
            return NOTHING

        async def start(entries: Sequence[Row]) -> Dispatched:
            async with transaction.savepoint():
                return await transaction.run(dispatch_entries(request, list(entries), work.groups))

        result = await write_bisecting(chosen, start, charges_all=charges_all)
        for entry, error in result.refused:
            _log.error("entry %d of %s cannot become a run: %s", entry.id, entry.train_name, error)
        refusals = [Refusal(entry.id, str(error)) for entry, error in result.refused]
        await transaction.run(refuse_entries(refusals))
        self.refused += len(refusals)
        runs = [run for part in result.written for run in part.runs]
        return Dispatched(tuple(runs), sum(part.held for part in result.written))

    def _hold(self, claimed: Dispatched, request: DispatchRequest) -> int:
        """Put committed runs into the buffers at once: while this worker is alive, no other recovers them."""
        runs = claimed.runs
        if request.worker_id != self._worker.id:  # the lease was lost: these runs are recovered by others
            return 0
        suspects = [run for run in runs if is_suspect(run.losses)]
        self._suspects.put(suspects)
        self._ready.put([run for run in runs if not is_suspect(run.losses)] if suspects else runs)
        return len(runs)
