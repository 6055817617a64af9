"""A plugin of pytest: a test of a pair has to fail while its feature is switched off."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from gandy.errors import GandyError
from tests.matrix.switches import SWITCHES
from tests.matrix.switching import switched_off

if TYPE_CHECKING:
    from collections.abc import Generator


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
        except (
            AssertionError,
            GandyError,
            pytest.fail.Exception,
        ):  # any other error is one of the mistake itself
            return True
    pytest.fail(f"this test passes without the feature: {feature}", pytrace=False)
