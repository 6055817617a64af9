"""The table of the deletion tests: expired rows, retained ones, and an application that deletes them."""

from __future__ import annotations

import json
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from gandy import DeleteOldRows, Gandy, OldRows
from gandy.clock import ManualClock
from tests.lifecycle.ground import NOW, Ground, ago

if TYPE_CHECKING:
    from collections.abc import Mapping

OLD = OldRows(table="data", column="minute", keep_for=timedelta(days=90))


def make_data(url: str, *, expired: int, retained: int = 1) -> Ground:
    """Rows that are an hour past three months, or an hour short of them."""
    ground = Ground(url)
    ground.run("CREATE TABLE data (id {key}, minute {instant})", "CREATE INDEX by_minute ON data (minute)")
    ground.fill("data", [(n, ago(days=90, hours=1, seconds=n)) for n in range(1, expired + 1)])
    ground.fill("data", [(1000 + n, ago(days=89, hours=23)) for n in range(retained)])
    return ground


def make_app(url: str, **settings: Mapping[str, object]) -> Gandy:
    """An application that stands at the instant of the rows."""
    app = Gandy("shop", url, **settings)
    app.use_clock(ManualClock(NOW))
    app.register(DeleteOldRows)
    return app


def queued(ground: Ground) -> list[tuple[Any, ...]]:
    """What waits: train, origin, group."""
    schema = "gandy." if ground.kind == "postgresql" else ""
    return ground.rows(
        f"SELECT q.train_name, q.origin, g.name FROM {schema}work_queue q "  # noqa: S608 our own names
        f"JOIN {schema}manifest_group g ON g.id = q.manifest_group_id WHERE q.status = 'queued' ORDER BY q.id"
    )


def outputs(ground: Ground) -> list[tuple[str, dict[str, Any]]]:
    """The finished runs, oldest first: state, output."""
    schema = "gandy." if ground.kind == "postgresql" else ""
    rows = ground.rows(
        f"SELECT train_state, output FROM {schema}metadata WHERE name = 'DeleteOldRows' ORDER BY id"  # noqa: S608
    )
    return [(state, json.loads(output) if isinstance(output, str) else output) for state, output in rows]


def deleted(ground: Ground) -> list[int]:
    """What the runs deleted, oldest first."""
    return [output["deleted"] for _, output in outputs(ground)]
