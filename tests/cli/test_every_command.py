"""Every command there is, as a process on PostgreSQL; the list comes from the command line itself."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import click
import psycopg
import pytest

from gandy.cli.main import main
from tests.cli.process import run_gandy

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

APP = """
from gandy import Gandy, Run, every

app = Gandy("billing")

@app.train(max_retries=1)
async def send(n: int, run: Run) -> int:
    run.log.info("sending %s", n)
    if n == 13:
        raise ValueError("unlucky")
    return n

app.group("post", max_active_jobs=2)
app.schedule("nightly", send, 1, every(hours=1), group="post")
"""
CONTRACT = """
version = 1
[lifecycle.outbox]
every = "1h"
[[lifecycle.outbox.tables]]
name = "outbox"
schema = "public"
rules = [{ older_than = "created_at", keep_for = "1d", lost_by_design = "replay history" }]
"""
OUTBOX = """
CREATE TABLE outbox (id bigint PRIMARY KEY, created_at timestamptz NOT NULL);
CREATE INDEX ON outbox (created_at);
"""
OLD_ROWS = "INSERT INTO public.outbox SELECT n, now() - interval '3 days' FROM generate_series(1, 5) n"
BY_CONTRACT = ("--contract", "contract.toml")


def commands(group: click.Group, *path: str) -> Iterator[str]:
    """Name every command of the tree."""
    context = click.Context(group)
    for name in group.list_commands(context):
        command = group.get_command(context, name)
        if isinstance(command, click.Group):
            yield from commands(command, *path, name)
        else:
            yield " ".join((*path, name))


EVERY = frozenset(commands(main))


class Walk:
    """Calls commands as processes, and remembers which."""

    def __init__(self, folder: Path, url: str) -> None:
        self.folder = folder
        self.url = url
        self.variables = {"GANDY_APP": "billing:app", "GANDY_DATABASE_URL": url}
        self.walked: set[str] = set()

    def __call__(self, *arguments: str, code: int = 0) -> str:
        """Run one to its end."""
        self.note(arguments)
        ended = run_gandy(self.folder, *arguments, **self.variables)
        assert ended.returncode == code, (arguments, ended.stdout, ended.stderr)
        return ended.stdout

    def json(self, *arguments: str, code: int = 0) -> Any:  # noqa: ANN401 whatever it prints
        """Run one that prints JSON, and nothing else."""
        return json.loads(self(*arguments, "--json", code=code))

    @contextmanager
    def serving(self, *arguments: str, until: str) -> Iterator[None]:
        """Keep one running, from the line that says that it is there."""
        self.note(arguments)
        inherited = {name: value for name, value in os.environ.items() if not name.startswith("GANDY_")}
        with subprocess.Popen(
            [sys.executable, "-m", "gandy", *arguments],
            cwd=self.folder,
            env={**inherited, **self.variables},
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
        ) as process:
            assert process.stderr is not None
            assert any(until in line for line in process.stderr), arguments
            yield
            process.send_signal(signal.SIGTERM)
            process.stderr.read()
        assert process.returncode == 0, arguments

    def note(self, arguments: tuple[str, ...]) -> None:
        words = arguments[2:] if arguments[0] == "--database" else arguments
        (named,) = EVERY & {words[0], " ".join(words[:2])}
        self.walked.add(named)


@pytest.fixture
def walk(tmp_path: Path, postgres_url: str) -> Walk:
    (tmp_path / ".git").mkdir()
    (tmp_path / "billing.py").write_text(APP)
    (tmp_path / "contract.toml").write_text(CONTRACT)
    with psycopg.connect(postgres_url, autocommit=True) as link:
        link.execute(OUTBOX)
        link.execute(OLD_ROWS)
    return Walk(tmp_path, postgres_url)


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_every_command_is_walked_on_postgres(walk: Walk) -> None:
    begin(walk)
    work_off(walk)
    operate_manifests(walk)
    operate_groups(walk)
    operate_workers(walk)
    keep_tables(walk)
    assert "schema" in walk.json("doctor", code=1)["checked"]
    assert walk.json("--database", walk.url, "demo", "--seconds", "0.5")["database"] == walk.url

    assert walk.walked == EVERY


def begin(walk: Walk) -> None:
    walk("init", "fresh")
    assert (walk.folder / "fresh" / "app.py").is_file()
    walk("migrate", "--check", code=1)
    assert "CREATE TABLE" in walk("migrate", "--sql")
    walk("migrate")
    walk("migrate", "--check")
    assert "GRANT USAGE ON SCHEMA gandy" in walk("migrate", "--grants", "somebody")
    assert walk.json("sync")
    assert json.loads(walk("tick", "manifest-manager"))
    assert [train["name"] for train in walk.json("trains", "list")] == ["send"]
    assert "hunter2" not in walk("config", "show")


def work_off(walk: Walk) -> None:
    good, bad, worse = (walk.json("queue", "enqueue", "send", "--input", n)["id"] for n in ("1", "13", "13"))
    walk("work", "--until-idle", code=1)
    assert {good, bad, worse} <= {run["id"] for run in walk.json("runs", "list")}
    assert {each["window"] for each in walk.json("stats")} == {3_600.0, 86_400.0, 604_800.0}
    assert walk.json("runs", "show", str(bad))["state"] == "failed"
    assert [line["message"] for line in walk.json("runs", "logs", str(good))] == ["sending 1"]
    assert not walk("runs", "fail", str(good), code=1)
    again = walk.json("runs", "rerun", str(good))["id"]
    assert walk.json("runs", "cancel", str(again))["cancelled"] == [again]
    later = walk.json("queue", "enqueue", "send", "--input", "1", "--delay", "1h")["id"]
    assert later in {entry["id"] for entry in walk.json("queue", "list")}
    assert walk.json("queue", "show", str(later))["waits_for"] == "time"
    assert walk.json("queue", "explain", str(later))["conditions"]
    assert walk.json("runs", "show", str(later))["input"] == 1
    assert walk.json("queue", "cancel", str(later))["cancelled"] == [later]
    assert "cancel run" in {deed["action"] for deed in walk.json("audit", "list", "--on", str(later))}
    first, second = (letter["id"] for letter in walk.json("dead-letters", "list"))
    assert walk.json("dead-letters", "show", str(first))["status"] == "awaiting_intervention"
    assert walk.json("dead-letters", "requeue", str(first), "--input", "1")["requeued"]
    assert walk.json("dead-letters", "acknowledge", str(second), "--note", "seen")["acknowledged"] == [second]


def operate_manifests(walk: Walk) -> None:
    for external_id in ("made-here", "made-too"):
        made = walk.json("manifests", "add", external_id, "send", "--every", "1h", "--input", "2")
        assert made["origin"] == "runtime"
    assert len(walk.json("manifests", "list")) == 3
    assert {"made-here", "made-too"} <= {each["external_id"] for each in walk.json("upcoming", "--for", "2h")}
    walk("manifests", "delete", "made-here", "--yes")
    walk("manifests", "remove", "made-too", "--yes")
    assert walk.json("manifests", "set", "nightly", "--priority", "7", "--exclude", '[{"days": ["sun"]}]')
    assert walk.json("manifests", "show", "nightly")["priority"] == 7
    ahead = walk.json("manifests", "set", "nightly", "--next", "2090-01-02T03:04:05+01:00")
    assert ahead["next_scheduled_run"] == ahead["overrides"]["next"] == "2090-01-02T02:04:05Z"
    assert walk.json("manifests", "reset", "nightly")["overrides"] == {}
    assert walk.json("manifests", "disable", "nightly", "--reason", "audit")["state"] == "disabled"
    assert walk.json("manifests", "explain", "nightly")["holding_back"]
    assert walk.json("manifests", "enable", "nightly")["state"] == "enabled"
    assert len(walk.json("manifests", "preview", "nightly", "--count", "3")) == 3
    triggered = walk.json("manifests", "trigger", "nightly", "--delay", "30m")["id"]
    assert walk.json("manifests", "cancel", "nightly")["cancelled"] == [triggered]


def operate_groups(walk: Walk) -> None:
    assert "post" in {group["name"] for group in walk.json("groups", "list")}
    assert walk.json("groups", "set", "post", "--max-active", "9")["max_active_jobs"] == 9
    assert walk.json("groups", "reset", "post")["max_active_jobs"] == 2
    assert walk.json("groups", "show", "post")["manifests"] == 1
    triggered = walk.json("groups", "trigger", "post", "--yes")
    assert [each["id"] for each in triggered] == walk.json("groups", "cancel", "post", "--yes")["cancelled"]


def operate_workers(walk: Walk) -> None:
    with walk.serving("up", "--services", "worker", until="is up"):
        (worker,) = walk.json("workers", "list", "--alive")
        assert [each["pid"] for each in walk.json("health")] == [worker["pid"]]
        walk("workers", "drain", worker["id"])
        assert walk.json("workers", "list", "--alive")[0]["state"] == "draining"

    with walk.serving("up", "--services", "web", "--port", "0", until="the dashboard is at"):
        assert "/login?code=" in walk("open", "--print")


def keep_tables(walk: Walk) -> None:
    walk.variables |= {"GANDY_APP": ""}
    target = ("--target", walk.url)
    walk("lifecycle", "check", *BY_CONTRACT, *target)
    (planned,) = walk.json("lifecycle", "plan", *BY_CONTRACT, *target)
    assert planned["rows"] == 5
    walk("lifecycle", "sweep", "--yes", *BY_CONTRACT, *target)
    assert walk.json("lifecycle", "quarantine", *target) == []
    assert "outbox" in walk("lifecycle", "audit", *BY_CONTRACT, *target)
    with psycopg.connect(walk.url, autocommit=True) as link:
        link.execute(OLD_ROWS)
    with walk.serving("lifecycle", "run", *BY_CONTRACT, *target, until="outbox.lifecycle_pruned"):
        assert walk.json("lifecycle", "plan", *BY_CONTRACT, *target)[0]["rows"] == 0
    assert walk.json("lifecycle", "forget", "outbox", "--yes", *target)["rules"] == 1
    walk.variables |= {"GANDY_APP": "billing:app"}
    assert isinstance(walk.json("lifecycle", "growth"), list)
