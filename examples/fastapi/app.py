"""A shop: orders come in over HTTP, invoices are sent by a worker, and the dashboard is at /gandy."""

from __future__ import annotations

from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

from fastapi import FastAPI
from pydantic import BaseModel

from gandy import Gandy, Run

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

gandy = Gandy("shop")


class Order(BaseModel):
    """What somebody bought."""

    number: int
    email: str


class Accepted(BaseModel):
    """The job that will send the invoice."""

    job: int


@gandy.train
async def send_invoice(order: Order, run: Run) -> str:
    """Send the invoice of an order."""
    run.log.info("invoice %d to %s", order.number, order.email)
    return f"sent to {order.email}"


@asynccontextmanager
async def lifespan(_web: FastAPI) -> AsyncIterator[None]:
    """Be open and work for as long as the server runs; `gandy up` on other machines works alongside."""
    async with gandy.running(services=("manifest-manager", "worker")):
        yield


web = FastAPI(lifespan=lifespan)
web.mount("/gandy", gandy.asgi())


@web.post("/orders", status_code=202)
async def take_order(order: Order) -> Accepted:
    """Take an order; the answer does not wait for the invoice."""
    job = await gandy.enqueue(send_invoice, order)
    return Accepted(job=job.id)
