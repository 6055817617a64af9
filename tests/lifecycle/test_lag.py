"""A throttle by replication lag is never silently off: a lag that the role may not see stops the rule."""

from __future__ import annotations

import subprocess
from datetime import timedelta
from typing import TYPE_CHECKING

import pytest
from psycopg.conninfo import make_conninfo

from gandy.lifecycle import Contract, Table, Throttle, check, older_than
from tests.lifecycle.ground import Ground, ago
from tests.support import postgres_found
from tests.support.waiting import wait_until

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

pytestmark = pytest.mark.xdist_group("lag")  # a role and a standby belong to the whole server
ROLE = 'the "sweeper"'
QUOTED = '"the ""sweeper"""'
GRANT = f"GRANT pg_monitor TO {QUOTED}"
OLD = older_than("at", keep_for="1d")
SLOW = Table("event", [OLD], throttle=Throttle(replication_lag=timedelta(hours=1)))
OTHERS = Table("other", [OLD])


@pytest.fixture
def sweeper(postgres: Ground) -> Iterator[Ground]:
    """The same database for a role that owns its tables and monitors nothing."""
    for name in ("event", "other"):
        postgres.run(f"CREATE TABLE {name} (id {{key}}, at {{instant}})", f"CREATE INDEX ON {name} (at)")
        postgres.fill(name, [(n, ago(days=9)) for n in range(10)])
    postgres.run(
        f"CREATE ROLE {QUOTED} LOGIN",
        f"GRANT ALL ON SCHEMA public TO {QUOTED}",
        f"ALTER TABLE event OWNER TO {QUOTED}",
        f"ALTER TABLE other OWNER TO {QUOTED}",
    )
    yield Ground(f"{postgres.url}{'&' if '?' in postgres.url else '?'}options=-c%20role%3D{role_option()}")
    postgres.run(f"DROP OWNED BY {QUOTED} CASCADE", f"DROP ROLE {QUOTED}")


def role_option() -> str:
    """The role's name as it is written in an option of a URL."""
    return "".join(f"%{byte:02X}" for byte in ROLE.replace(" ", "\\ ").encode())


@pytest.fixture
def receiver(postgres: Ground, tmp_path: Path) -> Iterator[None]:
    """Streams the log of the server as a standby does, and repeats nothing."""
    program = postgres_found.newest().programs / "pg_receivewal"
    server = make_conninfo(postgres.url, dbname="postgres")
    with (tmp_path / "said").open("wb") as said:
        process = subprocess.Popen(
            [str(program), "--directory", str(tmp_path), "--no-sync", "--dbname", server],
            stdout=said,
            stderr=said,
        )
        try:
            wait_until(lambda: senders(postgres) == 1, "the log is streamed")
            yield
        finally:
            process.terminate()
            process.wait()
    wait_until(lambda: senders(postgres) == 0, "nothing is streamed")


def senders(postgres: Ground) -> int:
    [(count,)] = postgres.rows("SELECT count(*) FROM pg_stat_replication WHERE state = 'streaming'")
    return int(count)


def test_a_lag_that_cannot_be_seen_stops_its_rule_alone(sweeper: Ground, receiver: None) -> None:  # noqa: ARG001
    report = sweeper.sweep(SLOW, OTHERS)

    [failure] = report.failures
    assert failure.table == "event"
    assert failure.error.endswith(GRANT)
    assert (len(sweeper.ids("event")), sweeper.ids("other")) == (10, [])
    [finding] = check([Contract("app", [SLOW, OTHERS])], sweeper.url)
    assert (finding.table, finding.severity, finding.remedy.endswith(GRANT)) == ("event", "refused", True)


def test_the_grant_that_the_message_names_lets_the_rule_go_on(
    postgres: Ground,
    sweeper: Ground,
    receiver: None,  # noqa: ARG001
) -> None:
    postgres.run(GRANT)

    assert sweeper.sweep(SLOW).counts == {"event": 10}


def test_without_a_standby_nothing_is_asked_for(sweeper: Ground) -> None:
    report = sweeper.sweep(SLOW)

    assert (report.failures, report.counts) == ([], {"event": 10})
