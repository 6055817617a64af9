"""`python -m tools.sbom FILE`: what the wheel needs and what it contains of others, as CycloneDX JSON."""

from __future__ import annotations

import json
import re
import sys
import tomllib
from importlib.metadata import Distribution, distribution
from pathlib import Path
from typing import Any
from uuid import NAMESPACE_URL, uuid5

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).parents[1]
VENDOR = ROOT / "src" / "gandy" / "web" / "static" / "vendor"
OWN_NAME = "gandy"
_PINNED = re.compile(
    r"^(?P<name>[a-z0-9][a-z0-9.-]*)==(?P<version>[^ \\]+)(?P<rest>.*(?:\n    .*)*)", re.MULTILINE
)
_HASH = re.compile(r"--hash=sha256:([0-9a-f]{64})")

Component = dict[str, Any]


def write_sbom() -> Component:
    """Gather the whole document; the same tree gives the same text."""
    needed = _needed()
    own = distribution(OWN_NAME)
    components = [*(_package(name) for name in sorted(needed.keys() - {OWN_NAME})), *_vendored()]
    content = {
        "bomFormat": "CycloneDX",
        "specVersion": "1.6",
        "version": 1,
        "metadata": {"component": {**_identity(OWN_NAME, own.version), "licenses": _licences(own)}},
        "components": components,
        "dependencies": [*_depends(needed), *({"ref": each["bom-ref"]} for each in _vendored())],
    }
    serial = uuid5(NAMESPACE_URL, json.dumps(content, sort_keys=True))
    return {**content, "serialNumber": f"urn:uuid:{serial}"}


def _needed() -> dict[str, frozenset[str]]:
    """Follow the requirements of the wheel with every extra: what each package needs itself, by its name."""
    found: dict[str, frozenset[str]] = {}
    waiting = [(OWN_NAME, frozenset({"all"}))]
    seen = set(waiting)
    while waiting:
        name, extras = waiting.pop()
        wanted = _requirements(name, extras)
        found[name] = found.get(name, frozenset()) | {each for each, _ in wanted if each != name}
        new = [each for each in wanted if each not in seen]
        seen.update(new)
        waiting += new
    return found


def _requirements(name: str, extras: frozenset[str]) -> list[tuple[str, frozenset[str]]]:
    wanted = []
    for text in distribution(name).requires or ():
        requirement = Requirement(text)
        marker = requirement.marker
        if marker is None or any(marker.evaluate({"extra": extra}) for extra in (*extras, "")):
            wanted.append((canonicalize_name(requirement.name), frozenset(requirement.extras)))
    return wanted


def _package(name: str) -> Component:
    found = distribution(name)
    identity = _identity(name, found.version)
    # A package has a file for each platform: the digests are those that an installation accepts.
    shown = [{"name": "gandy:accepted-sha256", "value": digest} for digest in _hashes(name, found.version)]
    return {**identity, "scope": "required", "licenses": _licences(found), "properties": shown}


def _identity(name: str, version: str) -> Component:
    reference = f"pkg:pypi/{name}@{version}"
    return {"type": "library", "bom-ref": reference, "name": name, "version": version, "purl": reference}


def _hashes(name: str, version: str) -> list[str]:
    for pinned in _PINNED.finditer((ROOT / "constraints.txt").read_text(encoding="utf-8")):
        if (pinned["name"], pinned["version"]) == (name, version):
            return _HASH.findall(pinned["rest"])
    raise SystemExit(f"sbom: {name} {version} is installed and constraints.txt pins another; run: make setup")


def _licences(found: Distribution) -> list[Component]:
    metadata = found.metadata
    if expression := metadata.get("License-Expression"):
        return [{"expression": expression}]
    named = [
        each.rsplit(" :: ", 1)[-1] for each in metadata.get_all("Classifier") or () if "License ::" in each
    ]
    return [
        {"license": {"name": name}}
        for name in named or [(metadata.get("License") or "unknown").splitlines()[0]]
    ]


def _vendored() -> list[Component]:
    listed = tomllib.loads((VENDOR / "vendored.toml").read_text(encoding="utf-8"))["project"]
    return [
        {
            "type": "library",
            "bom-ref": f"vendored:{project['name']}@{project['version']}",
            "name": project["name"],
            "version": project["version"],
            "scope": "required",
            "licenses": [{"license": {"id": project["licence"]}}],
            "externalReferences": [{"type": "vcs", "url": project["source"]}],
            "components": [
                {"type": "file", "name": name, "hashes": [{"alg": "SHA-256", "content": digest}]}
                for name, digest in project["files"].items()
            ],
        }
        for project in listed
    ]


def _depends(needed: dict[str, frozenset[str]]) -> list[Component]:
    def reference(name: str) -> str:
        return f"pkg:pypi/{name}@{distribution(name).version}"

    return [
        {"ref": reference(name), "dependsOn": sorted(map(reference, needs))}
        for name, needs in sorted(needed.items())
    ]


if __name__ == "__main__":
    target = Path(sys.argv[1])
    target.parent.mkdir(parents=True, exist_ok=True)
    target.write_text(json.dumps(write_sbom(), indent=2) + "\n", encoding="utf-8")
    print(f"Wrote {target}")
