"""Waiting entries, whose turn behind another of their manifest has not come, and activations."""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from dataclasses import dataclass, field
from operator import itemgetter
from typing import TYPE_CHECKING, Final, NamedTuple

from gandy.errors import ActivationError
from gandy.model.run import Failure, TrainState
from gandy.store.reports import LogRow, keep_logs
from gandy.store.statements import batch, statement

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
    from typing import TypeAlias

    from gandy.model.run import Activation, RunEnd
    from gandy.store.statements import Operation, Row, Rows

    InputProblem: TypeAlias = Callable[[str, str], str | None]


MOST_WAITING: Final = 10_000  #: activations of one manifest


class _Number(str):
    """A number as it is written: parsed, the different inputs 1, 1.0 and true would be equal."""

    __slots__ = ()

    def __repr__(self) -> str:
        return str(self)


def input_digest(input_json: str | None) -> str:
    """Hash an input: equal inputs, in any order of keys, have the same digest; unequal ones do not."""
    text = "null" if input_json is None else input_json
    try:
        value = json.loads(text, parse_int=_Number, parse_float=_Number, object_pairs_hook=_by_key)
        text = repr(value)
    except RecursionError:  # nested too deeply to be parsed: equal only if the texts are equal
        pass
    return hashlib.blake2b(text.encode(errors="surrogatepass"), digest_size=16).hexdigest()


def _by_key(pairs: list[tuple[str, object]]) -> tuple[tuple[str, object], ...]:
    """Order the fields of an object; a tuple, so that no array equals it."""
    return tuple(sorted(pairs, key=itemgetter(0)))


def promote(manifest_ids: Collection[int]) -> Operation[Rows]:
    """Queue the next waiting entry of each manifest that no guard blocks; the caller holds their locks."""
    if not manifest_ids:
        return []
    return (yield statement("promote_waiting", ids=sorted(manifest_ids)))


def promote_and_announce(manifest_ids: Collection[int]) -> Operation[int]:
    """Promote waiting entries, and notify the workers of each owner."""
    rows = yield from promote(manifest_ids)
    yield from announce_promoted(rows)
    return len(rows)


def announce_promoted(rows: Iterable[Row]) -> Operation[None]:
    """Notify the workers of promoted entries, each owner once."""
    ready: dict[str, bool] = {}
    for row in rows:
        ready[row.owner] = ready.get(row.owner, False) or bool(row.is_ready)
    for owner in sorted(ready):
        yield statement("notify", payload=f"{'work' if ready[owner] else 'later'}:{owner}")


def promote_of_groups(owner: str, group_ids: Sequence[int]) -> Operation[None]:
    """Promote entries that waited for their groups to be switched on."""
    found = yield statement("find_waiting_of_groups", group_ids=list(group_ids), owner=owner)
    ids = [row.id for row in found]
    if ids:
        yield statement("lock_manifests", ids=ids)
    yield from promote_and_announce(ids)


def make_way(run_ids: Sequence[int]) -> Operation[set[int]]:
    """Make queued entries step back for live runs with another input; return the runs that can now be queued.

    A queued entry with an equal input stays and is reused for the run.
    """
    return (yield from _make_way((yield statement("find_queued_beside", ids=list(run_ids)))))


def make_way_for_retries(buckets: Mapping[int, str | None]) -> Operation[set[int]]:
    """Do the same for runs that have ended, given with their buckets."""
    rows = [{"id": run_id, "bucket": bucket} for run_id, bucket in buckets.items()]
    return (yield from _make_way((yield batch("find_queued_beside_ended", rows))))


def _make_way(beside: Rows) -> Operation[set[int]]:
    others = [row for row in beside if input_digest(row.input) != input_digest(row.queued_input)]
    yield from step_back([(row.queued_id, row.queued_input) for row in others])
    return {row.id for row in others}


def step_back(entries: Iterable[tuple[int, str | None]]) -> Operation[None]:
    """Set queued entries to waiting; their ids keep their place in the order."""
    rows = [{"id": entry_id, "digest": input_digest(text)} for entry_id, text in entries]
    yield batch("step_back_entries", rows)


class HealedWaiting(NamedTuple):
    """The result of one page of the repair pass over manifests with waiting entries."""

    last_id: int | None  #: None: the pass is complete
    promoted: int
    cancelled: int


def repair_waiting(after: int, limit: int) -> Operation[HealedWaiting]:
    """Promote missed entries of one page of manifests, and cancel entries whose manifest is gone."""
    found = yield statement("page_waiting_manifests", after=after, limit=limit)
    if not found:
        return HealedWaiting(None, 0, 0)
    there = [row.id for row in found if row.has_manifest]
    locked = (yield statement("lock_idle_manifests", ids=there)) if there else []
    promoted = yield from promote_and_announce([row.id for row in locked])
    stranded = [row.id for row in found if not row.has_manifest]
    cancelled = (yield statement("cancel_stranded", manifest_ids=stranded)) if stranded else []
    last = found[-1].id if len(found) >= limit else None
    return HealedWaiting(last, promoted, len(cancelled))


_MOST_LINES: Final = 100
_MOST_PROBLEMS: Final = 5
_EXCEPTION: Final = f"{ActivationError.__module__}.{ActivationError.__qualname__}"


class WantedActivation(NamedTuple):
    """One activation of a child, with the digest by which equal inputs are found."""

    child_id: int
    child: str
    input_json: str | None
    digest: str

    @property
    def key(self) -> tuple[int, str]:
        """Activations with the same key are duplicates."""
        return self.child_id, self.digest


@dataclass(slots=True)
class Activations:
    """The activations of runs that finish together, judged while their children are locked."""

    new: dict[int, list[WantedActivation]] = field(default_factory=dict)  #: to be kept, by run, in order
    joined: dict[int, list[WantedActivation]] = field(default_factory=dict)  #: by run
    holders: dict[tuple[int, str], int] = field(default_factory=dict)  #: the entry that each is joined to
    refused: dict[int, ActivationError] = field(default_factory=dict)  #: by run

    @property
    def children(self) -> set[int]:
        """The manifests that get new entries."""
        return {wanted.child_id for each in self.new.values() for wanted in each}


def find_children(ends: Sequence[RunEnd]) -> Operation[list[int]]:
    """Return the manifests that completed runs activate, to be locked together with the runs' own."""
    rows = [
        {"parent_id": end.manifest_id, "external_id": external_id}
        for end in asking(ends)
        if end.manifest_id is not None
        for external_id in sorted({each.external_id for each in end.activations})
    ]
    return [row.id for row in (yield batch("find_children", rows))]


def asking(ends: Iterable[RunEnd]) -> list[RunEnd]:
    """Return the ends whose activations count: a run that has not completed activates nothing."""
    return [end for end in ends if end.activations and end.state is TrainState.COMPLETED]


def judge(
    ends: Sequence[RunEnd], children: Sequence[int], *, problem_of: InputProblem | None
) -> Operation[Activations]:
    """Decide for each run whether all its activations can be kept; the caller holds the locks."""
    judged = Activations()
    wanting = asking(ends)
    if not wanting:
        return judged
    rows = (yield statement("load_children", ids=list(children), limit=MOST_WAITING)) if children else []
    by_name = {row.external_id: row for row in rows}
    wanted: dict[int, list[WantedActivation]] = {}
    for end in wanting:
        problems = [
            _problem(end, each, by_name.get(each.external_id), problem_of=problem_of)
            for each in end.activations
        ]
        if found := tuple(dict.fromkeys(problem for problem in problems if problem is not None)):
            judged.refused[end.id] = ActivationError(*found[:_MOST_PROBLEMS])
        else:
            wanted[end.id] = [_wanted(each, by_name[each.external_id]) for each in end.activations]
    judged.holders = yield from _find_holders(wanted, rows)
    for run_id, each in wanted.items():
        _sort(judged, run_id, each, rooms={row.id: MOST_WAITING - row.waiting for row in rows})
    return judged


def refused_end(end: RunEnd, error: ActivationError) -> RunEnd:
    """Turn the end of a run whose activations were refused into a failure."""
    failure = Failure(None, _EXCEPTION, str(error))
    return end._replace(state=TrainState.FAILED, failure=failure, output_json=None, activations=())


def keep_activations(judged: Activations, finished: Mapping[int, str | None]) -> Operation[set[int]]:
    """Write the activations of completed runs and log the joined ones; return the children with new entries.

    `finished` has the buckets of the runs whose ends were recorded; other runs activate nothing.
    """
    new = [wanted for run_id, each in judged.new.items() if run_id in finished for wanted in each]
    rows = yield batch(
        "keep_activations",
        [
            {"manifest_id": wanted.child_id, "input": wanted.input_json, "digest": wanted.digest}
            for wanted in new
        ],
    )
    holders = judged.holders | {(row.manifest_id, row.input_digest): row.id for row in rows}
    joined = {run_id: each for run_id, each in judged.joined.items() if run_id in finished}
    if joined:
        now = (yield statement("read_clock"))[0].now
        lines = [
            LogRow(run_id, 0, now, "info", "gandy.run", line)
            for run_id, each in joined.items()
            for line in _lines(each, holders)
        ]
        yield from keep_logs(lines, finished)
    return {wanted.child_id for wanted in new}


def _problem(
    end: RunEnd, asked: Activation, child: Row | None, *, problem_of: InputProblem | None
) -> str | None:
    """Return why an activation is refused, or None; an input that was validated before is not checked."""
    problem = _stranger(end, child)
    if problem is None and child is not None and problem_of is not None and asked.input_json is not None:
        problem = None if asked.checked_by == child.train else problem_of(child.train, asked.input_json)
    return None if problem is None else f"activate({asked.external_id!r}): {problem}"


def _stranger(end: RunEnd, child: Row | None) -> str | None:
    if end.manifest_id is None:
        return "this run belongs to no manifest, so it has no dependents; trigger the manifest instead"
    if child is None:
        return "no manifest of this application has that id"
    if child.parent_id != end.manifest_id:
        follows = "nothing" if child.parent is None else repr(child.parent)
        return f"it depends on {follows}; only a run of its parent can activate it"
    if child.schedule_type != "dormant_dependent":
        return "it is not dormant; declare it with dormant=True"
    return None


def _wanted(asked: Activation, child: Row) -> WantedActivation:
    text = child.input if asked.input_json is None else asked.input_json
    return WantedActivation(child.id, child.external_id, text, input_digest(text))


def _find_holders(
    wanted: Mapping[int, Sequence[WantedActivation]], children: Iterable[Row]
) -> Operation[dict[tuple[int, str], int]]:
    """Find the entries that activations with an equal input join: queued and due, or waiting."""
    keys = dict.fromkeys(each.key for some in wanted.values() for each in some)
    rows = yield batch(
        "find_equal_waiting", [{"manifest_id": child_id, "digest": digest} for child_id, digest in keys]
    )
    queued = {
        (child.id, input_digest(child.queued_input)): child.queued_id
        for child in children
        if child.queued_id is not None and child.is_queued_due
    }
    waiting = {(row.manifest_id, row.input_digest): row.id for row in rows}
    return {key: entry for key, entry in (waiting | queued).items() if key in keys}


def _sort(
    judged: Activations, run_id: int, wanted: Sequence[WantedActivation], *, rooms: dict[int, int]
) -> None:
    """Separate new from joined activations; refuse all of a run that would exceed a child's limit."""
    seen: set[tuple[int, str]] = set(judged.holders)
    new: list[WantedActivation] = []
    joined: list[WantedActivation] = []
    for each in wanted:
        (joined if each.key in seen else new).append(each)
        seen.add(each.key)
    counts = Counter(each.child_id for each in new)
    full = {each.child for each in new if counts[each.child_id] > rooms[each.child_id]}
    if full:
        problems = [f"activate({name!r}): at most {MOST_WAITING} entries may wait" for name in sorted(full)]
        judged.refused[run_id] = ActivationError(*problems[:_MOST_PROBLEMS])
        return
    judged.new[run_id] = new
    if joined:
        judged.joined[run_id] = joined


def _lines(joined: Sequence[WantedActivation], holders: Mapping[tuple[int, str], int]) -> list[str]:
    """Write a log line for each entry that activations joined, up to a limit."""
    counts = Counter((each.child, holders[each.key]) for each in joined)
    lines = [
        f"{'an activation' if count == 1 else f'{count} activations'} of {child} joined entry {entry}, "
        "which has an equal input"
        for (child, entry), count in counts.items()
    ]
    more = len(lines) - _MOST_LINES
    return lines if more <= 0 else [*lines[:_MOST_LINES], f"and activations joined {more} more entries"]
