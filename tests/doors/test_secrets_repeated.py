"""Texts of secrets that come back by other ways: in keys, in values that do not fit, in other forms."""

from __future__ import annotations

import asyncio
import json
import logging
from datetime import timedelta
from io import StringIO

import pytest
from pydantic import BaseModel, SecretStr, field_validator

from gandy import Gandy
from gandy.model.layout import Layouts
from gandy.store.drivers.opening import migrate
from gandy.train.codec import PayloadCodec
from tests.doors.neighbours import rows, write
from tests.doors.vault import Order, leaks, order, secrets_of, stored_order

PIN = secrets_of("well")[0]
AWKWARD = f'{secrets_of("ill")[0]}"\\\n{secrets_of("here")[0]}é'


class Door(BaseModel):
    pin: SecretStr

    @field_validator("pin")
    @classmethod
    def _is_no_sentence(cls, value: SecretStr) -> SecretStr:
        if " " in value.get_secret_value():
            raise ValueError(f"{value.get_secret_value()} is a sentence")
        return value


async def open_door(door: Door) -> str:
    return f"opened with {door.pin.get_secret_value()}"


async def slam(door: Door) -> str:
    pin = door.pin.get_secret_value()
    logging.getLogger("doors").warning("as JSON %s", json.dumps({"pin": pin}))
    raise ValueError(f"{pin!r} or {json.dumps(pin)} or {pin}")


def make_doors(url: str) -> Gandy:
    migrate(url)
    app = Gandy("doors", url, worker={"slots": 1, "poll_every": timedelta(milliseconds=50)})
    app.train(open_door)
    app.train(max_retries=1)(slam)
    return app


def everything_but_inputs(url: str) -> str:
    runs = [{**row, "input": ""} for row in rows(url, "SELECT * FROM metadata")]
    letters = [{**row, "input": ""} for row in rows(url, "SELECT * FROM dead_letter")]
    keys = rows(url, "SELECT * FROM unique_key") + rows(url, "SELECT unique_key FROM work_queue")
    return json.dumps([runs, letters, keys, rows(url, "SELECT * FROM log")], default=str, ensure_ascii=False)


async def test_the_key_of_a_unique_job_is_not_readable(database_url: str) -> None:
    async with make_doors(database_url) as app:
        first = await app.enqueue(open_door, Door(pin=SecretStr(PIN)), unique_for=timedelta(hours=1))
        second = await app.enqueue(open_door, Door(pin=SecretStr(PIN)), unique_for=timedelta(hours=1))
        other = await app.enqueue(open_door, Door(pin=SecretStr(PIN[::-1])), unique_for=timedelta(hours=1))

    assert first.id == second.id != other.id
    assert rows(database_url, "SELECT * FROM unique_key")
    assert leaks(everything_but_inputs(database_url)) == []


async def test_an_input_that_does_not_fit_any_more_is_not_repeated(database_url: str) -> None:
    async with make_doors(database_url) as app:
        await app.enqueue(open_door, Door(pin=SecretStr(PIN)))
        write(database_url, f"""UPDATE work_queue SET input = '{{"pin": "{PIN} {PIN}"}}'""")  # noqa: S608
        await app.work(asyncio.Event(), until_idle=True)

    (run,) = rows(database_url, "SELECT failure_reason FROM metadata WHERE name = 'open_door'")
    assert "is a sentence" in run["failure_reason"]
    assert leaks(everything_but_inputs(database_url)) == []


async def test_other_forms_of_a_secret_are_masked(database_url: str) -> None:
    written = StringIO()
    handler = logging.StreamHandler(written)
    logging.getLogger().addHandler(handler)
    try:
        async with make_doors(database_url) as app:
            await app.enqueue(slam, Door(pin=SecretStr(AWKWARD)))
            await app.work(asyncio.Event(), until_idle=True)
    finally:
        logging.getLogger().removeHandler(handler)

    assert "as JSON" in written.getvalue()
    assert leaks(written.getvalue()) == []
    assert leaks(everything_but_inputs(database_url)) == []


async def test_an_enqueue_costs_no_further_statement_once_the_layout_is_recorded(
    database_url: str,
) -> None:
    async with make_doors(database_url) as app:
        await app.enqueue(open_door, Door(pin=SecretStr(PIN)))
        recorded = rows(database_url, "SELECT * FROM payload_layout")
        assert [row["train_name"] for row in recorded] == ["open_door"]
        write(database_url, "DELETE FROM payload_layout")
        await app.enqueue(open_door, Door(pin=SecretStr(PIN)))
        assert rows(database_url, "SELECT * FROM payload_layout") == []

    async with make_doors(database_url) as app:
        await app.seed()
        await app.seed()
        trains = {row["train_name"] for row in rows(database_url, "SELECT * FROM payload_layout")}
        assert trains == {"open_door", "slam"}
        await app.run(open_door, Door(pin=SecretStr(PIN)))
    assert len(rows(database_url, "SELECT * FROM payload_layout")) == 2


@pytest.mark.parametrize("key", ["passPhrase", "aliased"])
def test_every_name_of_a_field_is_known(key: str) -> None:
    codec: PayloadCodec[Order] = PayloadCodec(Order, train="guarded", part="input")
    sent = {**stored_order("well"), "unheard": {"of": PIN}}
    sent[key] = sent.pop("aliased")

    shown = Layouts([codec.layout]).shown(json.dumps(sent))

    assert leaks(json.dumps(shown)) == []
    assert (shown["mood"], shown["card"]["holder"]) == ("well", "ada")
    assert codec.decode(codec.encode(order("well"))) == order("well")
