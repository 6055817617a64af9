"""The tokens that open the door, and what each of them allows."""

from __future__ import annotations

import hashlib
import hmac
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar, Final

from gandy.settings.kinds import SHORTEST_TOKEN
from gandy.web.access.tokens_file import TokensFile

if TYPE_CHECKING:
    from collections.abc import Iterator

    from gandy.settings import WebSettings

LOCAL_NAME: Final = "local"


class Role(StrEnum):
    """What a token allows."""

    READER = "reader"
    OPERATOR = "operator"


@dataclass(frozen=True, slots=True)
class Token:
    """One token, known by its digest alone."""

    key: str  #: what sessions remember it by
    role: Role
    digest: bytes
    name: str  #: for the audit trail
    is_personal: bool = False  #: its name stands, whatever the login form says


class Tokens:
    """Every token that is valid now: of the settings, made for this machine, of the file."""

    KEPT: ClassVar = "kept"  #: what sessions remember the token by that was made for this machine

    def __init__(self, settings: WebSettings, *, kept: str | None = None) -> None:
        self.is_local: Final = kept is not None
        self._fixed = tuple(_fixed(settings, kept))
        self._file = None if settings.tokens_file is None else TokensFile(Path(settings.tokens_file))

    @property
    def are_set(self) -> bool:
        """Whether there is any."""
        return bool(self.current())

    @property
    def are_personal(self) -> bool:
        """Whether people have tokens of their own."""
        return self._file is not None

    @property
    def strongest(self) -> Token | None:
        """The token of the settings, or the one made here, that allows most."""
        return self._fixed[0] if self._fixed else None

    def check(self) -> None:
        """Raise for a tokens file that cannot be used."""
        if self._file is None:
            return
        self._file.check()
        known = {token.digest for token in self._fixed}
        for line in self._file.lines():
            if line.digest in known:
                self._file.refuse(line.number, "is a token of the settings: give each person another one")

    def current(self) -> tuple[Token, ...]:
        """Give all of them."""
        return (*self._fixed, *self._of_file())

    def find(self, text: str) -> Token | None:
        """Find the token that this is; how long that takes does not tell how near it came."""
        if len(text) < SHORTEST_TOKEN:  # of a file only digests are known: here its length is seen first
            return None
        shown = digest_of(text)
        found: Token | None = None
        for token in self.current():
            if hmac.compare_digest(shown, token.digest):
                found = found or token
        return found

    def named(self, key: str) -> Token | None:
        """Find a token by what sessions remember it by."""
        return next((token for token in self.current() if token.key == key), None)

    def _of_file(self) -> tuple[Token, ...]:
        """Take what the file grants; a token that the settings have too keeps what those say."""
        if self._file is None:
            return ()
        return tuple(
            Token(f"file {line.name}", Role(line.role), line.digest, line.name, is_personal=True)
            for line in self._file.lines()
        )


def digest_of(text: str) -> bytes:
    """Give what a token is compared by."""
    return hashlib.sha256(text.encode(errors="surrogatepass")).digest()


def _fixed(settings: WebSettings, kept: str | None) -> Iterator[Token]:
    if settings.token:
        yield Token("operator", Role.OPERATOR, digest_of(settings.token), "token")
    if kept:
        yield Token(Tokens.KEPT, Role.OPERATOR, digest_of(kept), LOCAL_NAME)
    if settings.readonly_token:
        yield Token("reader", Role.READER, digest_of(settings.readonly_token), "read-only token")
