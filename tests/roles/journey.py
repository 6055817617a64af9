"""All that an application does with its database: services, pages, the command line."""

from __future__ import annotations

import asyncio
import json
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, Final

from gandy.app.running import TICKS
from gandy.clock import ManualClock
from tests.web.addresses import addresses
from tests.web.conftest import bearer, client_of
from tests.web.shop import Parcel, make_shop, populate, send_parcel

if TYPE_CHECKING:
    from pathlib import Path

    from gandy import Gandy
    from tests.cli.conftest import Gandy as CommandLine

TOKEN: Final = "a-token-of-the-operator"
APP: Final = """
from gandy import Gandy, Run, every

app = Gandy("billing")

@app.train(max_retries=1)
async def send(n: int, run: Run) -> int:
    run.log.info("sending %s", n)
    if n == 13:
        raise ValueError("unlucky")
    return n

app.group("post", max_active_jobs=2)
app.schedule("weekly", send, 1, every(hours=1), group="post")
"""


async def serve(url: str, *, is_read: bool = False) -> None:
    """Work, tick every service on two days, and read every page."""
    clock = ManualClock(datetime.now(UTC))
    app = make_shop(url, token=TOKEN)
    app.use_clock(clock)
    async with app:
        await populate(app)
        await app.enqueue(
            send_parcel, Parcel(address="Bonn"), unique_for=timedelta(hours=1), delay=timedelta(1)
        )
        for day in (0, 2):
            clock.advance(timedelta(days=day))
            for service in TICKS:
                await app.tick(service)
            await app.work(asyncio.Event(), until_idle=True)
        if is_read:
            await _read_everything(app)
    app.use_clock(None)


async def _read_everything(app: Gandy) -> None:
    async with client_of(app, headers=bearer(TOKEN)) as client:
        runs = (await client.get("/api/v1/runs")).json()["items"]
        letters = (await client.get("/api/v1/dead-letters")).json()["items"]
        entries = (await client.get("/api/v1/queue")).json()["items"]
        found = {"run_id": runs, "entry_id": entries, "letter_id": letters}
        known = {name: [rows[0]["id"]] for name, rows in found.items()}
        for address in addresses(**known):
            if "&" in address:  # two filters at once look up no other name
                continue
            answer = await client.get(address)
            assert answer.status_code < 500, (address, answer.text)


class Operator:
    """Calls the command line on one database, for one application."""

    def __init__(self, gandy: CommandLine, folder: Path, url: str) -> None:
        (folder / "billing.py").write_text(APP, encoding="utf-8")
        self._gandy = gandy
        self._variables = {"GANDY_APP": "billing:app", "GANDY_DATABASE_URL": url}

    def __call__(self, *arguments: str, code: int = 0) -> str:
        ended = self._gandy(*arguments, env=self._variables)
        assert ended.exit_code == code, (arguments, ended.stdout, ended.stderr)
        return ended.stdout

    def refusal(self, *arguments: str) -> str:
        """Give what it says where it fails, else nothing."""
        ended = self._gandy(*arguments, env=self._variables)
        assert ended.exit_code in {0, 1}, (arguments, ended.stdout, ended.stderr)
        return ended.stderr if ended.exit_code else ""

    def json(self, *arguments: str, code: int = 0) -> Any:  # noqa: ANN401 whatever it prints
        return json.loads(self(*arguments, "--json", code=code))


def operate(call: Operator) -> None:
    """Use the main verbs of the command line."""
    for service in TICKS:
        call("tick", service, "--yes")  # the clock was days ahead before
    good, bad, other = (call.json("queue", "enqueue", "send", "--input", n)["id"] for n in ("1", "13", "13"))
    call("work", "--until-idle", code=1)
    call("runs", "logs", str(good), "--json")
    call("runs", "show", str(bad), "--json")
    again = call.json("runs", "rerun", str(good))["id"]
    call("runs", "cancel", str(again))
    call("queue", "list", "--json")
    first, second = (letter["id"] for letter in call.json("dead-letters", "list"))
    call("dead-letters", "requeue", str(first), "--input", "1")
    call("dead-letters", "acknowledge", str(second), "--note", "seen")
    assert other != bad
    operate_manifests(call)
    call("doctor", code=1)


def operate_manifests(call: Operator) -> None:
    for words in (
        ("manifests", "set", "weekly", "--priority", "7"),
        ("manifests", "reset", "weekly"),
        ("manifests", "disable", "weekly", "--reason", "audit"),
        ("manifests", "enable", "weekly"),
        ("manifests", "explain", "weekly"),
        ("manifests", "trigger", "weekly", "--delay", "30m"),
        ("manifests", "cancel", "weekly"),
        ("groups", "set", "post", "--max-active", "9"),
        ("groups", "reset", "post"),
        ("groups", "trigger", "post", "--yes"),
        ("groups", "cancel", "post", "--yes"),
        ("workers", "list"),
        ("runs", "list"),
    ):
        call(*words)
