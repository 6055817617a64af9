"""The counters of several processes as one: what its children counted is added to what a process counted."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Final, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from prometheus_client.metrics_core import Metric
    from prometheus_client.registry import Collector
    from prometheus_client.samples import Sample


#: The kinds of metrics that can be added; a gauge cannot.
_ADDED: Final = frozenset({"counter", "histogram", "summary"})
#: Metrics of the interpreter and of the operating system, which concern one process.
_OWN: Final = ("process_", "python_")
_CREATED: Final = "_created"


class CountedValue(NamedTuple):
    """One value of a counter, a histogram or a summary."""

    metric: str
    sample: str
    labels: dict[str, str]
    value: float

    @property
    def key(self) -> SampleKey:
        """Its identity."""
        return SampleKey(self.metric, self.sample, tuple(sorted(self.labels.items())))


class SampleKey(NamedTuple):
    """The identity of a value."""

    metric: str
    sample: str
    labels: tuple[tuple[str, str], ...]


class CounterChanges:
    """The values of a process that have changed since they were last taken."""

    def __init__(self, registries: Sequence[Collector]) -> None:
        self._registries = registries
        self._taken: dict[SampleKey, float] = {}

    def take(self) -> Iterator[CountedValue]:
        """Yield the values that have changed."""
        for registry in self._registries:
            for metric in registry.collect():
                for found in _counted(metric):
                    if self._taken.get(found.key) != found.value:
                        self._taken[found.key] = found.value
                        yield found


def _counted(metric: Metric) -> Iterator[CountedValue]:
    if metric.type in _ADDED and not metric.name.startswith(_OWN):
        for sample in metric.samples:
            if not sample.name.endswith(_CREATED):
                yield CountedValue(metric.name, sample.name, dict(sample.labels), sample.value)


class ChildSums:
    """The sums of what the children of this process counted, those that have ended included."""

    def __init__(self) -> None:
        self._by_child: dict[int, dict[SampleKey, float]] = {}
        self._ended: Counter[SampleKey] = Counter()

    def add(self, child: int, changed: Iterable[CountedValue]) -> None:
        """Note the changed values of a child."""
        values = self._by_child.setdefault(child, {})
        for each in changed:
            values[each.key] = each.value

    def end(self, child: int) -> None:
        """Keep what a child counted that has ended."""
        self._ended.update(self._by_child.pop(child, {}))

    def by_metric(self) -> Mapping[str, Mapping[SampleKey, float]]:
        """Return the sums, by the name of the metric."""
        total = Counter(self._ended)
        for values in self._by_child.values():
            total.update(values)
        found: dict[str, dict[SampleKey, float]] = {}
        for key, value in total.items():
            found.setdefault(key.metric, {})[key] = value
        return found


class Summed:
    """A registry with the sums of the children added."""

    def __init__(self, registry: Collector, children: ChildSums) -> None:
        self._registry = registry
        self._children = children

    def collect(self) -> Iterable[Metric]:
        """Collect metrics, as Prometheus' own registry does."""
        added = self._children.by_metric()
        for metric in self._registry.collect():
            if of_children := added.get(metric.name):
                metric.samples = list(_add(metric.samples, dict(of_children)))
            yield metric


def _add(samples: Iterable[Sample], of_children: dict[SampleKey, float]) -> Iterator[Sample]:
    metric = next(iter(of_children)).metric
    for sample in samples:
        key = SampleKey(metric, sample.name, tuple(sorted(sample.labels.items())))
        yield sample._replace(value=sample.value + of_children.pop(key, 0.0))
    from prometheus_client.samples import Sample as Made  # noqa: PLC0415 - an extra

    for key, value in of_children.items():
        yield Made(key.sample, dict(key.labels), value)
