"""Tests of one group run in one worker, which alone makes what they share."""

from __future__ import annotations

import os

import pytest


@pytest.mark.xdist_group("together")
def test_the_group_of_a_test_is_named_where_xdist_looks_for_it(request: pytest.FixtureRequest) -> None:
    is_parallel = "PYTEST_XDIST_WORKER" in os.environ

    assert request.node.nodeid.endswith("@together") == is_parallel
