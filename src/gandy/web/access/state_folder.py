"""A folder of this user's own, whose files no other user may read or could have written."""

from __future__ import annotations

import errno
import fcntl
import os
import secrets
import stat
import time
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Final

from gandy.errors import KeptFileError

if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Self

_OTHERS: Final = stat.S_IRWXG | stat.S_IRWXO
_MOST_BYTES: Final = 4_096


class StateFolder:
    """The folder itself; raises OSError where there can be none, KeptFileError where it is not safe."""

    def __init__(self, path: Path | None = None) -> None:
        self.path = path or _state_home() / "gandy"
        self.path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        with suppress(FileExistsError):
            self.path.mkdir(mode=0o700)
        self._descriptor = self._open("", os.O_RDONLY | os.O_DIRECTORY)

    def close(self) -> None:
        """Let the folder go."""
        os.close(self._descriptor)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def names(self, ending: str, *, beginning: str = "") -> list[str]:
        """List the files whose name begins and ends so."""
        found = os.listdir(self._descriptor)  # noqa: PTH208 the folder that was looked at, not its name
        return sorted(name for name in found if name.startswith(beginning) and name.endswith(ending))

    def read(self, name: str) -> str | None:
        """Read a file that only this user could have written; None where there is none."""
        try:
            descriptor = self._open(name, os.O_RDONLY | os.O_NONBLOCK)
        except FileNotFoundError:
            return None
        with os.fdopen(descriptor, "rb") as file:
            return file.read(_MOST_BYTES).decode(errors="replace")

    def write_new(self, name: str, content: str) -> None:
        """Write a file whole, or leave the one that is there."""
        descriptor, made = self._make(name)
        try:
            with os.fdopen(descriptor, "w") as file:
                file.write(content)
            with suppress(FileExistsError):
                os.link(made, name, src_dir_fd=self._descriptor, dst_dir_fd=self._descriptor)
        finally:
            self.remove(made)

    @contextmanager
    def locked(self, name: str, content: str) -> Iterator[None]:
        """Keep a file while the block runs, under a lock that ends with the process at the latest."""
        descriptor, made = self._make(name)
        with os.fdopen(descriptor, "w") as file:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            file.write(content)
            file.flush()
            os.rename(made, name, src_dir_fd=self._descriptor, dst_dir_fd=self._descriptor)
            try:
                yield
            finally:
                self.remove(name)

    def is_locked(self, name: str) -> bool:
        """Whether the process that made this file still holds it."""
        try:
            descriptor = self._open(name, os.O_RDONLY | os.O_NONBLOCK)
        except FileNotFoundError:
            return False
        with os.fdopen(descriptor, "rb") as file:
            try:
                fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
            except BlockingIOError:
                return True
        return False

    def touch(self, name: str) -> None:
        """Note that a file is in use."""
        os.utime(name, dir_fd=self._descriptor, follow_symlinks=False)

    def age(self, name: str) -> float:
        """Say for how many seconds a file was not in use."""
        return time.time() - os.stat(name, dir_fd=self._descriptor, follow_symlinks=False).st_mtime

    def remove(self, name: str) -> None:
        """Remove a file, if it is there."""
        with suppress(FileNotFoundError):
            os.unlink(name, dir_fd=self._descriptor)

    def _make(self, name: str) -> tuple[int, str]:
        made = f".{name}.{secrets.token_hex(8)}"
        flags = os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_WRONLY
        descriptor = os.open(made, flags, 0o600, dir_fd=self._descriptor)
        os.fchmod(descriptor, 0o600)  # whatever the umask takes away
        return descriptor, made

    def _open(self, name: str, flags: int) -> int:
        """Open a file or the folder itself, and refuse what another user could have put there or may read."""
        path = self.path / name
        inside = {"dir_fd": self._descriptor} if name else {}
        try:
            descriptor = os.open(name or path, flags | os.O_NOFOLLOW, **inside)
        except OSError as error:
            if error.errno in {errno.ELOOP, errno.ENOTDIR}:
                raise KeptFileError(path, "is a link or no folder: move it away") from error
            raise
        found = os.fstat(descriptor)
        problem = _problem(found)
        if problem is not None:
            os.close(descriptor)
            raise KeptFileError(path, problem)
        return descriptor


def _state_home() -> Path:
    given = Path(os.environ.get("XDG_STATE_HOME", ""))
    if given.is_absolute():
        return given
    try:
        return Path.home() / ".local" / "state"
    except RuntimeError as error:
        raise FileNotFoundError(errno.ENOENT, "this user has no home folder") from error


def _problem(found: os.stat_result) -> str | None:
    if found.st_uid != os.geteuid():
        return "belongs to another user: move it away"
    if found.st_mode & _OTHERS:
        return f"may be read by others: remove it, or chmod {'700' if stat.S_ISDIR(found.st_mode) else '600'}"
    if not stat.S_ISDIR(found.st_mode) and (not stat.S_ISREG(found.st_mode) or found.st_nlink > 2):  # noqa: PLR2004 while it is made
        return "is no file of our own: move it away"
    return None
