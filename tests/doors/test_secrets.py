"""What a train declares as secret is shown by no way out, to nobody, whether its train is known or not."""

from __future__ import annotations

import json
import logging
import re
from html import unescape
from io import StringIO
from typing import TYPE_CHECKING, Any

import click
import pytest

from gandy.store.drivers.opening import migrate
from gandy.web.access.gate import Access
from tests.doors.calls import GUARDED, calls, client_of
from tests.doors.neighbours import TOKEN, ids, rows, write
from tests.doors.test_owners_by_command import COMMANDS, WITH_ID
from tests.doors.test_owners_by_command import calls as command_lines
from tests.doors.vault import (
    LABELS,
    READER,
    VAULT,
    leaks,
    make_vault,
    mark_of,
    populate,
    secrets_of,
    stored_order,
)

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    import httpx

    from tests.cli.conftest import Gandy

READS = [route for route in GUARDED if route.access is Access.READS]
MASK = "**********"
#: Verbs that leave nothing for the others to show.
CHANGES = frozenset(
    [
        "trigger",
        "set",
        "reset",
        "enable",
        "disable",
        "rerun",
        "requeue",
        "acknowledge",
        "cancel",
        "delete",
        "fail",
        "drain",
    ]
)
APPS = {
    "known": "from tests.doors.vault import make_vault\napp = make_vault()\n",
    "removed": "from tests.doors.vault import make_vault\napp = make_vault(has_train=False)\n",
    "another": "from gandy import Gandy\napp = Gandy('elsewhere')\n",
}


def known_ids(url: str) -> dict[str, Sequence[object]]:
    """Give every parameter all that it may ask for."""
    jobs = {
        *ids(url, "work_queue", "1 = 1", owner=VAULT),
        *ids(url, "metadata", "name = 'guarded'", owner=VAULT),
    }
    letters = ids(url, "dead_letter", "1 = 1", owner=VAULT)
    return {
        "run_id": sorted(jobs),
        "run_ids": sorted(jobs),
        "entry_id": sorted(jobs),
        "entry_ids": sorted(jobs),
        "letter_id": letters,
        "letter_ids": letters,
        "worker_id": [rows(url, "SELECT id FROM worker ORDER BY id")[0]["id"]],
        "external_id": ["vaulted", "parked"],
        "name": ["default"],
        "train": ["guarded"],
        "scheduler": ["gandy"],
    }


@pytest.mark.parametrize("has_train", [True, False], ids=["known", "removed"])
async def test_no_route_shows_a_secret(vault_url: str, *, has_train: bool) -> None:
    known, shown = known_ids(vault_url), 0
    async with make_vault(vault_url, has_train=has_train) as app, client_of(app) as client:
        for token in (TOKEN, READER):
            client.headers["Authorization"] = f"Bearer {token}"
            for route in READS:
                for call in calls(route, known):
                    answer = await call.send(client)
                    assert leaks(answer.text) == [], (call.path, answer.text)
                    shown += MASK in answer.text
        metrics = await client.get("/metrics")
        assert leaks(metrics.text) == []
    assert shown > 20, "payloads were shown, with masks in them"


@pytest.mark.parametrize("situation", [*APPS, "alone"])
def test_no_command_shows_a_secret(
    vault_url: str, gandy: Gandy, folder: Path, imports: None, situation: str
) -> None:
    assert imports is None
    env = {"GANDY_DATABASE_URL": vault_url}
    if situation in APPS:
        (folder / f"{situation}_vault.py").write_text(APPS[situation])
        env["GANDY_APP"] = f"{situation}_vault:app"
    whose = ["--owner", VAULT] if situation in {"another", "alone"} else []
    output = ""
    for arguments in _command_lines(known_ids(vault_url)):
        ended = gandy(*whose, *arguments, env=env)
        assert leaks(ended.output) == [], (arguments, ended.output)
        assert leaks(ended.stderr) == [], (arguments, ended.stderr)
        output += ended.output
    assert output.count(MASK) > 20, "payloads were shown, with masks in them"
    assert '"ada"' in output, "what is not secret is shown"


def _command_lines(known: Mapping[str, Sequence[object]]) -> list[list[str]]:
    """Call every command, those that change something once and last."""
    lines: list[list[str]] = []
    for name, command in COMMANDS.items():
        asked = [*command_lines(name, command, known)] if name in WITH_ID else [name.split()]
        has_json = any("--json" in each.opts for each in command.params if isinstance(each, click.Option))
        asked = asked[:1] if name.split()[-1] in CHANGES else asked
        lines += [*asked, *([*each, "--json"] for each in asked if has_json)]
    return sorted(lines, key=lambda line: any(verb in line for verb in CHANGES))


def parsed(value: Any) -> Any:  # noqa: ANN401 a column of JSON: text in one database, a value in the other
    return json.loads(value) if isinstance(value, str) else value


def test_nothing_but_the_inputs_is_stored_with_a_secret_in_it(vault_url: str) -> None:
    runs = rows(vault_url, "SELECT * FROM metadata WHERE name = 'guarded'")
    assert {row["train_state"] for row in runs} >= {"completed", "failed"}
    for row in runs:
        said = {key: value for key, value in row.items() if key not in {"input", "output"}}
        assert leaks(json.dumps(said, default=str)) == []
        output = parsed(row["output"]) or {}
        assert leaks(json.dumps({**output, "token": ""})) == [], (
            "the output's own secret is kept, no other text"
        )
    for table in ("log", "audit", "unique_key", "payload_layout", "manifest_group"):
        assert leaks(json.dumps(rows(vault_url, f"SELECT * FROM {table}"), default=str)) == [], table  # noqa: S608
    letters = rows(vault_url, "SELECT reason, evidence FROM dead_letter")
    assert letters
    assert leaks(json.dumps(letters, default=str)) == []


def test_the_job_itself_receives_the_real_values(vault_url: str) -> None:
    runs = rows(vault_url, "SELECT output FROM metadata WHERE name = 'guarded' AND train_state = 'completed'")
    outputs = [
        row["output"] if isinstance(row["output"], dict) else json.loads(row["output"]) for row in runs
    ]
    assert {each["mark"] for each in outputs} >= {mark_of("well"), mark_of("here")}
    assert secrets_of("well")[0] in {each["token"] for each in outputs}


async def test_the_process_writes_no_secret_to_its_own_log(database_url: str) -> None:
    written = StringIO()
    handler = logging.StreamHandler(written)
    root = logging.getLogger()
    root.addHandler(handler)
    migrate(database_url)
    try:
        await populate(make_vault(database_url))
    finally:
        root.removeHandler(handler)
    assert MASK in written.getvalue()
    assert leaks(written.getvalue()) == []


#: An application that is deployed once with its train and once without; written with public names only.
DEPLOYED = """
from pydantic import BaseModel, SecretStr
from gandy import Gandy
app = Gandy("courier")
class Parcel(BaseModel):
    to: str
    pin: SecretStr
"""
TRAIN = """
@app.train
def deliver(parcel: Parcel) -> str:
    return f"left with {parcel.pin.get_secret_value()}"
"""


def test_a_secret_of_a_removed_train_is_not_shown(
    database_url: str, gandy: Gandy, folder: Path, imports: None
) -> None:
    assert imports is None
    pin = secrets_of("well")[0]
    (folder / "before.py").write_text(DEPLOYED + TRAIN)
    (folder / "after.py").write_text(DEPLOYED)
    before = {"GANDY_DATABASE_URL": database_url, "GANDY_APP": "before:app"}
    assert gandy("migrate", env=before).exit_code == 0
    for call in (
        ("queue", "enqueue", "deliver", "--input", json.dumps({"to": "ada", "pin": pin})),
        ("work", "--until-idle"),
    ):
        assert gandy(*call, env=before).exit_code == 0
    (run,) = ids(database_url, "metadata", "name = 'deliver'", owner="courier")

    shown = gandy("runs", "show", str(run), "--json", env={**before, "GANDY_APP": "after:app"})

    assert json.loads(shown.stdout)["input"] == {"to": "ada", "pin": MASK}
    assert leaks(shown.stdout) == []


def test_a_payload_of_a_train_that_nothing_is_known_about_is_only_measured(
    vault_url: str, gandy: Gandy
) -> None:
    write(vault_url, "DELETE FROM payload_layout")
    (run, *_) = ids(vault_url, "metadata", "name = 'guarded'", owner=VAULT)

    shown = gandy("--owner", VAULT, "runs", "show", str(run), "--json", env={"GANDY_DATABASE_URL": vault_url})

    found = json.loads(shown.stdout)
    assert found["input"].startswith("*** (")
    assert found["input"].endswith(" bytes)")
    assert found["output"].startswith("*** (")
    assert leaks(shown.stdout) == []


def test_what_an_older_version_called_secret_stays_masked(vault_url: str, gandy: Gandy, folder: Path) -> None:
    (folder / "newer_vault.py").write_text(
        "from tests.doors.vault import make_vault\napp = make_vault(has_train=False)\n"
        "async def guarded(order: dict[str, object]) -> dict[str, object]: return order\n"
        "app.train(guarded)\n"
    )
    env = {"GANDY_DATABASE_URL": vault_url, "GANDY_APP": "newer_vault:app"}
    assert gandy("sync", env=env).exit_code == 0

    for run in ids(vault_url, "metadata", "name = 'guarded'", owner=VAULT):
        shown = gandy("runs", "show", str(run), "--json", env=env)
        assert shown.exit_code == 0, shown.output
        assert leaks(shown.stdout) == []


def shown_order(label: str) -> dict[str, Any]:
    """Say how a payload is shown."""
    shown = dict.fromkeys(("plain", "aliased", "either", "raw", "number"), MASK)
    more = {"nested": {"inner": MASK, "note": "plain"}, "many": [MASK, MASK], "named": {"first": MASK}}
    return {"mood": stored_order(label)["mood"], **shown, **more, "card": {"code": MASK, "holder": "ada"}}


def stored(url: str, table: str, column: str, condition: str) -> list[Any]:
    found = [row[column] for row in rows(url, f"SELECT {column} FROM {table} WHERE {condition} ORDER BY id")]  # noqa: S608
    return [parsed(each) for each in found]


@pytest.mark.parametrize("has_train", [True, False], ids=["known", "removed"])
async def test_a_mask_that_is_sent_back_keeps_the_stored_secret(vault_url: str, *, has_train: bool) -> None:
    edited = {**shown_order("well"), "mood": "edited"}
    (run,) = _run_of(vault_url, "well")
    (letter,) = ids(vault_url, "dead_letter", "status = 'awaiting_intervention'", owner=VAULT)
    async with make_vault(vault_url, has_train=has_train) as app, client_of(app) as client:
        assert (await client.get(f"/api/v1/runs/{run}")).json()["input"] == shown_order("well")
        again = await client.post(f"/api/v1/runs/{run}/rerun", json={"input": edited})
        assert again.status_code == 200, again.text
        await _is_queued(client, f"/api/v1/dead-letters/{letter}/requeue", {"input": edited})
        await _is_queued(client, "/api/v1/manifests/vaulted/set", {"input": edited})

    queued = stored(vault_url, "work_queue", "input", "status = 'queued'")
    for label in ("well", "parked"):
        assert {**stored_order(label), "mood": "edited"} in queued
    (override,) = stored(vault_url, "manifest", "properties", "external_id = 'vaulted'")
    assert override == {**stored_order("override"), "mood": "edited"}


async def _is_queued(client: httpx.AsyncClient, path: str, body: Mapping[str, object]) -> None:
    answer = await client.post(path, json=dict(body))
    assert answer.status_code == 200, (path, answer.text)


def _run_of(url: str, label: str) -> list[int]:
    found = rows(url, "SELECT id, input FROM metadata WHERE name = 'guarded' ORDER BY id")
    texts = [(row["id"], json.dumps(row["input"], default=str)) for row in found]
    return [run for run, text in texts if secrets_of(label)[0] in text]


@pytest.mark.parametrize(
    "edited",
    [{"many": [MASK]}, {"named": {"second": MASK}}, {"card": MASK}, {"passPhrase": MASK}],
    ids=["a list of another length", "a key that was not there", "a part of another kind", "an alias"],
)
async def test_a_mask_that_stands_for_nothing_is_refused(
    vault_url: str, edited: Mapping[str, object]
) -> None:
    (run,) = _run_of(vault_url, "well")
    before = stored(vault_url, "work_queue", "input", "1 = 1")
    async with make_vault(vault_url) as app, client_of(app) as client:
        for path, body in (
            (f"/api/v1/runs/{run}/rerun", {"input": {**shown_order("well"), **edited}}),
            ("/api/v1/queue/enqueue", {"train": "guarded", "input": {**shown_order("well"), **edited}}),
        ):
            answer = await client.post(path, json=body)
            assert answer.status_code == 422, (path, answer.text)
            assert "mask" in answer.text

    assert stored(vault_url, "work_queue", "input", "1 = 1") == before


async def test_a_form_that_is_sent_back_as_it_is_keeps_the_secrets(vault_url: str) -> None:
    (run,) = _run_of(vault_url, "well")
    async with make_vault(vault_url) as app, client_of(app) as client:
        page = (await client.get(f"/runs/{run}")).text
        sent = {f"field:{name}": value for name, value in _form_of(page).items()}
        answer = await client.post(f"/runs/{run}/rerun", data=sent)
        assert answer.status_code == 303, answer.text

    assert stored(vault_url, "work_queue", "input", "status = 'queued'")[-1] == stored_order("well")


def _form_of(page: str) -> dict[str, str]:
    """Read the fields of the first form that has any, as a browser would send them."""
    fields = re.findall(r'<input type="(\w+)" name="field:([^"]+)" value="([^"]*)"', page)
    areas = re.findall(r'<textarea name="field:([^"]+)"[^>]*>([^<]*)</textarea>', page)
    found = {name: unescape(value) for _, name, value in fields}
    return found | {name: unescape(value) for name, value in areas}


def test_the_judge_sees_a_piece_of_a_secret() -> None:
    for label in LABELS:
        for secret in secrets_of(label)[:-1]:
            assert f"{secret} of {label}" in leaks(f"said {secret[5:9]}.")
