"""Trains of every shape, for the files that must and must not type-check."""

from __future__ import annotations

from dataclasses import dataclass

from gandy import Gandy, every
from gandy.train.base import Train
from gandy.train.run import Run


@dataclass
class Request:
    number: int


class UrgentRequest(Request): ...


@dataclass
class Other:
    text: str


class Receipt: ...


class Mailer: ...


app = Gandy("typing")
hourly = every(hours=1)


@app.train
async def send(request: Request, run: Run, mailer: Mailer) -> Receipt:
    return Receipt()


@app.train(name="send-sync", process=True)
def send_sync(request: Request, mailer: Mailer) -> Receipt:
    return Receipt()


@app.train
async def run_first(run: Run, request: Request) -> Receipt:
    return Receipt()


@app.train
async def tick(run: Run) -> int:
    return run.attempt


@app.train
def count() -> int:
    return 1


@app.train
async def nightly(_: None, mailer: Mailer) -> str:
    return ""


def load(request: Request) -> Other:
    return Other("")


def finish(other: Other) -> Receipt:
    return Receipt()


@app.register
class Close(Train[Request, Receipt]):
    route = (load, finish)


def start() -> Other:
    return Other("")


@app.register
class Nightly(Train[None, Receipt]):
    route = (start, finish)
