"""What is installed is what was chosen: digests in the constraints, and a list of what the wheel needs."""

from __future__ import annotations

import json
import re
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[2]
PINNED = re.compile(r"^([a-z0-9][a-z0-9.-]*)==([^ \\]+)((?:.*\\\n)*.*)", re.MULTILINE)


def pins() -> dict[str, list[str]]:
    """The digests of every line of the constraints, by name."""
    text = (ROOT / "constraints.txt").read_text(encoding="utf-8")
    found: dict[str, list[str]] = {}
    for name, _, rest in PINNED.findall(text):
        found.setdefault(name, []).append(rest)
    return found


@pytest.fixture(scope="module")
def bill(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """The bill of materials, as `make sbom` writes it."""
    file = tmp_path_factory.mktemp("sbom") / "gandy.cdx.json"
    program = [sys.executable, "-m", "tools.sbom", str(file)]
    done = subprocess.run(program, cwd=ROOT, check=False, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    written: dict[str, Any] = json.loads(file.read_text(encoding="utf-8"))
    return written


def test_every_pinned_package_has_its_digests() -> None:
    found = pins()

    assert len(found) > 50
    for name, lines in found.items():
        for line in lines:
            assert re.search(r"--hash=sha256:[0-9a-f]{64}\b", line), f"{name} has no digest"


def test_whatever_setup_downloads_has_to_match_a_digest() -> None:
    script = (ROOT / "tools" / "setup.sh").read_text(encoding="utf-8")
    downloads = [line for line in script.splitlines() if re.search(r"\binstall (?!--no-deps)--?\w", line)]

    assert len(downloads) >= 3
    for line in downloads:
        assert "--require-hashes" in line or '"$@"' in line, line


def test_every_dependency_that_the_project_names_is_pinned() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    named = project["project"]["dependencies"]
    for extra in (
        *project["project"]["optional-dependencies"].values(),
        *project["dependency-groups"].values(),
    ):
        named += extra
    names = {re.split(r"[\[<>=;! ]", text)[0].lower() for text in named} - {"gandy"}

    assert names <= pins().keys()


def test_the_bill_lists_every_package_that_the_wheel_needs_with_its_digests(bill: dict[str, Any]) -> None:
    assert (bill["bomFormat"], bill["specVersion"]) == ("CycloneDX", "1.6")
    packages = {each["name"]: each for each in bill["components"] if each["bom-ref"].startswith("pkg:")}
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    wanted = {re.split(r"[\[<>=;! ]", text)[0] for text in project["dependencies"]}

    assert wanted <= packages.keys()
    assert {"fastapi", "starlette", "sqlalchemy", "prometheus-client"} <= packages.keys()
    assert not packages.keys() & {"pytest", "mypy", "ruff", "hypothesis"}
    assert all(each["properties"] and each["licenses"] for each in packages.values())


def test_the_bill_lists_the_vendored_projects(bill: dict[str, Any]) -> None:
    vendored = {
        each["name"]: each["components"]
        for each in bill["components"]
        if each["bom-ref"].startswith("vendored:")
    }

    assert vendored.keys() == {"dagre", "htmx", "idiomorph", "uPlot"}
    assert all(file["hashes"] for files in vendored.values() for file in files)


def test_every_reference_inside_the_bill_leads_to_a_component(bill: dict[str, Any]) -> None:
    known = {each["bom-ref"] for each in (*bill["components"], bill["metadata"]["component"])}
    referred = {other for each in bill["dependencies"] for other in (each["ref"], *each.get("dependsOn", ()))}

    assert referred == known


def test_the_security_policy_is_there_and_the_readme_leads_to_it() -> None:
    assert "](SECURITY.md)" in (ROOT / "README.md").read_text(encoding="utf-8")
    policy = (ROOT / "SECURITY.md").read_text(encoding="utf-8")
    for part in ("## Report", "## Supported versions", "## What is promised", "## What is not promised"):
        assert part in policy
