"""A small application for tests: a train of each kind, on whatever database."""

from __future__ import annotations

import asyncio
import logging
from dataclasses import dataclass

from pydantic import BaseModel, SecretStr

from gandy import End, Gandy, Run, Train

log = logging.getLogger("shop")


@dataclass(frozen=True)
class Order:
    number: int


class Receipt(BaseModel):
    order: int
    total: int


class Login(BaseModel):
    user: str
    password: SecretStr


@dataclass(frozen=True)
class Items:
    prices: tuple[int, ...]


async def load_items(order: Order, run: Run) -> Items | End[Receipt]:
    run.log.info("loading order %d", order.number)
    if order.number == 0:
        return End(Receipt(order=0, total=0))
    if order.number < 0:
        raise ValueError("there is no such order")
    return Items(tuple(range(order.number)))


def add_up(order: Order, items: Items, run: Run) -> Receipt:
    log.warning("adding %d prices", len(items.prices))
    run.progress(len(items.prices), len(items.prices))
    return Receipt(order=order.number, total=sum(items.prices))


class SellOrder(Train[Order, Receipt]):
    route = (load_items, add_up)


async def double(number: int) -> int:
    return 2 * number


async def wait_for_ever(run: Run) -> None:
    run.log.info("waiting")
    await asyncio.Event().wait()


async def sign_in(login: Login, run: Run) -> str:
    run.log.info("the password is %s", login.password.get_secret_value())
    raise PermissionError(f"{login.user} with {login.password.get_secret_value()}")


def make_shop(url: str, **settings: dict[str, object]) -> Gandy:
    app = Gandy("shop", url, **settings)
    app.register(SellOrder)
    app.train(double)
    app.train(wait_for_ever)
    app.train(sign_in)
    return app
