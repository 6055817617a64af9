"""What this user keeps: the token that was made for this machine, and where its dashboard listens."""

from __future__ import annotations

import hashlib
import json
import secrets
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Final

from gandy.errors import KeptFileError
from gandy.settings.kinds import is_token
from gandy.store.drivers.database import identity_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from gandy.web.access.state_folder import StateFolder

#: A token that was not used for this long is forgotten: databases come and go.
UNUSED_SECONDS: Final = 90 * 86_400
_KEPT: Final = ".token"
_PLACE: Final = ".up"


@dataclass(frozen=True, slots=True)
class Place:
    """Where a running process serves the dashboard of an application."""

    pid: int
    host: str
    port: int
    owner: str
    token: str | None  #: which token leads in, by the name that sessions know it by

    @property
    def address(self) -> str:
        """The URL of the dashboard, from this machine."""
        host = {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(self.host, self.host)  # noqa: S104 nothing listens here
        return f"http://{f'[{host}]' if ':' in host else host}:{self.port}"


def keep_token(folder: StateFolder, stem: str) -> str:
    """Give the token that is kept under this name; the first time, make it."""
    name = f"{stem}{_KEPT}"
    if folder.read(name) is None:
        _forget_unused(folder)
        folder.write_new(name, f"{secrets.token_urlsafe(32)}\n")
    token = read_token(folder, stem)
    if token is None:
        raise KeptFileError(folder.path / name, "was taken away: start again")
    folder.touch(name)
    return token


def read_token(folder: StateFolder, stem: str) -> str | None:
    """Read the token that is kept under this name; None where there is none."""
    name = f"{stem}{_KEPT}"
    content = folder.read(name)
    if content is None:
        return None
    token = content.removesuffix("\n")
    if not is_token(token):
        raise KeptFileError(folder.path / name, "holds no token: remove it, and the next start makes another")
    return token


@contextmanager
def announced(folder: StateFolder, stem: str, place: Place) -> Iterator[None]:
    """Say where the dashboard listens for as long as the block runs."""
    running_places(folder, stem)  # which removes what a killed process left
    with folder.locked(f"{stem}.{place.pid}-{secrets.token_hex(4)}{_PLACE}", json.dumps(asdict(place))):
        yield


def running_places(folder: StateFolder, beginning: str) -> list[Place]:
    """List the processes that say so and live; what a dead one left is removed."""
    found = []
    for name in folder.names(_PLACE, beginning=beginning):
        if not folder.is_locked(name):
            folder.remove(name)
            continue
        with suppress(ValueError, TypeError):  # of another version, which writes it otherwise
            found.append(Place(**json.loads(folder.read(name) or "{}")))
    return found


def stem_of(url: str, owner: str) -> str:
    """Name the files of an application on a database: a digest for each."""
    return f"{database_stem(url)}{_digest(owner)}"


def database_stem(url: str) -> str:
    """Begin the names of the files of all applications on a database; passwords and users play no part."""
    return f"{_digest(identity_of(url))}-"


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode(errors="surrogatepass")).hexdigest()[:20]


def _forget_unused(folder: StateFolder) -> None:
    for name in folder.names(_KEPT):
        with suppress(FileNotFoundError):
            if folder.age(name) > UNUSED_SECONDS:
                folder.remove(name)
