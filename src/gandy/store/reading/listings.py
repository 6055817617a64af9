"""Paged listings of runs, entries and letters, of bounded cost."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Literal, TypeAlias

from gandy.errors import RunNotFoundError, RunNotOverError
from gandy.model.manifest import DEFAULT_GROUP
from gandy.model.run import TrainState
from gandy.store.overriding import ensure_groups
from gandy.store.owners import narrowed_to_manifest
from gandy.store.runs import load_run
from gandy.store.statements import statement

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from gandy.model.owners import Owners
    from gandy.store.statements import Operation, Rows


Key: TypeAlias = "int | str"

#: The maximum number of rows read for one page.
SEARCHED: Final = 10_000
#: The first attempt reads this many times the page size.
_FIRST_TIMES: Final = 4
#: Above every id.
_NEWEST: Final = 2**63 - 1


@dataclass(frozen=True, slots=True)
class Search:
    """The rows found, and where to continue."""

    rows: Rows
    next: Key | None  #: the page or the search continues after this; None: there is no more
    is_cut: bool  #: the search stopped before the page was full; there may be more


def below(before: int | None) -> int:
    """Return the id that a page stays below; the first page has no bound."""
    return _NEWEST if before is None else before


def search(
    walk: str, wanted: Mapping[str, object], *, limit: int, gather: str | None = None, key: str = "id"
) -> Operation[Search]:
    """Walk in the order of the listing; if the limit cuts that off, find all matches by an index (`gather`).

    A walk finds frequent matches, an index rare ones; a search that suits neither continues page by page.
    """
    yield statement("keep_order")
    most = max(SEARCHED, limit)
    for so_many in (min(limit * _FIRST_TIMES, most), most):  # mostly, the first rows match
        rows = yield statement(walk, limit=limit, searched=so_many, **wanted)
        found = _walked(rows, limit, so_many, key=key)
        if not found.is_cut:
            return found
    if gather is None:
        return found
    rows = yield statement(gather, limit=limit, searched=most, **wanted)
    is_too_much = bool(rows) and rows[0].place == most
    return found if is_too_much else _page(rows, limit, key=key)


def _walked(rows: Rows, limit: int, most: int, *, key: str) -> Search:
    if not rows or rows[-1].place != most:
        return _page(rows, limit, key=key)
    matches = [row for row in rows if row.is_match]
    return Search(matches, getattr(rows[-1], key), is_cut=len(matches) < limit)


def _page(rows: Rows, limit: int, *, key: str) -> Search:
    return Search(rows, getattr(rows[-1], key) if len(rows) == limit else None, is_cut=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class RunFilter:
    """Which runs to list; None does not filter."""

    train: str | None = None
    state: str | None = None
    manifest: str | None = None
    before: int | None = None
    limit: int = 50


def list_runs(wanted: RunFilter, owners: Owners) -> Operation[Search]:
    """Read the newest runs."""
    owners = yield from narrowed_to_manifest(owners, wanted.manifest)
    given = {
        "owner": owners.bound,
        "train": wanted.train,
        "state": wanted.state,
        "before": below(wanted.before),
    }
    if wanted.manifest is not None:
        walk = "search_runs_of_manifest"
        return (yield from search(walk, {**given, "manifest": wanted.manifest}, limit=wanted.limit))
    gather = None if wanted.train is None else "gather_runs_of_train"
    return (yield from search(_walk(wanted.state), given, limit=wanted.limit, gather=gather))


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


@dataclass(frozen=True, slots=True, kw_only=True)
class EntryFilter:
    """Which entries to list; None does not filter."""

    status: WantedStatus | None = None
    gate: Gate | None = None
    train: str | None = None
    group: str | None = None
    before: int | None = None
    limit: int = 50


@dataclass(frozen=True, slots=True)
class Rerun:
    """A run that was queued again; the id is the new run's."""

    id: int
    repeats: int
    owner: str
    train: str


def list_entries(wanted: EntryFilter, owners: Owners) -> Operation[Search]:
    """Read the newest entries."""
    given = {
        "owner": owners.bound,
        "status": wanted.status,
        "gate": wanted.gate,
        "train": wanted.train,
        "group": wanted.group,
        "before": below(wanted.before),
    }
    return (yield from search("search_entries", given, limit=wanted.limit, gather=_gather(wanted)))


def _gather(wanted: EntryFilter) -> str | None:
    """Return the statement that finds all matches by index; dispatched entries have none."""
    match wanted.status:
        case "queued" | "waiting" | "undispatched":
            return "gather_queued_entries"
        case "cancelled" | "skipped":
            return "gather_settled_entries"
        case _:
            is_queued = wanted.status is None and wanted.gate is not None
            return "gather_queued_entries" if is_queued else None


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


LetterStatus: TypeAlias = Literal["awaiting_intervention", "retried", "acknowledged"]

#: The limit of counts; a count at the limit is reported as "or more".
COUNTED: Final = 10_000
_LETTERS_OF_A_JOB: Final = 50


@dataclass(frozen=True, slots=True, kw_only=True)
class LetterFilter:
    """Which letters to list; None does not filter."""

    train: str | None = None
    manifest: str | None = None
    status: LetterStatus | None = None
    before: int | None = None
    limit: int = 50


def list_letters(wanted: LetterFilter, owners: Owners) -> Operation[Search]:
    """Read the newest letters."""
    owners = yield from narrowed_to_manifest(owners, wanted.manifest)
    given = {
        "owner": owners.bound,
        "train": wanted.train,
        "status": wanted.status,
        "before": below(wanted.before),
    }
    if wanted.manifest is not None:
        walk = "search_letters_of_manifest"
        return (yield from search(walk, {**given, "manifest": wanted.manifest}, limit=wanted.limit))
    if None not in {owners.bound, wanted.train} and wanted.status == "awaiting_intervention":
        return (yield from search("search_awaiting_letters_of_train", given, limit=wanted.limit))
    gather = None if wanted.status is None else "gather_letters"
    return (yield from search("search_letters", given, limit=wanted.limit, gather=gather))


def list_letters_of_runs(runs: Sequence[int], letters: Sequence[int], owners: Owners) -> Operation[Rows]:
    """Read the letters that runs left or were requeued from, and these letters."""
    given = {"runs": list(runs), "letters": list(letters), "limit": _LETTERS_OF_A_JOB}
    return (yield statement("list_letters_of_runs", owner=owners.bound, **given))


def count_awaiting(wanted: LetterFilter, owners: Owners) -> Operation[int]:
    """Count the letters that await an operator, up to the limit."""
    owners = yield from narrowed_to_manifest(owners, wanted.manifest)
    of = {"owner": owners.bound, "train": wanted.train, "manifest": wanted.manifest}
    return int((yield statement("count_awaiting_like", limit=COUNTED, **of))[0].letters)
