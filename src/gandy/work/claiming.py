"""Claiming runs: how many, how often, and from where."""

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
    choose_entries,
    claim_pending,
    dispatch,
    dispatch_entries,
    load_ready,
)
from gandy.store.reaping import Refusal, refuse_entries
from gandy.store.statements import write_halved
from gandy.work.buffer import Answer, ClaimPace, Ticket
from gandy.work.parts import dispatch_request

if TYPE_CHECKING:
    from collections.abc import Sequence

    from gandy.store.dispatching import DispatchRequest
    from gandy.store.drivers.database import DatabaseSession, Transaction
    from gandy.store.statements import Row
    from gandy.work.buffer import Claiming, RunBuffer, SlotDemand
    from gandy.work.parts import WorkerParts


_log = logging.getLogger("gandy.worker")

LANES: Final = 2  # a claim may set out before the one before it is back
FIRST_RETRY_SECONDS: Final = 0.05  # a connection that was cut is mostly back at once
LONGEST_RETRY_SECONDS: Final = 1.0
FIRST_CONTENDED_SECONDS: Final = 0.005  # another claim is about to commit
LONGEST_CONTENDED_SECONDS: Final = 0.5
MOST_DOUBLINGS: Final = 10
CHARGED_AFTER: Final = 3  # claims in a row that were refused as a whole


class Claimer:
    """Keeps the slots of one kind busy: asks whenever a slot, or enough of what is held ahead, is free.

    Three numbers decide: what runs, what is held, and what claims on their way may still bring. Together they
    are kept at the number of slots plus what the pace says is worth holding ahead. A claim that brings less
    than it asked for means that the queue has no more: the next one waits for a wake-up (work was queued, an
    end made room under a cap) or for the poll. A claim that met another one's locks is soon repeated.
    """

    def __init__(
        self,
        parts: WorkerParts,
        worker: Claiming,
        places: SlotDemand,
        *,
        ready: RunBuffer,
        suspects: RunBuffer,
    ) -> None:
        settings = parts.settings.worker
        self._parts = parts
        self._worker = worker
        self._slots = places.slots
        self._trains = places.trains
        self._busy = 0
        self._ready = ready
        self._suspects = suspects
        self._poll = settings.poll_every.total_seconds()
        self._pace = ClaimPace(slots=places.slots, most=places.prefetch)
        self._sessions = [parts.database.session() for _ in range(LANES)]
        self._free_sessions = list(self._sessions)
        self._changed = asyncio.Event()
        parts.wakeups.on("work", self.look)
        parts.wakeups.on("pending", self.look_for_pending)
        self._flights: dict[int, int] = {}  # claims on their way: what each asked for, by its serial
        self._tasks: set[asyncio.Task[None]] = set()
        self._serial = 0
        self._coming = 0
        self._is_resting = False
        self._is_cut = False  # what is left is under caps, and taken for a free slot alone
        self._rests_until = 0.0
        self._last_wake = 0
        self._last_full = -1
        self._has_pending = True
        self._contended = 0
        self._faults = 0
        self._refused_alike = 0
        self.refused = 0  #: entries that could not become runs
        self._turn = 0
        self.is_open = True

    # What others tell

    def look(self) -> None:
        """Ask the queue again at once: there may be work, or room under a cap."""
        self._last_wake = self._serial
        self._is_cut = False
        if not self._faults:  # a database that failed is not asked more often for that
            self._is_resting = False
            self._changed.set()

    def look_for_pending(self) -> None:
        """Let the next claim begin with what a dispatcher has made."""
        self._has_pending = True
        self.look()

    @property
    def busy(self) -> int:
        """How many slots are taken."""
        return self._busy

    @property
    def begun(self) -> int:
        """How many runs have begun so far."""
        return self._pace.begun

    def begin(self) -> None:
        """Count a run that begins, and claim before the slots run dry."""
        self._busy += 1
        self._pace.begun += 1
        if not self._is_resting and self._is_worth_it():
            self._changed.set()

    def end(self) -> None:
        """Count a run that has ended; its slot takes what is held, or waits for a claim."""
        self._busy -= 1
        if not self._ready.runs and not self._is_resting and self._is_worth_it():
            self._changed.set()

    def _is_worth_it(self) -> bool:
        """Whether a slot would stay idle, or a good part of what is held ahead is used up."""
        held = len(self._ready.runs) + self._coming
        if self._slots - self._busy > held:
            return True
        return not self._is_cut and held + self._pace.unit <= self._pace.ahead

    def stall(self) -> None:
        """Hold nothing in advance until jobs begin again."""
        self._pace.stall()

    @property
    def oldest_flight(self) -> int:
        """The serial of the oldest claim on its way; the next one's where none is."""
        return min(self._flights, default=self._serial)

    @property
    def next_flight(self) -> int:
        """The serial that the next claim will have."""
        return self._serial

    # The loop

    async def run(self) -> None:
        """Claim without end; sleep only while nothing is free or the queue has nothing more."""
        while True:
            wanted = self._wanted()
            if wanted:
                self._set_out(wanted)
            else:
                await self._rest()

    async def settle(self, seconds: float) -> None:
        """Claim nothing more, and wait for what is on its way."""
        self.is_open = False
        if self._tasks:
            await asyncio.wait(self._tasks, timeout=seconds)

    @property
    def session(self) -> DatabaseSession:
        """The connection that puts back what was not begun."""
        return self._sessions[0]

    async def close(self) -> None:
        """Give the connections up."""
        for session in self._sessions:
            await session.close()

    def _free_slots(self) -> int:
        """How many slots have nothing, and nothing on its way to them."""
        return self._slots - self._busy - len(self._ready.runs) - self._coming

    def _free(self) -> int:
        """How many more could be held, run or be on their way."""
        return self._free_slots() + self._pace.ahead

    def _wanted(self) -> int:
        """How many to ask for now; 0: too few to be worth a claim, or no claim may set out."""
        if not self.is_open or self._is_resting or not self._free_sessions:
            return 0
        self._pace.measure()
        return max(self._free(), 0) if self._is_worth_it() else 0

    async def _rest(self) -> None:
        """Sleep until something changes; when a rest is over, the queue is asked whatever was known of it."""
        seconds = self._poll
        if self._is_resting:
            seconds = self._rests_until - asyncio.get_running_loop().time()
        if not await wait_for_wake(self._changed, seconds):
            self._is_resting = False

    def _rest_for(self, seconds: float) -> None:
        self._is_resting = True
        self._rests_until = asyncio.get_running_loop().time() + seconds

    # One claim

    def _set_out(self, limit: int) -> None:
        """Send a claim on its way; once begun it comes to its end, for what it committed must be known."""
        session, request = self._free_sessions.pop(), self._request(limit)
        serial = self._depart(limit)
        flight = asyncio.create_task(self._fly(request, session, serial), name="gandy-claim")
        self._tasks.add(flight)

        def land(_: object) -> None:
            self._tasks.discard(flight)
            self._free_sessions.append(session)
            self._arrive(serial)

        flight.add_done_callback(land)

    def _depart(self, limit: int) -> int:
        """Expect up to `limit` runs; the serial stands for the claim that is to bring them."""
        serial = self._serial
        self._serial += 1
        self._coming += limit
        self._flights[serial] = limit
        return serial

    def _arrive(self, serial: int) -> None:
        self._coming -= self._flights.pop(serial)
        self._changed.set()

    async def _fly(self, request: DispatchRequest, session: DatabaseSession, serial: int) -> None:
        was_quiet = self._worker.is_quiet and len(self._flights) == 1
        try:
            answer = await self._claim(request, session)
        except Exception as error:  # noqa: BLE001 - whatever it is, the next claim tries again
            self._note_fault(error)
            return
        self._note_answer(serial, answer)
        is_alone = was_quiet and len(self._flights) == 1
        self._worker.note_idle(self, is_idle=is_alone and not answer.claimed and not answer.is_contended)

    def _note_answer(self, serial: int, answer: Answer) -> None:
        """Learn from what a claim brought whether the queue has more."""
        self._faults = 0
        is_full = answer.claimed >= self._flights[serial]
        self._is_cut = answer.is_cut and not is_full and serial >= self._last_wake
        if is_full:
            self._last_full = max(self._last_full, serial)
        elif answer.is_contended:
            self._note_contention(answer.claimed)
        elif not answer.is_cut and serial >= self._last_wake and serial > self._last_full:
            # The queue has no more: ask again when it is told, or at the poll.
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
        """Ask again soon where another claim held what this one was after, later while that goes on."""
        self._contended = 0 if claimed else min(self._contended + 1, MOST_DOUBLINGS)
        self._rest_for(min(FIRST_CONTENDED_SECONDS * 2**self._contended, LONGEST_CONTENDED_SECONDS))

    def board(self) -> Ticket | None:
        """Let another transaction claim for the slots that are free: an end under a cap makes room."""
        free = self._free_slots()
        if not self.is_open or free <= 0 or self._faults:
            return None
        return Ticket(self, self._request(free), self._depart(free))

    def land(self, ticket: Ticket, found: Dispatched | None) -> None:
        """Take what a ticket's transaction has claimed; None: it was not committed."""
        if found is not None:
            self._note_answer(ticket.serial, Answer.of(found, self._hold(found, ticket.request)))
        self._arrive(ticket.serial)

    def _request(self, limit: int) -> DispatchRequest:
        self._turn += 1
        return dispatch_request(
            self._parts,
            limit,
            worker_id=self._worker.id,
            trains=self._trains,
            turn=self._turn,
            free_slots=max(self._free_slots(), 0),
        )

    async def _claim(self, request: DispatchRequest, session: DatabaseSession) -> Answer:
        claimed = 0
        if self._has_pending:
            self._has_pending = False
            claimed = self._hold(await session.run(claim_pending(request)), request)
        if claimed >= request.limit:
            self._has_pending = True
            return Answer(claimed)
        found = await self._dispatch(replace(request, limit=request.limit - claimed), session)
        return Answer.of(found, claimed + self._hold(found, request))

    async def _dispatch(self, request: DispatchRequest, session: DatabaseSession) -> Dispatched:
        try:
            return await session.run(dispatch(request))
        except DatabaseFaultError:
            raise
        except Exception as error:  # noqa: BLE001 - one entry that cannot become a run is found by halving
            _log.warning("a claim was refused and is taken apart: %s", error)
            return await self._dispatch_apart(request)

    async def _dispatch_apart(self, request: DispatchRequest) -> Dispatched:
        """Claim in savepoints: an entry that the database refuses is parked with the evidence."""
        charges_all = self._refused_alike >= CHARGED_AFTER
        try:
            async with self._parts.database.transaction() as transaction:
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

        result = await write_halved(chosen, start, charges_all=charges_all)
        for entry, error in result.refused:
            _log.error("entry %d of %s cannot become a run: %s", entry.id, entry.train_name, error)
        refusals = [Refusal(entry.id, str(error)) for entry, error in result.refused]
        await transaction.run(refuse_entries(refusals))
        self.refused += len(refusals)
        runs = [run for part in result.written for run in part.runs]
        return Dispatched(tuple(runs), sum(part.held for part in result.written))

    def _hold(self, claimed: Dispatched, request: DispatchRequest) -> int:
        """Keep what is committed at once: while this worker lives, no other one would miss it."""
        runs = claimed.runs
        if request.worker_id != self._worker.id:  # the lease was lost meanwhile: others are given these runs
            return 0
        suspects = [run for run in runs if is_suspect(run.losses)]
        self._suspects.put(suspects)
        self._ready.put([run for run in runs if not is_suspect(run.losses)] if suspects else runs)
        return len(runs)
