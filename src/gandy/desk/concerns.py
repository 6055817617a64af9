"""What needs a person: parked jobs, lag, lost workers, trains nobody knows."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Final

from gandy.settings import format_duration
from gandy.store.reading import overview

if TYPE_CHECKING:
    from collections.abc import Iterator

    from gandy.store.statements import Operation, Rows

_PATIENCE: Final = timedelta(seconds=30)
_SECOND: Final = timedelta(seconds=1)


@dataclass(frozen=True, slots=True, kw_only=True)
class Count:
    """A number; where counting ended early it is at least that."""

    value: int
    is_at_least: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Concern:
    """Something that needs a person: what, how bad, and the page that says more."""

    kind: str
    said: str
    place: str
    is_urgent: bool


def find_concerns(
    owner: str, now: datetime, *, letters: Count, heads: Rows, workers: int
) -> Operation[tuple[Concern, ...]]:
    """Look for all of them, the urgent ones first."""
    found = [*_letters(letters), *_waits(now, heads, workers)]
    for worker in (yield from overview.list_lost_workers(owner)):
        said = f"worker {worker.id[:8]} on {worker.host} (pid {worker.pid}) ended without saying so"
        found.append(Concern(kind="lost worker", said=said, place="/workers", is_urgent=False))
    for row in (yield from overview.list_unknown_trains(owner)):
        said = f"no live worker knows {row.train}; {row.entries} entries wait for one"
        found.append(Concern(kind="unknown train", said=said, place="/queue?gate=train", is_urgent=True))
    late = yield from overview.find_most_overdue(owner, _PATIENCE)
    if late is not None:
        waited = _rounded(now - late.next_look_at)
        said = f"{late.external_id} was to be looked at {waited} ago; is a manifest-manager up?"
        place = f"/manifests/{late.external_id}"
        found.append(Concern(kind="behind", said=said, place=place, is_urgent=True))
    return tuple(sorted(found, key=lambda concern: not concern.is_urgent))


def _letters(letters: Count) -> Iterator[Concern]:
    many = f"{letters.value} or more" if letters.is_at_least else str(letters.value)
    said = (
        f"{many} dead letters wait for a decision"
        if letters.value > 1
        else "a dead letter waits for a decision"
    )
    if letters.value:
        yield Concern(kind="dead letters", said=said, place="/dead-letters", is_urgent=True)


def _waits(now: datetime, heads: Rows, workers: int) -> Iterator[Concern]:
    late = [row for row in heads if row.is_enabled and now - row.scheduled_at > _PATIENCE]
    if late and not workers:
        said = f"no worker is up, and work has waited {_rounded(now - late[0].scheduled_at)}"
        yield Concern(kind="no worker", said=said, place="/workers", is_urgent=True)
        return
    for row in late:
        cap = f"; its cap is {row.max_active_jobs}" if row.max_active_jobs else ""
        said = f"group {row.name}: the next entry has waited {_rounded(now - row.scheduled_at)}{cap}"
        yield Concern(kind="lag", said=said, place=f"/groups/{row.name}", is_urgent=False)


def _rounded(span: timedelta) -> str:
    return format_duration(span // _SECOND * _SECOND)
