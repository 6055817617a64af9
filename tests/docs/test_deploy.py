"""The files of examples/deploy say what the code does: commands, settings, probes, graces and metrics."""

from __future__ import annotations

import configparser
import json
import re
import shlex
import shutil
import subprocess
from typing import TYPE_CHECKING, Any

import click
import pytest
import yaml  # type: ignore[import-untyped]

from gandy.app.process import LEAVE_SECONDS
from gandy.app.running import SERVICES
from gandy.cli.main import main
from gandy.events import EventBus
from gandy.settings import load_settings
from gandy.telemetry.metrics import Metrics
from gandy.web.application import create_web
from tests.docs.page import ROOT

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

DEPLOY = ROOT / "examples" / "deploy"
UNITS = sorted(DEPLOY.glob("*.service"))
CONTAINERS = ("compose.yaml", "kubernetes.yaml")
LONGEST_STOP = load_settings(directory=ROOT).settings.worker.shutdown_grace.total_seconds() + LEAVE_SECONDS
_SERIES = re.compile(r"\b((?:gandy|lifecycle)_[a-z_]+)\b(?!\s*=)")
_LABELS = re.compile(r"\b(?:by \(([^)]*)\)|\{([^}]*)\})")


def unit(file: Path) -> configparser.ConfigParser:
    parser = configparser.ConfigParser(strict=False, interpolation=None)
    parser.optionxform = str  # type: ignore[assignment,method-assign]
    parser.read(file, encoding="utf-8")
    return parser


def documents(name: str) -> list[dict[str, Any]]:
    return list(yaml.safe_load_all((DEPLOY / name).read_text(encoding="utf-8")))


def of_kind(kind: str) -> list[dict[str, Any]]:
    return [each for each in documents("kubernetes.yaml") if each["kind"] == kind]


def pods() -> list[dict[str, Any]]:
    found = [*of_kind("Job"), *of_kind("Deployment")]
    assert len(found) == 3
    return [each["spec"]["template"]["spec"] for each in found]


def calls() -> Iterator[tuple[str, list[str]]]:
    """Every call of `gandy` in the files, by the file that has it."""
    for file in UNITS:
        lines = [line for key, line in unit(file).items("Service") if key.startswith("Exec")]
        yield from ((file.name, shlex.split(line)[1:]) for line in lines)
    for service in documents("compose.yaml")[0]["services"].values():
        if "image" not in service:
            yield "compose.yaml", service["command"]
    for container in (each for pod in pods() for each in pod["containers"]):
        yield "kubernetes.yaml", container["args"]
        if "exec" in container.get("livenessProbe", {}):
            yield "kubernetes.yaml", container["livenessProbe"]["exec"]["command"][1:]
    for words in re.findall(r"\bCMD (\[.*\])", (DEPLOY / "Dockerfile").read_text(encoding="utf-8")):
        yield "Dockerfile", [word for word in json.loads(words) if word != "gandy"]
    yield from (("prometheus-alerts.yaml", call) for rule in alerts() for call in advised(rule))


def advised(rule: dict[str, Any]) -> Iterator[list[str]]:
    """The calls that an alert advises, each up to a semicolon or the end of its quotation."""
    for line in re.findall(r"gandy ([a-z-]+[^;`]*)", rule["annotations"]["action"]):
        yield re.sub(r"\{\{.*?\}\}", "NAME", line).split()


def alerts() -> list[dict[str, Any]]:
    [group] = documents("prometheus-alerts.yaml")[0]["groups"]
    rules: list[dict[str, Any]] = group["rules"]
    return rules


def parsed(arguments: list[str]) -> click.Context:
    """Parse a call as the command line does, without running it."""
    context = main.make_context("gandy", list(arguments))
    command: click.Command | None = main
    rest = list(arguments)
    while isinstance(command, click.Group):
        name, command, rest = command.resolve_command(context, rest)
        assert command is not None
        context = click.Context(command, info_name=name, parent=context)
    assert command is not None
    command.parse_args(context, rest)
    return context


def test_every_call_of_the_command_line_is_one_that_it_takes() -> None:
    found = list(calls())

    assert {name for name, _ in found} >= {"Dockerfile", "prometheus-alerts.yaml", *CONTAINERS}
    assert len(found) > 20
    for name, arguments in found:
        context = parsed(arguments)
        services = context.params.get("services")
        assert services is None or set(services.split(",")) <= set(SERVICES), name


@pytest.mark.parametrize("file", UNITS, ids=lambda file: file.name)
def test_systemd_takes_the_unit(file: Path, tmp_path: Path) -> None:
    assert float(unit(file)["Service"]["TimeoutStopSec"]) > LONGEST_STOP
    assert unit(file)["Service"]["KillMode"] == "mixed", (
        "systemd must not end the processes of runs by itself"
    )
    program = shutil.which("systemd-analyze")
    if program is None:
        return
    text = file.read_text(encoding="utf-8").replace("/srv/billing/.venv/bin/gandy", "/bin/true")
    (tmp_path / file.name).write_text(text, encoding="utf-8")
    name = file.name.replace("@", "@1")
    (tmp_path / name).write_text(text, encoding="utf-8")
    done = subprocess.run(
        [program, "verify", "--man=no", str(tmp_path / name)],
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, [line for line in done.stderr.splitlines() if "billing" in line]) == (0, [])


def test_every_variable_of_gandy_is_one_that_it_reads() -> None:
    known = set(re.findall(r"`(GANDY_[A-Z_]+)`", (ROOT / "docs/reference/settings.md").read_text("utf-8")))
    named = {
        name
        for file in DEPLOY.iterdir()
        for name in re.findall(r"\bGANDY_[A-Z_]+\b", file.read_text(encoding="utf-8"))
    }

    assert {"GANDY_DATABASE_URL", "GANDY_WEB_TOKEN"} <= named
    assert named - known == set()


def test_containers_get_more_time_to_stop_than_gandy_takes() -> None:
    services = documents("compose.yaml")[0]["services"]
    own = {name: service for name, service in services.items() if "image" not in service}

    assert own.keys() == {"migrate", "manager", "worker"}
    assert all(int(each["stop_grace_period"].removesuffix("s")) > LONGEST_STOP for each in own.values())
    for pod in pods()[1:]:
        assert pod["terminationGracePeriodSeconds"] > LONGEST_STOP


def test_what_serves_others_waits_for_the_migration_and_has_a_token() -> None:
    services = documents("compose.yaml")[0]["services"]
    for name in ("manager", "worker"):
        assert services[name]["depends_on"] == {"migrate": {"condition": "service_completed_successfully"}}
        assert "GANDY_WEB_TOKEN" in services[name]["environment"]
    open_to_others = [
        container
        for pod in pods()
        for container in pod["containers"]
        if "--host=0.0.0.0" in container["args"]
    ]
    assert open_to_others
    assert all("GANDY_WEB_TOKEN" in {each["name"] for each in one["env"]} for one in open_to_others)


def test_probes_ask_paths_that_the_dashboard_serves_on_its_port() -> None:
    web = create_web("billing", _unused, settings=lambda: load_settings(directory=ROOT).settings.web)
    served = {getattr(route, "path", None) for route in getattr(web, "routes", ())}
    for pod in pods()[1:]:
        [container] = pod["containers"]
        probes = [container[kind] for kind in ("livenessProbe", "readinessProbe") if kind in container]
        assert probes
        paths = {probe["httpGet"]["path"] for probe in probes if "httpGet" in probe}
        assert paths <= served
        if paths:
            [port] = container["ports"]
            assert {probe["httpGet"]["port"] for probe in probes} == {port["name"]}
            assert f"--port={port['containerPort']}" in container["args"]


def test_no_container_runs_as_root() -> None:
    assert re.search(r"^USER gandy$", (DEPLOY / "Dockerfile").read_text(encoding="utf-8"), re.MULTILINE)
    for pod in pods():
        assert all(each["securityContext"]["runAsNonRoot"] for each in pod["containers"])


def expressions() -> Iterator[str]:
    for rule in alerts():
        yield rule["expr"]
    board = json.loads((DEPLOY / "grafana-dashboard.json").read_text(encoding="utf-8"))
    for panel in board["panels"]:
        for target in panel["targets"]:
            yield target["expr"]
    for variable in board["templating"]["list"]:
        if variable["type"] == "query":
            yield variable["query"]


def exposed() -> str:
    """What /metrics answers: every series with its HELP and TYPE, also those without a sample yet."""
    return Metrics(EventBus()).exposition().decode()


def test_alerts_and_dashboard_name_series_that_metrics_has() -> None:
    kinds = dict(re.findall(r"^# TYPE (\S+) (\S+)$", exposed(), re.MULTILINE))
    served = set(kinds)
    for name, kind in kinds.items():
        if kind == "histogram":
            served |= {f"{name}_{end}" for end in ("bucket", "sum", "count")}
    asked = {name for text in expressions() for name in _SERIES.findall(text)}

    assert len(asked) > 15
    assert asked - served == set()


def test_alerts_and_dashboard_name_labels_that_the_reference_lists() -> None:
    page = (ROOT / "docs/reference/metrics.md").read_text(encoding="utf-8")
    labels = {
        name: set(re.findall(r"`(\w+)`", cell))
        for name, cell in re.findall(r"^\| `(\w+)` \| \w+ \| ([^|]*) \|", page, re.MULTILINE)
    }
    for text in expressions():
        [*names] = {re.sub(r"_(bucket|sum|count)$", "", name) for name in _SERIES.findall(text)}
        known = {"job", "le"}.union(*(labels[name] for name in names))
        used = {
            word
            for by, braces in _LABELS.findall(text)
            for word in (re.findall(r"\w+", by) or re.findall(r"(\w+)\s*=", braces))
        }
        assert used <= known, text


def test_every_file_is_described() -> None:
    readme = (DEPLOY / "README.md").read_text(encoding="utf-8")
    page = (ROOT / "docs/how-to/deploy.md").read_text(encoding="utf-8")
    for file in DEPLOY.iterdir():
        assert file.name == "README.md" or f"]({file.name})" in readme
        assert file.name == "README.md" or f"examples/deploy/{file.name}" in page


def _unused() -> Any:  # noqa: ANN401 - never called
    raise AssertionError
