"""The one carrier of what services and runs need: an open application, and the trust in its clock."""

from __future__ import annotations

import logging
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from gandy.clock import ClockWatch
from gandy.events import EventBus
from gandy.model.owners import OneOwner
from gandy.rules.clocks import doubt
from gandy.store.clocks import find_newest, keep_mark, read_mark
from gandy.train.base import Engine
from gandy.train.hooks import Hooks
from gandy.train.registry import Registry

if TYPE_CHECKING:
    from datetime import datetime

    from gandy.clock import ManualClock
    from gandy.lifecycle import Contract
    from gandy.model.manifest import Declarations
    from gandy.rules.clocks import ClockDoubt
    from gandy.settings import Settings
    from gandy.store.clocks import ClockMark
    from gandy.store.drivers.database import Database, ReadingRunner
    from gandy.store.statements import Operation
    from gandy.submit import Submitter
    from gandy.train.execution import ProvidedValues


_log = logging.getLogger("gandy.clock")


class ClockTrust:
    """Judges the clock of one database for all services of a process."""

    def __init__(self, database: ReadingRunner, clock: ManualClock | None = None) -> None:
        self._database = database
        self._watch = ClockWatch(clock)
        self._is_told = False

    @property
    def believed(self) -> datetime | None:
        """The expected current instant: the last trusted instant plus the time elapsed since."""
        return self._watch.believed

    async def examine(self, *, is_overruled: bool = False) -> ClockDoubt | None:
        """Judge the clock and save its mark; `is_overruled` trusts the clock from now on."""
        mark, newest = await self._database.read(_read())
        found = doubt(mark.now, newest, self._watch.observe(mark.now))
        # a fresh database has no earlier instant to compare with, so its first instant proves nothing
        is_believed = is_overruled or (found is None and newest is not None)
        if is_believed:
            self._watch.believe(mark.now)
        await self._keep(mark, is_believed=is_believed)
        self._tell(None if is_overruled else found)
        return None if is_overruled else found

    async def _keep(self, mark: ClockMark, *, is_believed: bool) -> None:
        if mark.is_to_be_kept(is_believed=is_believed):
            await self._database.run(keep_mark(mark, is_believed=is_believed))

    def _tell(self, found: ClockDoubt | None) -> None:
        """Log once when the doubt begins, and once when it ends."""
        if found is not None and not self._is_told:
            _log.error("deletion by age is suspended until the clock is steady for ten minutes: %s", found)
        if found is None and self._is_told:
            _log.info("the clock is trusted again; deletion resumes")
        self._is_told = found is not None


def _read() -> Operation[tuple[ClockMark, datetime | None]]:
    mark = yield from read_mark()
    return mark, (yield from find_newest(mark))


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Context:
    """An open application; each event loop that opens the application has its own."""

    owner: str
    database: Database
    settings: Settings
    declarations: Declarations
    registry: Registry = field(default_factory=Registry)
    provided: ProvidedValues = field(default_factory=dict)
    hooks: Hooks = field(default_factory=Hooks)
    events: EventBus = field(default_factory=EventBus)
    engine: Engine = field(default_factory=Engine)  #: one for each opening
    contracts: tuple[Contract, ...] = ()
    submitter: Submitter | None = None  #: None: workers claim runs from the database
    place: str | None = None  #: "module:name", from which another process can import the application
    clock: ManualClock | None = None  #: None: the clock of the database
    trust: ClockTrust | None = None  #: None: the clock is always trusted

    @property
    def owners(self) -> OneOwner:
        """The application alone: no request and no service of it reads rows of another owner."""
        return OneOwner(self.owner)
