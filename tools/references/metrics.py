"""The page on metrics, from the series that an application declares."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from prometheus_client import CollectorRegistry

from gandy.events import EventBus
from gandy.lifecycle.supervisor.report import PrometheusMetrics
from gandy.telemetry.metrics import Metrics

if TYPE_CHECKING:
    from collections.abc import Iterator

_BEGINNING: Final = """\
# Metrics and events

<!-- Written by `python -m tools.references`; a test compares. -->

Prometheus reads them from `/metrics` of every `gandy up` that has a port (`pip install 'gandy[metrics]'`),
with any token of the dashboard; the read-only one is enough.
With `--workers N` counters and histograms include those of all worker processes. Such a process reports every
second: if it is killed, what it counted since its last report is missing, also in `gandy_runs_total`.
A label has a bounded number of values; further values become `other`.

| series | type | labels | what it says |
|---|---|---|---|
"""
_EVENTS: Final = """
Histograms have the usual `_bucket`, `_sum` and `_count`.

## Log lines

The lifecycle writes structured log lines, as JSON with `GANDY_LOGGING_FORMAT=json`. `NAME` is the
name of the contract; for Gandy's own tables it is `gandy`.

| event | when |
|---|---|
| `NAME.lifecycle_pruned` | rows were deleted: a count for each table |
| `NAME.lifecycle_tick_failed` | a rule failed: which one, and the error |
| `NAME.lifecycle_confirmation_needed` | a rule would delete most of a large table and needs confirmation |
"""


def metrics_page() -> str:
    """Write the page: every series with its type and labels."""
    application = Metrics(EventBus()).registry
    lifecycle = CollectorRegistry()
    PrometheusMetrics(lifecycle)
    rows = [*_rows(application), *_rows(lifecycle)]
    return _BEGINNING + "\n".join(sorted(set(rows))) + "\n" + _EVENTS


def _rows(registry: CollectorRegistry) -> Iterator[str]:
    for collector, names in registry._collector_to_names.items():  # noqa: SLF001 it tells labels nowhere else
        for family in collector.collect():
            name = f"{family.name}_total" if family.type == "counter" else family.name
            labels = ", ".join(f"`{label}`" for label in getattr(collector, "_labelnames", ()))
            if any(each.startswith(family.name) for each in names):
                yield f"| `{name}` | {family.type} | {labels} | {family.documentation} |"
