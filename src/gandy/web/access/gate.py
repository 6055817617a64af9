"""Authentication, authorisation and CSRF protection of every route, and throttling of wrong credentials."""

from __future__ import annotations

import asyncio
import hmac
import ipaddress
import logging
import re
import time
from collections import OrderedDict
from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING, Final, assert_never
from urllib.parse import urlsplit

from gandy.errors import (
    CodeSpentError,
    ForeignOriginError,
    FormExpiredError,
    GandyError,
    ReadOnlyTokenError,
    SeveralTokensError,
    TokenMissingError,
    TokenWrongError,
    WebClosedError,
    WebTokenUnsetError,
)
from gandy.events import RequestRefused
from gandy.model.owners import Operator
from gandy.web.access.keys import Keyring, WebSession, cookie_of
from gandy.web.access.tokens import Role, Token, Tokens

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping

    from starlette.requests import HTTPConnection, Request
    from starlette.types import ASGIApp, Message, Receive, Scope, Send

    from gandy.model.owners import Face
    from gandy.settings import WebSettings
    from gandy.web.dependencies import ContextSource


@dataclass(frozen=True, slots=True, kw_only=True)
class Visitor:
    """The authenticated client; it has a session if it is a browser, none if it sent a token."""

    role: Role
    name: str
    session: WebSession | None = None

    @property
    def may_change(self) -> bool:
        """Whether it may change anything."""
        return self.role is Role.OPERATOR

    def at(self, face: Face) -> Operator:
        """Return the operator for the audit trail."""
        return Operator(self.name, face)


#: Headers that proxies and content delivery networks add: the client's address, host or scheme.
_OF_PROXIES: Final = re.compile(
    r"via|(x-)?forwarded|x-forwarded-.+|x-original-.+|x-envoy-.+|cf-.+|cdn-loop"
    r"|(.+-)?(client|real|connecting|user|remote|source)-?(ip|addr|address)(v6)?"
)
_OWN_SITE: Final = frozenset({"same-origin", "none"})
FORM_FIELD: Final = "form_token"
FORM_HEADER: Final = "x-form-token"


def is_loopback(host: str) -> bool:
    """Whether a host name or address is loopback."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return False


def is_from_this_machine(request: HTTPConnection) -> bool:
    """Whether the request is local: loopback address, no proxy, and no foreign host name (DNS rebinding)."""
    if request.client is None or not is_loopback(request.client.host):
        return False
    if any(_OF_PROXIES.fullmatch(name.lower()) for name in request.headers):
        return False
    return is_loopback(urlsplit(f"//{request.headers.get('host', '')}").hostname or "")


def refuse_foreign(request: HTTPConnection) -> None:
    """Refuse cross-site requests of a browser (CSRF)."""
    site = request.headers.get("sec-fetch-site")
    if site is not None and site not in _OWN_SITE:
        raise ForeignOriginError(request.headers.get("origin", site))
    origin = request.headers.get("origin")
    if origin is not None and urlsplit(origin).netloc != request.headers.get("host"):
        raise ForeignOriginError(origin)


def is_same_token(shown: object, expected: str) -> bool:
    """Compare a form's token in constant time."""
    return isinstance(shown, str) and hmac.compare_digest(shown.encode(), expected.encode())


LATENESS: Final = "gandy.lateness"


@dataclass(slots=True)
class ResponseDelay:
    """The delay of one response, set by the gate."""

    seconds: float = 0.0


class Late:
    """Delays a response as the gate decides; outside of `RequestLimiter`, so that no turn is occupied."""

    def __init__(self, app: ASGIApp, gate: Gate) -> None:
        self._app = app
        self._gate = gate

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request."""
        lateness = scope[LATENESS] = ResponseDelay()
        kept: list[Message] = []

        async def late(message: Message) -> None:
            if not lateness.seconds:
                await send(message)
                return
            kept.append(message)
            if message["type"] == "http.response.body" and not message.get("more_body", False):
                await self._gate.slowing.wait(lateness.seconds)
                for each in kept:
                    await send(each)

        await self._app(scope, receive, late)


_log = logging.getLogger("gandy.web")

MOST_ADDRESSES: Final = 1_000
MOST_WAITING: Final = 50
FORGOTTEN_AFTER: Final = 300.0
FREE: Final = 3  #: mistakes without a delay
_SHORTEST: Final = 0.25
_LONGEST: Final = 8.0


@dataclass(slots=True)
class _Guesses:
    count: int
    at: float


class GuessThrottle:
    """Counts wrong credentials by address, with a bounded table, and returns the delay of each refusal.

    Only refusals are counted: a valid credential is never delayed.
    """

    def __init__(
        self,
        *,
        now: Callable[[], float] = time.monotonic,
        pause: Callable[[float], Awaitable[object]] | None = None,
    ) -> None:
        self._now = now
        self._pause = pause or asyncio.sleep
        self._guesses: OrderedDict[str, _Guesses] = OrderedDict()
        self._waiting = 0

    def refuse(self, address: str | None, what: str) -> float:
        """Count a wrong credential of this address, and return the delay in seconds."""
        count = self._count(_network(address))
        if count & (count - 1) == 0:  # 1, 2, 4, 8: bounds the log lines of a flood
            _log.warning("a wrong %s came from %s, %d in all", what, address or "an unknown address", count)
        return 0.0 if count <= FREE else min(_SHORTEST * 2 ** min(count - FREE - 1, 30), _LONGEST)

    async def wait(self, seconds: float) -> None:
        """Delay a refusal, unless too many are delayed already."""
        if seconds <= 0 or self._waiting >= MOST_WAITING:
            return
        self._waiting += 1
        try:
            await self._pause(seconds)
        finally:
            self._waiting -= 1

    def _count(self, network: str) -> int:
        now = self._now()
        found = self._guesses.pop(network, None)
        is_new = found is None or now - found.at > FORGOTTEN_AFTER
        self._guesses[network] = guesses = _Guesses(1 if found is None or is_new else found.count + 1, now)
        while len(self._guesses) > MOST_ADDRESSES:
            self._guesses.popitem(last=False)
        return guesses.count


def _network(address: str | None) -> str:
    """Return the address, or its /64 network for IPv6, within which a client can choose addresses."""
    try:
        found = ipaddress.ip_address((address or "").partition("%")[0])
    except ValueError:
        return ""
    return str(found if found.version == 4 else ipaddress.ip_network((found, 64), strict=False))  # noqa: PLR2004 the IP version


#: Label of the metric for each refusal.
REASONS: Final[Mapping[type[GandyError], str]] = {
    TokenMissingError: "token_missing",
    TokenWrongError: "token_wrong",
    SeveralTokensError: "several_tokens",
    CodeSpentError: "code_spent",
    ReadOnlyTokenError: "read_only",
    ForeignOriginError: "foreign_origin",
    FormExpiredError: "form_expired",
    WebClosedError: "not_local",
    WebTokenUnsetError: "no_token_set",
}
#: Name of the credential in the log, for refusals that may be guesses.
_GUESSES: Final[Mapping[type[GandyError], str]] = {TokenWrongError: "token", CodeSpentError: "code"}


class Access(Enum):
    """The access class of a route."""

    PROBE = "probe"  #: open to everyone
    LOGIN = "login"  #: login and logout; open if a token is set
    READS = "reads"
    CHANGES = "changes"


class Gate:
    """Authenticates requests; every route passes here before the request body is read."""

    def __init__(
        self, settings: Callable[[], WebSettings], context: ContextSource, *, kept: str | None = None
    ) -> None:
        self.slowing = GuessThrottle()
        self._settings = settings
        self._context = context
        self._kept = kept
        self._read_from = settings()
        self._tokens = Tokens(self._read_from, kept=kept)
        self._tokens.check()

    @property
    def tokens(self) -> Tokens:
        """The tokens of the current settings: a mounted dashboard is created before they are final."""
        settings = self._settings()
        if settings is not self._read_from:
            self._tokens = Tokens(settings, kept=self._kept)
            self._read_from = settings
        return self._tokens

    @property
    def keyring(self) -> Keyring:
        """The keys of the application, which must be open."""
        context = self._context()
        return Keyring(context.database, context.owner)

    async def admit(self, request: Request, access: Access) -> Visitor | None:
        """Return the visitor or raise; None only for routes without authentication."""
        if access is Access.PROBE:
            return None
        self.refuse_closed(request)
        match access:
            case Access.LOGIN:
                return None
            case Access.READS:
                return await self.identify(request)
            case Access.CHANGES:
                visitor = await self.identify(request)
                if not visitor.may_change:
                    raise ReadOnlyTokenError
                if visitor.session is not None:
                    await self._check_form(request, visitor.session)
                return visitor
            case _:
                assert_never(access)

    def refuse_closed(self, request: Request) -> None:
        """Refuse every request if no token is set, and remote requests if the token was generated."""
        tokens = self.tokens
        if not tokens.are_set:
            raise WebTokenUnsetError
        if tokens.is_local and not is_from_this_machine(request):
            raise WebClosedError

    async def identify(self, request: Request) -> Visitor:
        """Authenticate a request by its bearer token or its session."""
        sent = request.headers.getlist("authorization")
        if len(sent) > 1:
            raise SeveralTokensError
        scheme, _, text = "".join(sent).partition(" ")
        if scheme.lower() == "bearer":
            return self._by_token(text)
        session = await self.find_session(request)
        if session is None:
            raise TokenMissingError
        return Visitor(role=session.role, name=session.name, session=session)

    async def find_session(self, request: Request) -> WebSession | None:
        """Return the session of a request's cookie."""
        return await self.keyring.find_session(request.cookies.get(cookie_of(request)), self.tokens)

    def name_of(self, token: Token, said: str) -> str:
        """Return the user name: of a personal token, else as typed, marked if personal tokens exist."""
        name = "".join(character for character in said if character.isprintable()).strip()
        if token.is_personal or not name:
            return token.name
        return f"{name} ({token.name})" if self.tokens.are_personal else name

    def note(self, request: Request, error: GandyError) -> None:
        """Count a refusal, and delay the response to a wrong credential."""
        if type(error) in REASONS:
            self._count(REASONS[type(error)])
        if type(error) in _GUESSES:
            address = None if request.client is None else request.client.host
            lateness: ResponseDelay = request.scope[LATENESS]
            lateness.seconds = self.slowing.refuse(address, _GUESSES[type(error)])

    def _count(self, reason: str) -> None:
        try:
            events = self._context().events
        except GandyError:  # not open: no metrics yet
            return
        events.emit(RequestRefused(reason=reason))

    def _by_token(self, text: str) -> Visitor:
        token = self.tokens.find(text)
        if token is None:
            raise TokenWrongError
        return Visitor(role=token.role, name=token.name)

    @staticmethod
    async def _check_form(request: Request, session: WebSession) -> None:
        """Check the CSRF token of a form."""
        refuse_foreign(request)
        shown = request.headers.get(FORM_HEADER)
        if shown is None and _is_form(request):
            shown = str((await request.form()).get(FORM_FIELD))
        if not is_same_token(shown, session.form_token):
            raise FormExpiredError


def _is_form(request: Request) -> bool:
    kind = request.headers.get("content-type", "")
    return kind.startswith(("application/x-www-form-urlencoded", "multipart/form-data"))
