from __future__ import annotations

import email
import zipfile
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from tests.packaging.conftest import CleanEnvironment

# One worker builds and installs for all of these; a cold installation takes longer than a usual test may.
pytestmark = [pytest.mark.xdist_group("wheel"), pytest.mark.timeout(600)]

ROOT = Path(__file__).parents[2]
SOURCE = ROOT / "src"
NOT_SHIPPED = {".pyc"}


def names_in(wheel: Path) -> set[str]:
    with zipfile.ZipFile(wheel) as archive:
        return set(archive.namelist())


def test_every_file_of_the_package_is_in_the_wheel(wheel: Path) -> None:
    files = {
        str(file.relative_to(SOURCE))
        for file in (SOURCE / "gandy").rglob("*")
        if file.is_file() and file.suffix not in NOT_SHIPPED
    }
    assert {"gandy/py.typed", "gandy/__init__.py"} <= files
    assert any(name.endswith(".sql") for name in files)

    assert files - names_in(wheel) == set()


def test_nothing_but_the_package_and_its_licence_is_in_the_wheel(wheel: Path) -> None:
    assert {name.split("/")[0].split("-")[0] for name in names_in(wheel)} == {"gandy"}
    assert any(name.endswith(".dist-info/licenses/LICENSE") for name in names_in(wheel))
    assert not any(name.startswith(("tests/", "benchmarks/")) for name in names_in(wheel))


def test_the_metadata_names_the_extras_and_no_test_tool(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        (name,) = [each for each in archive.namelist() if each.endswith(".dist-info/METADATA")]
        metadata = email.message_from_bytes(archive.read(name))

    assert set(metadata.get_all("Provides-Extra", [])) == {"all", "lifecycle", "metrics", "uvloop", "web"}
    assert metadata["Requires-Python"] == ">=3.11"
    assert not any("pytest" in needed for needed in metadata.get_all("Requires-Dist", []))


def test_the_installed_package_is_the_wheel_and_not_this_repository(environment: CleanEnvironment) -> None:
    result = environment.run("python", "-c", "import gandy; print(gandy.__file__)")

    assert result.returncode == 0, result.stderr
    assert "site-packages" in result.stdout


@pytest.mark.parametrize("command", [["gandy"], ["python", "-m", "gandy"]], ids=["script", "module"])
def test_the_installed_command_says_its_version(environment: CleanEnvironment, command: list[str]) -> None:
    result = environment.run(*command, "--version")

    assert result.returncode == 0, result.stderr
    assert version("gandy") in result.stdout


def test_the_installed_demo_runs_and_ends_by_itself(environment: CleanEnvironment) -> None:
    result = environment.run("gandy", "demo", "--seconds", "3")

    assert result.returncode == 0, result.stderr
    assert "Traceback" not in result.stderr
    assert result.stdout.strip()
