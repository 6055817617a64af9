"""Every statement that a desk sends binds the owner; the few that do not are listed, each with its reason."""

from __future__ import annotations

from importlib.resources import files
from typing import TYPE_CHECKING, TypeVar

import pytest

from gandy.store.drivers.postgres import PostgresDatabase
from gandy.store.drivers.sqlite import SqliteDatabase
from gandy.store.statements import Batch, load_statements, parse_statements
from gandy.web.access.gate import Access
from tests.doors.calls import GUARDED, Call, calls, client_of, parameters
from tests.doors.neighbours import CALLER, NEIGHBOUR, belonging_to, belongings, changes_between, make_app

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from gandy.store.statements import Operation, Step
    from tests.doors.neighbours import Belongings

T = TypeVar("T")

_BY_ID = "acts on runs, entries or manifests that the desk found with their owner before, in one transaction"
#: Statements without an owner, and why that is right.
EXCEPTIONS: Mapping[str, str] = {
    "read_clock": "the clock is everybody's",
    "keep_order": "a setting of the session",
    "newest_job": "the highest id, where a walk ends; it says nothing about a row",
    "newest_letter": "the highest id, where a walk ends; it says nothing about a row",
    "count_table_rows": "the size of whole tables, which all owners share",
    "find_oldest_rows": "the age of whole tables, which all owners share",
    "sample_arrivals": "the growth of whole tables, which all owners share",
    "measure_tables": "the size of whole tables, which all owners share",
    "can_measure": "the size of the file, which all owners share",
    "list_owners_of_runs": "upkeep prunes Gandy's own trains for all owners; no page shows the names",
    "notify": "wakes processes; the payload names the owner or the run, and no row is read",
    "lock_manifests": _BY_ID,
    "release_keys": _BY_ID,
    "end_runs": _BY_ID,
    "read_failing": _BY_ID,
    "record_manifest_ends": _BY_ID,
    "count_cancelled": _BY_ID,
    "keep_outputs": _BY_ID,
    "drop_edges": _BY_ID,
    "release_entries": _BY_ID,
    "find_children": _BY_ID,
    "keep_activations": _BY_ID,
    "promote_waiting": _BY_ID,
    "find_queued_beside_ended": _BY_ID,
    "step_back_entries": _BY_ID,
    "queue_retries": _BY_ID,
    "carry_losses": _BY_ID,
    "settle_logs": _BY_ID,
    "load_views": _BY_ID,
    "advance_manifests": _BY_ID,
    "extend_skips": _BY_ID,
    "record_skips": _BY_ID,
}
#: The searches of the upkeep, which prunes for all owners: a page shows the age of the oldest dead row.
UPKEEP = frozenset(
    name
    for name in parse_statements(
        files("gandy.store").joinpath("sql", "sqlite", "cleanup.sql").read_text(encoding="utf-8")
    )
    if name.startswith("find_")
)
FILTERS = ("", "?manifest=parked", "?train=send", "?group=etl", "?state=disabled", "?status=queued")
#: These leave nothing for the others to do.
LAST = ("cancel", "delete", "acknowledge")
SHARED: Mapping[str, Sequence[object]] = {"external_id": ("nightly", "paused"), "name": ("etl",)}


@pytest.fixture
def sent(monkeypatch: pytest.MonkeyPatch) -> list[Step]:
    """All that is sent from here on."""
    found: list[Step] = []

    def noting(send: Callable[..., T]) -> Callable[..., T]:
        return lambda self, operation: send(self, _noted(operation, found))

    for kind in (SqliteDatabase, PostgresDatabase):
        for name in ("run", "read"):
            monkeypatch.setattr(kind, name, noting(getattr(kind, name)))
    return found


def _noted(operation: Operation[T], found: list[Step]) -> Operation[T]:
    try:
        step = next(operation)
        while True:
            found.append(step)
            step = operation.send((yield step))
    except StopIteration as ended:
        result: T = ended.value
        return result


async def test_every_statement_of_every_route_binds_the_owner(shared_url: str, sent: list[Step]) -> None:
    async with make_app(CALLER, shared_url) as app, client_of(app) as client:
        del sent[:]
        before = belonging_to(NEIGHBOUR, shared_url)
        for call in _all_calls(belongings(shared_url, CALLER)):
            answer = await call.send(client)
            assert answer.status_code < 500, (call, answer.text)
        assert changes_between(before, belonging_to(NEIGHBOUR, shared_url)) == {}

    assert len({step.name for step in sent}) > 80
    unowned = {step.name for step in sent if not _is_owned(step)}
    assert unowned - UPKEEP == set(EXCEPTIONS)


def test_an_exception_is_a_statement_that_there_is() -> None:
    assert set(EXCEPTIONS) <= set(load_statements("sqlite"))
    assert set(EXCEPTIONS) <= set(load_statements("postgres"))


def _all_calls(own: Belongings) -> list[Call]:
    """Call every route with the caller's own ids: what reads first, then each bulk form."""
    known: dict[str, Sequence[object]] = {
        **SHARED,
        "run_id": own.jobs,
        "entry_id": own.jobs,
        "letter_id": own.letters,
        "worker_id": [own.worker],
        "train": ["send"],
        "scheduler": ["none"],
    }
    found = [call for route in GUARDED if parameters(route) for call in calls(route, known)]
    reads = [
        Call("GET", f"{route.path}{query}", route.path)
        for route in GUARDED
        if not parameters(route) and route.access is Access.READS
        for query in FILTERS
    ]
    bulk = [
        Call("POST", "/api/v1/queue/enqueue", "", {"train": "send", "input": 1, "key": "k"}),
        Call("POST", "/api/v1/dead-letters/requeue", "", {"ids": own.letters}),
        Call("POST", "/api/v1/dead-letters/requeue", "", {"all": True, "manifest": "parked"}),
        Call("POST", "/api/v1/dead-letters/acknowledge", "", {"all": True, "note": "x"}),
    ]
    found.sort(key=lambda call: (call.method != "GET", call.route.endswith(LAST)))
    return [*reads, *found, *bulk]


def _is_owned(step: Step) -> bool:
    """Whether the statement names the owner, and is given the caller's name."""
    given = step.shared if isinstance(step, Batch) else step.parameters
    return given.get("owner") == CALLER and all(
        marker in load_statements(dialect)[step.name]
        for dialect, marker in (("sqlite", ":owner"), ("postgres", "%(owner)s"))
    )
