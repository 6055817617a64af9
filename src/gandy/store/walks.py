"""Which rows of Gandy's own tables have had their time, and what goes with them."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Literal

from gandy.rules.ending import (
    is_finished_once_removable,
    is_orphan_removable,
    is_spent_once_forgettable,
)
from gandy.store.cleanup import Deletion, Found, RowWalk, behind, found_in, place_of
from gandy.store.statements import counted, statement

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from datetime import datetime, timedelta

    from gandy.store.cleanup import Place
    from gandy.store.statements import Operation, Row

_RUN_CHILDREN: Final = Deletion("delete_entries_of_runs", "work_queue")
_RUN_REFERENCES: Final = Deletion("forget_runs_of_letters", None)
DELETE_RUNS: Final = (
    _RUN_CHILDREN,
    Deletion("delete_logs_of_runs", "log"),
    _RUN_REFERENCES,
    Deletion("delete_runs", "metadata"),
)
_DELETE_RUNS_BY_ROW: Final = (
    _RUN_CHILDREN,
    Deletion("delete_logs_by_row", "log"),
    _RUN_REFERENCES,
    Deletion("delete_runs_by_row", "metadata"),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class ExpiredRuns(RowWalk):
    """Finished runs of named trains, from one name to the next."""

    names: tuple[str, ...]

    def find(self, after: Place | None, limit: int) -> Operation[Found]:
        """Find the next ones of the name where the walk is, then of those behind it."""
        current = str(after.within) if after else None
        rest = [name for name in self.names if current is None or name >= current]
        place = behind(after) | {"after_name": current}
        return found_in((yield statement(self.finding, limit=limit, names=rest, **place, **self.given))[0])


@dataclass(frozen=True, slots=True, kw_only=True)
class ManifestWalk:
    """Manifests that nobody needs any more; the rules judge each one."""

    finding: Literal["find_orphaned_manifests", "find_completed_manifests"]
    is_removable: Callable[[Row], bool]
    before: datetime
    once_before: datetime  #: a once that has run since is remembered
    table: str = "manifest"

    def find(self, after: Place | None, limit: int) -> Operation[Found]:
        """Find those whose time is over."""
        rows = yield statement(self.finding, limit=limit, before=self.before, **behind(after))
        return Found(len(rows), place_of(rows[-1]) if rows else None, rows=rows)

    def delete(self, found: Found) -> Operation[Counter[str]]:
        """Remove those that the rules let go and nobody holds; their waiting entries are cancelled."""
        ids = sorted(row.id for row in found.rows if self.is_removable(row))
        bounds = {"before": self.before, "once_before": self.once_before}
        locked = (yield statement("lock_removable_manifests", ids=ids, **bounds)) if ids else []
        ids = [row.id for row in locked]
        if not ids:
            return Counter()
        yield statement("cancel_entries_of_manifests", ids=ids)
        yield statement("release_letters_of_manifests", ids=ids)
        return Counter({"manifest": (yield counted("delete_manifests", ids=ids))[0].rows})


def expired_runs(
    *, administrative: Sequence[str], owner: str, names: Sequence[str], before: datetime
) -> ExpiredRuns:
    """Walk finished runs that started before; of trains other than Gandy's own only the owner's."""
    given = {"owner": owner, "administrative": list(administrative), "before": before}
    return ExpiredRuns(
        table="metadata",
        finding="find_expired_runs",
        deletions=DELETE_RUNS,
        given=given,
        names=tuple(sorted({*administrative, *names})),
    )


def dead_runs(before: datetime) -> RowWalk:
    """Walk the runs that are kept by row and past their date."""
    return RowWalk(
        table="metadata", finding="find_dead_runs", deletions=_DELETE_RUNS_BY_ROW, given={"before": before}
    )


def dispatched_entries(before: datetime) -> RowWalk:
    """Walk the entries that became runs long ago, if these are over."""
    return _walk("work_queue", "find_dispatched_entries", "delete_dispatched_entries", before=before)


def settled_entries(status: Literal["skipped", "cancelled"], before: datetime) -> RowWalk:
    """Walk the entries that never became runs."""
    return _walk("work_queue", "find_settled_entries", "delete_settled_entries", before=before, status=status)


def stray_logs() -> RowWalk:
    """Walk the lines that were left behind when their run was ended by somebody else."""
    return _walk("log", "find_stray_logs", "settle_stray_logs")


def gone_workers(before: datetime) -> RowWalk:
    """Walk the workers that have stopped or were lost."""
    return _walk("worker", "find_gone_workers", "delete_workers", before=before)


def silent_workers(before: datetime) -> RowWalk:
    """Walk the workers whose lease ran out long ago and whose runs are all settled."""
    return _walk("worker", "find_silent_workers_without_runs", "delete_workers", before=before)


def expired_keys(before: datetime) -> RowWalk:
    """Walk the uniqueness keys whose time is over."""
    return _walk("unique_key", "find_expired_keys", "delete_expired_keys", before=before)


def old_audit(before: datetime) -> RowWalk:
    """Walk the trail of who did what."""
    return _walk("audit", "find_old_audit", "delete_old_audit", before=before)


def old_state(before: datetime) -> RowWalk:
    """Walk what services remembered and never touched again."""
    return _walk("service_state", "find_old_state", "delete_old_state", before=before)


def expired_web_keys(before: datetime) -> RowWalk:
    """Walk the sessions and codes of the dashboard whose time is over."""
    return _walk("web_key", "find_expired_web_keys", "delete_expired_web_keys", before=before)


def idle_groups(before: datetime) -> RowWalk:
    """Walk the groups that are no more than a name, and that nothing has borne for long."""
    return RowWalk(
        table="manifest_group",
        finding="find_idle_groups",
        deletions=(Deletion("spare_used_groups", None), Deletion("delete_idle_groups", "manifest_group")),
        given={"before": before},
    )


def resolved_letters(before: datetime) -> RowWalk:
    """Walk the dead letters that a person has dealt with."""
    return _walk("dead_letter", "find_resolved_letters", "delete_resolved_letters", before=before)


def orphaned_manifests(now: datetime, keep_for: timedelta, *, keep_once_for: timedelta) -> ManifestWalk:
    """Walk the manifests that are no longer declared; a once that has run is remembered for longer."""

    def is_removable(row: Row) -> bool:
        is_over = is_orphan_removable(
            row.orphaned_at, now, has_unfinished_run=row.has_unfinished_run, keep_for=keep_for
        )
        return is_over and (
            not row.is_spent_once
            or is_spent_once_forgettable(row.completed_at, row.orphaned_at, now, keep_for=keep_once_for)
        )

    return ManifestWalk(
        finding="find_orphaned_manifests",
        is_removable=is_removable,
        before=now - keep_for,
        once_before=now - keep_once_for,
    )


def completed_manifests(now: datetime, keep_for: timedelta) -> ManifestWalk:
    """Walk the manifests that were made to run once, and did."""

    def is_removable(row: Row) -> bool:
        is_over = is_finished_once_removable(
            row.completed_at, now, is_declared=row.is_declared, keep_for=keep_for
        )
        return is_over and not row.has_unfinished_run

    before = now - keep_for
    return ManifestWalk(
        finding="find_completed_manifests", is_removable=is_removable, before=before, once_before=before
    )


def _walk(table: str, finding: str, deletion: str, **given: object) -> RowWalk:
    return RowWalk(table=table, finding=finding, deletions=(Deletion(deletion, table),), given=given)
