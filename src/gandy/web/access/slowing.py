"""Wrong credentials: answered late, the later the more of them come from one address."""

from __future__ import annotations

import asyncio
import ipaddress
import logging
import time
from collections import OrderedDict
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

_log = logging.getLogger("gandy.web")

MOST_ADDRESSES: Final = 1_000
MOST_WAITING: Final = 50
FORGOTTEN_AFTER: Final = 300.0
FREE: Final = 3  #: mistakes that cost nothing
_SHORTEST: Final = 0.25
_LONGEST: Final = 8.0


@dataclass(slots=True)
class _Guesses:
    count: int
    at: float


class Slowing:
    """Counts wrong credentials by address, a bounded number of them, and says how late each is answered.

    Whether a credential is right is known before: a right one never comes here.
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
        """Count one more from this address, and say after how many seconds it is answered."""
        count = self._count(_network(address))
        if count & (count - 1) == 0:  # 1, 2, 4, 8: a flood of guesses is no flood of lines
            _log.warning("a wrong %s came from %s, %d in all", what, address or "an unknown address", count)
        return 0.0 if count <= FREE else min(_SHORTEST * 2 ** min(count - FREE - 1, 30), _LONGEST)

    async def wait(self, seconds: float) -> None:
        """Let a refusal wait, unless too many wait already."""
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
    """Take the addresses that one sender can choose from as one."""
    try:
        found = ipaddress.ip_address((address or "").partition("%")[0])
    except ValueError:
        return ""
    return str(found if found.version == 4 else ipaddress.ip_network((found, 64), strict=False))  # noqa: PLR2004 its number
