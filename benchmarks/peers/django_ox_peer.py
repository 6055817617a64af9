"""django-ox: Django's tasks in its database; a pool of threads; its schedules; its removal of old tasks."""

# Its libraries are in its own environment, which the type checker does not see.
# mypy: disable-error-code="import-not-found, import-untyped, untyped-decorator"

from __future__ import annotations

import io
import logging
import queue
import threading
import time
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qs, urlsplit

import django
import psycopg
from django.conf import settings

from benchmarks.protocol import Contestant, serve

if TYPE_CHECKING:
    from collections.abc import Mapping

# From the sweep.
CONCURRENCY = 20
POLL = 0.01
LATENCY_PAUSE = 0.02
PATIENCE = 60.0
RESET = "TRUNCATE django_ox_oxtask, django_ox_oxscheduletick CASCADE"
COMPLETED = "SELECT count(*) FROM django_ox_oxtask WHERE status = 'SUCCESSFUL'"
SCHEDULES = "SELECT count(*) FROM django_ox_oxscheduletick"
MAKE_DUE = "UPDATE django_ox_oxscheduletick SET scheduled_for = scheduled_for - interval '1 hour'"
FILL = """
INSERT INTO django_ox_oxtask (
    id, task_path, args, kwargs, priority, queue_name, backend_name, status, takes_context,
    enqueued_at, run_after, started_at, last_attempted_at, finished_at,
    attempts, max_attempts, worker_ids, errors, lease_epoch)
SELECT gen_random_uuid(), '__main__.no_op', '[1, "c-1001"]', '{{}}', 0, 'default', 'default', 'SUCCESSFUL',
       false, at, at, at, at, at, 1, 3, '["w"]', '[]', 1
FROM generate_series(1, 2 * {runs}) n,
     LATERAL (SELECT now() - CASE WHEN n <= {runs} THEN interval '2 days' ELSE interval '0' END AS at) t
"""
RETENTION = "1d"
STARTED: queue.SimpleQueue[float] = queue.SimpleQueue()


def configure(url: str) -> None:
    """A project of one application, with the persistent connections that its documentation asks for."""
    parts = urlsplit(url)
    database = {
        "ENGINE": "django.db.backends.postgresql",
        "NAME": parts.path.strip("/"),
        "USER": parts.username,
        "HOST": parse_qs(parts.query)["host"][0],
        "CONN_MAX_AGE": None,
    }
    settings.configure(
        USE_TZ=True,
        INSTALLED_APPS=["django_tasks", "django_ox"],
        DATABASES={"default": database},
        TASKS={"default": {"BACKEND": "django_ox.backend.OxBackend"}},
        DEFAULT_AUTO_FIELD="django.db.models.BigAutoField",
    )
    django.setup()
    logging.getLogger("django_ox").setLevel(logging.ERROR)


def no_op(invoice: int, customer: str) -> None:  # noqa: ARG001 it does nothing
    """The task."""
    STARTED.put(time.perf_counter())


class DjangoOx(Contestant):
    """A worker for every measurement, in the thread of the request."""

    def __init__(self) -> None:
        self._concurrency = CONCURRENCY

    def setup(self, url: str) -> None:
        """Migrate."""
        configure(url)
        self._call("migrate", verbosity=0)

    def open(self, url: str) -> None:
        """A project, its task, and a connection beside it."""
        if not settings.configured:
            configure(url)
        from django_tasks import task  # noqa: PLC0415 importable once Django is set up

        self._no_op = task(no_op)
        # A task is found by its path, which has to lead to the task and not to its function.
        globals()["no_op"] = self._no_op
        self._connection = psycopg.connect(url, autocommit=True)

    def tune(self, concurrency: int) -> None:
        """Set what a sweep varies."""
        self._concurrency = concurrency

    def reset(self) -> None:
        """No task, no tick."""
        self._connection.execute(RESET)

    def enqueue(self, jobs: int) -> None:
        """Its own bulk call."""
        from django_ox.bulk import enqueue_many  # noqa: PLC0415 importable once Django is set up

        enqueue_many(self._no_op, [((number, "c-1001"), {}) for number in range(jobs)])

    def ready(self) -> None:
        """Statistics."""
        self._connection.execute("ANALYZE django_ox_oxtask")

    def work(self) -> None:
        """It can drain by itself."""
        self._worker(batch=True).run()

    def completed(self) -> int:
        """Tasks on record as successful."""
        return self._count(COMPLETED)

    def latency(self, samples: int) -> list[float]:
        """Seconds from the call of enqueue on an idle system to the start of the task."""
        while not STARTED.empty():
            STARTED.get()
        worker = self._worker()
        running = threading.Thread(target=worker.run)
        running.start()
        taken = [self._one_pickup() for _ in range(samples + 1)]
        worker.request_stop()
        running.join()
        return taken[1:]

    def seed(self, manifests: int) -> None:
        """Schedules are declared in the settings; a first look at them notes where each begins."""
        every: Mapping[str, Any] = {
            f"sync-{number}": {"task": "__main__.no_op", "every": 3600, "args": [number, "c-1001"]}
            for number in range(manifests)
        }
        self._scheduling = self._worker(schedules=every)
        self._scheduling.dispatch_schedules()

    def make_due(self, manifests: int) -> None:
        """Let all come due."""
        if manifests != self._count(SCHEDULES):
            raise NotImplementedError
        self._connection.execute(MAKE_DUE)
        self._connection.execute("VACUUM ANALYZE django_ox_oxscheduletick")

    def tick(self) -> int:
        """What every worker does once a second; answers how many tasks that made."""
        return int(self._scheduling.dispatch_schedules())

    def fill(self, runs: int) -> None:
        """Successful tasks, half of them old."""
        self.reset()
        self._connection.execute(FILL.format(runs=runs).encode())
        self._connection.execute("VACUUM ANALYZE django_ox_oxtask")

    def delete(self) -> float:
        """Its command, with its batches of a thousand; answers how long all of it took."""
        begun = time.monotonic()
        self._call("ox_prune", older_than=RETENTION, stdout=io.StringIO())
        return time.monotonic() - begun

    def remaining(self) -> list[int]:
        """Tasks that are left."""
        return [self._count("SELECT count(*) FROM django_ox_oxtask")]

    def _one_pickup(self) -> float:
        time.sleep(LATENCY_PAUSE)
        asked = time.perf_counter()
        self._no_op.enqueue(1, "c-1001")
        return STARTED.get(timeout=PATIENCE) - asked

    def _worker(self, *, batch: bool = False, schedules: Mapping[str, Any] | None = None) -> Any:  # noqa: ANN401
        from django_ox.compat import task_backends  # noqa: PLC0415 importable once Django is set up
        from django_ox.worker import Worker  # noqa: PLC0415 the same

        task_backends["default"].options["SCHEDULES"] = schedules or {}
        return Worker(concurrency=self._concurrency, poll_interval=POLL, batch=batch)

    def _count(self, sql: str) -> int:
        row = self._connection.execute(sql.encode()).fetchone()
        return int(row[0]) if row else 0

    @staticmethod
    def _call(command: str, **options: object) -> None:
        from django.core.management import call_command  # noqa: PLC0415 importable once Django is set up

        call_command(command, **options)


if __name__ == "__main__":
    serve(DjangoOx())
