"""The fixtures that pytest finds wherever the package is installed."""

from __future__ import annotations

import os
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from pathlib import Path

SHOP = """
from gandy import Gandy

app = Gandy("shop")


@app.train
async def double(number: int) -> int:
    return 2 * number
"""
WITH_A_MARK = """
import pytest
from shop import double


@pytest.mark.{mark}
async def test_double(gandy_harness):
    job = await gandy_harness.app.enqueue(double, 21)
    await gandy_harness.run_until_idle()
    assert await job.result(timeout=5) == 42


@pytest.fixture
def anyio_backend():
    return "asyncio"
"""


def run_pytest(folder: Path, *arguments: str, **environment: str) -> str:
    (folder / "pytest.ini").write_text("[pytest]\n", encoding="utf-8")
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-p", "no:xdist", *arguments],
        cwd=folder,
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        check=False,
    )
    return done.stdout + done.stderr


@pytest.mark.parametrize("mark", ["asyncio", "anyio"])
def test_the_application_of_the_environment_is_open_in_the_test(mark: str, tmp_path: Path) -> None:
    (tmp_path / "shop.py").write_text(SHOP, encoding="utf-8")
    (tmp_path / "test_shop.py").write_text(WITH_A_MARK.format(mark=mark), encoding="utf-8")
    other = "asyncio" if mark == "anyio" else "anyio"

    assert "1 passed" in run_pytest(tmp_path, "-p", f"no:{other}", GANDY_APP="shop:app")


def test_without_an_application_the_fixture_says_how_to_name_one(tmp_path: Path) -> None:
    (tmp_path / "test_shop.py").write_text("def test_shop(gandy_app):\n    pass\n", encoding="utf-8")

    assert 'set gandy_app = "module:name" in the settings of pytest' in run_pytest(tmp_path)


def test_the_plugin_loads_no_application_code_for_tests_that_need_none(tmp_path: Path) -> None:
    (tmp_path / "test_shop.py").write_text(
        "import sys\n\n\ndef test_shop():\n    assert 'gandy.testing.plugin' in sys.modules\n"
        "    assert 'gandy.app' not in sys.modules\n",
        encoding="utf-8",
    )

    assert "1 passed" in run_pytest(tmp_path)
