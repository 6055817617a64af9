"""Access to the dashboard of a process: tokens of the settings, or a token generated for this machine."""

from __future__ import annotations

import logging
import os
import secrets
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

from gandy.errors import GandyError, HostNeedsTokenError, KeptFileError
from gandy.web.access.gate import is_loopback
from gandy.web.access.keys import Keyring, ServedPlace, StateFolder, announced, keep_token, stem_of
from gandy.web.access.tokens import Tokens

if TYPE_CHECKING:
    from collections.abc import Iterator

    from gandy.settings import Settings
    from gandy.store.drivers.database import ReadingRunner

_log = logging.getLogger("gandy.web")


@dataclass(frozen=True, slots=True)
class WebAccess:
    """The access to one application in this process."""

    owner: str
    settings: Settings
    kept: str | None  #: the generated token, if none is set

    @property
    def tokens(self) -> Tokens:
        """The valid tokens."""
        return Tokens(self.settings.web, kept=self.kept)

    async def invite(self, database: ReadingRunner, address: str) -> str:
        """Return the address, with a one-time login code if the token was generated."""
        token = self.tokens.strongest
        if self.kept is None or token is None:
            return f"{address}/"
        try:
            code = await Keyring(database, self.owner).make_code(token)
        except GandyError as error:
            _log.warning("cannot create a login code: %s; `gandy open` creates one", error)
            return f"{address}/"
        return f"{address}/login?code={code}"

    def place(self, host: str, port: int) -> ServedPlace:
        """Return where this process listens, and which token it accepts."""
        token = self.tokens.strongest
        return ServedPlace(os.getpid(), host, port, self.owner, None if token is None else token.key)

    @contextmanager
    def announced(self, place: ServedPlace) -> Iterator[None]:
        """Let `gandy open` find this process; if that fails, log it and serve anyway."""
        with ExitStack() as stack:
            try:
                folder = stack.enter_context(StateFolder())
                stem = stem_of(self.settings.database.url, self.owner)
                stack.enter_context(announced(folder, stem, place))
            except (OSError, KeptFileError) as error:
                _log.warning("`gandy open` will not find this process: %s", error)
            yield


def open_access(owner: str, settings: Settings) -> WebAccess:
    """Check the tokens; if none is set, generate one, and refuse a host that is not loopback."""
    tokens = Tokens(settings.web)
    tokens.check()
    if tokens.are_set:
        return WebAccess(owner, settings, kept=None)
    if not is_loopback(settings.web.host):
        raise HostNeedsTokenError(settings.web.host)
    return WebAccess(owner, settings, kept=_made(settings.database.url, owner))


def _made(url: str, owner: str) -> str:
    try:
        with StateFolder() as folder:
            return keep_token(folder, stem_of(url, owner))
    except OSError as error:
        _log.warning(
            "the token of the dashboard cannot be stored (%s) and is valid only for this process; "
            "set GANDY_WEB_TOKEN, or XDG_STATE_HOME to a writable folder",
            error,
        )
        return secrets.token_urlsafe(32)
