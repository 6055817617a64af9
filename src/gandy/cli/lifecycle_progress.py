"""A person attends a sweep: bars at a terminal, questions where somebody can answer."""

from __future__ import annotations

import sys
from collections import Counter
from contextlib import contextmanager
from typing import TYPE_CHECKING

import click

from gandy.settings.files import one_line

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from gandy.lifecycle import Attendance, Contract
    from gandy.lifecycle.supervisor.confirmation import Confirm
    from gandy.lifecycle.supervisor.report import Held, Unfinished

    Pruned = Callable[[str, Mapping[str, int]], None]


@contextmanager
def attended(
    contracts: Sequence[Contract], target: str | None, *, yes: bool, is_shown: bool
) -> Iterator[Attendance]:
    """Attend a sweep; without a terminal nothing is shown and nobody is asked."""
    from gandy.lifecycle import Attendance  # noqa: PLC0415  # needs SQLAlchemy

    if not is_shown:
        yield Attendance(confirm=_confirmer(yes=yes), is_clock_right=yes)
        return
    with _bars(contracts, target) as pruned:
        yield Attendance(confirm=_confirmer(yes=yes), pruned=pruned, is_clock_right=yes)


def would_remove(held: Held) -> str:
    """What a person agrees to, in words."""
    if not held.is_counted:
        return f"may remove most of at least {held.of:,} rows: counting them took too long"
    others = " with the other rules of the database" if held.is_shared else ""
    return f"would remove{others} {held.rows:,} of {held.of:,} rows"


def left_over(unfinished: Unfinished) -> str:
    """What a budget left behind, in words, and what helps."""
    rows = "rows may be" if unfinished.left is None else f"{unfinished.left:,} rows are"
    if not unfinished.is_counted:
        rows = f"at least {rows}"
    budget = f"budget.{unfinished.budget}"
    return f"stopped by {budget}, and {rows} left; sweep again, or raise {budget} in the contract"


def _confirmer(*, yes: bool) -> Confirm:
    def confirm(held: Held) -> bool:
        if yes or not sys.stdin.isatty():
            return yes
        question = f"{held.table}: {held.rule}: {would_remove(held)}. Go on?"
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
