"""The kinds of a test are those of its pairs."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.support.worlds import migrated_url

if TYPE_CHECKING:
    import pytest

__all__ = ["migrated_url"]


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Run a test once for each kind that its marks name."""
    marks = list(metafunc.definition.iter_markers("pair"))
    if "kind" in metafunc.fixturenames and marks:
        metafunc.parametrize("kind", [kind for mark in marks for kind in mark.args[1].split()])
