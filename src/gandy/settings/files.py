"""Find the settings file, and read it only if no other user can write to it."""

from __future__ import annotations

import errno
import grp
import os
import pwd
import stat
import struct
import sys
import tomllib
from itertools import takewhile
from typing import TYPE_CHECKING, Final

from gandy.errors import SettingsFileError, UntrustedFileError

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
    """Return whether the access control list lets a user or group write, other than root and the owner."""
    entries = list(_entries(file))
    masks = [rights for kind, rights, _ in entries if kind == _MASK]
    mask = masks[0] if masks else _WRITE
    users = {number for kind, rights, number in entries if kind == _USER and rights & mask & _WRITE}
    groups = {number for kind, rights, number in entries if kind == _GROUP and rights & mask & _WRITE}
    return bool(users - {_ROOT, found.st_uid} or groups - {_ROOT})


def _entries(file: Path | int) -> Iterator[tuple[int, int, int]]:
    if sys.platform != "linux":  # other systems store access control lists differently
        return
    try:
        written = os.getxattr(file, _ATTRIBUTE)
    except OSError:  # it has no list, or the file system does not support them
        return
    yield from _ENTRY.iter_unpack(written[_HEADER:])


FILE_NAME: Final = "gandy.toml"
#: The entries that mark the root of a project, the strongest first.
_MARKS: Final = (".git", "pyproject.toml")
_MOST_LINKS: Final = 40


def find_settings_file(directory: Path) -> Path | None:
    """Look in the folder, then in those above it that belong to the same project.

    The project's root is the nearest folder with .git, else the nearest with pyproject.toml; without either,
    only the folder itself counts. The search stops below a folder of another owner, or one that others can
    write to.
    """
    for folder in _project_folders(directory):
        path = folder / FILE_NAME
        if os.path.lexists(path):
            return path
    return None


def read_settings_file(path: Path) -> dict[str, object]:
    """Read the whole document; refuse, before parsing, a file that others could have written."""
    try:
        return tomllib.loads(trusted_bytes(path).decode("utf-8"))
    except tomllib.TOMLDecodeError as error:
        raise SettingsFileError(path, f"is not TOML: {error}") from error
    except (UnicodeDecodeError, RecursionError) as error:
        problem = "is nested too deeply" if isinstance(error, RecursionError) else "is not text in UTF-8"
        raise SettingsFileError(path, problem) from error
    except OSError as error:
        raise SettingsFileError(path, f"cannot be read: {error.strerror}") from error


def distrust(folder: Path) -> str | None:
    """Return the reason not to import from a folder; None: it is trusted."""
    try:
        _refuse_foreign(folder / FILE_NAME, folder, folder.stat())
    except UntrustedFileError as error:
        return error.reason
    except OSError as error:
        return f"the folder {folder} cannot be read: {error.strerror}"
    return None


def _project_folders(directory: Path) -> list[Path]:
    reachable = [directory, *_reachable_above(directory)]
    for mark in _MARKS:
        for position, folder in enumerate(reachable):
            if os.path.lexists(folder / mark):
                return reachable[: position + 1]
    return [directory]


def _reachable_above(directory: Path) -> Iterator[Path]:
    try:
        owner = directory.stat().st_uid
    except OSError:
        return iter(())
    return takewhile(lambda folder: _is_kept_by(owner, folder), directory.parents)


def _is_kept_by(owner: int, folder: Path) -> bool:
    try:
        found = folder.stat()
    except OSError:
        return False
    return found.st_uid == owner and not _can_others_write(found)


def trusted_bytes(path: Path, *, is_secret: bool = False, most: int = -1) -> bytes:
    """Check the path to the file, then the open file, so that the checked file is the one that is read.

    A file of secrets may be in a sticky folder, as mounted by orchestrators: others cannot replace it.
    """
    _refuse_foreign_links(path, is_secret=is_secret)
    descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    with open(descriptor, "rb") as file:  # noqa: PTH123 - the path could point to another file by now
        found = os.fstat(descriptor)
        _refuse_foreign(path, path, found)
        if lets_others_write(descriptor, found):
            raise UntrustedFileError(path, "its access control list lets other users write to it")
        if not stat.S_ISREG(found.st_mode):
            raise SettingsFileError(
                path, f"is {'a folder' if stat.S_ISDIR(found.st_mode) else 'not a regular file'}"
            )
        return file.read(most)


def _refuse_foreign_links(path: Path, *, is_secret: bool) -> None:
    """Check each link of the path, its folder and the file's folder; for secrets, every folder above."""
    hop = whole = path.absolute()
    for _ in range(_MOST_LINKS):
        hop.parent.stat()  # raises for a cycle of links
        for folder in reversed(hop.parents):
            if folder.is_symlink():
                _refuse_foreign_links(folder, is_secret=is_secret)
            elif is_secret or folder == hop.parent:
                _refuse_folder(path, folder, allows_sticky=is_secret)
        _refuse_owner(path, path if hop == whole else hop, hop.lstat())
        if not hop.is_symlink():
            return
        hop = hop.parent / hop.readlink()
    raise OSError(errno.ELOOP, os.strerror(errno.ELOOP))


def _refuse_folder(path: Path, folder: Path, *, allows_sticky: bool) -> None:
    found = folder.stat()
    if allows_sticky and found.st_mode & stat.S_ISVTX:
        _refuse_owner(path, folder, found)
        return
    _refuse_foreign(path, folder, found)
    if lets_others_write(folder, found):
        raise UntrustedFileError(path, f"the access control list of {folder} lets other users write to it")


def _refuse_foreign(path: Path, judged: Path, found: os.stat_result) -> None:
    _refuse_owner(path, judged, found)
    if _can_others_write(found):
        raise UntrustedFileError(path, f"other users can write to {_named(path, judged)}")


def _refuse_owner(path: Path, judged: Path, found: os.stat_result) -> None:
    if found.st_uid not in {_ROOT, os.geteuid()}:
        raise UntrustedFileError(path, f"{_named(path, judged)} belongs to {_user_name(found.st_uid)}")


def _named(path: Path, judged: Path) -> str:
    return "it" if judged == path else str(judged)


def _can_others_write(found: os.stat_result) -> bool:
    """Return whether others can write; a group counts unless it is root's or the owner's private group."""
    if stat.S_IMODE(found.st_mode) & stat.S_IWOTH:
        return True
    return bool(stat.S_IMODE(found.st_mode) & stat.S_IWGRP) and not _is_private_group(found)


def _is_private_group(found: os.stat_result) -> bool:
    """Return whether it is a user's private group, which many systems create and let write by the umask."""
    if found.st_gid == _ROOT:
        return True
    try:
        owner, group = pwd.getpwuid(found.st_uid), grp.getgrgid(found.st_gid)
    except KeyError:
        return found.st_gid == found.st_uid
    return (
        owner.pw_gid == group.gr_gid
        and owner.pw_name == group.gr_name
        and set(group.gr_mem) <= {owner.pw_name}
    )


def _user_name(user: int) -> str:
    try:
        return f"user {pwd.getpwuid(user).pw_name}"
    except KeyError:
        return f"user {user}"


_LAYOUT: Final = frozenset("\n\t")


def one_line(text: str) -> str:
    """Escape every character that is not printable, line ends included."""
    if text.isprintable():
        return text
    return "".join(each if each.isprintable() else _escaped(each) for each in text)


def many_lines(text: str) -> str:
    """Escape a text of several lines, such as a stack trace, except for line ends and tabs."""
    if text.isprintable():
        return text
    return "".join(each if each.isprintable() or each in _LAYOUT else _escaped(each) for each in text)


def _escaped(character: str) -> str:
    return character.encode("unicode_escape").decode("ascii")
