"""The tokens that open the door, and what each of them allows."""

from __future__ import annotations

import hashlib
import hmac
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from gandy.settings import WebSettings


class Role(StrEnum):
    """What somebody may do."""

    READER = "reader"
    OPERATOR = "operator"


@dataclass(frozen=True, slots=True)
class Tokens:
    """The configured tokens, kept as digests."""

    operator: bytes | None
    reader: bytes | None

    @classmethod
    def of(cls, settings: WebSettings) -> Tokens:
        """Take them from the settings."""
        return cls(_digest(settings.token), _digest(settings.readonly_token))

    @property
    def are_set(self) -> bool:
        """Whether anybody has to show one."""
        return self.operator is not None or self.reader is not None

    @property
    def key(self) -> bytes:
        """What sessions are signed with; another token ends them all."""
        return hashlib.sha256(b"gandy session" + (self.operator or b"") + (self.reader or b"")).digest()

    def role_of(self, token: str) -> Role | None:
        """Say what a token opens; how long that takes does not tell how near it came."""
        shown = _digest(token) or b""
        is_operator = hmac.compare_digest(shown, self.operator or b"")
        is_reader = hmac.compare_digest(shown, self.reader or b"")
        if is_operator:
            return Role.OPERATOR
        return Role.READER if is_reader else None


def _digest(token: str | None) -> bytes | None:
    return hashlib.sha256(token.encode(errors="surrogatepass")).digest() if token else None
