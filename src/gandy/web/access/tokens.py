"""Tokens: from settings and from a file."""

from __future__ import annotations

import hashlib
import hmac
import logging
import re
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar, Final, NoReturn

from gandy.errors import SettingsFileError, TokensFileError, UntrustedFileError
from gandy.settings.files import trusted_bytes
from gandy.settings.kinds import SHORTEST_TOKEN

if TYPE_CHECKING:
    from collections.abc import Iterator

    from gandy.settings import WebSettings


_log = logging.getLogger("gandy.web")

#: Roles as written in the file, and their internal names.
ROLES: Final = {"operator": "operator", "read-only": "reader", "reader": "reader"}
LONGEST_NAME: Final = 80
_DIGEST: Final = re.compile(r"[0-9a-f]{64}")
_EMPTY: Final = hashlib.sha256(b"").hexdigest()
_MOST_BYTES: Final = 1_048_576
_FIELDS: Final = 3
_MEND: Final = (
    "the file, its folder and its link must belong to the user of this process (chown) and must not be "
    "writable by others (chmod go-w)"
)


@dataclass(frozen=True, slots=True)
class TokenLine:
    """One line of the file."""

    number: int
    name: str
    role: str
    digest: bytes


class TokensFile:
    """Reads the file again whenever it has changed; an unreadable file grants no access."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._seen: tuple[object, ...] = ()
        self._lines: tuple[TokenLine, ...] = ()

    def check(self) -> None:
        """Raise if the file is unusable."""
        self._seen, self._lines = self._look(), _read(self._path)

    def refuse(self, line: int, problem: str) -> NoReturn:
        """Raise for an unusable line."""
        raise TokensFileError(self._path, problem, line=line)

    def lines(self) -> tuple[TokenLine, ...]:
        """Return the current lines; a file that became invalid is logged once and grants no access."""
        seen = self._look()
        if seen != self._seen:
            self._seen = seen
            try:
                self._lines = _read(self._path)
            except TokensFileError as error:
                _log.error("%s; none of its tokens is valid until this is fixed", error)
                self._lines = ()
        return self._lines

    def _look(self) -> tuple[object, ...]:
        try:
            found = self._path.stat()
        except OSError as error:
            return (error.errno,)
        return (found.st_dev, found.st_ino, found.st_mtime_ns, found.st_ctime_ns, found.st_size)


def _read(path: Path) -> tuple[TokenLine, ...]:
    try:
        content = trusted_bytes(path.absolute(), is_secret=True, most=_MOST_BYTES + 1)
        text = content.decode()
    except UntrustedFileError as error:
        raise TokensFileError(path, f"is not read, because {error.reason}; {_MEND}") from error
    except SettingsFileError as error:
        raise TokensFileError(path, error.problem) from error
    except OSError as error:
        raise TokensFileError(path, f"cannot be read: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise TokensFileError(path, "is not text in UTF-8") from error
    if len(content) > _MOST_BYTES:
        raise TokensFileError(path, f"is longer than {_MOST_BYTES} bytes")
    return _distinct(path, tuple(_parse(path, text)))


def _parse(path: Path, text: str) -> Iterator[TokenLine]:
    for number, line in enumerate(text.splitlines(), 1):
        content = line.strip()
        if content and not content.startswith("#"):
            yield _line(path, number, content)


def _line(path: Path, number: int, content: str) -> TokenLine:
    fields = [field.strip() for field in content.split(",")] if "," in content else content.split()
    if len(fields) != _FIELDS:
        raise TokensFileError(path, "needs three fields: name, role, SHA-256 of the token", line=number)
    name, role, digest = fields
    if not name.isprintable() or not 0 < len(name) <= LONGEST_NAME:
        raise TokensFileError(path, f"needs a printable name of 1 to {LONGEST_NAME} characters", line=number)
    if role.lower() not in ROLES:
        raise TokensFileError(path, "has a role that is neither operator nor read-only", line=number)
    if not _DIGEST.fullmatch(digest.lower()):
        raise TokensFileError(path, "has no SHA-256 of 64 hexadecimal digits", line=number)
    if digest.lower() == _EMPTY:
        raise TokensFileError(path, "has the SHA-256 of an empty text: it matches no token", line=number)
    return TokenLine(number, name, ROLES[role.lower()], bytes.fromhex(digest))


def _distinct(path: Path, lines: tuple[TokenLine, ...]) -> tuple[TokenLine, ...]:
    names: dict[str, int] = {}
    digests: dict[bytes, int] = {}
    for line in lines:
        if line.name in names:
            raise TokensFileError(path, f"repeats the name of line {names[line.name]}", line=line.number)
        if line.digest in digests:
            raise TokensFileError(path, f"repeats the token of line {digests[line.digest]}", line=line.number)
        names[line.name] = digests[line.digest] = line.number
    return lines


LOCAL_NAME: Final = "local"


class Role(StrEnum):
    """The permissions of a token."""

    READER = "reader"
    OPERATOR = "operator"


@dataclass(frozen=True, slots=True)
class Token:
    """One token; only its digest is kept."""

    key: str  #: its name in stored sessions
    role: Role
    digest: bytes
    name: str  #: for the audit trail
    is_personal: bool = False  #: its name overrides the name in the login form


class Tokens:
    """All valid tokens: of the settings, generated for this machine, and of the file."""

    KEPT: ClassVar = "kept"  #: the key of the generated token

    def __init__(self, settings: WebSettings, *, kept: str | None = None) -> None:
        self.is_local: Final = kept is not None
        self._fixed = tuple(_fixed(settings, kept))
        self._file = None if settings.tokens_file is None else TokensFile(Path(settings.tokens_file))

    @property
    def are_set(self) -> bool:
        """Whether there is at least one token."""
        return bool(self.current())

    @property
    def are_personal(self) -> bool:
        """Whether users have personal tokens."""
        return self._file is not None

    @property
    def strongest(self) -> Token | None:
        """The token with the most permissions, of the settings or generated."""
        return self._fixed[0] if self._fixed else None

    def check(self) -> None:
        """Raise if the tokens file is unusable."""
        if self._file is None:
            return
        self._file.check()
        known = {token.digest for token in self._fixed}
        for line in self._file.lines():
            if line.digest in known:
                self._file.refuse(line.number, "is a token of the settings: give each user a different one")

    def current(self) -> tuple[Token, ...]:
        """Return all valid tokens."""
        return (*self._fixed, *self._of_file())

    def find(self, text: str) -> Token | None:
        """Return the token with this text, compared in constant time."""
        if len(text) < SHORTEST_TOKEN:  # the file has only digests: the length can be checked only here
            return None
        shown = digest_of(text)
        found: Token | None = None
        for token in self.current():
            if hmac.compare_digest(shown, token.digest):
                found = found or token
        return found

    def named(self, key: str) -> Token | None:
        """Return the token with this key."""
        return next((token for token in self.current() if token.key == key), None)

    def _of_file(self) -> tuple[Token, ...]:
        """Return the tokens of the file; if the settings have the same token, theirs is found first."""
        if self._file is None:
            return ()
        return tuple(
            Token(f"file {line.name}", Role(line.role), line.digest, line.name, is_personal=True)
            for line in self._file.lines()
        )


def digest_of(text: str) -> bytes:
    """Return the digest by which tokens are compared."""
    return hashlib.sha256(text.encode(errors="surrogatepass")).digest()


def _fixed(settings: WebSettings, kept: str | None) -> Iterator[Token]:
    if settings.token:
        yield Token("operator", Role.OPERATOR, digest_of(settings.token), "token")
    if kept:
        yield Token(Tokens.KEPT, Role.OPERATOR, digest_of(kept), LOCAL_NAME)
    if settings.readonly_token:
        yield Token("reader", Role.READER, digest_of(settings.readonly_token), "read-only token")
