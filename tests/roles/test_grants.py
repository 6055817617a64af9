"""What `gandy migrate --grants` prints is enough for a role, and each of it is needed."""

from __future__ import annotations

import asyncio
import json
import re
from typing import TYPE_CHECKING, Any, NamedTuple

import psycopg
import pytest

from gandy.app.running import TICKS
from gandy.store.statements import load_statements
from tests.roles.hostile import as_role, make_role
from tests.roles.journey import operate, serve

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from tests.cli.conftest import Gandy
    from tests.roles.journey import Operator
    from tests.support.postgres import PostgresServer

    Connection = psycopg.Connection[Any]

pytestmark = [pytest.mark.postgres, pytest.mark.timeout(180)]

KEEPER, RUNNER, READER = "gandy_test_keeper", "gandy_test_runner", "gandy_test_reader"
GRANT = re.compile(r"GRANT (?P<privileges>[A-Z, ]+) ON (?P<object>.+) TO (?P<role>.+);")
PARAMETER = re.compile(r"%\((\w+)\)s")
COMMANDS = (
    ["sync"],
    *(["tick", service] for service in TICKS),
    ["queue", "enqueue", "send", "--input", "1", "--unique-for", "1ms"],
    ["runs", "list"],
    ["workers", "list"],
    ["dead-letters", "list"],
    ["manifests", "trigger", "weekly"],
    ["manifests", "cancel", "weekly"],
    ["work", "--until-idle"],
    ["up", "--services", "worker"],
)
READABLE = {"manifest_group", "manifest", "work_queue", "metadata", "log", "dead_letter", "worker"}
NOT_EXPLAINED = {"listen"}


class Cast(NamedTuple):
    """One database as its superuser, the role that maintains it and the role that runs on it see it."""

    admin: Connection
    keeper: str
    runner: str
    granted: list[str]

    def apply(self, statements: list[str]) -> None:
        for each in statements:
            self.admin.execute(each.encode())


@pytest.fixture
def stage(postgres_server: PostgresServer, operator: Callable[[str], Operator]) -> Iterator[Cast]:
    """A database that a role without any other right has migrated, by the printed grants alone."""
    with (
        postgres_server.database() as url,
        psycopg.connect(url, autocommit=True) as admin,
    ):
        for role in (KEEPER, RUNNER, READER):
            make_role(admin, role)
        keeper, runner = as_role(url, KEEPER), as_role(url, RUNNER)
        stage = Cast(admin, keeper, runner, [])
        stage.apply(operator(url).json("migrate", "--grants", KEEPER)["maintain"])
        operator(keeper)("migrate")
        stage.granted.extend(operator(keeper).json("migrate", "--grants", RUNNER)["run"])
        stage.apply(stage.granted)
        yield stage
        admin.execute("DROP SCHEMA gandy CASCADE")


def test_the_journeys_run_by_the_printed_grants_alone(
    stage: Cast, operator: Callable[[str], Operator]
) -> None:
    asyncio.run(serve(stage.runner, is_read=True))
    operate(operator(stage.runner))

    operator(stage.keeper)("tick", "lifecycle", "--yes")
    assert operator(stage.keeper).json("migrate", "--grants", KEEPER)["maintain"] == []


def test_no_statement_is_refused_with_the_printed_grants_and_some_are_without_each_one(stage: Cast) -> None:
    assert [name for name in load_statements("postgres") if is_refused(stage.admin, name)] == [
        "record_migration"
    ]

    needless = [
        (privilege, found["object"])
        for found in map(GRANT.fullmatch, stage.granted)
        if found is not None and not found["object"].startswith("SEQUENCE")
        for privilege in found["privileges"].split(", ")
        if not is_needed(stage.admin, privilege, found["object"])
    ]

    assert needless == []


def is_needed(admin: Connection, privilege: str, object_name: str) -> bool:
    """Whether PostgreSQL refuses a statement once this privilege is taken away."""
    word = object_name.removeprefix("SCHEMA ")
    with admin.transaction(force_rollback=True):
        admin.execute(f"REVOKE {privilege} ON {object_name} FROM {RUNNER}".encode())
        return any(
            is_refused(admin, name)
            for name, text in load_statements("postgres").items()
            if name != "record_migration" and re.search(rf"\b{re.escape(word)}\b", text)
        )


def is_refused(admin: Connection, name: str) -> bool:
    """Whether the role that runs may not send a statement; it is planned, and not executed."""
    if name in NOT_EXPLAINED:
        return False
    numbers: dict[str, int] = {}
    text = PARAMETER.sub(
        lambda found: f"${numbers.setdefault(found[1], len(numbers) + 1)}", load_statements("postgres")[name]
    )
    with admin.transaction(force_rollback=True):
        admin.execute(f"SET LOCAL ROLE {RUNNER}".encode())
        try:
            admin.execute(f"EXPLAIN (GENERIC_PLAN) {text.replace('%%', '%')}".encode())
        except psycopg.errors.InsufficientPrivilege:
            return True
        except psycopg.errors.IndeterminateDatatype:  # of a parameter of which nothing says it
            return False
    return False


def test_each_missing_grant_is_one_line_that_names_it(
    stage: Cast, operator: Callable[[str], Operator]
) -> None:
    call = operator(stage.runner)
    for command in COMMANDS[:-1]:
        call(*command)

    for granted in stage.granted:
        found = GRANT.fullmatch(granted)
        assert found is not None
        stage.admin.execute(f"REVOKE ALL ON {found['object']} FROM {RUNNER}".encode())
        refusal = next(said for command in COMMANDS if (said := call.refusal(*command)))
        assert granted in refusal, (granted, refusal)
        assert refusal.count("\n") == 1
        stage.admin.execute(granted.encode())


def test_a_role_without_any_right_is_told_what_to_do(
    stage: Cast, operator: Callable[[str], Operator]
) -> None:
    stage.admin.execute(f"DROP OWNED BY {RUNNER}".encode())
    call = operator(stage.runner)

    for command in (*COMMANDS, ["migrate"], ["migrate", "--check"], ["migrate", "--sql"]):
        refusal = call.refusal(*command)
        assert refusal.count("\n") == 1
        assert f"--grants {RUNNER}" in refusal
    assert f"--grants {RUNNER}" in call("doctor", code=1)


def test_outsiders_read_the_tables_of_the_contract_and_no_other(
    stage: Cast, operator: Callable[[str], Operator]
) -> None:
    stage.apply(operator(stage.keeper).json("migrate", "--grants", READER)["read"])

    rows = stage.admin.execute(
        "SELECT relname FROM pg_class WHERE relnamespace = 'gandy'::regnamespace AND relkind <> 'i'"
        " AND has_table_privilege(%s, oid, 'SELECT') AND NOT has_table_privilege(%s, oid, 'INSERT')",
        [READER, READER],
    ).fetchall()
    assert {name for (name,) in rows} == READABLE


def test_the_printed_script_runs_as_it_stands(postgres_url: str, gandy: Gandy) -> None:
    name = 'an "odd"\nrole; DROP TABLE x --'
    quoted = '"an ""odd""\nrole; DROP TABLE x --"'
    asked = ("--database", postgres_url, "migrate", "--grants", name)
    with psycopg.connect(postgres_url, autocommit=True) as admin:
        admin.execute(f"CREATE ROLE {quoted}".encode())
        parts = [json.loads(gandy(*asked, "--json").stdout)]
        admin.execute(gandy(*asked).stdout.encode())
        admin.execute("DROP SCHEMA gandy")
        gandy("--database", postgres_url, "migrate")
        parts += [json.loads(gandy(*asked, "--json").stdout)]
        admin.execute(gandy(*asked).stdout.encode())

        assert [(part["owner"], part["is_migrated"]) for part in parts] == [
            (None, False),
            (admin.info.user, True),
        ]
        owners = admin.execute(
            "SELECT relowner::regrole::text FROM pg_class WHERE relname = 'worker'"
        ).fetchall()
        assert owners == [(admin.info.user,)]
        admin.execute(f"DROP OWNED BY {quoted} CASCADE; DROP ROLE {quoted}".encode())


def test_who_takes_a_schema_over_owns_all_of_it(stage: Cast, operator: Callable[[str], Operator]) -> None:
    stage.apply(operator(stage.keeper).json("migrate", "--grants", RUNNER)["maintain"])

    assert operator(stage.runner).json("migrate", "--grants", RUNNER)["maintain"] == []
    operator(stage.runner)("tick", "lifecycle", "--yes")


@pytest.mark.parametrize("others", [["--check"], ["--sql"]])
def test_grants_are_asked_for_alone(gandy: Gandy, sqlite_url: str, others: list[str]) -> None:
    assert gandy("--database", sqlite_url, "migrate", "--grants", "x", *others).exit_code == 2


def test_sqlite_has_no_roles(gandy: Gandy, sqlite_url: str) -> None:
    refused = gandy("--database", sqlite_url, "migrate", "--grants", "x")

    assert refused.exit_code == 2
    assert "SQLite has no roles" in refused.stderr
