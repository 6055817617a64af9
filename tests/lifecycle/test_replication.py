"""A sweep gives way to a standby that lags: a real one, made from a base backup, whose replay is paused."""

from __future__ import annotations

from contextlib import closing
from datetime import timedelta
from typing import TYPE_CHECKING

import psycopg
import pytest

from gandy.lifecycle import SweepOptions, Table, Throttle, older_than
from gandy.lifecycle.database.target import open_target
from tests.lifecycle.ground import Ground, ago
from tests.support import postgres_found
from tests.support.postgres import ThrowawayServer
from tests.support.waiting import wait_until

if TYPE_CHECKING:
    from collections.abc import Iterator

MOST = timedelta(milliseconds=200)
EVENTS = Table("event", [older_than("at", keep_for="1h")], throttle=Throttle(replication_lag=MOST))


class Standby(ThrowawayServer):
    """Follows another server by streaming."""

    def __init__(self, primary: ThrowawayServer) -> None:
        self._primary = primary
        super().__init__(postgres_found.newest(), settings={"wal_receiver_status_interval": "1s"})

    def _initdb(self) -> list[str]:
        options = [
            "--write-recovery-conf",
            "--checkpoint",
            "fast",
            "--no-sync",
            "--dbname",
            self._primary.dsn,
        ]
        return [str(self._programs / "pg_basebackup"), "--pgdata", str(self._data), *options]


@pytest.fixture
def primary(private_postgres_server: ThrowawayServer) -> Iterator[Ground]:
    with private_postgres_server.database() as url:
        yield Ground(url)


@pytest.fixture
def standby(private_postgres_server: ThrowawayServer) -> Iterator[psycopg.Connection]:
    server = Standby(private_postgres_server)
    with closing(psycopg.connect(server.dsn, autocommit=True)) as connection:
        yield connection
    server.close()


def lag_of(primary: Ground) -> timedelta:
    """What the throttle sees, after one more write for the standby to repeat."""
    primary.run("UPDATE heartbeat SET beat = beat + 1")
    with open_target(primary.url) as session, session.reading() as connection:
        return session.dialect.replication_lag(connection).slowest


def test_a_sweep_rests_until_the_standby_has_caught_up(primary: Ground, standby: psycopg.Connection) -> None:
    primary.run(
        "CREATE TABLE event (id {key}, at {instant})",
        "CREATE INDEX by_age ON event (at)",
        "CREATE TABLE heartbeat AS SELECT 0 AS beat",
    )
    primary.fill("event", [(n, ago(days=1)) for n in range(20)])
    streaming = (
        "SELECT count(*) FROM pg_stat_replication WHERE state = 'streaming' AND replay_lag IS NOT NULL"
    )
    wait_until(lambda: lag_of(primary) < MOST and primary.rows(streaming) == [(1,)], "the standby follows")
    standby.execute("SELECT pg_wal_replay_pause()")
    wait_until(lambda: lag_of(primary) > MOST, "the standby lags")
    rests: list[timedelta] = []

    def rest(span: timedelta) -> None:
        assert len(primary.ids("event")) == 20
        rests.append(span)
        if len(rests) == 3:
            standby.execute("SELECT pg_wal_replay_resume()")
            wait_until(lambda: lag_of(primary) < MOST, "the standby has caught up")

    report = primary.sweep(EVENTS, by=SweepOptions(rest=rest))

    assert report.counts == {"event": 20}
    assert len(rests) >= 3
