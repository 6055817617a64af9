"""What a check-up found, in words: what is the matter, and what to do."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING, Final, Literal, TypeAlias

from gandy.model.run import ADMINISTRATIVE_TRAINS
from gandy.settings import format_duration
from gandy.store.reading.checkup import COUNTED

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Sequence
    from datetime import datetime
    from pathlib import Path

    from gandy.desk.groups import WorkerSummary
    from gandy.model.manifest import DispatchView
    from gandy.rules.clocks import ClockDoubt
    from gandy.settings import CleanupSettings
    from gandy.store.partitions import HistoryState
    from gandy.store.reading.checkup import BrokenReferences, IndexFaults
    from gandy.store.statements import Rows

Level: TypeAlias = Literal["problem", "warning"]

MOST_SKEW: Final = timedelta(seconds=5)
#: An event loop that answers nothing for this long delays every job beside the one that blocks it.
LONG_STALL: Final = timedelta(seconds=1)
_NAMED: Final = 5
_UNHELD: Final = {
    "lost": "their worker was found lost",
    "stopped": "their worker has stopped",
    "unknown": "their worker is not known",
    "silent": "the lease of their worker has run out",
}
_OTHERS_WRITE: Final = 0o002


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """Something that a person should know of."""

    level: Level
    check: str
    what: str
    to_do: str


def of_clock(skew: timedelta) -> Iterator[Finding]:
    """Judge the distance between this host's clock and the database's."""
    if abs(skew) > MOST_SKEW:
        direction = "ahead of" if skew > timedelta(0) else "behind"
        yield Finding(
            level="warning",
            check="clock",
            what=f"the database's clock is {_span(abs(skew))} {direction} this host's",
            to_do="nothing runs wrongly by it, but log lines do not match: set both by NTP",
        )


def of_named_trains(cleanup: CleanupSettings, known: Collection[str] | None) -> Iterator[Finding]:
    """Name the trains that the retention knows and the application does not; None: there is none to ask."""
    unknown = sorted(set(cleanup.retention_by_train) - {*(known or ()), *ADMINISTRATIVE_TRAINS})
    if known is not None and unknown:
        yield Finding(
            level="warning",
            check="trains",
            what=f"cleanup.retention names trains that this application does not have: {', '.join(unknown)}",
            to_do="correct the names, or take them out: gandy trains list",
        )


def of_doubt(found: ClockDoubt | None) -> Iterator[Finding]:
    """Judge whether the clock may be believed before anything is removed by age."""
    if found is not None:
        yield Finding(
            level="warning",
            check="clock",
            what=f"{found}: nothing is removed by age",
            to_do="set it right; if it is right, services go on after ten minutes, and commands take --yes",
        )


def of_cursors(impossible: Sequence[DispatchView]) -> Iterator[Finding]:
    """Judge next instants that only a clock that was wrong can have set."""
    if impossible:
        names = [f"{view.external_id} ({view.next_scheduled_run:%Y-%m-%d %H:%M}Z)" for view in impossible]
        yield Finding(
            level="problem",
            check="clock",
            what=f"a clock was wrong and set next instants that are too far off: {_named(names)}",
            to_do="a manifest manager puts them right: gandy tick manifest-manager, or gandy up",
        )


def of_workers(workers: Sequence[WorkerSummary], lease_for: timedelta) -> Iterator[Finding]:
    """Judge who is there, who went without a word, and who nearly did."""
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
            what=f"{_amount(len(lost), 'worker')} gone without a word: "
            + _named([f"{worker.host} pid {worker.pid}" for worker in lost]),
            to_do="look for crashes or kills there (memory?); their runs are tried again",
        )
    for worker in workers:
        if worker.longest_stall * 2 >= lease_for:
            yield _stalled(worker, f"the lease lasts {_span(lease_for)}", "or a longer worker.lease_for")
        elif worker.longest_stall >= LONG_STALL:
            yield _stalled(worker, "the jobs beside it waited", "or await what it waits for")


def _stalled(worker: WorkerSummary, harm: str, instead: str) -> Finding:
    return Finding(
        level="warning",
        check="workers",
        what=f"junction {worker.stalled_junction or 'unknown'} held the interpreter of {worker.host} "
        f"pid {worker.pid} for {_span(worker.longest_stall)}; {harm}",
        to_do=f"give its train process=True, {instead}",
    )


def of_unheld(runs: Rows) -> Iterator[Finding]:
    """Judge the runs in progress that no living process holds, by what is known of their workers."""
    for state, why in _UNHELD.items():
        found = [row for row in runs if row.worker_state == state]
        if found:
            names = [f"{row.id} ({row.train})" for row in found]
            yield Finding(
                level="problem",
                check="runs",
                what=f"{_amount(len(found), 'run')} in progress that no living process holds, {why}: "
                + _named(names),
                to_do="the service manifest-manager gives them to others: start it, and see its log; "
                f"or end one by hand: gandy runs fail {found[0].id}",
            )


def of_indexes(faults: IndexFaults) -> Iterator[Finding]:
    """Judge the indexes."""
    if faults.missing:
        yield Finding(
            level="problem",
            check="indexes",
            what=f"{_amount(len(faults.missing), 'index', 'indexes')} missing: {_named(faults.missing)}",
            to_do="make them again as in `gandy migrate --sql` of an empty database",
        )
    if faults.invalid:
        yield Finding(
            level="problem",
            check="indexes",
            what=f"{_amount(len(faults.invalid), 'index', 'indexes')} not valid: {_named(faults.invalid)}",
            to_do="rebuild them: REINDEX INDEX CONCURRENTLY gandy.NAME",
        )


def of_overdue(runs: int, oldest_at: datetime | None) -> Iterator[Finding]:
    """Judge the runs that should be gone."""
    if runs:
        yield Finding(
            level="warning",
            check="retention",
            what=f"{_amount(runs, 'run')} kept beyond their date, since {oldest_at:%Y-%m-%d %H:%M}Z",
            to_do="run the service lifecycle somewhere: gandy up; its log says what stops it",
        )


def of_history(history: HistoryState | None, needed_days: int) -> Iterator[Finding]:
    """Judge the days of history, where it has days."""
    if history is None:
        return
    if history.days_ahead < needed_days:
        yield Finding(
            level="warning",
            check="retention",
            what=f"history has partitions for {history.days_ahead} days, the retention needs {needed_days}",
            to_do="run the service lifecycle as a user who may create tables in schema gandy",
        )
    if history.kept_by_row:
        yield Finding(
            level="warning",
            check="retention",
            what=f"{_amount(history.kept_by_row, 'run')} kept by row, because their day had no partition",
            to_do="they are deleted one by one in their time; keep partitions ahead of the longest retention",
        )
    if history.past_leaves:
        yield Finding(
            level="warning",
            check="retention",
            what=f"{_amount(history.past_leaves, 'partition')} of days that are over",
            to_do="run the service lifecycle as the owner of the tables; it drops them",
        )


def of_queue(held: Rows) -> Iterator[Finding]:
    """Judge work that nobody can do."""
    for row in held:
        yield Finding(
            level="problem",
            check="trains",
            what=f"{_amount(row.entries, 'entry', 'entries')} of train {row.train} ({row.owner}), "
            "which no live worker knows",
            to_do="deploy a worker that has the train, or cancel the entries: gandy queue list --gate train",
        )


_CANCEL: Final = "or cancel them: gandy queue list --status waiting"
_STALLED: Final = {
    "gone": ("their manifest is gone", "run a manifest-manager, which cancels them"),
    "nothing": ("nothing holds them back", "run a manifest-manager, which queues them"),
    "orphaned": ("it is no longer declared", f"declare it again, {_CANCEL}"),
    "disabled": ("it is disabled", f"enable it or its group, {_CANCEL}"),
}


def of_turns(stalled: Rows) -> Iterator[Finding]:
    """Judge waiting entries whose turn does not come by itself."""
    for row in stalled:
        why, to_do = _STALLED[row.held_by]
        name = row.manifest or f"manifest {row.manifest_id}"
        yield Finding(
            level="problem" if row.held_by in {"gone", "nothing"} else "warning",
            check="turns",
            what=f"{_amount(row.entries, 'waiting entry', 'waiting entries')} of {name} ({row.owner}): {why}",
            to_do=to_do,
        )


def of_letters(awaiting: Rows, lost: Rows) -> Iterator[Finding]:
    """Judge what waits for a person, and what no longer can."""
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
            "wrote no dead letter: too many wait already",
            to_do=f"resolve those that wait: gandy dead-letters list --train {row.train}",
        )


def of_references(broken: BrokenReferences) -> Iterator[Finding]:
    """Judge references that lead nowhere."""
    if broken.stuck_manifests:
        names = [f"{row.manifest} (run {row.run_id})" for row in broken.stuck_manifests]
        yield _broken(f"manifests whose active run is gone, so that they do not run: {_named(names)}")
    if broken.stray_runs:
        names = [f"{row.run_id} of {row.manifest}" for row in broken.stray_runs]
        yield _broken(f"runs that their manifests do not know of: {_named(names)}")
    if broken.entries_without_run:
        names = [f"{row.id} ({row.train})" for row in broken.entries_without_run]
        yield _broken(f"dispatched entries without a run: {_named(names)}")


def of_file(file: Path | None, journal_mode: str) -> Iterator[Finding]:
    """Judge the file of an embedded database."""
    if journal_mode != "wal":
        yield Finding(
            level="warning",
            check="file",
            what=f"the journal mode is {journal_mode}, not wal: readers and the writer wait for each other",
            to_do="keep the file on a local disk; network file systems do not support it",
        )
    if file is not None and file.stat().st_mode & _OTHERS_WRITE:
        yield Finding(
            level="problem",
            check="file",
            what=f"{file} can be written by every user of this host",
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
