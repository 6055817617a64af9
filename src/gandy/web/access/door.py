"""How a process of ours is entered: by the tokens of the settings, or by one made for this machine."""

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
class Door:
    """The way in to one application in this process."""

    owner: str
    settings: Settings
    kept: str | None  #: the token that was made, where none is set

    @property
    def tokens(self) -> Tokens:
        """What opens it."""
        return Tokens(self.settings.web, kept=self.kept)

    async def invite(self, database: ReadingRunner, address: str) -> str:
        """Give the address, with a code that signs in once where the token was made here."""
        token = self.tokens.strongest
        if self.kept is None or token is None:
            return f"{address}/"
        try:
            code = await Keyring(database, self.owner).make_code(token)
        except GandyError as error:
            _log.warning("no code that signs in could be made: %s; `gandy open` makes one", error)
            return f"{address}/"
        return f"{address}/login?code={code}"

    def place(self, host: str, port: int) -> ServedPlace:
        """Say where this process listens, and which token leads in."""
        token = self.tokens.strongest
        return ServedPlace(os.getpid(), host, port, self.owner, None if token is None else token.key)

    @contextmanager
    def announced(self, place: ServedPlace) -> Iterator[None]:
        """Let `gandy open` find this process; one that cannot say where it is serves all the same."""
        with ExitStack() as stack:
            try:
                folder = stack.enter_context(StateFolder())
                stem = stem_of(self.settings.database.url, self.owner)
                stack.enter_context(announced(folder, stem, place))
            except (OSError, KeptFileError) as error:
                _log.warning("`gandy open` will not find this process: %s", error)
            yield


def open_door(owner: str, settings: Settings) -> Door:
    """Check the tokens; without any, make one for this machine, and refuse any other host."""
    tokens = Tokens(settings.web)
    tokens.check()
    if tokens.are_set:
        return Door(owner, settings, kept=None)
    if not is_loopback(settings.web.host):
        raise HostNeedsTokenError(settings.web.host)
    return Door(owner, settings, kept=_made(settings.database.url, owner))


def _made(url: str, owner: str) -> str:
    try:
        with StateFolder() as folder:
            return keep_token(folder, stem_of(url, owner))
    except OSError as error:
        _log.warning(
            "the token of the dashboard cannot be kept (%s) and ends with this process; "
            "set GANDY_WEB_TOKEN, or XDG_STATE_HOME to a folder that can be written",
            error,
        )
        return secrets.token_urlsafe(32)
