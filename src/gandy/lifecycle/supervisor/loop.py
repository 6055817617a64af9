"""Keeping contracts for as long as the process lives: each at once, then as often as it says."""

from __future__ import annotations

import time
from dataclasses import replace
from typing import TYPE_CHECKING

from gandy.clock import STEADY_FOR
from gandy.lifecycle.contract.tables import gathered
from gandy.lifecycle.supervisor.tick import Attendance, run_contracts

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from datetime import timedelta
    from threading import Event

    from gandy.lifecycle.contract.tables import Contract
    from gandy.lifecycle.supervisor.report import ContractReport


def keep_contracts(
    contracts: Sequence[Contract],
    target: str | None,
    *,
    stop: Event,
    attendance: Attendance | None = None,
    ticked: Callable[[ContractReport], None] = lambda _report: None,
) -> None:
    """Keep the contracts until told to stop; a stop is heard between two batches."""
    by = replace(
        attendance or Attendance(),
        is_stopping=stop.is_set,
        rest=lambda span: _rest(stop, span),
        beside=contracts,
    )
    for contract in gathered(contracts, target):
        contract.target(target)  # a contract without a database is an error now, not in five minutes
    by.metrics.declare(contracts)
    due = [(time.monotonic(), index) for index in range(len(contracts))]
    while not stop.is_set():
        at, index = min(due)
        if stop.wait(max(0.0, at - time.monotonic())):
            return
        every = contracts[index].interval.total_seconds()
        for report in run_contracts([contracts[index]], target, attendance=by):
            ticked(report)
            if report.doubt is not None:
                every = min(every, STEADY_FOR.total_seconds())
        due[due.index((at, index))] = (max(at + every, time.monotonic()), index)


def _rest(stop: Event, span: timedelta) -> None:
    stop.wait(span.total_seconds())
