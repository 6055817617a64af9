"""A sweep of SQLite leaves the write lock free long enough, and often enough, for every other writer."""

from __future__ import annotations

from contextlib import closing
from dataclasses import dataclass, field, replace
from datetime import timedelta
from typing import TYPE_CHECKING

import pytest

from gandy.clock import ManualClock
from gandy.lifecycle import Contract, SweepOptions, Table, cap, older_than, run_contracts
from tests.lifecycle.ground import NOW, ago, steps_of

if TYPE_CHECKING:
    from tests.lifecycle.ground import Ground

BATCH = timedelta(milliseconds=40)  # what each one takes, however fast the machine is
RETRY = timedelta(milliseconds=100)  # SQLite's longest sleep between two tries for the lock
RULE = older_than("at", keep_for="1h")
SWEEPS = {
    "rows alone": [Table("event", [RULE])],
    "with children": [Table("event", [RULE], children={"part.event": "delete_first"})],
    "references": [Table("event", [RULE], children={"part.event": "set_null"})],
    "keys of a cap": [Table("event", [cap(1, per=["kind"], order_by="at")])],
    "many rules": [Table(f"small{n}", [RULE]) for n in range(60)],
}


@dataclass
class Watch:
    """What happened to the write lock, in order: spans in which it was held (positive) or free (negative)."""

    spans: list[timedelta] = field(default_factory=list)

    def held(self, *_: object) -> timedelta:
        self.spans.append(BATCH)
        return BATCH

    def rest(self, span: timedelta) -> None:
        self.spans.append(-span)

    def stretches(self) -> tuple[list[timedelta], list[timedelta]]:
        """How long it was held without a gap in which every waiting writer tries, and those gaps."""
        held, gaps = [timedelta(0)], [timedelta(0)]
        for span in self.spans:
            if span < timedelta(0):
                gaps[-1] -= span
                continue
            if gaps[-1] > RETRY:
                held.append(timedelta(0))
                gaps.append(timedelta(0))
            held[-1] += span
        return held, [gap for gap in gaps if gap]


def make(ground: Ground) -> None:
    ground.run(
        "CREATE TABLE event (id {key}, at {instant}, kind bigint)",
        "CREATE INDEX event_at ON event (at, id)",
        "CREATE INDEX event_kind ON event (kind, at, id)",
        "CREATE TABLE part (id {key}, event bigint)",
        "CREATE INDEX part_event ON part (event)",
        "CREATE TABLE written (id {key})",
    )
    ground.fill("event", [(n, ago(days=2, seconds=n), n // 5) for n in range(300)])
    ground.fill("part", [(n, n) for n in range(300)])


def sweep(
    ground: Ground, name: str, monkeypatch: pytest.MonkeyPatch, *, by: SweepOptions | None = None
) -> Watch:
    make(ground)
    for table in SWEEPS[name] if name == "many rules" else ():
        ground.run(f"CREATE TABLE {table.name} (id {{key}}, at {{instant}})")
        ground.fill(table.name, [(1, ago(days=2))])
    watch = Watch()
    monkeypatch.setattr("gandy.lifecycle.driver.rows._since", watch.held)
    by = replace(by or SweepOptions(), clock=ManualClock(NOW), pages=None)

    def rest(span: timedelta) -> None:
        watch.rest(span)
        by.rest(span)

    contract = Contract("app", SWEEPS[name], batch=steps_of(4))
    options = replace(by, rest=rest)
    [report] = run_contracts([contract], ground.url, options=options)
    assert report.is_clean
    assert sum(report.counts.values()) > 30
    return watch


def idle(_: timedelta) -> None:
    """Nothing else writes meanwhile."""


@pytest.mark.parametrize("name", SWEEPS)
def test_without_other_writers_there_is_a_gap_in_each_second_and_little_is_lost(
    sqlite: Ground, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    held, gaps = sweep(sqlite, name, monkeypatch, by=SweepOptions(rest=idle)).stretches()

    assert max(held) <= timedelta(seconds=1) + BATCH
    assert len(held) > 2
    assert all(gap > RETRY for gap in gaps)
    assert sum(gaps, timedelta(0)) <= 0.3 * sum(held, timedelta(0))


@pytest.mark.parametrize("name", SWEEPS)
def test_beside_a_writer_the_lock_is_free_as_long_as_it_is_held(
    sqlite: Ground, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    written: list[tuple[int]] = []

    def write(_: timedelta) -> None:
        written.append((len(written),))
        sqlite.fill("written", written[-1:])

    first, second, *held = sweep(sqlite, name, monkeypatch, by=SweepOptions(rest=write)).stretches()[0]

    assert max(first, second) <= timedelta(milliseconds=250) + BATCH
    assert max(held) <= timedelta(milliseconds=150) + BATCH
    assert len(sqlite.ids("written")) == len(written) >= 2 * len(held)


def test_a_writer_that_locks_the_whole_file_in_a_gap_stops_nothing(
    sqlite: Ground, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("gandy.lifecycle.database.target._BUSY_TIMEOUT_SECONDS", 0)
    with closing(sqlite.connect()) as writer:
        rests: list[timedelta] = []

        def lock(span: timedelta) -> None:
            rests.append(span)
            if len(rests) == 4:  # the second gap ends with it
                writer.execute("BEGIN EXCLUSIVE")
                asked.clear()

        asked: list[None] = []

        def is_stopping() -> bool:
            asked.append(None)
            if writer.in_transaction and len(asked) > 1:  # a batch had to give way meanwhile
                writer.execute("COMMIT")
            return False

        sweep(sqlite, "rows alone", monkeypatch, by=SweepOptions(rest=lock, is_stopping=is_stopping))

    assert len(rests) > 4
    assert sqlite.ids("event") == []


@pytest.mark.parametrize("name", list(SWEEPS)[:2])
def test_a_database_with_locks_of_rows_needs_no_gaps(
    postgres: Ground, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert sweep(postgres, name, monkeypatch, by=SweepOptions(rest=idle)).stretches()[1] == []
