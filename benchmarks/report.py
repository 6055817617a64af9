"""Results as a Markdown table for people and as JSON for later comparison."""

from __future__ import annotations

import json
import os
import platform
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from benchmarks.case import Case, Scale
    from benchmarks.rounds import Rounds
    from benchmarks.server import Server

RESULTS = Path(__file__).resolve().parent / "results"
LARGE = 100


def markdown(case: Case, rounds: Rounds[str], scale: Scale) -> str:
    """A table: medians, and the headline's ratio to the base taken round by round."""
    metrics = list(dict.fromkeys(metric for name in case.contestants for metric in rounds.metrics(name)))
    head = [case.unit, *metrics, f"{case.headline} x {case.base} (middle half)"]
    lines = [
        f"### {case.title}",
        "",
        f"`{case.name}`: {scale.size:,} {case.unit} a round, {scale.rounds} rounds, medians.",
        "",
        f"| {' | '.join(head)} |",
        f"|{'---|' * len(head)}",
    ]
    lines += [_row(case, rounds, name, metrics=metrics) for name in case.contestants]
    return "\n".join([*lines, *(f"\n{note}" for note in case.notes), ""])


def _row(case: Case, rounds: Rounds[str], name: str, *, metrics: list[str]) -> str:
    reported = rounds.metrics(name)
    cells = [_number(rounds.summary(name, metric).median) if metric in reported else "" for metric in metrics]
    ratio = rounds.ratio(name, case.base, case.headline)
    return f"| {' | '.join([name, *cells, f'{ratio.median:.2f} ({ratio.low:.2f} to {ratio.high:.2f})'])} |"


def _number(value: float) -> str:
    return f"{value:,.0f}" if abs(value) >= LARGE else f"{value:.3g}"


def save(case: Case, rounds: Rounds[str], *, scale: Scale, server: Server) -> Path:
    """Write every sample, with what is needed to read it later."""
    RESULTS.mkdir(exist_ok=True)
    now = datetime.now(tz=UTC)
    path = RESULTS / f"{now:%Y%m%dT%H%M%S}-{case.name}.json"
    record = {
        "case": case.name,
        "unit": case.unit,
        "base": case.base,
        "scale": asdict(scale),
        "at": now.isoformat(),
        "python": platform.python_version(),
        "postgresql": server.version,
        "cores": os.cpu_count(),
        "load_average": os.getloadavg(),
        "samples": rounds.samples,
    }
    path.write_text(json.dumps(record, indent=1))
    return path
