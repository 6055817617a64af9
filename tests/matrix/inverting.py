"""A plugin of pytest: a test of a pair has to fail while its feature is switched off."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Final

import pytest

from gandy.errors import GandyError
from tests.matrix.switches import SWITCHES
from tests.matrix.switching import switched_off

if TYPE_CHECKING:
    from collections.abc import Generator

#: Set by `make interactions` to the feature that it switches off: every test of a pair is run on every
#: database, and only without the feature.
ALONE: Final = os.environ.get("GANDY_TEST_WITHOUT")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Switch the feature off in all tests that are marked with it."""
    for item in items if ALONE else ():
        pairs = [mark.args[0] for mark in item.iter_markers("pair")]
        if ALONE in pairs and item.get_closest_marker("switched_off") is None:
            item.add_marker(pytest.mark.switched_off(ALONE))


@pytest.hookimpl(wrapper=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> Generator[None, object, object]:
    """Run a test that is marked so with its feature switched off, and expect that it fails."""
    mark = pyfuncitem.get_closest_marker("switched_off")
    if mark is None:
        return (yield)
    (feature,) = mark.args
    with switched_off(SWITCHES[feature]):
        try:
            yield
        except (AssertionError, GandyError, pytest.fail.Exception):
            return True
        except ValueError as error:  # `(run,) = ...` found another number; else the mistake itself is broken
            if "values to unpack" in str(error):
                return True
            raise
    pytest.fail(f"this test passes without the feature: {feature}", pytrace=False)
