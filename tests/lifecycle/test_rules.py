from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING

import pytest

from gandy.lifecycle import (
    Table,
    cap,
    expires,
    inline,
    keep,
    keep_last,
    older_than,
    singleton,
    stale_cursor,
    terminal,
)
from tests.lifecycle.ground import NOW, ago, ahead, ms

if TYPE_CHECKING:
    from tests.lifecycle.ground import Ground


def test_only_rows_whose_expiry_has_passed_go_and_null_never_does(ground: Ground) -> None:
    ground.run(
        "CREATE TABLE lease (id {key}, expires_at {instant})", "CREATE INDEX ON_expiry ON lease (expires_at)"
    )
    ground.fill("lease", [(1, ago(seconds=2)), (2, ahead(seconds=2)), (3, None), (4, ago(days=9))])

    report = ground.sweep(Table("lease", [expires("expires_at")]))

    assert ground.ids("lease") == [2, 3]
    assert report.counts == {"lease": 2}


def test_a_grace_lets_rows_live_a_little_past_their_expiry(ground: Ground) -> None:
    ground.run("CREATE TABLE lease (id {key}, expires_at {instant})")
    ground.fill("lease", [(1, ago(seconds=20)), (2, ago(seconds=40))])

    ground.sweep(Table("lease", [expires("expires_at", grace="30s")]))

    assert ground.ids("lease") == [1]


@pytest.mark.parametrize(("unit", "scale"), [("ms", 1000), ("s", 1)])
def test_an_epoch_is_read_in_its_unit(ground: Ground, unit: str, scale: int) -> None:
    ground.run("CREATE TABLE lease (id {key}, expires_at bigint)")
    now = int(NOW.timestamp()) * scale
    ground.fill("lease", [(1, now - 1), (2, now), (3, now + 1), (4, None)])

    ground.sweep(Table("lease", [expires("expires_at", unit=unit)]))

    assert ground.ids("lease") == [3, 4]


def test_rows_older_than_keep_for_go(ground: Ground) -> None:
    ground.run("CREATE TABLE outbox (id {key}, created_at {instant})")
    ground.fill("outbox", [(1, ago(hours=25)), (2, ago(hours=23))])

    report = ground.sweep(Table("outbox", [older_than("created_at", keep_for="24h")]))

    assert ground.ids("outbox") == [2]
    assert report.is_clean


def test_a_terminal_row_is_aged_from_its_terminal_instant_and_per_state(ground: Ground) -> None:
    ground.run("CREATE TABLE inbox (id {key}, status text, received_at {instant}, ended_at {instant})")
    ground.fill(
        "inbox",
        [
            (1, "failed", ago(days=40), ago(days=8)),
            (2, "failed", ago(days=40), ago(days=6)),
            (3, "done", ago(days=40), ago(days=2)),
            (4, "queued", ago(days=40), None),
            (5, "queued", ago(days=40), ago(days=30)),
        ],
    )
    rule = terminal(
        "status", states=["failed", "done"], at="ended_at", keep_for={"failed": "7d", "done": "1d"}
    )

    ground.sweep(Table("inbox", [rule]))

    assert ground.ids("inbox") == [2, 4, 5]


def test_a_row_waits_until_nothing_refers_to_it_and_one_sweep_is_enough(ground: Ground) -> None:
    ground.run(
        "CREATE TABLE inbox (id {key}, done_at {instant})",
        "CREATE TABLE outbox (id {key}, inbox_id bigint REFERENCES inbox (id), sent_at {instant})",
    )
    ground.fill("inbox", [(1, ago(days=9)), (2, ago(days=9)), (3, ago(days=9))])
    ground.fill("outbox", [(10, 1, ago(hours=1)), (11, 2, ago(days=9))])

    report = ground.sweep(
        Table("inbox", [older_than("done_at", keep_for="7d", wait_for=["outbox.inbox_id"])]),
        Table("outbox", [older_than("sent_at", keep_for="7d")]),
    )

    assert ground.ids("inbox") == [1]
    assert ground.ids("outbox") == [10]
    assert report.counts == {"inbox": 2, "outbox": 1}


@pytest.mark.parametrize("rule", [cap, keep_last])
def test_rows_beyond_the_newest_of_each_key_go_oldest_first(ground: Ground, rule: object) -> None:
    ground.run("CREATE TABLE presence (id {key}, tenant text NOT NULL, seen_at {instant})")
    ground.fill(
        "presence",
        [(n, f"t{n % 3}", ago(minutes=n)) for n in range(1, 31)] + [(99, "lonely", ago(days=900))],
    )
    assert callable(rule)

    report = ground.sweep(Table("presence", [rule(4, per=["tenant"], order_by="seen_at")]))

    assert ground.ids("presence") == [*range(1, 13), 99]
    assert report.counts == {"presence": 18}


def test_a_cap_without_a_key_bounds_the_whole_table(ground: Ground) -> None:
    ground.run("CREATE TABLE audit (id {key}, at {instant})")
    ground.fill("audit", [(n, ago(minutes=n)) for n in range(1, 31)])

    ground.sweep(Table("audit", [keep_last(5, order_by="at")]))

    assert ground.ids("audit") == [1, 2, 3, 4, 5]


def test_a_stale_cursor_goes_only_once_the_log_is_pruned_past_it(ground: Ground) -> None:
    ground.run(
        "CREATE TABLE log (id {key}, created_at {instant})",
        "CREATE TABLE consumer (id {key}, updated_at {instant})",
    )
    ground.fill("log", [(1, ago(hours=30)), (2, ago(hours=20))])
    ground.fill("consumer", [(1, ago(hours=25)), (2, ago(hours=1)), (3, ago(hours=40))])
    cursors = Table("consumer", [stale_cursor("updated_at", keep_for="24h", log="log", log_at="created_at")])

    ground.sweep(cursors)
    before_the_log_was_pruned = ground.ids("consumer")
    ground.sweep(cursors, Table("log", [older_than("created_at", keep_for="24h")]))

    assert before_the_log_was_pruned == [1, 2]
    assert ground.ids("consumer") == [2]


def test_a_log_with_a_row_of_unknown_age_keeps_its_cursors(ground: Ground) -> None:
    ground.run(
        "CREATE TABLE log (id {key}, created_at {instant})",
        "CREATE TABLE consumer (id {key}, updated_at {instant})",
    )
    ground.fill("log", [(1, None), (2, ago(hours=1))])
    ground.fill("consumer", [(1, ago(hours=25))])
    cursors = Table("consumer", [stale_cursor("updated_at", keep_for="24h", log="log", log_at="created_at")])

    ground.sweep(cursors)
    while_the_age_is_unknown = ground.ids("consumer")
    ground.run("DELETE FROM log WHERE id = 1")
    ground.sweep(cursors)

    assert while_the_age_is_unknown == [1]
    assert ground.ids("consumer") == []


def test_a_legal_hold_is_taken_by_no_rule(ground: Ground) -> None:
    ground.run("CREATE TABLE doc (id {key}, owner bigint NOT NULL, at {instant}, hold {flag})")
    held = ground.kind == "postgresql" or 1
    ground.fill("doc", [(1, 1, ago(days=9), held), (2, 1, ago(days=9), not held), (3, 1, ago(days=9), None)])

    ground.sweep(
        Table(
            "doc",
            [
                older_than("at", keep_for="7d"),
                keep_last(1, per=["owner"], order_by="at"),
                keep("hold", equals=True),
            ],
        )
    )

    assert ground.ids("doc") == [1]


def test_a_singleton_needs_its_constraint(ground: Ground) -> None:
    ground.run("CREATE TABLE cache (id {key}, body text)", "CREATE TABLE loose (id bigint, body text)")

    report = ground.sweep(Table("cache", [singleton("id")]), Table("loose", [singleton("id")]))

    assert [(failure.table, "nothing bounds" in failure.error) for failure in report.failures] == [
        ("loose", True)
    ]


def test_an_inline_path_that_died_is_noticed(ground: Ground) -> None:
    ground.run("CREATE TABLE outbox (id {key}, status text, sent_at {instant})")
    table = Table(
        "outbox",
        [inline("delivery path", column="status", states=["sent"], at="sent_at", alarm_after="1h")],
    )
    ground.fill("outbox", [(1, "sent", ago(minutes=59)), (2, "queued", ago(days=3))])
    assert ground.sweep(table).overdue == []

    ground.fill("outbox", [(3, "sent", ago(hours=2))])
    report = ground.sweep(table)

    [overdue] = report.overdue
    assert (overdue.path, overdue.oldest) == ("delivery path", ago(hours=2))
    assert ground.ids("outbox") == [1, 2, 3]


def test_partitions_that_are_wholly_old_are_dropped(postgres: Ground) -> None:
    from gandy.lifecycle import drop_partition  # noqa: PLC0415

    postgres.run(
        "CREATE TABLE event (id bigint, at timestamptz) PARTITION BY RANGE (at)",
        "CREATE TABLE event_old PARTITION OF event FOR VALUES FROM ('2025-01-01') TO ('2025-02-01')",
        "CREATE TABLE event_new PARTITION OF event FOR VALUES FROM ('2026-02-01') TO ('2026-04-01')",
    )
    postgres.fill("event", [(1, NOW - timedelta(days=400)), (2, ago(days=1)), (3, ago(days=27))])

    report = postgres.sweep(Table("event", [drop_partition("at", keep_for="90d")]))

    assert postgres.ids("event") == [2, 3]
    assert report.counts == {"event": 1}
    assert postgres.rows("SELECT to_regclass('event_old')") == [(None,)]


def test_milliseconds_of_an_instant() -> None:
    assert ms(NOW) == 1772366400000
