"""How many statements a deletion sends, and that what it does not ask again it still gets to know."""

from __future__ import annotations

from datetime import timedelta
from types import SimpleNamespace
from typing import TYPE_CHECKING, cast
from urllib.parse import urlsplit

import pytest
from sqlalchemy.engine import make_url

from gandy.app.delete_old_rows import OldRows
from gandy.app.delete_old_rows import delete as delete_in_train
from gandy.clock import ManualClock
from gandy.errors import GandyError, RuleRefusedError, StateObstructedError
from gandy.lifecycle import Contract, SweepOptions, Table, check, older_than
from gandy.lifecycle.database.target import COMPILED, _engine
from gandy.lifecycle.entry import DeletedRows, delete_old_rows
from tests.lifecycle.counting import counted
from tests.lifecycle.ground import NOW, Ground, ago, ms

if TYPE_CHECKING:
    from collections.abc import Iterator

    from gandy.app.opening import HostApp
    from gandy.train.run import Run

MOST = 12
MOST_AT_FIRST = 16  # in a process; the lifecycle's own tables are there, and one asks for the clock
DATA = Table("data", [older_than("at", keep_for="90d")])
NUMBERS = Table("data", [older_than("at", keep_for="90d", unit="ms")])
TRIGGERS = {
    "sqlite": ["CREATE TRIGGER loud AFTER DELETE ON data BEGIN SELECT 1; END"],
    "postgresql": [
        "CREATE FUNCTION loud() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RETURN NULL; END'",
        "CREATE TRIGGER loud AFTER DELETE ON data FOR EACH ROW EXECUTE FUNCTION loud()",
    ],
}


def make(ground: Ground, rows: int = 1_500) -> None:
    ground.run("CREATE TABLE data (id {key}, at {instant})", "CREATE INDEX by_age ON data (at)")
    ground.fill("data", [(n, ago(days=91, seconds=n)) for n in range(rows)])


def delete(ground: Ground, limit: int = 500, table: Table = DATA) -> DeletedRows:
    by = SweepOptions(clock=ManualClock(NOW))
    return delete_old_rows(table, ground.url, limit=limit, options=by)


def as_in_a_new_process(ground: Ground) -> Ground:
    """The same database by another address: nothing was learned about it."""
    if ground.kind == "sqlite":
        folder, _, file = ground.url.rpartition("/")
        return Ground(f"{folder}/./{file}")
    named = make_url(ground.url).update_query_dict({"application_name": "new"})
    return Ground(named.render_as_string(hide_password=False))


def test_a_run_of_500_rows_sends_at_most_12_statements(ground: Ground) -> None:
    make(ground)
    delete(ground)

    with counted() as sent:
        done = delete(ground)

    assert (done.deleted, done.has_more) == (500, True)
    assert len(sent.statements) <= MOST, sent.texts
    assert len(sent.control) <= 4, sent.texts


def test_what_was_compiled_for_one_engine_serves_the_next(ground: Ground) -> None:
    make(ground)
    for _ in range(2):
        delete(ground)
        _engine.cache_clear()
    known = set(COMPILED)

    done = delete(ground)

    assert done.deleted == 500
    assert known
    assert set(COMPILED) <= known


def test_the_train_sends_no_more(ground: Ground) -> None:
    make(ground)
    old = OldRows(table="data", column="at", keep_for=timedelta(days=90))
    run = cast("Run", SimpleNamespace(cancel_requested=False))
    app = cast("HostApp", SimpleNamespace(url=ground.url, clock=None, trust=None))
    delete_in_train(old, run, app)

    with counted() as sent:
        done = delete_in_train(old, run, app)

    assert (done.rows, done.is_limit_reached) == (500, True)
    assert len(sent.statements) <= MOST, sent.texts


def test_the_first_run_of_a_process_learns_in_a_few_statements_more(ground: Ground) -> None:
    make(ground)
    delete(ground)

    with counted() as sent:
        done = delete(as_in_a_new_process(ground))

    assert done.deleted == 500
    assert len(sent.statements) <= MOST_AT_FIRST, sent.texts


def test_the_catalogue_of_many_tables_is_read_at_once(ground: Ground) -> None:
    names = [f"data_{number}" for number in range(12)]
    for name in names:
        ground.run(
            f"CREATE TABLE {name} (id {{key}}, at {{instant}})", f"CREATE INDEX {name}_at ON {name} (at)"
        )
    contract = Contract("app", [Table(name, DATA.rules) for name in names])

    with counted() as sent:
        assert check([contract], ground.url) == []

    reading = [text for text in sent.statements if "pg_catalog.pg_class" in text or "sqlite_master" in text]
    assert len(reading) <= 5, reading


def test_a_table_that_began_to_refer_since_the_last_run_stops_the_next(ground: Ground) -> None:
    make(ground)
    delete(ground)
    aside = "aside." if ground.kind == "postgresql" else ""
    ground.run(
        *(["CREATE SCHEMA aside"] if aside else []),
        f"CREATE TABLE {aside}part (id {{key}}, data_id bigint REFERENCES data (id))",
    )

    with pytest.raises(RuleRefusedError, match=r"part\.data_id"):
        delete(ground)
    assert len(ground.ids("data")) == 1_000


def test_a_key_of_a_table_that_was_already_there_stops_the_next_run(postgres: Ground) -> None:
    make(postgres)
    postgres.run("CREATE SCHEMA aside", "CREATE TABLE aside.part (id bigint, data_id bigint)")
    delete(postgres)
    postgres.run(
        "ALTER TABLE aside.part ADD FOREIGN KEY (data_id) REFERENCES data (id) ON DELETE CASCADE",
    )

    with pytest.raises(RuleRefusedError, match=r"aside\.part\.data_id"):
        delete(postgres)
    assert len(postgres.ids("data")) == 1_000


def test_a_trigger_that_was_made_since_the_last_run_stops_the_next(ground: Ground) -> None:
    make(ground)
    delete(ground)
    ground.run(*TRIGGERS[ground.kind])

    with pytest.raises(RuleRefusedError, match="loud"):
        delete(ground)
    assert len(ground.ids("data")) == 1_000


def test_an_index_that_was_dropped_since_the_last_run_stops_the_next(ground: Ground) -> None:
    make(ground, rows=10_600)
    delete(ground)
    ground.run("DROP INDEX by_age")

    with pytest.raises(RuleRefusedError, match=r"no index of .*data serves at"):
        delete(ground)
    assert len(ground.ids("data")) == 10_100


def test_an_index_of_the_same_name_that_serves_some_rows_only_is_judged_again(ground: Ground) -> None:
    make(ground, rows=10_600)
    delete(ground)
    ground.run("DROP INDEX by_age", "CREATE INDEX by_age ON data (at) WHERE id < 0")

    with pytest.raises(RuleRefusedError, match=r"no index of .*data serves at"):
        delete(ground)


def test_a_column_that_was_filled_otherwise_since_the_last_run_stops_the_next(ground: Ground) -> None:
    ground.run("CREATE TABLE data (id {key}, at bigint)", "CREATE INDEX by_age ON data (at)")
    ground.fill("data", [(n, ms(ago(days=91)) + n) for n in range(20)])
    assert delete(ground, limit=10, table=NUMBERS).deleted == 10
    ground.run("UPDATE data SET at = at / 1000")

    with pytest.raises(RuleRefusedError, match="seconds since 1970"):
        delete(ground, limit=10, table=NUMBERS)
    assert len(ground.ids("data")) == 10


def test_another_table_of_the_name_is_another_table(postgres: Ground) -> None:
    make(postgres)
    delete(postgres)
    database = urlsplit(postgres.url).path.strip("/")
    postgres.run(
        "CREATE SCHEMA nearer",
        "CREATE TABLE nearer.data (id bigint PRIMARY KEY, at text)",
        f'ALTER DATABASE "{database}" SET search_path = nearer, public',
    )

    with pytest.raises(GandyError, match="holds no instant"):
        delete(postgres)
    assert postgres.rows("SELECT count(*) FROM public.data") == [(1_000,)]


def test_state_that_was_dropped_since_the_last_run_is_made_again(ground: Ground) -> None:
    make(ground)
    delete(ground)
    for name in ("lease", "rule", "quarantine", "audit"):
        ground.run(f"DROP TABLE gandy_lifecycle_{name}")
        assert delete(ground, limit=100).deleted == 100

    assert ground.rows("SELECT count(*) FROM gandy_lifecycle_rule") == [(1,)]


@pytest.fixture
def sweeper(postgres: Ground) -> Iterator[str]:
    """A role that may sweep the table."""
    name = f"sweeper_{urlsplit(postgres.url).path.strip('/')}"
    make(postgres)
    delete(postgres, limit=1)
    postgres.run(
        f"CREATE ROLE {name} LOGIN",
        f"GRANT USAGE ON SCHEMA public TO {name}",
        f"GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA public TO {name}",
    )
    yield name
    postgres.run(f"DROP OWNED BY {name}", f"DROP ROLE {name}")


@pytest.mark.parametrize(
    ("table", "right", "error"),
    [
        ("data", "DELETE", RuleRefusedError),
        ("data", "SELECT", RuleRefusedError),
        ("gandy_lifecycle_lease", "UPDATE", StateObstructedError),
        ("gandy_lifecycle_rule", "UPDATE", StateObstructedError),
        ("gandy_lifecycle_quarantine", "SELECT", StateObstructedError),
    ],
)
def test_a_right_that_was_revoked_since_the_last_run_stops_the_next(
    postgres: Ground, sweeper: str, table: str, right: str, error: type[GandyError]
) -> None:
    parts = urlsplit(postgres.url)
    them = Ground(parts._replace(netloc=f"{sweeper}@{parts.netloc.rpartition('@')[2]}").geturl())
    assert delete(them, limit=99).deleted == 99
    postgres.run(f"REVOKE {right} ON {table} FROM {sweeper}")

    with pytest.raises(
        error, match=f"{right}.* ON .*{table}|may not read and write {table}|lacks {right} on"
    ):
        delete(them)
    assert len(postgres.ids("data")) == 1_400
