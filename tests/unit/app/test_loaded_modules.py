"""What a process loads: it pays at its start for what it uses, and for nothing else."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

WORK: str = """
import asyncio, json, sys
from gandy import Gandy

app = Gandy("shop", sys.argv[1])

@app.train
def add(number: int) -> int:
    return number + 1

async def work() -> None:
    async with app:
        await app.enqueue(add, 1)
        await app.work(asyncio.Event(), until_idle=True)

asyncio.run(work())
print(json.dumps(sorted({name.partition(".")[0] for name in sys.modules})))
"""


def test_a_worker_on_sqlite_loads_no_other_driver_no_orm_and_no_web_server(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", WORK, f"sqlite:///{tmp_path / 'jobs.db'}"],
        capture_output=True,
        text=True,
        check=True,
    )

    loaded = set(json.loads(done.stdout))
    assert "gandy" in loaded
    assert loaded.isdisjoint({"psycopg", "sqlalchemy", "fastapi", "uvicorn", "jinja2", "click"})
