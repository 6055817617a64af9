"""Sessions and one-time codes: a random part in the database, and the digest of a token as the other."""

from __future__ import annotations

import base64
import hashlib
import hmac
import re
import secrets
from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING, Final

from gandy.store.audit import WebKey, find_web_key, keep_web_key, take_web_key

if TYPE_CHECKING:
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
class Session:
    """Who has logged in; `text` is the cookie."""

    id: str
    token: Token
    name: str
    text: str
    form_token: str  #: what every form of this session carries

    @property
    def role(self) -> Role:
        """What its token allows now."""
        return self.token.role


class Keyring:
    """Makes the keys of one application and tries them."""

    def __init__(self, database: ReadingRunner, owner: str) -> None:
        self._database = database
        self._owner = owner

    async def open_session(self, token: Token, name: str) -> Session:
        """Begin a session."""
        return _session(await self._make("session", token, name, SESSION_FOR), token)

    async def find_session(self, text: str | None, tokens: Tokens) -> Session | None:
        """Give the session of a cookie that is ours, not past its time, and whose token is still valid."""
        parts = _TEXT.fullmatch(text or "")
        if parts is None:
            return None
        key = await self._database.read(find_web_key(self._owner, "session", parts["id"]))
        token = _fitting("session", key, tokens, parts["signature"])
        return None if key is None or token is None else _session(key, token)

    async def end_session(self, session: Session) -> None:
        """End a session for good."""
        await self._database.run(take_web_key(self._owner, "session", session.id))

    async def make_code(self, token: Token) -> str:
        """Make a code that signs in once, with what this token allows."""
        return _text("code", await self._make("code", token, token.name, CODE_FOR), token)

    async def redeem(self, text: str, tokens: Tokens) -> Session | None:
        """Use a code up and begin its session; None where it is used up, too old or no code of ours."""
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
    """Name the cookie: by the port, since browsers send a host's cookies to all of its ports."""
    _, _, port = request.headers.get("host", "").rpartition(":")
    return f"{_COOKIE}_{port}" if port.isascii() and port.isdigit() else _COOKIE


def _session(key: WebKey, token: Token) -> Session:
    return Session(key.id, token, key.name, _text("session", key, token), _sign("form", key, token))


def _text(kind: KeyKind, key: WebKey, token: Token) -> str:
    return f"{key.id}.{_sign(kind, key, token)}"


def _fitting(kind: KeyKind, key: WebKey | None, tokens: Tokens, signature: str) -> Token | None:
    """Give the token that a key was made with, if it is valid and the signature is by both."""
    token = None if key is None else tokens.named(key.token)
    if key is None or token is None:
        return None
    return token if hmac.compare_digest(signature, _sign(kind, key, token)) else None


def _sign(purpose: str, key: WebKey, token: Token) -> str:
    made_of_both = hmac.new(bytes.fromhex(key.secret), token.digest, hashlib.sha256).digest()
    signed = f"{purpose}\0{key.id}\0{key.token}\0{key.name}"
    found = hmac.new(made_of_both, signed.encode(errors="surrogatepass"), hashlib.sha256).digest()
    return base64.urlsafe_b64encode(found[:24]).decode()
