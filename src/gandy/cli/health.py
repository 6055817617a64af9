"""`gandy health`: whether the processes of this host answer, for probes without HTTP."""

from __future__ import annotations

import asyncio
import json
import os
import platform
from dataclasses import dataclass
from http.client import HTTPConnection, HTTPException
from typing import TYPE_CHECKING, Final
from urllib.parse import urlsplit

import click

from gandy.cli.call import Call, pass_call
from gandy.cli.open import places_here
from gandy.cli.options import example, json_option
from gandy.cli.output import emit_rows, human, say
from gandy.cli.session import CommandSession, with_session
from gandy.desk.audit import local_operator
from gandy.desk.groups import WorkerDesk
from gandy.errors import NoDatabaseError
from gandy.model.owners import OneOwner
from gandy.settings.values import presentable
from gandy.telemetry.observing import WORKER_PROCESS

if TYPE_CHECKING:
    from collections.abc import Iterator

    from gandy.desk.groups import WorkerSummary
    from gandy.web.access.keys import ServedPlace

_PATIENCE: Final = 5.0
_OK: Final = 200
_UP: Final = frozenset({"running", "draining"})


@dataclass(frozen=True, slots=True)
class LocalProcess:
    """A process of this host, and what is wrong with it."""

    pid: int
    answers_by: str
    problem: str | None


@click.command(epilog=example("gandy --app billing:app health"))
@json_option
@click.pass_context
@pass_call
def health(call: Call, ctx: click.Context, *, as_json: bool) -> None:
    """Check that the processes of this host answer, for probes without HTTP.

    A process with a worker answers by its lease in the database, one with the dashboard by /healthz; the
    latter also names those of its worker processes that are starting or do not answer. If one does not
    answer, or none of the application runs here, the exit code is 1, and the reason is on stderr.
    """
    try:
        found = with_session(call, _find)
    except NoDatabaseError:  # then no process has started yet
        found = []
    emit_rows(found, ("pid", "answers_by", "problem"), as_json=as_json)
    problems = [f"process {each.pid}: {each.problem}" for each in found if each.problem]
    if not found:
        problems.append(f"no process with a worker or the dashboard of this application runs on {_host()}")
    for problem in problems:
        say(f"gandy: {problem}")
    if problems:
        ctx.exit(1)


async def _find(session: CommandSession) -> list[LocalProcess]:
    desk = WorkerDesk(session.database, local_operator("cli"), owners=session.owners)
    workers = [each for each in await desk.list() if each.host == _host()]
    owner = session.owners.name if isinstance(session.owners, OneOwner) else None
    places = await asyncio.to_thread(places_here, session.settings.database.url, owner)
    answers = await asyncio.gather(*(asyncio.to_thread(_ask, place) for place in places))
    return [*_by_lease(workers), *answers]


def _by_lease(workers: list[WorkerSummary]) -> Iterator[LocalProcess]:
    """Judge workers by their leases; one that has ended or crashed is no longer a process."""
    for worker in workers:
        if worker.is_alive and worker.slots:
            yield LocalProcess(worker.pid, "lease", None)
        elif worker.state in _UP and worker.slots and _runs(worker.pid):
            silent = f"has not renewed the lease of its worker for {human(worker.silent_for)}"
            yield LocalProcess(worker.pid, "lease", silent)


def _runs(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:  # it runs as another user
        return True
    return True


def _ask(place: ServedPlace) -> LocalProcess:
    connection = HTTPConnection(urlsplit(place.address).netloc, timeout=_PATIENCE)
    try:
        status, _ = _get(connection, "/healthz")
        problem = f"{place.address}/healthz answers {status}" if status != _OK else _of_workers(connection)
    except (OSError, HTTPException, ValueError) as error:
        problem = f"{place.address}/healthz does not answer: {str(error) or type(error).__name__}"
    finally:
        connection.close()
    return LocalProcess(place.pid, "http", problem)


def _get(connection: HTTPConnection, path: str) -> tuple[int, bytes]:
    connection.request("GET", path)
    answer = connection.getresponse()
    return answer.status, answer.read()


def _of_workers(connection: HTTPConnection) -> str | None:
    """Return what is wrong with the worker processes of a process; other problems do not end processes."""
    _, body = _get(connection, "/readyz")
    problems = [each for each in json.loads(body)["problems"] if each.startswith(WORKER_PROCESS)]
    return "; ".join(problems) or None


def _host() -> str:
    return presentable(platform.node())
