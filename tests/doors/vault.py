"""An application whose payloads hold secrets in every place, and the judge that looks for them."""

from __future__ import annotations

import asyncio
import hashlib
import json
import logging
import random
import re
from dataclasses import dataclass
from datetime import timedelta
from functools import cache
from typing import TYPE_CHECKING, Final

import pytest
from pydantic import BaseModel, ConfigDict, Field, Secret, SecretBytes, SecretStr

from gandy import Gandy, Run, every
from gandy.desk.dead_letters import DeadLetterDesk
from gandy.desk.manifests import ManifestDesk
from gandy.desk.queue import QueueDesk
from gandy.desk.schedules import ManifestChanges
from gandy.model.owners import OneOwner, Operator
from gandy.store.drivers.opening import migrate
from tests.doors.neighbours import TOKEN, ids

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.support.databases import DatabaseHome

VAULT: Final = "vault"
READER: Final = "a-reader-of-the-vault"
#: Each payload has secrets of its own, made of its label.
LABELS: Final = (
    *("well", "ill", "here", "parked", "queued"),
    *("schedule", "override", "trigger", "requeue", "rerun"),
)
_RARE: Final = "QZXJVKWY"  # letters that no page and no digest has four of in a row
_RUNS: Final = re.compile(f"[{_RARE}]{{4,}}")
_NUMBERS: Final = re.compile(r"\d{15}")
_RANDOM: Final = re.compile(r'name="form_token" value="[^"]*"')
_SOMEBODY: Final = Operator("somebody", "python")


class Nested(BaseModel):
    inner: SecretStr
    note: str = "plain"


@dataclass
class Card:
    code: SecretStr
    holder: str


class Order(BaseModel):
    model_config = ConfigDict(populate_by_name=True)

    mood: str
    plain: SecretStr
    nested: Nested
    many: list[SecretStr]
    named: dict[str, SecretStr]
    aliased: SecretStr = Field(alias="passPhrase")
    either: SecretStr | int
    raw: SecretBytes
    number: Secret[int]
    card: Card


class Reply(BaseModel):
    token: SecretStr
    said: str
    heard: dict[str, str]
    mark: str


def secrets_of(label: str) -> list[str]:
    """Make the secrets of one payload: ten texts, and a number."""
    made = random.Random(f"secrets of {label}")  # noqa: S311 no real secret
    texts = ["".join(made.choices(_RARE, k=16)) for _ in range(10)]
    return [*texts, str(made.randrange(10**14, 10**15))]


def stored_order(label: str) -> dict[str, object]:
    """Make the payload of one label, as it is stored."""
    found = secrets_of(label)
    return {
        "mood": "ill" if label in {"ill", "parked"} else "well",
        "plain": found[0],
        "nested": {"inner": found[1], "note": "plain"},
        "many": [found[2], found[3]],
        "named": {"first": found[4]},
        "aliased": found[5],
        "either": found[6],
        "raw": found[7],
        "number": int(found[10]),
        "card": {"code": found[8], "holder": "ada"},
    }


def order(label: str) -> Order:
    return Order.model_validate(stored_order(label))


def mark_of(label: str) -> str:
    """Say what the job says when it received the real values."""
    found = secrets_of(label)
    return _digest([found[0], found[1], found[5], found[10]])


def _digest(values: list[str]) -> str:
    return hashlib.sha256(" ".join(values).encode()).hexdigest()


async def guarded(order: Order, run: Run) -> Reply:
    plain, inner = order.plain.get_secret_value(), order.nested.inner.get_secret_value()
    phrase, number = order.aliased.get_secret_value(), order.number.get_secret_value()
    run.log.info("opening with %s", plain)
    logging.getLogger("vault").warning("as %s and %s", inner, order.raw.get_secret_value())
    logging.getLogger(f"vault.{phrase}").error("number %d", number)
    run.progress(1, 2)
    if order.mood == "ill":
        try:
            _ = dict[str, str]()[phrase]
        except KeyError as error:
            logging.getLogger("vault").exception("no %s", inner)
            raise ValueError(f"{plain} does not open it: {order.many[0].get_secret_value()!r}") from error
    mark = _digest([plain, inner, phrase, str(number)])
    return Reply(token=order.plain, said=f"with {plain} and {number}", heard={inner: phrase}, mark=mark)


def make_vault(url: str | None = None, *, has_train: bool = True) -> Gandy:
    """Make the application; without its train it is what a deploy has left of it."""
    worker = {"slots": 4, "poll_every": timedelta(milliseconds=50)}
    app = Gandy(VAULT, url, web={"port": 0, "token": TOKEN, "readonly_token": READER}, worker=worker)
    if has_train:
        app.train(max_retries=1)(guarded)
        app.schedule("vaulted", guarded, order("schedule"), every(hours=1))
        app.schedule("parked", guarded, order("parked"), every(hours=1), max_retries=1)
    return app


async def populate(app: Gandy) -> None:
    """Leave a payload in every place."""
    async with app:
        await app.seed()
        await app.enqueue_many(guarded, [order("well"), order("ill")])
        await app.trigger("parked")
        await app.work(asyncio.Event(), until_idle=True)
        await app.trigger("vaulted", delay=timedelta(days=1), input=order("trigger"))
        await app.tick("manifest-manager")
        await app.run(guarded, order("here"))
        await app.enqueue(guarded, order("queued"), delay=timedelta(days=1), unique_for=timedelta(days=1))
        await _operate(app)


async def _operate(app: Gandy) -> None:
    owners, url = OneOwner(app.name), app.settings.database.url
    manifests = ManifestDesk(app.database, _SOMEBODY, owners=owners, registry=app.registry)
    await manifests.set("vaulted", ManifestChanges(input_json=json.dumps(stored_order("override"))))
    (letter,) = ids(url, "dead_letter", "manifest_id IS NULL", owner=app.name)
    letters = DeadLetterDesk(app.database, _SOMEBODY, owners=owners, registry=app.registry)
    assert (await letters.requeue([letter], input_json=json.dumps(stored_order("requeue")))).requeued
    ended = ids(url, "metadata", "name = 'guarded' AND train_state = 'completed'", owner=app.name)
    queue = QueueDesk(app.database, _SOMEBODY, owners=owners)
    text = json.dumps(stored_order("rerun"))
    await queue.rerun(ended[0], input_json=text, registry=app.registry)


def prepare(url: str) -> None:
    """Fill a fresh database."""
    migrate(url)
    asyncio.run(populate(make_vault(url)))


@pytest.fixture
def vault_url(database_home: DatabaseHome) -> Iterator[str]:
    """A database that the vault has worked with, of each kind in turn."""
    with database_home.database(database_home.template("vault", prepare)) as url:
        yield url


def leaks(text: str) -> list[str]:
    """Name every secret of which four letters, or the whole number, stand in a text."""
    shown = _RANDOM.sub("", text)
    pieces = {run[at : at + 4] for run in _RUNS.findall(shown) for at in range(len(run) - 3)}
    numbers = set(_NUMBERS.findall(shown))
    return [name for name, found in _pieces().items() if found & (pieces | numbers)]


@cache
def _pieces() -> dict[str, set[str]]:
    """Cut every secret into its pieces; a number stands for itself, for its pieces are in any other."""
    return {
        f"{secret} of {label}": {secret}
        if secret.isdigit()
        else {secret[at : at + 4] for at in range(len(secret) - 3)}
        for label in LABELS
        for secret in secrets_of(label)
    }
