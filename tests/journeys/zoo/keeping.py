"""The keeper of the zoo: plans it by a seed and runs it in real processes until everything has ended."""

from __future__ import annotations

import random
import signal
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, Literal, TypeAlias

from tests.journeys.processes import fleet
from tests.journeys.zoo import deadly, endings
from tests.journeys.zoo.application import (
    Animal,
    app,
    bite,
    bite_in_process,
    bite_in_thread,
    graze,
    graze_in_process,
    graze_in_thread,
)
from tests.journeys.zoo.judging import Judge, Verdict
from tests.support.waiting import NeverHappenedError, wait_until

if TYPE_CHECKING:
    import subprocess
    from collections.abc import Sequence
    from pathlib import Path

    from tests.journeys.processes import Fleet

Family: TypeAlias = Literal["alive", "deadly"]
ENDINGS: Final = {"alive": (endings.ASYNC, endings.SYNC), "deadly": (deadly.ASYNC, deadly.SYNC)}
HOSTILE_SHARE: Final = 0.1
#: How innocent and hostile jobs are spread over the event loop, threads and processes.
INNOCENT_KINDS: Final = {"loop": 70, "thread": 25, "process": 5}
HOSTILE_KINDS: Final = {"loop": 60, "thread": 25, "process": 15}
CHUNK: Final = 25
LOOK_EVERY: Final = 0.1
LEASE: Final = {"alive": 4.0, "deadly": 2.0}
SECONDS_FOR_A_JOB: Final = {"alive": 0.1, "deadly": 0.6}


@dataclass(frozen=True, slots=True)
class Place:
    """An animal, and what it runs in."""

    kind: str
    animal: Animal

    @property
    def is_hostile(self) -> bool:
        """Whether it ends badly."""
        return bool(self.animal.ending)


@dataclass(frozen=True, slots=True)
class Plan:
    """Which jobs a zoo has, by a seed."""

    family: Family
    jobs: int
    seed: int

    def places(self) -> list[Place]:
        """Every job, in a random order; each ending comes before one comes again."""
        chance = random.Random(self.seed)  # noqa: S311 a replay is wanted, not a secret
        hostile = max(round(self.jobs * HOSTILE_SHARE), 1)
        bad = self._bad(hostile, chance)
        good = [
            (kind, "") for kind in chance.choices([*INNOCENT_KINDS], [*INNOCENT_KINDS.values()], k=self.jobs)
        ][hostile:]
        mixed = [*bad, *good]
        chance.shuffle(mixed)
        return [
            Place(kind, Animal(number=number, ending=ending, seed=chance.randrange(2**31)))
            for number, (kind, ending) in enumerate(mixed)
        ]

    def _bad(self, hostile: int, chance: random.Random) -> list[tuple[str, str]]:
        on_loop, anywhere = ENDINGS[self.family]
        kinds = chance.choices([*HOSTILE_KINDS], [*HOSTILE_KINDS.values()], k=hostile)
        decks: dict[bool, list[str]] = {True: [], False: []}
        bad = []
        for kind in kinds:
            deck = decks[kind == "loop"]
            if not deck:
                deck += chance.sample(
                    [*(on_loop if kind == "loop" else anywhere)],
                    k=len(on_loop if kind == "loop" else anywhere),
                )
            bad.append((kind, deck.pop()))
        return bad


@dataclass(slots=True)
class Zoo:
    """Real processes on one database, restarted as a service manager would."""

    ships: Fleet
    plan: Plan
    judge: Judge
    keepers: dict[tuple[str, ...], subprocess.Popen[bytes]] = field(default_factory=dict)
    restarts: int = 0

    def run(self) -> Verdict:
        """Queue everything, let it end, stop the processes, and judge."""
        begun = time.monotonic()
        places = self.plan.places()
        enqueue(self.ships.url, places)
        for command in commands(self.plan.family):
            self.keepers[command] = self.ships.start(*command)
        wait_until(self.judge.marks, f"some job has begun\n{self.ships.logs()}", within=60)
        stuck = self._await_the_end(len(places), time.monotonic() - begun)
        seconds = time.monotonic() - begun
        unwilling = self._stop()
        return self.judge.verdict(
            places, stuck=stuck, restarts=self.restarts, unwilling=unwilling, seconds=seconds
        )

    def _await_the_end(self, jobs: int, start: float) -> list[str]:
        """Wait while something happens; return what is left when nothing has happened for long enough.

        A loss is found within 15 s of a lease of 9 s; a process that died first has to start again.
        """
        quiet_for = 3 * (15 * LEASE[self.plan.family] / 9 + start)
        until = time.monotonic() + 60 + jobs * SECONDS_FOR_A_JOB[self.plan.family] * 3
        seen, since = -1, time.monotonic()
        while self.judge.left():
            self._look_after_processes()
            now, happened = time.monotonic(), self.judge.happened()
            if happened != seen:
                seen, since = happened, now
            if now - since > quiet_for or now > until:
                return self.judge.left()
            _pass(LOOK_EVERY)
        return []

    def _look_after_processes(self) -> None:
        self.judge.look_at_stopped_workers()
        for command, process in self.keepers.items():
            if process.poll() is not None:
                self.restarts += 1
                self.keepers[command] = self.ships.start(*command)

    def _stop(self) -> int:
        """Ask all to end; return how many did not within three times the grace."""
        for process in self.keepers.values():
            process.send_signal(signal.SIGTERM)
        try:
            wait_until(
                lambda: all(process.poll() is not None for process in self.keepers.values()),
                "every process has ended",
                within=3 * 5,
            )
        except NeverHappenedError:
            return sum(process.poll() is None for process in self.keepers.values())
        return 0


def commands(family: Family) -> tuple[tuple[str, ...], ...]:
    """Which processes a zoo has: a worker of one slot, one of twenty, and the other services."""
    if family == "alive":
        return ("up", "--concurrency", "20", "--port", "0"), ("work", "--concurrency", "1")
    services = "manifest-manager,dispatcher"
    return (
        ("up", "--services", services),
        ("work", "--concurrency", "20"),
        ("work", "--concurrency", "1"),
    )


def keep(plan: Plan, url: str, folder: Path) -> Verdict:
    """Run one zoo on a migrated database."""
    lease = LEASE[plan.family]
    with fleet(url, folder, GANDY_WORKER_LEASE_FOR=f"{lease:g}s") as ships:
        ships.app = "tests.journeys.zoo.application:app"
        return Zoo(ships, plan, Judge(ships)).run()


def enqueue(url: str, places: Sequence[Place]) -> None:
    """Queue in chunks, so that the kinds are mixed in the queue as they are in the plan."""
    app.configure({"database": {"url": url}})
    trains = {
        ("loop", False): graze,
        ("thread", False): graze_in_thread,
        ("process", False): graze_in_process,
        ("loop", True): bite,
        ("thread", True): bite_in_thread,
        ("process", True): bite_in_process,
    }
    with app as sync:
        for start in range(0, len(places), CHUNK):
            chunk = places[start : start + CHUNK]
            for (kind, is_hostile), train in trains.items():
                animals = [
                    place.animal for place in chunk if (place.kind, place.is_hostile) == (kind, is_hostile)
                ]
                group = "zoo-small" if start % 4 == 0 else None
                if animals:
                    sync.enqueue_many(train, animals, group=group)


def _pass(seconds: float) -> None:
    begun = time.monotonic()
    wait_until(lambda: time.monotonic() - begun >= seconds, "a moment has passed")
