"""Access control lists, which grant single users and groups what a file's mode does not show."""

from __future__ import annotations

import os
import struct
import sys
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

_ATTRIBUTE: Final = "system.posix_acl_access"
_HEADER: Final = struct.calcsize("<I")
_ENTRY: Final = struct.Struct("<HHI")  # the kind of entry, its rights, the user or group
_USER, _GROUP, _MASK = 0x02, 0x08, 0x10
_WRITE: Final = 0o2
_ROOT: Final = 0


def lets_others_write(file: Path | int, found: os.stat_result) -> bool:
    """Tell whether the list names a user or a group that may write, other than root and the owner."""
    entries = list(_entries(file))
    masks = [rights for kind, rights, _ in entries if kind == _MASK]
    mask = masks[0] if masks else _WRITE
    users = {number for kind, rights, number in entries if kind == _USER and rights & mask & _WRITE}
    groups = {number for kind, rights, number in entries if kind == _GROUP and rights & mask & _WRITE}
    return bool(users - {_ROOT, found.st_uid} or groups - {_ROOT})


def _entries(file: Path | int) -> Iterator[tuple[int, int, int]]:
    if sys.platform != "linux":  # others keep such lists elsewhere
        return
    try:
        written = os.getxattr(file, _ATTRIBUTE)
    except OSError:  # it has none, or the file system knows none
        return
    yield from _ENTRY.iter_unpack(written[_HEADER:])
