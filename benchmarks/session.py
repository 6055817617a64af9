"""One contestant in one case: its database, its processes, and what they cost while they work."""

from __future__ import annotations

from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from benchmarks.contestants import CONTESTANTS
from benchmarks.probe import Cost, Meter
from benchmarks.process import ContestantProcess

if TYPE_CHECKING:
    from collections.abc import Iterator

    import psycopg

    from benchmarks.server import Server


@dataclass(frozen=True, slots=True)
class Work:
    """What a measured request cost, and what each process answered."""

    cost: Cost
    answers: tuple[Any, ...]


@dataclass(frozen=True, slots=True)
class Session:
    """Processes of one contestant, connected to a database of its own."""

    contestant: str
    server: Server
    watcher: psycopg.Connection
    processes: tuple[ContestantProcess, ...]

    def ask_first(self, verb: str, **arguments: object) -> Any:  # noqa: ANN401 - whatever JSON the verb answers
        """Ask one process, unmeasured."""
        return self.processes[0].call(verb, **arguments)

    def measure(self, verb: str, *, everyone: bool = False, **arguments: object) -> Work:
        """Ask the first process, or all at once, and measure until the last has answered."""
        processes = self.processes if everyone else self.processes[:1]
        meter = Meter(self.server, self.watcher, [process.pid for process in self.processes])
        with meter.measure():
            for process in processes:
                process.ask(verb, **arguments)
            answers = tuple(process.answer() for process in processes)
        return Work(meter.cost, answers)

    def checkpoint(self) -> None:
        """Let no checkpoint of the preparation fall into what is measured."""
        self.watcher.execute("CHECKPOINT")


@contextmanager
def open_session(server: Server, contestant: str, workers: int) -> Iterator[Session]:
    """A fresh database, set up by the contestant itself, and its processes ready to be asked."""
    database = "bench_" + "".join(letter if letter.isalnum() else "_" for letter in contestant)
    with ExitStack() as stack:
        stack.enter_context(server.database(database))
        launch = CONTESTANTS[contestant]
        processes = tuple(stack.enter_context(ContestantProcess(contestant, launch)) for _ in range(workers))
        processes[0].call("setup", url=server.url(database))
        for process in processes:
            process.call("open", url=server.url(database))
        watcher = stack.enter_context(server.connect(database))
        yield Session(contestant, server, watcher, processes)
