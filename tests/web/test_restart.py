"""A dashboard whose server ends by itself comes back on its port."""

from __future__ import annotations

import asyncio
import socket
from typing import TYPE_CHECKING

import httpx

from gandy import Gandy
from tests.support.waiting import eventually

if TYPE_CHECKING:
    from pathlib import Path


async def test_the_dashboard_is_back_after_its_server_was_cancelled(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as probe:
        port = probe.getsockname()[1]
    web = {"port": port, "token": "a-token-of-the-shop"}
    app = Gandy("shop", database=f"sqlite:///{tmp_path / 'shop.db'}", web=web)

    async def answers() -> bool:
        try:
            async with httpx.AsyncClient() as client:
                return (await client.get(f"http://127.0.0.1:{port}/readyz")).status_code == 200
        except httpx.TransportError:
            return False

    async with app, app.running(services=("web",)):
        await eventually(answers, "the dashboard answers")
        (task,) = (each for each in asyncio.all_tasks() if each.get_name() == "gandy-web-server")
        task.cancel()
        await asyncio.wait([task])

        await eventually(answers, "the dashboard is back")
