"""The one place that says who a visitor is and what that visitor may do."""

from __future__ import annotations

from enum import Enum
from typing import TYPE_CHECKING, Final, assert_never

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
from gandy.web.access.keyring import Keyring, Session, cookie_of
from gandy.web.access.lateness import LATENESS, Lateness
from gandy.web.access.origin import (
    FORM_FIELD,
    FORM_HEADER,
    is_from_this_machine,
    is_same_token,
    refuse_foreign,
)
from gandy.web.access.slowing import Slowing
from gandy.web.access.tokens import Token, Tokens
from gandy.web.access.visitor import Visitor

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from starlette.requests import Request

    from gandy.settings import WebSettings
    from gandy.web.parts import PartsSource

#: Why a request was refused, as the metric says it.
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
#: What is guessed, in words, where a refusal may be a guess.
_GUESSES: Final[Mapping[type[GandyError], str]] = {TokenWrongError: "token", CodeSpentError: "code"}


class Access(Enum):
    """What a route does, and so who may call it."""

    PROBE = "probe"  #: answered always, and says nothing but its verdict
    DOOR = "door"  #: answered where a token is set: it leads in or out
    READS = "reads"
    CHANGES = "changes"


class Gate:
    """Lets in or refuses; every route passes here before anything of the request is read."""

    def __init__(
        self, settings: Callable[[], WebSettings], parts: PartsSource, *, kept: str | None = None
    ) -> None:
        self.slowing = Slowing()
        self._settings = settings
        self._parts = parts
        self._kept = kept
        self._read_from = settings()
        self._tokens = Tokens(self._read_from, kept=kept)
        self._tokens.check()

    @property
    def tokens(self) -> Tokens:
        """The tokens of the settings as they are now: a mounted dashboard is made before they are final."""
        settings = self._settings()
        if settings is not self._read_from:
            self._tokens = Tokens(settings, kept=self._kept)
            self._read_from = settings
        return self._tokens

    @property
    def keyring(self) -> Keyring:
        """The keys of the application, which has to be open."""
        parts = self._parts()
        return Keyring(parts.database, parts.owner)

    async def admit(self, request: Request, access: Access) -> Visitor | None:
        """Give the visitor, or raise what is wrong; None only where a visitor need not be known."""
        if access is Access.PROBE:
            return None
        self.refuse_closed(request)
        match access:
            case Access.DOOR:
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
        """Refuse all while no token is set, and other machines where the token was made for this one."""
        tokens = self.tokens
        if not tokens.are_set:
            raise WebTokenUnsetError
        if tokens.is_local and not is_from_this_machine(request):
            raise WebClosedError

    async def identify(self, request: Request) -> Visitor:
        """Find out who asks."""
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

    async def find_session(self, request: Request) -> Session | None:
        """Find the session of a request's cookie."""
        return await self.keyring.find_session(request.cookies.get(cookie_of(request)), self.tokens)

    def name_of(self, token: Token, said: str) -> str:
        """Name who logs in: a token of one's own says it; another one only where no person has one."""
        name = "".join(character for character in said if character.isprintable()).strip()
        if token.is_personal or not name:
            return token.name
        return f"{name} ({token.name})" if self.tokens.are_personal else name

    def note(self, request: Request, error: GandyError) -> None:
        """Count a refusal, and let the sender of a wrong credential wait for its answer."""
        if type(error) in REASONS:
            self._count(REASONS[type(error)])
        if type(error) in _GUESSES:
            address = None if request.client is None else request.client.host
            lateness: Lateness = request.scope[LATENESS]
            lateness.seconds = self.slowing.refuse(address, _GUESSES[type(error)])

    def _count(self, reason: str) -> None:
        try:
            events = self._parts().events
        except GandyError:  # not open: there is nothing that counts
            return
        events.emit(RequestRefused(reason=reason))

    def _by_token(self, text: str) -> Visitor:
        token = self.tokens.find(text)
        if token is None:
            raise TokenWrongError
        return Visitor(role=token.role, name=token.name)

    @staticmethod
    async def _check_form(request: Request, session: Session) -> None:
        """Refuse a form that is not of a page that this session was shown."""
        refuse_foreign(request)
        shown = request.headers.get(FORM_HEADER)
        if shown is None and _is_form(request):
            shown = str((await request.form()).get(FORM_FIELD))
        if not is_same_token(shown, session.form_token):
            raise FormExpiredError


def _is_form(request: Request) -> bool:
    kind = request.headers.get("content-type", "")
    return kind.startswith(("application/x-www-form-urlencoded", "multipart/form-data"))
