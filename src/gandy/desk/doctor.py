"""Check the installation, and list what needs an operator."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Final

from gandy.clock import Steadiness
from gandy.desk import findings
from gandy.desk.audit import local_operator
from gandy.desk.entries import global_cap
from gandy.desk.findings import Finding
from gandy.desk.groups import WorkerDesk
from gandy.desk.lifecycle import CHECK as CONTRACTS
from gandy.desk.lifecycle import of_contracts
from gandy.errors import CodeTooOldError, DatabaseFaultError, DatabaseUnreachableError, SchemaBehindError
from gandy.rules.clocks import doubt
from gandy.rules.ending import days_ahead
from gandy.store.clocks import FarPlace, find_newest, is_misplaced, load_far_cursors, read_mark
from gandy.store.drivers.database import database_file, dialect_of
from gandy.store.drivers.migrate import verify
from gandy.store.drivers.opening import open_database, schema_state
from gandy.store.manifests import read_now
from gandy.store.partitions import list_pieces, read_history
from gandy.store.reading import checkup
from gandy.store.reading.waits import load_old_waits

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from gandy.clock import ManualClock
    from gandy.lifecycle import Contract
    from gandy.model.manifest import DispatchView
    from gandy.model.owners import Owners
    from gandy.rules.clocks import ClockDoubt
    from gandy.settings import Settings
    from gandy.store.drivers.database import Database
    from gandy.store.reading.waits import Wait
    from gandy.store.statements import Operation
    from gandy.train.registry import Registry

CHECKS: Final = (
    "database",
    "schema",
    "clock",
    "workers",
    "runs",
    "indexes",
    "retention",
    "trains",
    "queue",
    "turns",
    "dependents",
    "dead letters",
    "references",
    "file",
    CONTRACTS,
)
_GRACE: Final = timedelta(days=1)
_LATELY: Final = timedelta(days=7)
_FAR_CURSORS: Final = 10_000


@dataclass(frozen=True, slots=True)
class DoctorReport:
    """The findings, and the checks that were made."""

    findings: tuple[Finding, ...]
    checked: tuple[str, ...] = CHECKS

    @property
    def is_clean(self) -> bool:
        """Whether there are no findings."""
        return not self.findings


class Doctor:
    """Checks one database, for one application or for all of them; changes nothing."""

    def __init__(
        self,
        settings: Settings,
        *,
        owners: Owners,
        registry: Registry | None = None,
        contracts: Sequence[Contract] = (),
    ) -> None:
        self._settings = settings
        self._owners = owners
        self._registry = registry
        self._contracts = contracts

    async def examine(
        self, *, clock: ManualClock | None = None, host_now: Callable[[], datetime] | None = None
    ) -> DoctorReport:
        """Run all checks; stop early if the database or its schema is missing."""
        url = self._settings.database.url
        try:
            verify(await asyncio.to_thread(schema_state, url), dialect_of(url))
        except DatabaseUnreachableError as error:
            return _ended_early(
                "database", str(error), "start it, or correct database.url: gandy config show"
            )
        except DatabaseFaultError as error:
            what, _, to_do = str(error).partition("; ")
            return _ended_early("database", what, to_do)
        except (SchemaBehindError, CodeTooOldError) as error:
            what, _, to_do = str(error).partition("; ")
            return _ended_early("schema", what, to_do)
        database = open_database(self._settings.database, clock=clock)
        try:
            await database.open()
            return DoctorReport(tuple(await self._look(database, host_now or _host_now)))
        finally:
            await database.close()

    async def _look(self, database: Database, host_now: Callable[[], datetime]) -> list[Finding]:
        retention, owners = self._settings.retention, self._owners
        spans = (retention.completed, retention.failed, retention.cancelled)
        workers = await WorkerDesk(database, local_operator("service"), owners=owners).list()
        read = database.read
        return [
            *findings.of_clock(await _skew(database, host_now)),
            *findings.of_doubt(await read(_doubt())),
            *findings.of_cursors(await read(_impossible(owners))),
            *findings.of_workers(workers, self._settings.worker.lease_for),
            *findings.of_unheld(await read(checkup.find_unheld_runs(owners))),
            *findings.of_indexes(await read(checkup.find_index_faults(database.dialect))),
            *findings.of_overdue(*(await read(checkup.count_overdue_runs(_GRACE)))),
            *findings.of_history(await read(read_history()), days_ahead(spans)),
            *findings.of_pieces(await read(list_pieces()), retention.piece_bytes),
            *findings.of_queue(await read(checkup.count_held_trains(owners))),
            *findings.of_waits(await read(self._old_waits()), await read(read_now())),
            *findings.of_turns(await read(checkup.find_stalled_turns(owners))),
            *findings.of_dependents(await read(checkup.find_orphaned_parents(owners))),
            *findings.of_letters(
                await read(checkup.count_letters_by_train(owners)),
                await read(checkup.list_lost_letters(owners, window=_LATELY)),
            ),
            *findings.of_named_trains(
                self._settings.cleanup, None if self._registry is None else self._registry.names
            ),
            *findings.of_references(await read(checkup.find_broken_references(self._owners))),
            *findings.of_file(
                database_file(self._settings.database.url), await read(checkup.read_journal_mode())
            ),
            *await asyncio.to_thread(lambda: list(of_contracts(self._contracts))),
        ]

    def _old_waits(self) -> Operation[dict[int, Wait]]:
        cap = global_cap(self._settings)
        return load_old_waits(self._owners, max_active_jobs=cap, patience=findings.PATIENCE)


def _doubt() -> Operation[ClockDoubt | None]:
    """Judge the clock without knowing its earlier readings, as a new command does."""
    mark = yield from read_mark()
    newest = yield from find_newest(mark)
    return doubt(mark.now, newest, Steadiness(timedelta(0), has_jumped=False))


def _impossible(owners: Owners) -> Operation[list[DispatchView]]:
    """Return the manifests whose next instant is impossibly far in the future."""
    now = yield from read_now()
    views = yield from load_far_cursors(FarPlace(), _FAR_CURSORS)
    found: list[DispatchView] = []
    for view in views:
        is_mine = view.owner == (owners.bound or view.owner)
        found += [view] if is_mine and (yield from is_misplaced(view, now)) else []
    return found


async def _skew(database: Database, host_now: Callable[[], datetime]) -> timedelta:
    """Return the skew of the clocks; assume that the query took equally long in both directions."""
    before = host_now()
    there = await database.read(read_now())
    return there - (before + (host_now() - before) / 2)


def _host_now() -> datetime:
    return datetime.now(UTC)


def _ended_early(check: str, what: str, to_do: str) -> DoctorReport:
    checked = CHECKS[: CHECKS.index(check) + 1]
    return DoctorReport((Finding(level="problem", check=check, what=what, to_do=to_do),), checked)
