"""Statistics of runs: written as tallies by each process, merged into rollups, read by window."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Final, Literal, NamedTuple, TypeAlias
from uuid import uuid4

from gandy.rules.tallies import NO_MANIFEST, Histogram, Tally, count_runs
from gandy.store.cleanup import Deletion, Found, RowWalk, behind, found_in
from gandy.store.statements import batch, batch_of, statement

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from gandy.model.run import RunMeasure
    from gandy.rules.tallies import Tallies, TallyKey
    from gandy.store.cleanup import WalkPlace
    from gandy.store.statements import Operation, Row, Rows

Grain: TypeAlias = Literal["minute", "hour", "day"]

GRAINS: Final[tuple[Grain, ...]] = ("minute", "hour", "day")
#: A minute is over a while after its end: most workers have written their last sums of it by then.
TALLIED_AFTER: Final = timedelta(minutes=2)
KEPT_MINUTES: Final = timedelta(hours=3)
KEPT_HOURS: Final = timedelta(days=3)
#: Figures that a ranking of manifests adds up, the newest.
RANKED: Final = 20_000
_TALLY_FIELDS: Final = (
    "train_name",
    "manifest_id",
    "at",
    "completed",
    "failed",
    "cancelled",
    "longest_wait_seconds",
    "longest_seconds",
    "waits",
    "durations",
)


def write_tallies(owner: str, worker_id: str, tallies: Tallies) -> Operation[None]:
    """Add the sums of one process to its rows; in the order of their key, so that writers cannot deadlock."""
    rows = [(*_key(key), *_sums(tally)) for key, tally in sorted(tallies.items(), key=lambda item: item[0])]
    if rows:
        yield batch_of("write_tallies", _TALLY_FIELDS, rows, owner=owner, worker_id=worker_id)


def tally_at_once(owner: str, measures: Iterable[RunMeasure]) -> Operation[None]:
    """Record runs that no worker ended, in the transaction that ends them, under an id of its own."""
    tallies: Tallies = {}
    count_runs(tallies, measures)
    yield from write_tallies(owner, uuid4().hex, tallies)


def _key(key: TallyKey) -> tuple[str, int, datetime]:
    train, manifest_id, minute = key
    return train, manifest_id, datetime.fromtimestamp(60 * minute, UTC)


def _sums(tally: Tally) -> tuple[object, ...]:
    return (
        tally.completed,
        tally.failed,
        tally.cancelled,
        tally.longest_wait,
        tally.longest,
        str(tally.waits),
        str(tally.durations),
    )


def sums_in(row: Row) -> Tally:
    """Read the sums of a row."""
    return Tally(
        completed=row.completed,
        failed=row.failed,
        cancelled=row.cancelled,
        longest_wait=row.longest_wait_seconds,
        longest=row.longest_seconds,
        waits=Histogram(row.waits),
        durations=Histogram(row.durations),
    )


class RollupKey(NamedTuple):
    """One row of the rollups."""

    owner: str
    scope: Literal["train", "manifest"]
    grain: Grain
    at: datetime
    train_name: str
    manifest_id: int


def beginning(grain: Grain, at: datetime) -> datetime:
    """Return the beginning of the minute, hour or day (UTC) of an instant."""
    match grain:
        case "minute":
            return at.replace(second=0, microsecond=0)
        case "hour":
            return at.replace(minute=0, second=0, microsecond=0)
        case "day":
            return at.replace(hour=0, minute=0, second=0, microsecond=0)


@dataclass(frozen=True, slots=True, kw_only=True)
class EndedTallies:
    """The tallies of minutes that are over, batch by batch; deleting them merges them into rollups."""

    before: datetime
    table: str = "run_tally"

    def find(self, after: WalkPlace | None, limit: int) -> Operation[Found]:
        """Find the next tallies to merge."""
        return found_in(
            (yield statement("find_ended_tallies", before=self.before, limit=limit, **behind(after)))[0]
        )

    def delete(self, found: Found) -> Operation[Counter[str]]:
        """Merge tallies; one process does it at a time, because it writes whole rows."""
        if found.last is None or not (yield statement("try_lock", name="gandy_rollup"))[0].is_held:
            return Counter()
        since = self.before - _LONGEST_UNMERGED
        taken = yield statement("take_tallies", ids=found.ids, since=since, until=found.last.at)
        sums = _added(taken)
        for row in (yield batch("load_rollups", list(sums))) if sums else []:
            key = RollupKey(row.owner, row.scope, row.grain, row.at, row.train, row.manifest_id)
            sums[key].add(sums_in(row))
        rows = [(*key, *_sums(tally)) for key, tally in sorted(sums.items())]
        if rows:
            yield batch_of("write_rollups", (*RollupKey._fields, *_TALLY_FIELDS[3:]), rows)
        return Counter({self.table: len(taken)})


_LONGEST_UNMERGED: Final = timedelta(days=3650)


def _added(taken: Rows) -> dict[RollupKey, Tally]:
    sums: dict[RollupKey, Tally] = {}
    for row in taken:
        tally = sums_in(row)
        for key in _rollups_of(row):
            sums.setdefault(key, Tally()).add(tally)
    return sums


def _rollups_of(row: Row) -> Iterable[RollupKey]:
    """The rows that a tally is part of: of its train and of its manifest, in each grain."""
    for grain in GRAINS:
        at = beginning(grain, row.at)
        yield RollupKey(row.owner, "train", grain, at, row.train, NO_MANIFEST)
        if row.manifest_id != NO_MANIFEST:
            yield RollupKey(row.owner, "manifest", grain, at, row.train, row.manifest_id)


def old_rollups(grain: Grain, before: datetime) -> RowWalk:
    """Walk the rollups of one grain past their age."""
    return RowWalk(
        table="run_rollup",
        finding="find_old_rollups",
        deletions=(Deletion("delete_old_rollups", "run_rollup"),),
        given={"grain": grain, "before": before},
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class StatsWindow:
    """Rows of one grain, from an instant on."""

    owner: str
    grain: Grain
    since: datetime
    train: str | None = None  #: only this one

    @property
    def given(self) -> Mapping[str, object]:
        """The parameters of a statement."""
        return {"owner": self.owner, "grain": self.grain, "since": self.since}


def list_train_rollups(window: StatsWindow) -> Operation[Rows]:
    """List the sums of each train; several rows of one instant are to be added."""
    return (yield statement("list_train_rollups", train=window.train, **window.given))


ManifestOrder: TypeAlias = Literal["runs", "failed", "failure_rate", "wait", "duration"]


class RankedRollups(NamedTuple):
    """The sums of manifests, and whether the limit of figures cut the ranking."""

    rows: Rows
    is_cut: bool


def list_manifest_rollups(window: StatsWindow, order: ManifestOrder, limit: int) -> Operation[RankedRollups]:
    """List all sums of the manifests that come first in an order, by their newest figures."""
    ranked = yield statement(
        "rank_manifest_rollups",
        train=window.train,
        sort=order,
        limit=limit,
        searched=RANKED,
        **window.given,
    )
    if not ranked:
        return RankedRollups([], is_cut=False)
    ids = sorted({row.manifest_id for row in ranked})
    rows = yield statement("list_manifest_rollups", manifest_ids=ids, **window.given)
    return RankedRollups(rows, is_cut=ranked[0].seen >= RANKED)


def count_ended_by_minute(owner: str, since: datetime) -> Operation[Rows]:
    """Count the runs of each minute by the state in which they ended."""
    return (yield statement("count_ended_by_minute", owner=owner, since=since))
