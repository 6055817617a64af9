"""Sessions and login codes, and the state folder with the generated token of a host."""

from __future__ import annotations

import base64
import errno
import fcntl
import hashlib
import hmac
import json
import os
import re
import secrets
import stat
import time
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Final

from gandy.errors import KeptFileError
from gandy.settings.kinds import is_token
from gandy.store.audit import WebKey, find_web_key, keep_web_key, take_web_key
from gandy.store.drivers.database import identity_of

if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Self

    from starlette.requests import HTTPConnection

    from gandy.store.audit import KeyKind
    from gandy.store.drivers.database import ReadingRunner
    from gandy.web.access.tokens import Role, Token, Tokens


_COOKIE: Final = "gandy_session"
SESSION_FOR: Final = timedelta(hours=12)
CODE_FOR: Final = timedelta(minutes=10)
LONGEST_NAME: Final = 80
_TEXT: Final = re.compile(r"(?P<id>[A-Za-z0-9_-]{16})\.(?P<signature>[A-Za-z0-9_-]{32})")


@dataclass(frozen=True, slots=True)
class WebSession:
    """A login session; `text` is the cookie."""

    id: str
    token: Token
    name: str
    text: str
    form_token: str  #: the CSRF token of its forms

    @property
    def role(self) -> Role:
        """The current role of its token."""
        return self.token.role


class Keyring:
    """Creates and verifies the sessions and login codes of one application."""

    def __init__(self, database: ReadingRunner, owner: str) -> None:
        self._database = database
        self._owner = owner

    async def open_session(self, token: Token, name: str) -> WebSession:
        """Create a session."""
        return _session(await self._make("session", token, name, SESSION_FOR), token)

    async def find_session(self, text: str | None, tokens: Tokens) -> WebSession | None:
        """Return the session of a cookie with a valid signature, not expired, whose token is still valid."""
        parts = _TEXT.fullmatch(text or "")
        if parts is None:
            return None
        key = await self._database.read(find_web_key(self._owner, "session", parts["id"]))
        token = _fitting("session", key, tokens, parts["signature"])
        return None if key is None or token is None else _session(key, token)

    async def end_session(self, session: WebSession) -> None:
        """Delete a session."""
        await self._database.run(take_web_key(self._owner, "session", session.id))

    async def make_code(self, token: Token) -> str:
        """Create a one-time login code with the role of this token."""
        return _text("code", await self._make("code", token, token.name, CODE_FOR), token)

    async def redeem(self, text: str, tokens: Tokens) -> WebSession | None:
        """Consume a code and create its session; None if it is used, expired or invalid."""
        parts = _TEXT.fullmatch(text)
        if parts is None:
            return None
        key = await self._database.run(take_web_key(self._owner, "code", parts["id"]))
        token = _fitting("code", key, tokens, parts["signature"])
        return None if key is None or token is None else await self.open_session(token, key.name)

    async def _make(self, kind: KeyKind, token: Token, name: str, keep_for: timedelta) -> WebKey:
        key = WebKey(
            id=secrets.token_urlsafe(12),
            secret=secrets.token_hex(32),
            token=token.key,
            name=name[:LONGEST_NAME],
        )
        await self._database.run(keep_web_key(self._owner, kind, key, keep_for=keep_for))
        return key


def cookie_of(request: HTTPConnection) -> str:
    """Return the name of the cookie, with the port: browsers send a host's cookies to all its ports."""
    _, _, port = request.headers.get("host", "").rpartition(":")
    return f"{_COOKIE}_{port}" if port.isascii() and port.isdigit() else _COOKIE


def _session(key: WebKey, token: Token) -> WebSession:
    return WebSession(key.id, token, key.name, _text("session", key, token), _sign("form", key, token))


def _text(kind: KeyKind, key: WebKey, token: Token) -> str:
    return f"{key.id}.{_sign(kind, key, token)}"


def _fitting(kind: KeyKind, key: WebKey | None, tokens: Tokens, signature: str) -> Token | None:
    """Return the token of a key if it is still valid and the signature fits both."""
    token = None if key is None else tokens.named(key.token)
    if key is None or token is None:
        return None
    return token if hmac.compare_digest(signature, _sign(kind, key, token)) else None


def _sign(purpose: str, key: WebKey, token: Token) -> str:
    made_of_both = hmac.new(bytes.fromhex(key.secret), token.digest, hashlib.sha256).digest()
    signed = f"{purpose}\0{key.id}\0{key.token}\0{key.name}"
    found = hmac.new(made_of_both, signed.encode(errors="surrogatepass"), hashlib.sha256).digest()
    return base64.urlsafe_b64encode(found[:24]).decode()


#: Generated tokens unused for this long are deleted, because databases are abandoned.
UNUSED_SECONDS: Final = 90 * 86_400
_KEPT: Final = ".token"
_PLACE: Final = ".up"


@dataclass(frozen=True, slots=True)
class ServedPlace:
    """Address of a running process that serves the dashboard of an application."""

    pid: int
    host: str
    port: int
    owner: str
    token: str | None  #: the key of the token that it accepts

    @property
    def address(self) -> str:
        """The URL of the dashboard on this machine."""
        host = {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(self.host, self.host)  # noqa: S104 nothing listens here
        return f"http://{f'[{host}]' if ':' in host else host}:{self.port}"


def keep_token(folder: StateFolder, stem: str) -> str:
    """Return the stored token of this name; generate it the first time."""
    name = f"{stem}{_KEPT}"
    if folder.read(name) is None:
        _forget_unused(folder)
        folder.write_new(name, f"{secrets.token_urlsafe(32)}\n")
    token = read_token(folder, stem)
    if token is None:
        raise KeptFileError(folder.path / name, "was removed: start again")
    folder.touch(name)
    return token


def read_token(folder: StateFolder, stem: str) -> str | None:
    """Read the stored token of this name; None if there is none."""
    name = f"{stem}{_KEPT}"
    content = folder.read(name)
    if content is None:
        return None
    token = content.removesuffix("\n")
    if not is_token(token):
        raise KeptFileError(folder.path / name, "has no token: remove it, and the next start generates one")
    return token


@contextmanager
def announced(folder: StateFolder, stem: str, place: ServedPlace) -> Iterator[None]:
    """Publish the dashboard's address while the block runs."""
    running_places(folder, stem)  # removes the files of killed processes
    with folder.locked(f"{stem}.{place.pid}-{secrets.token_hex(4)}{_PLACE}", json.dumps(asdict(place))):
        yield


def running_places(folder: StateFolder, beginning: str) -> list[ServedPlace]:
    """List the live processes that serve a dashboard; remove files of dead ones, which hold no lock."""
    found = []
    for name in folder.names(_PLACE, beginning=beginning):
        if not folder.is_locked(name):
            folder.remove(name)
            continue
        with suppress(ValueError, TypeError):  # written by another version
            found.append(ServedPlace(**json.loads(folder.read(name) or "{}")))
    return found


def stem_of(url: str, owner: str) -> str:
    """Return the file name stem of an application on a database, made of two digests."""
    return f"{database_stem(url)}{_digest(owner)}"


def database_stem(url: str) -> str:
    """Return the file name prefix of a database; it does not depend on user and password."""
    return f"{_digest(identity_of(url))}-"


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode(errors="surrogatepass")).hexdigest()[:20]


def _forget_unused(folder: StateFolder) -> None:
    for name in folder.names(_KEPT):
        with suppress(FileNotFoundError):
            if folder.age(name) > UNUSED_SECONDS:
                folder.remove(name)


_OTHERS: Final = stat.S_IRWXG | stat.S_IRWXO
_MOST_BYTES: Final = 4_096


class StateFolder:
    """The state folder; raises OSError if it cannot be created, KeptFileError if others can access it."""

    def __init__(self, path: Path | None = None) -> None:
        self.path = path or _state_home() / "gandy"
        self.path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        with suppress(FileExistsError):
            self.path.mkdir(mode=0o700)
        self._descriptor = self._open("", os.O_RDONLY | os.O_DIRECTORY)

    def close(self) -> None:
        """Close the descriptor."""
        os.close(self._descriptor)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def names(self, ending: str, *, beginning: str = "") -> list[str]:
        """List the files with this prefix and suffix."""
        found = os.listdir(self._descriptor)  # noqa: PTH208 the checked folder, not its path
        return sorted(name for name in found if name.startswith(beginning) and name.endswith(ending))

    def read(self, name: str) -> str | None:
        """Read a file that only this user can have written; None if it does not exist."""
        try:
            descriptor = self._open(name, os.O_RDONLY | os.O_NONBLOCK)
        except FileNotFoundError:
            return None
        with os.fdopen(descriptor, "rb") as file:
            return file.read(_MOST_BYTES).decode(errors="replace")

    def write_new(self, name: str, content: str) -> None:
        """Create a file atomically; keep an existing file."""
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
        """Keep a file while the block runs, under a lock that the kernel releases if the process dies."""
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
        """Whether the process that created this file still runs."""
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
        """Update the modification time of a file."""
        os.utime(name, dir_fd=self._descriptor, follow_symlinks=False)

    def age(self, name: str) -> float:
        """Return the seconds since a file was last used."""
        return time.time() - os.stat(name, dir_fd=self._descriptor, follow_symlinks=False).st_mtime

    def remove(self, name: str) -> None:
        """Remove a file if it exists."""
        with suppress(FileNotFoundError):
            os.unlink(name, dir_fd=self._descriptor)

    def _make(self, name: str) -> tuple[int, str]:
        made = f".{name}.{secrets.token_hex(8)}"
        flags = os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_WRONLY
        descriptor = os.open(made, flags, 0o600, dir_fd=self._descriptor)
        os.fchmod(descriptor, 0o600)  # independently of the umask
        return descriptor, made

    def _open(self, name: str, flags: int) -> int:
        """Open a file or the folder itself; refuse links and anything that other users own or can access."""
        path = self.path / name
        inside = {"dir_fd": self._descriptor} if name else {}
        try:
            descriptor = os.open(name or path, flags | os.O_NOFOLLOW, **inside)
        except OSError as error:
            if error.errno in {errno.ELOOP, errno.ENOTDIR}:
                raise KeptFileError(path, "is a link or not a folder: move it away") from error
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
        return f"others can access it: remove it, or chmod {'700' if stat.S_ISDIR(found.st_mode) else '600'}"
    if not stat.S_ISDIR(found.st_mode) and (not stat.S_ISREG(found.st_mode) or found.st_nlink > 2):  # noqa: PLR2004 two links while it is created
        return "is not a regular file, or has other links: move it away"
    return None
