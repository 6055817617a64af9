"""Where a run's log lines, progress and activations go."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from gandy.model.run import Activation
    from gandy.train.inside.run import Run


@dataclass(frozen=True, slots=True)
class LogLine:
    """One line kept with a run; its time counts from the run's start, whose instant the database knows."""

    offset_ns: int
    level: str
    logger: str
    message: str


@dataclass(frozen=True, slots=True)
class Progress:
    """How far a run has come; a total of None means that it is not known."""

    done: int
    total: int | None


class RunSink(Protocol):
    """Receives what runs report. One sink may serve many runs; its methods are called from any thread."""

    def write_log(self, run: Run, line: LogLine) -> None:
        """Keep a log line."""
        ...

    def report_progress(self, run: Run, progress: Progress) -> None:
        """Keep the latest progress."""
        ...

    def activate(self, run: Run, activation: Activation) -> None:
        """Remember a dormant dependent to queue when the run completes."""
        ...


@dataclass(slots=True)
class MemorySink:
    """Keeps everything in lists: the sink of a run without a database."""

    lines: list[LogLine] = field(default_factory=list)
    progress: Progress | None = None
    activations: list[Activation] = field(default_factory=list)

    def write_log(self, run: Run, line: LogLine) -> None:  # noqa: ARG002 - one run only
        """Append the line."""
        self.lines.append(line)

    def report_progress(self, run: Run, progress: Progress) -> None:  # noqa: ARG002 - one run only
        """Replace the progress."""
        self.progress = progress

    def activate(self, run: Run, activation: Activation) -> None:  # noqa: ARG002 - one run only
        """Append the activation."""
        self.activations.append(activation)
