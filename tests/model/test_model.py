from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest
from hypothesis import HealthCheck, settings
from hypothesis.stateful import run_state_machine_as_test

from tests.model.machine import Life
from tests.model.site import Site
from tests.support.pasts import prepare
from tests.support.world import START

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.support.databases import DatabaseHome

STEPS = 50


def drive(home: DatabaseHome, examples: int) -> None:
    with home.database(home.template("past", prepare)) as url:
        site = Site(url, START)

        class Here(Life):
            pass

        Here.site = site
        try:
            run_state_machine_as_test(
                Here,
                settings=settings(
                    max_examples=examples,
                    stateful_step_count=STEPS,
                    deadline=None,
                    suppress_health_check=list(HealthCheck),
                ),
            )
        finally:
            site.close()


def test_sqlite(sqlite_home) -> None:
    drive(sqlite_home, int(os.environ.get("EX", "20")))


def test_postgres(postgres_server) -> None:
    drive(postgres_server, int(os.environ.get("EX", "20")))
