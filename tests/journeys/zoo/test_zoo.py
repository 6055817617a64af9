"""Short forms of the zoos; `make zoo` runs the long ones."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest

from tests.journeys.zoo.keeping import Plan, keep

if TYPE_CHECKING:
    from pathlib import Path

#: Of these runs; `GANDY_TEST_ZOO_SEED=N` replays another one.
SEED = int(os.environ.get("GANDY_TEST_ZOO_SEED", "11"))

pytestmark = pytest.mark.timeout(240)


def test_no_ending_that_leaves_the_process_alive_touches_an_innocent_job(
    migrated_url: str, tmp_path: Path
) -> None:
    plan = Plan("alive", 200, SEED)

    assert keep(plan, migrated_url, tmp_path).faults_of_the_living == {}, plan


def test_every_innocent_job_is_once_on_record_although_others_kill_the_process(
    migrated_url: str, tmp_path: Path
) -> None:
    plan = Plan("deadly", 40, SEED)

    assert keep(plan, migrated_url, tmp_path).faults == {}, plan
