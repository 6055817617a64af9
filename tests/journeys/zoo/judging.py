"""What became of every animal, by its marks and by the record."""

from __future__ import annotations

import sqlite3
import time
from collections import Counter
from contextlib import closing
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

import psycopg

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tests.journeys.processes import Fleet
    from tests.journeys.zoo.keeping import Place

OURS: Final = "owner = 'zoo' AND (name LIKE 'graze%' OR name LIKE 'bite%')"
#: A run may ask for a retry in years: its entry then waits by its own wish.
#: In one statement: between two, a run may be put back into the queue and be seen in neither place.
LEFT: Final = f"""
SELECT input ->> 'number', train_name, 'waits' FROM {{schema}}work_queue
WHERE status = 'queued' AND owner = 'zoo' AND scheduled_at < {{in_an_hour}}
UNION ALL
SELECT input ->> 'number', name, 'runs' FROM {{schema}}metadata
WHERE {OURS} AND train_state IN ('pending', 'in_progress')
"""  # noqa: S608 constants
ENDS: Final = f"""
SELECT input ->> 'number', train_state FROM {{schema}}metadata WHERE {OURS}
"""  # noqa: S608
#: Whatever harms an innocent job is written down with it.
HARM: Final = """
SELECT input ->> 'number', train_state, failure_exception, failure_reason, cancellation_reason
FROM {schema}metadata WHERE owner = 'zoo' AND name LIKE 'graze%' AND train_state <> 'completed'
"""
HAPPENED: Final = "SELECT count(*), max(id) FROM {schema}metadata WHERE end_time IS NOT NULL"
FALSE_STOPS: Final = """
SELECT m.id, w.id FROM {schema}worker w JOIN {schema}metadata m ON m.worker_id = w.id
WHERE w.state = 'stopped' AND m.train_state = 'in_progress'
"""
IN_AN_HOUR: Final = {
    "gandy.": "gandy.now() + interval '1 hour'",
    "": "strftime('%Y-%m-%dT%H:%M:%S.000000Z', 'now', '+1 hour')",
}
MOMENT: Final = 3 * 0.6  #: the poll of whoever reaps, twice, with a factor of three
TERMINAL: Final = {"completed", "failed", "cancelled"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """What is counted, and what is wrong."""

    jobs: int
    hostile_kinds: int
    executed: int
    repeated: dict[int, int]  #: innocent jobs by number, and how often each was executed beyond once
    unexecuted: list[int]  #: innocent jobs without a mark
    unrecorded: dict[int, int]  #: innocent jobs that are not exactly once on record as completed
    endless: list[str]  #: hostile jobs of which no run is terminal
    stuck: list[str]  #: what waits or runs long after the end
    harm: list[str]  #: what is on record of innocent jobs that did not complete at once
    false_stops: int  #: runs in progress of workers that say they have stopped
    restarts: int
    unwilling: int  #: processes that did not end when they were asked to
    seconds: float
    logs: str = field(repr=False)

    @property
    def faults(self) -> dict[str, object]:
        """What must not be, in either zoo."""
        found: dict[str, object] = {
            "not executed": self.unexecuted,
            "not once on record": self.unrecorded,
            "hostile and without an end": self.endless,
            "stuck": self.stuck,
            "in progress under a stopped worker": self.false_stops,
            "processes that did not stop": self.unwilling,
        }
        return {name: value for name, value in found.items() if value}

    @property
    def faults_of_the_living(self) -> dict[str, object]:
        """What must not be where no ending takes its process along."""
        own = {
            "executed again": self.repeated,
            "harm on record": self.harm,
            "processes that died": self.restarts,
        }
        return {**self.faults, **{name: value for name, value in own.items() if value}}


@dataclass(slots=True)
class Judge:
    """Reads marks and tables."""

    ships: Fleet
    _suspicions: dict[tuple[Any, ...], float] = field(default_factory=dict)
    _convictions: set[tuple[Any, ...]] = field(default_factory=set)

    def rows(self, query: str) -> list[tuple[Any, ...]]:
        """Ask either database."""
        url = self.ships.url
        schema = "" if url.startswith("sqlite") else "gandy."
        text = query.format(schema=schema, in_an_hour=IN_AN_HOUR[schema])
        if not schema:
            with closing(sqlite3.connect(url.removeprefix("sqlite:///"), timeout=30)) as link:
                return link.execute(text).fetchall()
        with psycopg.connect(url, autocommit=True) as connection:
            return connection.execute(text.encode()).fetchall()

    def left(self) -> list[str]:
        """What waits or runs."""
        return [f"{number} {name} {does}" for number, name, does in self.rows(LEFT)]

    def happened(self) -> int:
        """A number that changes while something happens."""
        marks = self.ships.witness.stat().st_size if self.ships.witness.exists() else 0
        return hash((marks, *self.rows(HAPPENED)))

    def look_at_stopped_workers(self) -> None:
        """Note runs that are in progress under a stopped worker, and stay so."""
        now, pairs = time.monotonic(), set(self.rows(FALSE_STOPS))
        self._suspicions = {pair: self._suspicions.get(pair, now) for pair in pairs}
        self._convictions |= {pair for pair, since in self._suspicions.items() if now - since > MOMENT}

    def marks(self) -> Counter[int]:
        """How often each job was executed."""
        text = self.ships.witness.read_text() if self.ships.witness.exists() else ""
        return Counter(int(line.split()[0]) for line in text.splitlines())

    def verdict(
        self, places: Sequence[Place], *, stuck: list[str], restarts: int, unwilling: int, seconds: float
    ) -> Verdict:
        """Compare everything with what must be."""
        marks = self.marks()
        self.look_at_stopped_workers()
        ends = self.rows(ENDS)
        completed = Counter(int(number) for number, state in ends if state == "completed")
        terminal = {int(number) for number, state in ends if state in TERMINAL}
        innocent = [place.animal.number for place in places if not place.is_hostile]
        hostile = [place for place in places if place.is_hostile]
        return Verdict(
            jobs=len(places),
            hostile_kinds=len({(place.kind, place.animal.ending) for place in hostile}),
            executed=sum(marks.values()),
            repeated={number: marks[number] - 1 for number in innocent if marks[number] > 1},
            unexecuted=[number for number in innocent if not marks[number]],
            unrecorded={number: completed[number] for number in innocent if completed[number] != 1},
            endless=[_name(place) for place in hostile if place.animal.number not in terminal],
            stuck=stuck,
            harm=[f"{each!s:.300}" for each in self.rows(HARM)],
            false_stops=len(self._convictions),
            restarts=restarts,
            unwilling=unwilling,
            seconds=seconds,
            logs=self.ships.logs(),
        )


def _name(place: Place) -> str:
    return f"{place.animal.number} {place.animal.ending} ({place.kind}, seed {place.animal.seed})"
