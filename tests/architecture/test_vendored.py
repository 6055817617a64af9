"""Files of other projects are in the package as their authors released them, each on a list beside them."""

from __future__ import annotations

import hashlib
import tomllib
from typing import Any

from tests.architecture.source import PACKAGE

VENDOR = PACKAGE / "web" / "static" / "vendor"
LISTING = VENDOR / "vendored.toml"


def projects() -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = tomllib.loads(LISTING.read_text(encoding="utf-8"))["project"]
    return found


def test_vendored_files_are_those_of_the_list_and_as_they_were_released() -> None:
    listed = {name: digest for project in projects() for name, digest in project["files"].items()}
    licences = {project["licence_file"] for project in projects()}
    found = {
        file.name: hashlib.sha256(file.read_bytes()).hexdigest()
        for file in VENDOR.iterdir()
        if file != LISTING and file.name not in licences
    }

    assert found == listed
    assert all((VENDOR / licence).read_text(encoding="utf-8").strip() for licence in licences)


def test_every_vendored_project_is_listed_with_version_licence_and_source() -> None:
    for project in projects():
        assert project.keys() - {"changed"} == {
            "name", "version", "licence", "licence_file", "source", "files",
        }  # fmt: skip
        assert all(project[key] for key in project), project["name"]
        assert project["source"].startswith("https://")


def test_a_version_that_a_file_names_is_the_listed_one() -> None:
    """The minified files that tell their version tell the one of the list."""
    text = {name: (VENDOR / name).read_text(encoding="utf-8") for name in ("htmx.min.js", "dagre.min.js")}
    versions = {project["name"]: project["version"] for project in projects()}

    assert f'version:"{versions["htmx"]}"' in text["htmx.min.js"]
    assert versions["dagre"] in text["dagre.min.js"]
