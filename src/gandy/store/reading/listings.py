"""Paged listings of runs, entries and letters, of bounded cost."""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Final, Literal, TypeAlias, TypeVar

from gandy.errors import PlaceNotFoundError, RunNotFoundError, RunNotOverError, ValueBoundsError
from gandy.model.manifest import DEFAULT_GROUP
from gandy.model.run import TrainState
from gandy.settings.bounds import FIRST_INSTANT, LAST_INSTANT
from gandy.store.manifests import read_now
from gandy.store.overriding import ensure_groups
from gandy.store.owners import list_owners, list_owners_of_runs, named_owners, narrowed_to_manifest
from gandy.store.runs import load_run
from gandy.store.statements import statement

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from gandy.errors import GandyError
    from gandy.model.owners import Owners
    from gandy.store.statements import Operation, Row, Rows


Key: TypeAlias = "int | str"

#: The maximum number of rows read for one page.
SEARCHED: Final = 10_000
#: The first attempt reads this many times the page size.
_FIRST_TIMES: Final = 4
#: A large page reads a fourth more than it shows: SQLite reads all that it may search, whatever is wanted.
_LARGE_PAGE: Final = 1_000
_SPARE: Final = 4
#: Above every id.
_NEWEST: Final = 2**63 - 1


@dataclass(frozen=True, slots=True)
class SearchedRows:
    """How far a search in texts looked: at the newest rows that the other filters leave."""

    rows: int
    back_to: datetime | None  #: the time of the oldest of them
    newest: int | None = None  #: the id of the newest of them

    def plus(self, further: SearchedRows) -> SearchedRows:
        """Combine it with the rows that a search looked at after these."""
        return SearchedRows(
            self.rows + further.rows, further.back_to or self.back_to, self.newest or further.newest
        )


@dataclass(frozen=True, slots=True)
class Search:
    """The rows found, and where to continue."""

    rows: Rows
    next: Key | None  #: the page or the search continues after this; None: there is no more
    is_cut: bool  #: the search stopped before the page was full; there may be more
    looked: SearchedRows | None = None  #: None: no text was searched for
    unknown: GandyError | None = None  #: nothing was found, and nothing has a name of the filter


def below(before: int | None) -> int:
    """Return the id that a page stays below; the first page has no bound."""
    return _NEWEST if before is None else before


def search(
    walk: str, wanted: Mapping[str, object], *, limit: int, gather: str | None = None, key: str = "id"
) -> Operation[Search]:
    """Walk in the order of the listing; if few rows match, find all by an index (`gather`), or walk on.

    A walk finds frequent matches, an index rare ones; a search that suits neither continues page by page.
    """
    yield statement("keep_order")
    most = max(SEARCHED, limit)
    first = min(limit * _FIRST_TIMES if limit < _LARGE_PAGE else limit + limit // _SPARE, most)
    rows = yield statement(walk, limit=limit, searched=first, **wanted)
    found = _walked(rows, limit, first, key=key)
    if not found.is_cut:
        return found
    if gather is not None:  # before a longer walk, which may pass many rows of other applications
        rows = yield statement(gather, limit=limit, searched=most, **wanted)
        if not rows or rows[0].place != most:
            return _page(rows, limit, key=key)
    if first < most:
        rows = yield statement(walk, limit=limit, searched=most, **wanted)
        found = _walked(rows, limit, most, key=key)
    return found


def _walked(rows: Rows, limit: int, most: int, *, key: str) -> Search:
    if not rows or rows[-1].place != most:
        return _page(rows, limit, key=key)
    matches = [row for row in rows if row.is_match]
    return Search(matches, getattr(rows[-1], key), is_cut=len(matches) < limit)


def _page(rows: Rows, limit: int, *, key: str) -> Search:
    return Search(rows, getattr(rows[-1], key) if len(rows) == limit else None, is_cut=False)


#: A bound of a time range: an instant, or a period before now.
Moment: TypeAlias = "datetime | timedelta"


@dataclass(frozen=True, slots=True, kw_only=True)
class JobFilter:
    """What the filters of runs, entries and letters have in common; None does not filter."""

    train: str | None = None
    manifest: str | None = None
    group: str | None = None
    since: Moment | None = None  #: of runs by start, of entries by creation, of letters by parking
    until: Moment | None = None  #: before this
    error_has: str | None = None  #: a text, in any case; the desk compares texts, the statements do not
    input_has: str | None = None  #: the same, in what operators see of the input
    before: int | None = None
    down_to: int | None = (
        None  #: of a bulk change: nothing below this id, where the search of its preview stopped
    )
    limit: int = 50

    @property
    def has_texts(self) -> bool:
        """Whether a text is searched for."""
        return self.error_has is not None or self.input_has is not None


Filter = TypeVar("Filter", bound=JobFilter)


def dated(wanted: Filter) -> Operation[Filter]:
    """Replace periods by instants, so that all pages of a walk have the same bounds."""
    if not isinstance(wanted.since, timedelta) and not isinstance(wanted.until, timedelta):
        return wanted
    now = yield from read_now()
    return replace(wanted, since=_instant(wanted.since, now), until=_instant(wanted.until, now))


def _instant(moment: Moment | None, now: datetime) -> datetime | None:
    return max(now, FIRST_INSTANT + moment) - moment if isinstance(moment, timedelta) else moment


def _given(wanted: Filter, owners: Owners) -> Operation[dict[str, object]]:
    """Return the parameters that all searches take."""
    wanted = yield from dated(wanted)
    return {
        "owner": owners.bound,
        "train": wanted.train,
        "manifest": wanted.manifest,
        "group": wanted.group,
        "since": wanted.since,
        "until": wanted.until,
        "with_input": wanted.input_has is not None,
        "before": below(wanted.before),
    }


RunSort: TypeAlias = Literal["id", "start_time"]


@dataclass(frozen=True, slots=True, kw_only=True)
class RunFilter(JobFilter):
    """Which runs to list; None does not filter."""

    state: str | None = None
    sort: RunSort = "id"  #: the newest first; by start, those of one train of one owner


def list_runs(wanted: RunFilter, owners: Owners) -> Operation[Search]:
    """Read the newest runs; texts are not compared here."""
    owners = yield from narrowed_to_manifest(owners, wanted.manifest)
    given = {**(yield from _given(wanted, owners)), "state": wanted.state}
    if wanted.sort == "start_time":
        if wanted.train is None or owners.bound is None:
            raise ValueBoundsError(
                "sort", "id, or with a train and a single owner also start_time", "start_time"
            )
        given["last"] = yield from _last_start(wanted.before, owners)
        return (yield from search("search_runs_by_start", given, limit=wanted.limit))
    if wanted.manifest is not None:
        return (yield from search("search_runs_of_manifest", given, limit=wanted.limit))
    walk = _walk(wanted.state)
    is_own_walk = walk == "search_runs" and owners.bound is not None
    if wanted.train is None and not is_own_walk:
        return (yield from search(walk, given, limit=wanted.limit))
    given["owners"] = list((yield from _owners_of_runs(owners)))
    return (yield from search(walk, given, limit=wanted.limit, gather="gather_runs"))


def _owners_of_runs(owners: Owners) -> Operation[Sequence[str]]:
    """Return the owners, those included whose application has nothing but finished runs."""
    if owners.bound is not None:
        return (owners.bound,)
    return sorted({*(yield from list_owners_of_runs()), *(yield from list_owners())})


def _last(load: str, before: int | None, owners: Owners, *, noun: str) -> Operation[Row | None]:
    """Read the last row of the page before, whose value in another order than that of ids is needed.

    Where that value has changed since, the walk may repeat rows: it passes over none.
    """
    if before is None:
        return None
    rows = yield statement(load, id=before, owner=owners.bound)
    if not rows:
        raise PlaceNotFoundError(noun, before)
    return rows[0]


def _last_start(before: int | None, owners: Owners) -> Operation[datetime]:
    """Read where a page by start begins: after a run that was put back into the queue, at the first row."""
    try:
        last = yield from _last("load_run", before, owners, noun="run")
    except PlaceNotFoundError:
        yield from _last("load_entry", before, owners, noun="run")
        return LAST_INSTANT
    return LAST_INSTANT if last is None else last.start_time


def _walk(state: str | None) -> str:
    match state:
        case TrainState.PENDING | TrainState.IN_PROGRESS:
            return "search_live_runs"
        case TrainState.FAILED | TrainState.CANCELLED:
            return "search_unsuccessful_runs"
        case _:
            return "search_runs"


EntryStatus: TypeAlias = Literal["queued", "waiting", "dispatched", "cancelled", "skipped"]
WantedStatus: TypeAlias = EntryStatus | Literal["undispatched"]
"""A status, or undispatched: queued and waiting."""
Gate: TypeAlias = Literal["open", "time", "manifest", "train"]


EntrySort: TypeAlias = Literal["id", "scheduled_at"]


@dataclass(frozen=True, slots=True, kw_only=True)
class EntryFilter(JobFilter):
    """Which entries to list; None does not filter."""

    status: WantedStatus | None = None
    gate: Gate | None = None
    sort: EntrySort = "id"  #: the newest first; by time, the soonest of those that wait for it


@dataclass(frozen=True, slots=True)
class Rerun:
    """A run that was queued again; the id is the new run's."""

    id: int
    repeats: int
    owner: str
    train: str


@dataclass(frozen=True, slots=True)
class RerunResult:
    """The result of repeating several runs."""

    rerun: tuple[Rerun, ...] = ()
    not_over: tuple[int, ...] = ()  #: they have not ended
    unknown: tuple[int, ...] = ()
    looked: SearchedRows | None = None  #: how far a search in texts looked; None: it was none
    next: int | None = None  #: rows below it were not looked at: `before` continues there

    def plus(self, other: RerunResult) -> RerunResult:
        """Combine the results of two batches."""
        return RerunResult(
            self.rerun + other.rerun, self.not_over + other.not_over, self.unknown + other.unknown
        )


def list_entries(wanted: EntryFilter, owners: Owners) -> Operation[Search]:
    """Read the newest entries; texts are not compared here."""
    owners = yield from narrowed_to_manifest(owners, wanted.manifest)
    given = {**(yield from _given(wanted, owners)), "status": wanted.status, "gate": wanted.gate}
    if wanted.sort == "scheduled_at":
        is_future = wanted.gate == "time" and wanted.status in {None, "queued", "undispatched"}
        if not is_future or owners.bound is None:
            served = "id, or with gate time and a single owner also scheduled_at"
            raise ValueBoundsError("sort", served, "scheduled_at")
        last = yield from _last("find_time_of_entry", wanted.before, owners, noun="entry")
        given["last"] = FIRST_INSTANT if last is None else last.scheduled_at
        given["beyond"] = wanted.before or 0
        return (yield from search("search_entries_by_time", given, limit=wanted.limit))
    given["owners"] = list((yield from named_owners(owners)))
    gather = "gather_entries" if wanted.manifest is None else "gather_entries_of_manifest"
    return (yield from search("search_entries", given, limit=wanted.limit, gather=gather))


def queue_rerun(run_id: int, *, owners: Owners, input_json: str | None = None) -> Operation[Rerun]:
    """Queue a finished run again, with its own input or another, outside its manifest."""
    run = yield from load_run(run_id, owners)
    if run is None:
        raise RunNotFoundError(run_id)
    groups = yield from ensure_groups(run.owner, [DEFAULT_GROUP])
    default_group_id = groups[DEFAULT_GROUP].id
    rows = yield statement(
        "queue_rerun", id=run_id, owner=run.owner, input=input_json, default_group_id=default_group_id
    )
    if not rows:
        raise RunNotOverError(run_id, run.state)
    yield statement("notify", payload=f"work:{run.owner}")
    return Rerun(rows[0].id, run_id, run.owner, run.train)


def queue_reruns(ids: Sequence[int], owners: Owners) -> Operation[RerunResult]:
    """Queue the finished ones among these runs again, with their own inputs; the others are reported."""
    found = {row.id: row for row in (yield statement("find_reruns", ids=list(ids), owner=owners.bound))}
    over = [run_id for run_id in dict.fromkeys(ids) if run_id in found and found[run_id].is_over]
    made: list[Rerun] = []
    for owner in sorted({found[run_id].owner for run_id in over}):
        group_id = (yield from ensure_groups(owner, [DEFAULT_GROUP]))[DEFAULT_GROUP].id
        for run_id in (each for each in over if found[each].owner == owner):
            rows = yield statement(
                "queue_rerun", id=run_id, owner=owner, input=None, default_group_id=group_id
            )
            made += [Rerun(row.id, run_id, owner, found[run_id].train) for row in rows]
        yield statement("notify", payload=f"work:{owner}")
    return RerunResult(
        rerun=tuple(made),
        not_over=tuple(run_id for run_id in ids if run_id in found and not found[run_id].is_over),
        unknown=tuple(run_id for run_id in ids if run_id not in found),
    )


LetterStatus: TypeAlias = Literal["awaiting_intervention", "retried", "acknowledged"]

#: The limit of counts; a count at the limit is reported as "or more".
COUNTED: Final = 10_000
_LETTERS_OF_A_JOB: Final = 50


LetterSort: TypeAlias = Literal["id", "resolved_at"]


@dataclass(frozen=True, slots=True, kw_only=True)
class LetterFilter(JobFilter):
    """Which letters to list; None does not filter."""

    status: LetterStatus | None = None
    sort: LetterSort = "id"  #: the newest first; of resolved letters, also the latest resolution


def list_letters(wanted: LetterFilter, owners: Owners) -> Operation[Search]:
    """Read the newest letters; texts are not compared here."""
    owners = yield from narrowed_to_manifest(owners, wanted.manifest)
    given = {**(yield from _given(wanted, owners)), "status": wanted.status}
    if wanted.sort == "resolved_at":
        if wanted.status not in {"retried", "acknowledged"}:
            expected = "id, or with status retried or acknowledged also resolved_at"
            raise ValueBoundsError("sort", expected, "resolved_at")
        last = yield from _last("load_letter", wanted.before, owners, noun="dead letter")
        given["last"] = LAST_INSTANT if last is None else last.resolved_at or LAST_INSTANT
        return (yield from search("search_letters_by_resolution", given, limit=wanted.limit))
    if wanted.manifest is not None:
        return (yield from search("search_letters_of_manifest", given, limit=wanted.limit))
    if None not in {owners.bound, wanted.train} and wanted.status == "awaiting_intervention":
        return (yield from search("search_awaiting_letters_of_train", given, limit=wanted.limit))
    given["owners"] = list((yield from named_owners(owners)))
    is_own = owners.bound is not None  # then the walk reads no letters but its own
    is_gathered = wanted.status == "awaiting_intervention" or (wanted.status is not None and not is_own)
    gather = "gather_letters" if is_gathered else None
    return (yield from search("search_letters", given, limit=wanted.limit, gather=gather))


def list_letters_of_runs(runs: Sequence[int], letters: Sequence[int], owners: Owners) -> Operation[Rows]:
    """Read the letters that runs left or were requeued from, and these letters."""
    given = {"runs": list(runs), "letters": list(letters), "limit": _LETTERS_OF_A_JOB}
    return (yield statement("list_letters_of_runs", owner=owners.bound, **given))
