"""Invoices: a route of three junctions, a provided value, a schedule and what follows it."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta

from gandy import Gandy, Retry, Run, Train, cron

app = Gandy("billing", database="sqlite:///billing.db")


@dataclass(frozen=True)
class Month:
    """The month to bill."""

    year: int
    month: int


@dataclass(frozen=True)
class Orders:
    """What was ordered, in cents."""

    cents: tuple[int, ...]


@dataclass(frozen=True)
class Invoice:
    """What is sent."""

    text: str
    cents: int


class Mailer:
    """Stands for a service of your own; trains receive it by its type."""

    def send(self, text: str) -> None:
        """Send nothing anywhere."""
        if not text:
            raise Retry("the mail server is busy", after=timedelta(minutes=1))


app.provide(Mailer, Mailer)
app.group("mail", max_active_jobs=2)


async def load_orders(month: Month, run: Run) -> Orders:
    """Load the month's orders."""
    run.log.info("loading %d-%02d", month.year, month.month)
    return Orders(tuple(995 + 100 * number for number in range(month.month)))


def write_invoice(month: Month, orders: Orders) -> Invoice:
    """Write the invoice; an ordinary function runs in a thread."""
    total = sum(orders.cents)
    return Invoice(f"{month.year}-{month.month:02d}: {total / 100:.2f} EUR", total)


def send_invoice(invoice: Invoice, mailer: Mailer, run: Run) -> int:
    """Send it, and return what was billed."""
    mailer.send(invoice.text)
    run.log.info("sent %s", invoice.text)
    return invoice.cents


@app.register
class BillMonth(Train[Month, int]):
    """Load, write, send."""

    route = (load_orders, write_invoice, send_invoice)
    group = "mail"
    max_retries = 5


@app.train
async def say_thanks(month: Month, mailer: Mailer) -> None:
    """Follow a billed month."""
    mailer.send(f"Thanks for {month.year}-{month.month:02d}")


monthly = app.schedule(
    "bill-december", BillMonth, Month(2026, 12), cron("0 3 1 * *", timezone="Europe/Berlin")
)
monthly.then("thank-for-december", say_thanks, Month(2026, 12))
