"""The cases, by name."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from benchmarks.cases import (
    cleanup,
    cores,
    lifecycle,
    pages,
    pruning,
    queue,
    rest,
    schedules,
    schedules_scale,
    shapes,
)

if TYPE_CHECKING:
    from benchmarks.result import Result
    from benchmarks.server import Server


class RunnableCase(Protocol):
    """What the harness needs of a case."""

    @property
    def name(self) -> str:
        """The word that chooses it."""

    @property
    def title(self) -> str:
        """The heading of its table."""

    @property
    def contestants(self) -> tuple[str, ...]:
        """What is measured."""

    def run(self, server: Server, *, is_quick: bool) -> Result:
        """Measure it."""


_ALL: tuple[RunnableCase, ...] = (
    *queue.CASES,
    *cores.CASES,
    *shapes.CASES,
    *schedules.CASES,
    *schedules_scale.CASES,
    *pruning.CASES,
    *lifecycle.CASES,
    *cleanup.CASES,
    *pages.CASES,
    *rest.CASES,
)
CASES = {case.name: case for case in _ALL}
