"""A folder in memory for files that are committed often, where the machine has one with room."""

from __future__ import annotations

import os
import shutil
import tempfile
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

_MEMORY = Path("/dev/shm")  # noqa: S108  # emptied by the block that uses it
_GIBIBYTE = 1024**3


def quick_place(room: int) -> Path | None:
    """Find a place in memory with this many gibibytes free; None where the machine has none."""
    if os.access(_MEMORY, os.W_OK | os.X_OK) and shutil.disk_usage(_MEMORY).free >= room * _GIBIBYTE:
        return _MEMORY
    return None


@contextmanager
def quick_folder(prefix: str) -> Iterator[Path]:
    """A folder that goes with the block; a commit there waits for no disk, which would prove nothing."""
    with tempfile.TemporaryDirectory(prefix=prefix, dir=quick_place(2), ignore_cleanup_errors=True) as folder:
        yield Path(folder)
