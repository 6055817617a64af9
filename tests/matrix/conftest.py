"""The kinds of a test are those of its pairs; some pairs are run with the feature switched off, too."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Final

import pytest

from tests.matrix import inverting
from tests.matrix.inverting import ALONE
from tests.support.worlds import migrated_url

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["migrated_url"]

FOLDER: Final = Path(__file__).parent
#: PostgreSQL runs one pair of eight: most decisions do not know the database.
SHARE: Final = 8


def pytest_configure(config: pytest.Config) -> None:
    """Let a test that is marked so run without its feature; `make interactions` loads the plugin itself."""
    if not config.pluginmanager.is_registered(inverting):
        config.pluginmanager.register(inverting)


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Run a test once for each kind that its mark names."""
    mark = metafunc.definition.get_closest_marker("pair")
    if mark is not None and "kind" in metafunc.fixturenames:
        metafunc.parametrize("kind", list(_kinds(*mark.args)))


def _kinds(feature: str, named: str) -> Iterator[object]:
    kinds = named.split()
    yield from kinds
    for kind in {} if ALONE else {kinds[0]: 0, kinds[-1]: 0}:
        yield pytest.param(kind, id=f"{kind} without", marks=pytest.mark.switched_off(feature))


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave most pairs of PostgreSQL out, but for those that are about it."""
    if ALONE:
        return
    ours = [item for item in items if FOLDER in item.path.parents]
    on_postgres = [item for item in ours if item.get_closest_marker("postgres")]
    left_out = {item for number, item in enumerate(on_postgres) if not _is_run(item, number)}
    config.hook.pytest_deselected(items=list(left_out))
    items[:] = [item for item in items if item not in left_out]


def _is_run(item: pytest.Item, number: int) -> bool:
    if item.get_closest_marker("switched_off") is not None:
        return False
    pair = item.get_closest_marker("pair")
    return number % SHARE == 0 or (pair is not None and pair.args[0] == "both databases")
