"""The contracts and databases of lifecycle commands, and their progress display."""

from __future__ import annotations

import logging
import sys
from collections import Counter
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import click

from gandy.errors import ContractTargetError
from gandy.lifecycle import load
from gandy.lifecycle.contract.tables import gathered
from gandy.settings.files import one_line
from gandy.telemetry.log_lines import TextLines

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from gandy.cli.call import Call
    from gandy.lifecycle import Contract, SweepOptions
    from gandy.lifecycle.contract.tables import MatrixRow
    from gandy.lifecycle.supervisor.confirmation import Confirm
    from gandy.lifecycle.supervisor.report import Held, Unfinished
    from gandy.settings import LoadedSettings

    Pruned = Callable[[str, Mapping[str, int]], None]


@dataclass(frozen=True, slots=True)
class Sources:
    """The options of one command; the application is loaded only for values that they do not give."""

    call: Call
    files: Sequence[str]
    target: str | None

    def contracts(self) -> list[Contract]:
        """Return the contracts of the files, else of the application; having none is a usage error."""
        found = self._of_files() if self.files else self._of_app()
        if not found:
            raise click.UsageError("no contract: pass --contract FILE, or an --app that declares one")
        return list(gathered(found, self.target))

    def database(self) -> str:
        """Return the URL of the one database that a command reads."""
        if self.target is not None:
            return self.target
        if self.files:
            return self._of_files()[0].target()
        home = self._home()
        if home is None:
            raise click.UsageError("pass --target URL, a --contract FILE that names a database, or --app")
        return home.settings.database.url

    def bounding(self, database: str) -> list[Contract]:
        """Return the contracts for tables of this database."""
        if self.files:
            return self._of_files()
        return [contract for contract in self._of_app() if _is_for(contract, database)]

    def other_bounds(self, database: str) -> list[MatrixRow]:
        """Return the other retention rules of this database: Gandy's own upkeep, and scheduled deletions."""
        return [*self._own_tables(database), *self._scheduled(database)]

    def _own_tables(self, database: str) -> list[MatrixRow]:
        from gandy.store.drivers.database import table_name  # noqa: PLC0415 only an audit needs it
        from gandy.upkeep.declaration import STORED_AS, own_matrix  # noqa: PLC0415 only an audit needs it

        home = self._home()
        if home is None or home.settings.database.url != database:
            return []
        rows = own_matrix(home.settings)
        return [replace(row, table=table_name(database, STORED_AS.get(row.table, row.table))) for row in rows]

    def _scheduled(self, database: str) -> list[MatrixRow]:
        from gandy.app.delete_old_rows import old_rows_matrix  # noqa: PLC0415 only an audit needs it

        app = self.call.find_app()
        if app is None:
            return []
        home = app.loaded_settings.settings.database.url
        return list(old_rows_matrix(app.declarations, database, home=home))

    def _of_files(self) -> list[Contract]:
        return [contract for file in self.files for contract in load(file)]

    def _of_app(self) -> list[Contract]:
        from gandy.app.contracts import contracts_of  # noqa: PLC0415 a contract file needs no application

        app = self.call.find_app()
        return list(app.contracts if app else contracts_of((), self.call.load_settings()))

    def _home(self) -> LoadedSettings | None:
        """Return the settings with Gandy's own database; None if its URL is only the default."""
        app = self.call.find_app()
        loaded = app.loaded_settings if app else self.call.load_settings()
        is_named = app is not None or loaded.origins["database.url"].kind != "default"
        return loaded if is_named else None


def _is_for(contract: Contract, database: str) -> bool:
    try:
        return contract.target() == database
    except ContractTargetError:  # its variable is not set here
        return False


@contextmanager
def attended(
    contracts: Sequence[Contract], target: str | None, *, yes: bool, is_shown: bool
) -> Iterator[SweepOptions]:
    """Show progress and ask for confirmations during a sweep; without a terminal do neither."""
    from gandy.lifecycle import SweepOptions  # noqa: PLC0415  # needs SQLAlchemy

    if not is_shown:
        yield SweepOptions(confirm=_confirmer(yes=yes), is_clock_right=yes)
        return
    with _bars(contracts, target) as pruned:
        yield SweepOptions(confirm=_confirmer(yes=yes), pruned=pruned, is_clock_right=yes)


def would_remove(held: Held) -> str:
    """Describe the deletion that needs confirmation."""
    if not held.is_counted:
        return f"may delete most of at least {held.of:,} rows (counting timed out)"
    others = " together with the other rules of the database" if held.is_shared else ""
    return f"would delete{others} {held.rows:,} of {held.of:,} rows"


def left_over(unfinished: Unfinished) -> str:
    """Describe the remaining rows of a sweep whose budget is spent, and the remedy."""
    rows = "rows may be" if unfinished.left is None else f"{unfinished.left:,} rows are"
    if not unfinished.is_counted:
        rows = f"at least {rows}"
    budget = f"budget.{unfinished.budget}"
    return f"stopped by {budget}, {rows} left; sweep again, or raise {budget} in the contract"


def _confirmer(*, yes: bool) -> Confirm:
    def confirm(held: Held) -> bool:
        if yes or not sys.stdin.isatty():
            return yes
        question = f"{held.table}: {held.rule}: {would_remove(held)}. Continue?"
        return click.confirm(one_line(question), err=True)

    return confirm


@contextmanager
def _bars(contracts: Sequence[Contract], target: str | None) -> Iterator[Pruned]:
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn  # noqa: PLC0415  # slow

    from gandy.lifecycle import plan  # noqa: PLC0415  # needs SQLAlchemy

    expected: Counter[tuple[str, str]] = Counter()
    for rule in plan(contracts, target):
        expected[rule.scheduler, rule.table] += rule.rows
    with Progress(
        TextColumn("{task.description}", markup=False), BarColumn(), MofNCompleteColumn()
    ) as progress:
        tasks = {
            table: progress.add_task(one_line(table[1]), total=rows)
            for table, rows in expected.items()
            if rows
        }

        def pruned(scheduler: str, counts: Mapping[str, int]) -> None:
            for table, rows in counts.items():
                if (scheduler, table) in tasks:
                    progress.advance(tasks[scheduler, table], rows)

        yield pruned


def log_events() -> None:
    """Log lifecycle events to stderr, one line each, independently of the logging settings."""
    handler = logging.StreamHandler()
    handler.setFormatter(TextLines("%(asctime)s %(levelname)s %(message)s"))
    logger = logging.getLogger("gandy.lifecycle")
    logger.handlers = [handler]
    logger.propagate = False
    logger.setLevel(logging.INFO)
