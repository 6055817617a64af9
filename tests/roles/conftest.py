from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import pytest

from tests.cli.conftest import folder, gandy
from tests.roles.journey import Operator

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from tests.cli.conftest import Gandy

__all__ = ["folder", "gandy"]


@pytest.fixture
def operator(gandy: Gandy, folder: Path) -> Iterator[Callable[[str], Operator]]:
    """Make operators of databases; their application is forgotten afterwards."""
    path = list(sys.path)
    yield lambda url: Operator(gandy, folder, url)
    sys.path[:] = path
    sys.modules.pop("billing", None)
