"""The findings of the doctor as text: the problem, and the remedy."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from operator import attrgetter
from typing import TYPE_CHECKING, Final, Literal, TypeAlias

from gandy.model.run import ADMINISTRATIVE_TRAINS
from gandy.rules.pieces import oversized
from gandy.settings import format_duration
from gandy.store.reading.checkup import COUNTED

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping, Sequence
    from datetime import datetime
    from pathlib import Path

    from gandy.desk.groups import WorkerSummary
    from gandy.model.manifest import DispatchView
    from gandy.rules.clocks import ClockDoubt
    from gandy.rules.pieces import Piece
    from gandy.settings import CleanupSettings
    from gandy.store.partitions import HistoryState
    from gandy.store.reading.checkup import BrokenReferences, IndexFaults
    from gandy.store.reading.waits import Wait
    from gandy.store.statements import Rows

Level: TypeAlias = Literal["problem", "warning"]

MOST_SKEW: Final = timedelta(seconds=5)
#: An entry that waits longer for something that does not pass by itself is named.
PATIENCE: Final = timedelta(minutes=10)
#: An event loop blocked for this long delays every other job on it.
LONG_STALL: Final = timedelta(seconds=1)
_NAMED: Final = 5
_UNHELD: Final = {
    "lost": "their worker was declared lost",
    "stopped": "their worker has stopped",
    "unknown": "their worker is unknown",
    "silent": "the lease of their worker has expired",
}
_OTHERS_WRITE: Final = 0o002


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """A problem for an operator."""

    level: Level
    check: str
    what: str
    to_do: str


def of_clock(skew: timedelta) -> Iterator[Finding]:
    """Report clock skew between this host and the database."""
    if abs(skew) > MOST_SKEW:
        direction = "ahead of" if skew > timedelta(0) else "behind"
        yield Finding(
            level="warning",
            check="clock",
            what=f"the database's clock is {_span(abs(skew))} {direction} this host's",
            to_do="jobs are not affected, but log times differ: synchronise both clocks with NTP",
        )


def of_named_trains(cleanup: CleanupSettings, known: Collection[str] | None) -> Iterator[Finding]:
    """Report trains in the retention settings that the application does not have; None: no application."""
    unknown = sorted(set(cleanup.retention_by_train) - {*(known or ()), *ADMINISTRATIVE_TRAINS})
    if known is not None and unknown:
        yield Finding(
            level="warning",
            check="trains",
            what=f"cleanup.retention names trains that this application does not have: {', '.join(unknown)}",
            to_do="correct or remove the names: gandy trains list",
        )


def of_doubt(found: ClockDoubt | None) -> Iterator[Finding]:
    """Report a clock that is not trusted, because rows are deleted by age."""
    if found is not None:
        yield Finding(
            level="warning",
            check="clock",
            what=f"{found}: nothing is deleted by age",
            to_do="correct it; if it is right, services resume after ten minutes, and commands accept --yes",
        )


def of_cursors(impossible: Sequence[DispatchView]) -> Iterator[Finding]:
    """Report next instants that only a wrong clock can have set."""
    if impossible:
        names = [f"{view.external_id} ({view.next_scheduled_run:%Y-%m-%d %H:%M}Z)" for view in impossible]
        yield Finding(
            level="problem",
            check="clock",
            what=f"a wrong clock set next instants too far in the future: {_named(names)}",
            to_do="manifest-manager corrects them: gandy tick manifest-manager, or gandy up",
        )


def of_workers(workers: Sequence[WorkerSummary], lease_for: timedelta) -> Iterator[Finding]:
    """Report missing workers, lost workers, and workers whose event loop was blocked."""
    if not any(worker.is_alive and worker.slots for worker in workers):
        yield Finding(
            level="problem",
            check="workers",
            what="no worker is alive: nothing runs",
            to_do="start one: gandy up, or gandy work",
        )
    lost = [worker for worker in workers if not worker.is_alive and worker.state != "stopped"]
    if lost:
        yield Finding(
            level="warning",
            check="workers",
            what=f"{_amount(len(lost), 'worker')} lost (lease expired without shutdown): "
            + _named([f"{worker.host} pid {worker.pid}" for worker in lost]),
            to_do="look for crashes or the out-of-memory killer there; their runs are retried",
        )
    for worker in workers:
        if worker.longest_stall * 2 >= lease_for:
            yield _stalled(worker, f"the lease lasts {_span(lease_for)}", "or a longer worker.lease_for")
        elif worker.longest_stall >= LONG_STALL:
            yield _stalled(worker, "other jobs were delayed", "or make it await")


def _stalled(worker: WorkerSummary, harm: str, instead: str) -> Finding:
    return Finding(
        level="warning",
        check="workers",
        what=f"junction {worker.stalled_junction or 'unknown'} blocked the event loop of {worker.host} "
        f"pid {worker.pid} for {_span(worker.longest_stall)}; {harm}",
        to_do=f"give its train process=True, {instead}",
    )


def of_unheld(runs: Rows) -> Iterator[Finding]:
    """Report runs in progress without a live process, by the state of their workers."""
    for state, why in _UNHELD.items():
        found = [row for row in runs if row.worker_state == state]
        if found:
            names = [f"{row.id} ({row.train})" for row in found]
            yield Finding(
                level="problem",
                check="runs",
                what=f"{_amount(len(found), 'run')} in progress without a live process, {why}: "
                + _named(names),
                to_do="the service manifest-manager recovers them: start it, and see its log; "
                f"or fail one manually: gandy runs fail {found[0].id}",
            )


def of_indexes(faults: IndexFaults) -> Iterator[Finding]:
    """Report missing and invalid indexes."""
    if faults.missing:
        yield Finding(
            level="problem",
            check="indexes",
            what=f"{_amount(len(faults.missing), 'index', 'indexes')} missing: {_named(faults.missing)}",
            to_do="create them again as in `gandy migrate --sql` of an empty database",
        )
    if faults.invalid:
        yield Finding(
            level="problem",
            check="indexes",
            what=f"{_amount(len(faults.invalid), 'index', 'indexes')} not valid: {_named(faults.invalid)}",
            to_do="rebuild them: REINDEX INDEX CONCURRENTLY gandy.NAME",
        )


def of_overdue(runs: int, oldest_at: datetime | None) -> Iterator[Finding]:
    """Report runs whose retention has expired."""
    if runs:
        yield Finding(
            level="warning",
            check="retention",
            what=f"{_amount(runs, 'run')} kept beyond their retention, since {oldest_at:%Y-%m-%d %H:%M}Z",
            to_do="run the service lifecycle: gandy up; its log shows what stops it",
        )


def of_history(history: HistoryState | None, needed_days: int) -> Iterator[Finding]:
    """Report missing and expired daily partitions, if history is partitioned."""
    if history is None:
        return
    if history.days_ahead < needed_days:
        yield Finding(
            level="warning",
            check="retention",
            what=f"history has partitions for {history.days_ahead} days, the retention needs {needed_days}",
            to_do="run the service lifecycle as a role that may create tables in schema gandy",
        )
    if history.kept_by_row:
        yield Finding(
            level="warning",
            check="retention",
            what=f"{_amount(history.kept_by_row, 'run')} kept by row, because their day had no partition",
            to_do="they are deleted singly when they expire; keep partitions ahead of the longest retention",
        )
    if history.past_leaves:
        yield Finding(
            level="warning",
            check="retention",
            what=f"{_amount(history.past_leaves, 'partition')} of expired days",
            to_do="run the service lifecycle as the owner of the tables; it drops them",
        )


def of_pieces(pieces: Sequence[Piece], piece_bytes: int) -> Iterator[Finding]:
    """Report days whose history goes on into a piece that should have been closed."""
    late = oversized(pieces, piece_bytes)
    if late:
        largest = max(late, key=attrgetter("bytes"))
        yield Finding(
            level="warning",
            check="retention",
            what=f"{_amount(len(late), 'piece')} of history not closed at their size; the largest, of "
            f"{largest.day}, has {largest.bytes / 2**30:,.1f} GiB",
            to_do="run the service lifecycle as a role that may create tables in schema gandy",
        )


def of_queue(held: Rows) -> Iterator[Finding]:
    """Report entries whose train no live worker has."""
    for row in held:
        yield Finding(
            level="problem",
            check="trains",
            what=f"{_amount(row.entries, 'entry', 'entries')} of train {row.train} ({row.owner}), "
            "which no live worker has",
            to_do="deploy a worker that has the train, or cancel the entries: gandy queue list --gate train",
        )


_CANCEL: Final = "or cancel them: gandy queue list --status undispatched"
_STALLED: Final = {
    "gone": ("their manifest is deleted", "run a manifest-manager, which cancels them"),
    "nothing": ("nothing holds them back", "run a manifest-manager, which queues them"),
    "orphaned": ("it is no longer declared", f"declare it again, {_CANCEL}"),
    "disabled": ("it is disabled", f"enable it or its group, {_CANCEL}"),
}


def of_waits(waits: Mapping[int, Wait], now: datetime) -> Iterator[Finding]:
    """Report entries that have waited for long, each with its cause; other checks name unknown trains."""
    for entry_id, wait in waits.items():
        if wait.waits_for in {"manifest", "group", "cap"}:
            yield Finding(
                level="warning",
                check="queue",
                what=f"an entry of train {wait.train} has waited {_span(now - wait.since)}: {wait.why}",
                to_do=f"{wait.what_to_do}; see: gandy queue explain {entry_id}",
            )


def of_turns(stalled: Rows) -> Iterator[Finding]:
    """Report waiting entries that would wait forever."""
    for row in stalled:
        why, to_do = _STALLED[row.held_by]
        name = row.manifest or f"manifest {row.manifest_id}"
        yield Finding(
            level="problem" if row.held_by in {"gone", "nothing"} else "warning",
            check="turns",
            what=f"{_amount(row.entries, 'waiting entry', 'waiting entries')} of {name} ({row.owner}): {why}",
            to_do=to_do,
        )


def of_dependents(lost: Rows) -> Iterator[Finding]:
    """Report dependents that wait for a parent without new runs."""
    for row in lost:
        yield Finding(
            level="warning",
            check="dependents",
            what=f"{row.manifest} ({row.owner}) follows {row.parent}, which is no longer declared: "
            "it has no new runs",
            to_do=f"declare {row.parent} again, or {row.manifest} after other manifests; "
            f"gandy manifests explain {row.manifest}",
        )


def of_letters(awaiting: Rows, lost: Rows) -> Iterator[Finding]:
    """Report unresolved dead letters, and failures without a dead letter."""
    for row in awaiting:
        yield Finding(
            level="warning",
            check="dead letters",
            what=f"{_amount(row.letters, 'dead letter')} of train {row.train} ({row.owner}), since "
            f"{row.oldest_at:%Y-%m-%d %H:%M}Z",
            to_do=f"gandy dead-letters list --train {row.train}; then requeue or acknowledge",
        )
    for row in lost:
        yield Finding(
            level="problem",
            check="dead letters",
            what=f"{_amount(row.letters, 'failure')} of train {row.train} ({row.owner}) "
            "wrote no dead letter: too many are unresolved",
            to_do=f"resolve them: gandy dead-letters list --train {row.train}",
        )


def of_references(broken: BrokenReferences) -> Iterator[Finding]:
    """Report dangling references."""
    if broken.stuck_manifests:
        names = [f"{row.manifest} (run {row.run_id})" for row in broken.stuck_manifests]
        yield _broken(f"manifests blocked by an active run that does not exist: {_named(names)}")
    if broken.stray_runs:
        names = [f"{row.run_id} of {row.manifest}" for row in broken.stray_runs]
        yield _broken(f"active runs that their manifests do not refer to: {_named(names)}")


def of_file(file: Path | None, journal_mode: str) -> Iterator[Finding]:
    """Report the journal mode and the permissions of an SQLite file."""
    if journal_mode != "wal":
        yield Finding(
            level="warning",
            check="file",
            what=f"the journal mode is {journal_mode}, not wal: readers and the writer wait for each other",
            to_do="keep the file on a local disk; network file systems do not support WAL",
        )
    if file is not None and file.stat().st_mode & _OTHERS_WRITE:
        yield Finding(
            level="problem",
            check="file",
            what=f"{file} is writable by every user of this host",
            to_do=f"chmod o-w {file}",
        )


def _broken(what: str) -> Finding:
    return Finding(
        level="problem",
        check="references",
        what=what,
        to_do="rows were changed outside Gandy, or this is a bug: keep a copy of these rows and report it",
    )


def _amount(number: int, one: str, many: str | None = None) -> str:
    if number >= COUNTED:
        return f"{COUNTED - 1} or more {many or one + 's'}"
    return f"{number} {one if number == 1 else many or one + 's'}"


def _named(names: Sequence[str]) -> str:
    shown = ", ".join(names[:_NAMED])
    return f"{shown} and {len(names) - _NAMED} more" if len(names) > _NAMED else shown


def _span(span: timedelta) -> str:
    return format_duration(round(span / timedelta(milliseconds=100)) * timedelta(milliseconds=100))
