"""Secrets that code of a job writes where its run's context does not reach: threads, late tasks, hooks."""

from __future__ import annotations

import asyncio
import gc
import json
import logging
import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from datetime import timedelta
from io import StringIO
from itertools import product
from typing import TYPE_CHECKING, get_args

from pydantic import BaseModel, SecretStr

from gandy import Gandy
from gandy.store.drivers.opening import migrate
from gandy.train.failure import CancelRun
from gandy.train.hooks import HookName
from gandy.train.log import HiddenTexts, hidden_texts
from tests.cli.process import run_gandy
from tests.doors.vault import leaks, secrets_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    import pytest

    from gandy.train.hooks import HookEvent
    from tests.cli.conftest import Gandy as Cli

PIN = secrets_of("well")[0]
MASK = "**********"
LIBRARY = logging.getLogger("library")


class Door(BaseModel):
    pin: SecretStr


class BrokenError(Exception):
    """Says the secret."""


def in_a_thread(pin: str) -> None:
    thread = threading.Thread(target=LIBRARY.warning, args=("a thread knows %s", pin))
    thread.start()
    thread.join()


def in_a_pool(pin: str) -> None:
    with ThreadPoolExecutor(1) as pool:
        pool.submit(LIBRARY.error, "a pool knows %s", pin).result()


def with_a_traceback(pin: str) -> None:
    def fail() -> None:
        try:
            _ = dict[str, str]()[pin]
        except KeyError:
            LIBRARY.exception("it failed")

    thread = threading.Thread(target=fail)
    thread.start()
    thread.join()


def by_a_bad_format(pin: str) -> None:
    thread = threading.Thread(target=LIBRARY.warning, args=("no number: %d", pin))
    thread.start()
    thread.join()


def by_an_uncaught_exception(pin: str) -> None:
    def fail() -> None:
        raise BrokenError(pin)

    thread = threading.Thread(target=fail)
    thread.start()
    thread.join()


def by_a_finalizer(pin: str) -> None:
    class Fragile:
        def __del__(self) -> None:
            raise BrokenError(pin)

    Fragile()


def by_a_lost_task(pin: str) -> None:
    async def fail() -> None:
        raise BrokenError(pin)

    asyncio.get_running_loop().create_task(fail())


def by_a_late_callback(pin: str) -> None:
    asyncio.get_running_loop().call_later(0.01, LIBRARY.warning, "a callback knows %s", pin)


IN_THREADS = (
    *(in_a_thread, in_a_pool, with_a_traceback),
    *(by_a_bad_format, by_an_uncaught_exception, by_a_finalizer),
)
ON_THE_LOOP = (by_a_lost_task, by_a_late_callback)


@contextmanager
def process_log() -> Iterator[StringIO]:
    written = StringIO()
    handler = logging.StreamHandler(written)
    logging.getLogger().addHandler(handler)
    try:
        yield written
    finally:
        logging.getLogger().removeHandler(handler)


def make_doors(url: str) -> Gandy:
    migrate(url)
    return Gandy("doors", url, worker={"slots": 1, "poll_every": timedelta(milliseconds=50)})


def opens(way: Callable[[str], None]) -> Callable[[Door], object]:
    """Make a job that gives its secret to a way of writing it."""

    async def on_the_loop(door: Door) -> None:
        way(door.pin.get_secret_value())

    def in_threads(door: Door) -> None:
        way(door.pin.get_secret_value())

    job = on_the_loop if way in ON_THE_LOOP else in_threads
    job.__name__ = job.__qualname__ = f"opens_{way.__name__}"
    return job


async def test_nothing_that_a_job_starts_writes_its_secret_to_the_log(
    database_url: str, capsys: pytest.CaptureFixture[str]
) -> None:
    app = make_doors(database_url)
    trains = [app.train(opens(way)) for way in (*IN_THREADS, *ON_THE_LOOP)]
    is_later = asyncio.Event()
    with process_log() as written:
        async with app:
            for train in trains:
                await app.enqueue(train, Door(pin=SecretStr(PIN)))
            await app.work(asyncio.Event(), until_idle=True)
            asyncio.get_running_loop().call_later(0.02, is_later.set)
            await is_later.wait()
            gc.collect()
    shown = written.getvalue() + capsys.readouterr().err
    assert shown.count(MASK) >= len(trains)
    assert leaks(shown) == []


def tell(event: HookEvent) -> None:
    """Write what the event holds, and fail with it."""
    said = str(getattr(event.outcome, "exception", None) or getattr(event.outcome, "value", None))
    LIBRARY.warning("told %s", said if PIN in said else PIN)
    raise RuntimeError(f"told {said} by {PIN}")


async def tell_async(event: HookEvent) -> None:
    tell(event)


async def open_door(door: Door) -> str:
    return door.pin.get_secret_value()


async def slam(door: Door) -> str:
    raise ValueError(f"{door.pin.get_secret_value()} does not fit")


async def leave(door: Door) -> str:
    raise CancelRun(door.pin.get_secret_value())


async def test_no_hook_writes_a_secret_of_its_run_to_the_log(database_url: str) -> None:
    app = make_doors(database_url)
    for name, hook in product(get_args(HookName), (tell, tell_async)):
        app.on(name)(hook)
    trains = [app.train(max_retries=1)(job) for job in (open_door, slam, leave)]
    with process_log() as written:
        async with app:
            for train in trains:
                await app.enqueue(train, Door(pin=SecretStr(PIN)))
            await app.work(asyncio.Event(), until_idle=True)
    shown = written.getvalue()
    for name, hook in product(get_args(HookName), (tell, tell_async)):
        assert f"hook {hook.__qualname__} on '{name}' failed" in shown
    assert shown.count(f"told {MASK}") > len(get_args(HookName))
    assert leaks(shown) == []


async def test_a_hook_that_is_told_late_writes_no_secret_either(
    database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(hidden_texts, "_grace_seconds", 0.0)
    app = make_doors(database_url)
    told: list[object] = []

    @app.on("completed")
    async def tell_late(event: HookEvent) -> None:
        gc.collect()
        told.append(event.outcome)
        LIBRARY.warning("told %s", event.outcome)

    app.train(open_door)
    with process_log() as written:
        async with app:
            await app.enqueue(open_door, Door(pin=SecretStr(PIN)))
            await app.work(asyncio.Event(), until_idle=True)
    assert PIN in str(told)
    assert leaks(written.getvalue()) == []


#: A job that tells its secret in a thread of its own process, and beside the message of a record.
TELLING = """
import logging, threading
from pydantic import BaseModel, SecretStr
from gandy import Gandy
app = Gandy("courier")
class Parcel(BaseModel):
    pin: SecretStr
def tell(pin):
    logging.getLogger("library").error("a thread knows %s", pin, extra={"pin": pin})
    raise ValueError(pin)
def start(parcel):
    thread = threading.Thread(target=tell, args=(parcel.pin.get_secret_value(),))
    thread.start()
    thread.join()
@app.train
def here(parcel: Parcel) -> None:
    start(parcel)
@app.train(process=True)
def apart(parcel: Parcel) -> None:
    start(parcel)
"""


def test_a_worker_writes_no_secret_of_a_thread_to_its_log(folder: Path, gandy: Cli, imports: None) -> None:
    assert imports is None
    (folder / "telling.py").write_text(TELLING)
    url = f"sqlite:///{folder}/telling.db"
    env = {"GANDY_DATABASE_URL": url, "GANDY_APP": "telling:app", "GANDY_LOGGING_FORMAT": "json"}
    for train in ("here", "apart"):
        call = ("queue", "enqueue", train, "--input", json.dumps({"pin": PIN}))
        assert gandy(*call, env=env).exit_code == 0
    ended = run_gandy(folder, "work", "--until-idle", **env)
    assert ended.returncode == 0, ended.stderr
    assert ended.stderr.count(MASK) >= 3
    assert leaks(ended.stderr) == []


class Holder:
    """Something that can be let go."""


def test_texts_are_known_while_they_are_held_and_for_a_bounded_time_after() -> None:
    now = [0.0]
    hidden = HiddenTexts(lambda: now[0], grace_seconds=10.0)
    assert hidden.is_empty
    first, second = Holder(), Holder()
    hidden.add(first, ["open sesame", "open"])
    hidden.add(second, ["open sesame"])
    assert hidden.without("say open sesame, or open, or close") == f"say {MASK}, or {MASK}, or close"

    del first
    assert hidden.without("open sesame or open") == f"{MASK} or {MASK}"
    now[0] = 11.0
    assert hidden.without("open sesame or open") == f"{MASK} or open"
    del second
    assert hidden.without("open sesame") == MASK
    now[0] = 22.0
    assert hidden.without("open sesame") == "open sesame"
    assert hidden.is_empty


def test_texts_of_what_has_ended_are_bounded_and_held_ones_are_not_forgotten() -> None:
    hidden = HiddenTexts(most_late=10_000)
    kept = Holder()
    hidden.add(kept, ["the kept one"])
    for number in range(1_000):
        hidden.add(Holder(), [f"secret {number:05}"])
    assert hidden.without("secret 00000, the kept one, secret 00999") == f"secret 00000, {MASK}, {MASK}"
