"""Trains for test_process: a child process imports this module."""

from __future__ import annotations

import logging
import os
import signal
import socket
import threading
import time
from contextlib import suppress
from pathlib import Path

from pydantic import BaseModel, SecretStr

from gandy.train.base import Train
from gandy.train.definition import TrainOptions, define_function
from gandy.train.failure import End, Retry
from gandy.train.registry import Provided, Registry
from gandy.train.run import Run


class Order(BaseModel):
    number: int
    token: SecretStr = SecretStr("none")


class Receipt(BaseModel):
    number: int
    pid: int


class Stamp:
    """A provided value that knows where it was made."""

    def __init__(self) -> None:
        self.pid = os.getpid()


def compute(order: Order, run: Run) -> Receipt:
    run.log.info("computing %s", order.number)
    logging.getLogger("app").warning("told by the app")
    run.progress(1, 2)
    run.activate("delta-1", order)
    return Receipt(number=order.number * 2, pid=os.getpid())


class Computing(Train[Order, Receipt]):
    process = True
    route = (compute,)


def fail(order: Order) -> Receipt:
    raise LookupError(f"no order {order.number} with {order.token.get_secret_value()}")


class Failing(Train[Order, Receipt]):
    process = True
    route = (fail,)


class ShopClosedError(Exception):
    def __init__(self, *, shop: str) -> None:
        super().__init__(shop)


def close_shop(order: Order) -> Receipt:
    raise ShopClosedError(shop=f"shop {order.number}")


class ShopFullError(Exception):
    """An error whose text is made of another value."""

    def __init__(self, guests: int) -> None:
        super().__init__(f"{guests} guests are enough")


def turn_away(order: Order) -> Receipt:
    """Raise it."""
    raise ShopFullError(order.number)


class TurningAway(Train[Order, Receipt]):
    """Fails with it."""

    route = (turn_away,)
    process = True


class Closed(Train[Order, Receipt]):
    process = True
    route = (close_shop,)


def ask_again(order: Order) -> Receipt:
    raise Retry("later", after=order.number)


class AskingAgain(Train[Order, Receipt]):
    process = True
    route = (ask_again,)


def end_early(order: Order) -> float | End[Receipt]:
    return End(Receipt(number=0, pid=0))


def finish(number: float) -> Receipt:
    return Receipt(number=int(number), pid=0)


class Ending(Train[Order, Receipt]):
    process = True
    route = (end_early, finish)


def kill_itself(order: Order) -> Receipt:
    os.kill(os.getpid(), signal.SIGKILL)
    return Receipt(number=0, pid=0)


class KillingItself(Train[Order, Receipt]):
    process = True
    route = (kill_itself,)


def announce_and_wait(folder: str, run: Run) -> None:
    """Say that it runs, by its process id in the log, then wait until cancelled."""
    run.log.info("%s", os.getpid())
    while not run.cancel_requested:
        threading.Event().wait(0.01)
    run.raise_if_cancelled()


class Waiting(Train[str, None]):
    process = True
    route = (announce_and_wait,)


def announce_and_hang(folder: str, run: Run) -> None:
    run.log.info("%s", os.getpid())
    threading.Event().wait()


class Hanging(Train[str, None]):
    process = True
    route = (announce_and_hang,)


def stamp(order: Order, stamp: Stamp) -> Receipt:
    return Receipt(number=order.number, pid=stamp.pid)


def stamp_here(order: Order) -> Receipt:
    return Receipt(number=order.number, pid=os.getpid())


class Host:
    """As an app does: a registry and what it provides."""

    def __init__(self) -> None:
        self.registry = Registry()
        self.registry.add(define_function(stamp, options=TrainOptions(process=True)))
        self.registry.add(define_function(stamp_here))
        self.registry.add(Hanging.definition)
        self.registry.add(KillingItself.definition)
        self.provided = Provided()
        self.provided.add(Stamp, Stamp)


host = Host()
PLACE = f"{__name__}:host"


class Step(BaseModel):
    """What one run of a set does: end by itself, or wait for the file to be there and end the process."""

    number: int
    waits_for: str | None = None
    exit_code: int | None = None
    signal: int | None = None
    closes: bool = False
    opens: str | None = None
    seconds: float = 0.0


def take_step(step: Step) -> int:
    while step.waits_for is not None and not Path(step.waits_for).exists():
        threading.Event().wait(0.01)
    if step.closes:
        os.closerange(3, 100)
    if step.opens is not None:  # with every number that is free
        for _ in range(40):
            os.open(step.opens, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    threading.Event().wait(step.seconds)
    if step.signal is not None:
        os.kill(os.getpid(), step.signal)
    if step.exit_code is not None:
        os._exit(step.exit_code)
    return os.getpid()


async def take_step_on_the_loop(step: Step) -> int:
    return take_step(step)


def shut_down_pipes(seconds: float, run: Run) -> None:
    """Tell the other ends of all sockets that nothing more comes, and go on."""
    run.log.info("%s", os.getpid())
    for descriptor in range(3, 100):
        with suppress(OSError):
            found = socket.socket(fileno=descriptor)
            found.shutdown(socket.SHUT_WR)
            found.detach()
    threading.Event().wait(seconds)


def burn(seconds: float, run: Run) -> int:
    """Keep the interpreter busy, whoever asks to stop."""
    run.log.info("%s", os.getpid())
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        pass
    return os.getpid()


for _function in (take_step, take_step_on_the_loop, shut_down_pipes, burn):
    host.registry.add(define_function(_function, options=TrainOptions(process=True)))
