"""One application with a subject of some kind, and short words for what can happen to the two of them."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, Final

from gandy import Gandy, Run, cron, every
from gandy.clock import ManualClock
from gandy.rules.schedules import once
from tests.support.world import World

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable, Mapping

    from gandy import Delivery
    from gandy.desk.entries import EntrySummary
    from gandy.desk.runs import RunSummary

OWNER: Final = "shop"
SUBJECT: Final = "subject"
GROUP: Final = "stage"
START: Final = datetime(2026, 1, 5, 12, tzinfo=UTC)
PERIOD: Final = timedelta(minutes=5)
#: What each kind is given beside train and input; ad-hoc work is not scheduled.
PLACES: Final[Mapping[str, Mapping[str, Any]]] = {
    "manual": {},
    "cron": {"schedule": cron("*/5 * * * *")},
    "interval": {"schedule": every(minutes=5)},
    "once": {"schedule": once(at=START + PERIOD)},
    "success": {"after": "first"},
    "failure": {"after": "first", "on": "failure"},
    "end": {"after": "first", "on": "end"},
    "fan-in": {"after": ["first", "second"]},
    "output": {"after": "first", "pass_output": True},
    "dormant": {"after": "first", "dormant": True},
}
RECURRING: Final = ("cron", "interval")
#: The inputs of the parents that make each dependent due.
ENDS: Final[Mapping[str, Mapping[str, str]]] = {
    "success": {"first": "succeed"},
    "failure": {"first": "fail"},
    "end": {"first": "fail"},
    "fan-in": {"first": "succeed", "second": "succeed"},
    "output": {"first": "succeed"},
    "dormant": {"first": "activate"},
}


class Elsewhere:
    """An engine that takes runs and begins none of them before it is told to."""

    def __init__(self) -> None:
        self.taken: list[int] = []

    async def submit(self, delivery: Delivery) -> None:
        """Take a run."""
        self.taken.append(delivery.run_id)

    def handed_over(self) -> list[int]:
        """Return what was taken, to begin it."""
        taken, self.taken = self.taken, []
        return taken


class Stage:
    """An application whose clock only the test moves; `ran` is what its subject did."""

    def __init__(self, url: str, kind: str, clock: ManualClock, **options: Any) -> None:  # noqa: ANN401 any option
        self.url = url
        self.place = {**PLACES, **options.pop("places", {})}.get(kind, {})
        self.id = SUBJECT
        self.kind = kind
        self.clock = clock
        self.options = options
        self.ran: list[str] = []
        self.act: Callable[[Run], Awaitable[None]] | None = None  # what the subject does
        self.engine = Elsewhere()
        self.app = self.made()

    @property
    def world(self) -> World:
        """The same application as the tests of the store see it."""
        return World(self.url, self.clock, self.app.database)

    def made(self, *, owner: str = OWNER, train: str = SUBJECT, external_id: str | None = SUBJECT) -> Gandy:
        """Declare the application, with another train or id for the subject, or without it."""
        self.id = external_id or self.id
        app = Gandy(owner, self.url, retry={"jitter": 0})
        app.use_clock(self.clock)
        app.submit_to(self.engine)

        @app.train(name=train)
        async def subject(what: str, run: Run) -> None:
            self.ran.append(f"{owner} {train} {run.manifest} {what}")
            if self.act is not None:
                await self.act(run)

        @app.train
        async def parent(what: str, run: Run) -> str:
            if what == "activate":
                run.activate(self.id, "activated")
            if what == "fail":
                raise ValueError(what)
            return "output"

        @app.train
        async def other(what: str) -> None:
            """Take a place."""

        self.subject, self.other = subject, other
        app.group(GROUP)
        for name in ("first", "second"):
            app.schedule(name, parent, "succeed", retry=False)
        if self.kind != "ad-hoc" and external_id is not None:
            self._declare(app, external_id)
        return app

    def _declare(self, app: Gandy, external_id: str) -> None:
        given: dict[str, Any] = {"group": GROUP, **self.place, **self.options}
        if self.kind == "output":
            app.schedule(external_id, self.subject, **given)
        else:
            app.schedule(external_id, self.subject, "declared", **given)

    async def open(self, **version: Any) -> None:  # noqa: ANN401 as `made` takes them
        """Open the application, or another version of it in its place, and seed it."""
        await self.close()
        self.app = self.made(**version)
        await self.app.__aenter__()
        await self.tick()

    async def close(self) -> None:
        """Close it, if it is open."""
        if self.app._open is not None:
            await self.app.__aexit__(None, None, None)

    async def advance(self, span: timedelta) -> None:
        """Let time pass while no process runs: a lease would end meanwhile."""
        await self.close()
        self.clock.advance(span)
        await self.app.__aenter__()

    async def jump(self, span: timedelta) -> None:
        """Set the clock, forward or back, while no process runs."""
        await self.close()
        self.clock.jump(span)
        await self.app.__aenter__()

    async def tick(self) -> dict[str, Any]:
        """Run one cycle of the manager."""
        return await self.app.tick("manifest-manager")

    async def work(self) -> list[str]:
        """Run all that may run, and what follows it; return what the subject did."""
        before = len(self.ran)
        while await self.dispatched():
            for run in self.engine.handed_over():
                await self.app.run_delivered(run)
        return self.ran[before:]

    async def work_by_worker(self) -> list[str]:
        """Do the same as a worker of the application does it."""
        before = len(self.ran)
        await self.tick()
        await self.app.work(asyncio.Event(), until_idle=True)
        return self.ran[before:]

    async def dispatched(self) -> bool:
        """Turn all that may run into runs; say whether there are any."""
        await self.tick()
        await self.app.tick("dispatcher")
        return self.engine.taken != []

    async def make_due(self) -> None:
        """Bring about what makes the subject due; it is queued then, and has not begun."""
        if self.kind in ENDS:
            for name, what in ENDS[self.kind].items():
                await self.end(name, what)
        elif self.kind == "manual":
            await self.app.trigger(self.id)
        elif self.kind == "ad-hoc":
            await self.app.enqueue(self.subject, "asked", group=GROUP, **self.options)
        else:
            await self.advance(PERIOD)
        await self.tick()

    async def end(self, parent: str, what: str) -> None:
        """Let a parent end, and nothing else begin."""
        job = await self.app.trigger(parent, input=what)
        (run,) = [run for run in await self.world.claim("parent", worker_id=None) if run.id == job.id]
        await self.app.run_delivered(run.id)

    async def entries(self, status: Any = "undispatched") -> list[EntrySummary]:  # noqa: ANN401 one of the words
        """List what the subject has in the queue."""
        found = await self.app.queue.list(status=status, train=SUBJECT)
        return [each for each in found if each.manifest in {SUBJECT, None}]

    async def runs(self) -> list[RunSummary]:
        """List the runs of the subject, the newest first."""
        return list(await self.app.runs.list(train=SUBJECT))


@asynccontextmanager
async def staged(
    url: str,
    kind: str,
    *,
    now: datetime = START,
    **options: Any,  # noqa: ANN401 any option
) -> AsyncIterator[Stage]:
    """Open an application with a subject that has nothing to do yet."""
    stage = Stage(url, kind, ManualClock(now), **options)
    try:
        await stage.open()
        if kind == "interval":  # its first instant is now
            await stage.work()
            stage.ran.clear()
        yield stage
    finally:
        await stage.close()
