"""A hundred and twenty random lives of fifty steps; a failing one is printed as the calls that lead to it.

The lives are the same in every run. GANDY_TEST_MODEL_EXAMPLES=5000 lives that many others in each test.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest
from hypothesis import HealthCheck, seed, settings
from hypothesis.stateful import run_state_machine_as_test

from tests.model.machine import Life
from tests.model.site import Site
from tests.support.pasts import prepare
from tests.support.world import START

if TYPE_CHECKING:
    from tests.support.databases import DatabaseHome, SqliteHome
    from tests.support.postgres import PostgresServer

STEPS = 50
PARTS = 4
MORE = os.environ.get("GANDY_TEST_MODEL_EXAMPLES")
ON_SQLITE = int(MORE or 27)
ON_POSTGRES = int(MORE or 6)

pytestmark = pytest.mark.timeout(0 if MORE else 900)  # a failure is made shorter before it is shown


@pytest.mark.parametrize("part", range(PARTS))
def test_no_life_breaks_an_invariant_on_sqlite(part: int, sqlite_home: SqliteHome) -> None:
    live(sqlite_home, part, ON_SQLITE)


@pytest.mark.parametrize("part", range(2))
def test_no_life_breaks_an_invariant_on_postgresql(part: int, postgres_server: PostgresServer) -> None:
    live(postgres_server, PARTS + part, ON_POSTGRES)


def live(home: DatabaseHome, part: int, examples: int) -> None:
    """Live on one database, which is emptied after each life."""
    with home.database(home.template("past", prepare)) as url, pytest.MonkeyPatch.context() as patch:
        site = Site(url, START)
        patch.setattr("gandy.rules.recurring.scheduled_at", site.jittered)
        machine = type("Life", (Life,), {"site": site})
        try:
            run_state_machine_as_test(
                machine if MORE else seed(part)(machine),
                settings=settings(
                    max_examples=examples,
                    stateful_step_count=STEPS,
                    deadline=None,
                    database=None,
                    suppress_health_check=list(HealthCheck),
                ),
            )
        finally:
            site.close()
