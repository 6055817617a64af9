"""The shipped example: the safety rule of every row of its maintenance matrix, on both databases."""

from __future__ import annotations

from contextlib import closing, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from examples.statestore.contract import CONTRACTS, OUTBOX, STATESTORE
from examples.statestore.inline_paths import PRESENCE_CAP, InlinePaths
from gandy.clock import ManualClock
from gandy.lifecycle import SweepOptions, check, load, matrix, matrix_markdown, run_contracts
from tests.lifecycle.ground import NOW, Ground, ago, ahead, ms

if TYPE_CHECKING:
    from collections.abc import Iterator

    from gandy.lifecycle.supervisor.report import ContractReport

EXAMPLE = Path(__file__).parents[2] / "examples" / "statestore"
LEASES = ["conversation_leases", "workspace_leases", "oauth_refresh_leases"]


@pytest.fixture
def store(ground: Ground) -> Ground:
    schema = (EXAMPLE / f"schema.{ground.kind}.sql").read_text(encoding="utf-8")
    ground.run(*(statement for statement in schema.split(";") if statement.strip()))
    return ground


@contextmanager
def inline_paths(store: Ground) -> Iterator[InlinePaths]:
    with closing(store.connect()) as connection:
        yield InlinePaths(connection, "%s" if store.kind == "postgresql" else "?")


def keep(store: Ground) -> dict[str, ContractReport]:
    reports = run_contracts(CONTRACTS, store.url, options=SweepOptions(clock=ManualClock(NOW)))
    assert [report.failures for report in reports] == [[], []]
    return {report.scheduler: report for report in reports}


def test_the_contract_fits_its_schema_and_every_rule_has_its_index(store: Ground) -> None:
    assert check(CONTRACTS, store.url) == []


def test_the_contract_in_toml_is_the_contract_in_python() -> None:
    read = load(EXAMPLE / "lifecycle.toml")

    assert tuple(replace(contract, source="") for contract in read) == CONTRACTS


def test_the_matrix_in_the_readme_is_printed_from_the_contract() -> None:
    assert matrix_markdown(CONTRACTS) in (EXAMPLE / "README.md").read_text(encoding="utf-8")


def test_every_table_of_the_example_is_in_the_matrix(store: Ground) -> None:
    catalogue = {
        "sqlite": "SELECT name FROM sqlite_master WHERE type = 'table'",
        "postgresql": "SELECT tablename FROM pg_tables WHERE schemaname = 'public'",
    }
    tables = {row[0] for row in store.rows(catalogue[store.kind])}

    assert {row.table for row in matrix(CONTRACTS)} == tables


def test_presence_entries_go_only_when_expired(store: Ground) -> None:
    store.fill(
        "presence_entries",
        [
            ("t", "gone", ms(ago(hours=9)), ms(ago(seconds=1))),
            ("t", "live", ms(ago(hours=9)), ms(ahead(seconds=1))),
        ],
    )

    assert keep(store)["statestore"].counts == {"presence_entries": 1}
    assert store.ids("presence_entries", "client_id") == ["live"]


def test_presence_beyond_the_heartbeat_cap_goes_oldest_first_even_when_live(store: Ground) -> None:
    later = ms(ahead(hours=1))
    store.fill("presence_entries", [("t", f"{n:04}", ms(NOW) - n, later) for n in range(PRESENCE_CAP + 7)])
    store.fill("presence_entries", [("u", "other", 1, later)])

    assert keep(store)["statestore"].counts == {"presence_entries": 7}
    assert store.ids("presence_entries", "client_id") == [*(f"{n:04}" for n in range(PRESENCE_CAP)), "other"]


def test_a_heartbeat_cleans_up_after_itself(store: Ground) -> None:
    later = ms(ahead(hours=1))
    store.fill("presence_entries", [("t", f"{n:04}", ms(NOW) - n, later) for n in range(PRESENCE_CAP)])
    store.fill("presence_entries", [("t", "expired", ms(NOW), ms(ago(seconds=1)))])

    with inline_paths(store) as paths:
        paths.heartbeat("t", "me", now_ms=ms(NOW), expires_at_ms=later)

    kept = store.ids("presence_entries", "client_id")
    assert len(kept) == PRESENCE_CAP
    assert "me" in kept
    assert "expired" not in kept


def test_a_connection_whose_owner_keeps_refreshing_stays(store: Ground) -> None:
    store.fill("connections", [("dead", "e1", ms(ago(seconds=1))), ("live", "e1", ms(ahead(seconds=30)))])

    keep(store)

    assert store.ids("connections") == ["live"]


def test_an_edge_cleans_up_its_own_connections_only(store: Ground) -> None:
    store.fill("connections", [("mine", "e1", ms(ago(seconds=1))), ("theirs", "e2", ms(ago(seconds=1)))])

    with inline_paths(store) as paths:
        paths.edge_heartbeat("e1", now_ms=ms(NOW))

    assert store.ids("connections") == ["theirs"]


def test_replay_protection_holds_inside_the_dedupe_window(store: Ground) -> None:
    inside, outside = ms(ahead(minutes=1)), ms(ago(seconds=1))
    store.fill("channel_inbound_dedupe", [("inside", inside), ("outside", outside), ("stale", outside)])

    with inline_paths(store) as paths:
        replay = paths.is_first_receipt("inside", now_ms=ms(NOW), expires_at_ms=inside)
        again = paths.is_first_receipt("stale", now_ms=ms(NOW), expires_at_ms=inside)
    keep(store)

    assert (replay, again) == (False, True)
    assert store.ids("channel_inbound_dedupe", "message_key") == ["inside", "stale"]


def test_a_completed_inbox_row_waits_for_its_outbox_rows(store: Ground) -> None:
    old = ago(days=8)
    store.fill("channel_inbox", [(1, "completed", old, old, None), (2, "completed", old, old, None)])
    store.fill("channel_outbox", [(10, 1, "queued", old, None, None), (11, 2, "failed", old, None, old)])

    assert keep(store)["statestore"].counts == {"channel_inbox": 1, "channel_outbox": 1}
    assert store.ids("channel_inbox") == [1]


def test_a_failed_inbox_row_ages_from_its_failure_not_from_its_receipt(store: Ground) -> None:
    store.fill(
        "channel_inbox",
        [(1, "failed", ago(days=30), None, ago(days=6)), (2, "failed", ago(days=30), None, ago(days=8))],
    )

    keep(store)

    assert store.ids("channel_inbox") == [1]


def test_unfinished_inbox_rows_stay_whatever_their_age(store: Ground) -> None:
    store.fill(
        "channel_inbox",
        [(1, "queued", ago(days=90), None, None), (2, "processing", ago(days=90), None, None)],
    )

    keep(store)

    assert store.ids("channel_inbox") == [1, 2]


def test_a_delivered_outbox_row_goes_inline_and_never_by_the_sweep(store: Ground) -> None:
    old = ago(days=30)
    store.fill("channel_inbox", [(1, "completed", old, old, None)])
    store.fill(
        "channel_outbox", [(10, 1, "sent", old, old, None), (11, 1, "sent", old, ago(minutes=1), None)]
    )

    report = keep(store)["statestore"]

    assert report.counts == {}
    assert [(late.path, late.oldest) for late in report.overdue] == [("delivery path", old)]
    with inline_paths(store) as paths:
        paths.delivered(10)
    assert store.ids("channel_outbox") == [11]


def test_recovery_does_not_need_failed_outbox_rows_past_the_window(store: Ground) -> None:
    old = ago(days=30)
    store.fill("channel_inbox", [(1, "completed", old, ago(days=1), None)])
    store.fill(
        "channel_outbox",
        [(10, 1, "failed", old, None, ago(days=8)), (11, 1, "failed", old, None, ago(days=6))],
    )

    keep(store)

    assert store.ids("channel_outbox") == [11]
    assert store.ids("channel_inbox") == [1]


@pytest.mark.parametrize("table", LEASES)
def test_only_expired_leases_go(store: Ground, table: str) -> None:
    store.fill(table, [("expired", "a", ms(ago(seconds=1))), ("renewed", "b", ms(ahead(seconds=1)))])
    key = {"conversation_leases": "conversation_id", "workspace_leases": "workspace_id"}.get(table, "account")

    keep(store)

    assert store.ids(table, key) == ["renewed"]


def test_a_live_handshake_survives_until_its_advertised_expiry(store: Ground) -> None:
    store.fill(
        "oauth_pending",
        [("over", "v", ago(seconds=2)), ("live", "v", ahead(seconds=2)), ("used", "v", ahead(hours=1))],
    )

    with inline_paths(store) as paths:
        now = store.value(NOW)
        used = [paths.consume_callback(state, now=now) for state in ("used", "used", "over")]
    keep(store)

    assert used == [True, False, False]
    assert store.ids("oauth_pending", "state") == ["live"]


def test_cleaning_refresh_leases_does_not_touch_the_cache_row(store: Ground) -> None:
    store.fill("models_dev_cache", [(1, "{}", ago(days=900))])
    store.fill("models_dev_refresh_leases", [(1, "a", ms(ago(seconds=1)))])

    assert keep(store)["statestore"].counts == {"models_dev_refresh_leases": 1}
    assert store.ids("models_dev_cache") == [1]


def test_replay_history_is_bounded_and_only_that(store: Ground) -> None:
    store.fill("outbox", [(1, "t", "{}", ago(hours=25)), (2, "t", "{}", ago(hours=23))])

    assert keep(store)["outbox"].counts == {"outbox": 1}
    assert store.ids("outbox") == [2]


def test_only_cursors_that_stopped_advancing_go(store: Ground) -> None:
    store.fill("outbox", [(1, "t", "{}", ago(hours=30)), (2, "t", "{}", ago(hours=20))])
    store.fill("outbox_consumers", [("still", 1, ago(hours=25)), ("moving", 2, ago(hours=1))])

    assert keep(store)["outbox"].counts == {"outbox": 1, "outbox_consumers": 1}
    assert store.ids("outbox_consumers", "name") == ["moving"]


def test_the_schedulers_carry_the_names_that_dashboards_rely_on() -> None:
    assert (STATESTORE.name, OUTBOX.name) == ("statestore", "outbox")
