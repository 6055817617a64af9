"""Running cases: one number is one case, forty in a row share a schema and five a contract file."""

from __future__ import annotations

import logging
import random
import traceback
import warnings
from collections import Counter
from dataclasses import dataclass, field
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import psutil

from gandy.clock import ManualClock
from gandy.errors import ContractInvalidError, ContractRefusedError
from gandy.lifecycle import SweepOptions, loads, plan, run_contracts
from tests.lifecycle.fuzz.bench import Bench
from tests.lifecycle.fuzz.contracts import Contracts
from tests.lifecycle.fuzz.data import Filler
from tests.lifecycle.fuzz.files import make_file
from tests.lifecycle.fuzz.judge import Judge
from tests.lifecycle.fuzz.schemas import make_shape
from tests.lifecycle.fuzz.shapes import NOW, Place, Shape, TableShape, World
from tests.lifecycle.fuzz.verdict import Planned, Said, Verdict
from tests.lifecycle.fuzz.writers import Writers

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from datetime import datetime
    from multiprocessing.queues import Queue

    from gandy.lifecycle import Contract


CASES_PER_SHAPE, CASES_PER_FILE = 40, 5
_PLANNED, _AGAIN, _WRITERS = 0.5, 0.25, 0.2
_MOST_MEGABYTES = 300  # more than dozens of rows need, less than a query that copies itself


@dataclass(slots=True)
class Outcome:
    """What one case, or many, came to."""

    faults: list[str] = field(default_factory=list)
    counts: Counter[str] = field(default_factory=Counter)
    history: list[str] = field(default_factory=list)


@dataclass(slots=True)
class Fuzz:
    """Cases on one database."""

    bench: Bench
    shape: Shape | None = None
    text: str = ""
    _made: int | None = None

    def prepare(self, number: int) -> Shape:
        """Make the schema that a case belongs to, if it is not there yet."""
        group = number // CASES_PER_SHAPE
        if self.shape is None or self._made != group:
            self.shape = make_shape(seeded("schema", group), self.bench.database)
            self.bench.make(self.shape)
            self._made = group
        self.text = make_file(seeded("file", number // CASES_PER_FILE), self.shape)
        return self.shape

    def run(self, number: int) -> Outcome:
        """Run one case, and describe it where a promise was broken."""
        outcome = Outcome()
        shape = self.prepare(number)
        case = _Case(self.bench, shape, self.text, outcome, seeded("data", number))
        before = _megabytes()
        try:
            case.run()
        except Exception:  # noqa: BLE001  # a traceback is what the fuzz looks for
            outcome.faults.append(f"traceback: {traceback.format_exc()}")
        if (grown := _megabytes() - before) > _MOST_MEGABYTES:
            outcome.faults.append(f"memory: {grown:,} MB more than before the case")
        outcome.counts["cases"] += 1
        return outcome

    def describe(self, number: int, outcome: Outcome) -> str:
        """Everything that is needed to understand a fault."""
        lines = [f"== case {number} on {self.bench.database}: make fuzz SEED={number}", *outcome.faults]
        if self.shape is not None:
            kinds = {table.label: _kinds(table) for table in self.shape.tables}
            lines += ["-- contract", self.text, "-- schema", *self.bench.statements(self.shape)]
            lines += [f"-- instants and holds: {kinds}", "-- rows and what was said", *outcome.history]
        return "\n".join(lines)


_OF_THIS_PROCESS: list[Fuzz] = []


def take_database(waiting: Queue[str]) -> None:
    """Give this process a database of its own."""
    logging.disable(logging.CRITICAL)
    warnings.simplefilter("error")
    _OF_THIS_PROCESS.append(Fuzz(Bench(waiting.get())))


def run_group(numbers: list[int]) -> tuple[Counter[str], list[str]]:
    """Run cases on the database of this process: figures, and a description of each broken one."""
    [fuzz] = _OF_THIS_PROCESS
    counts: Counter[str] = Counter()
    texts: list[str] = []
    for number in numbers:
        outcome = fuzz.run(number)
        counts.update(outcome.counts)
        if outcome.faults:
            counts.update(f"fault {kind}" for kind in {fault.partition(":")[0] for fault in outcome.faults})
            texts.append(fuzz.describe(number, outcome))
    return counts, texts


def seeded(purpose: str, number: int) -> random.Random:
    """Chance that is the same for the same number."""
    return random.Random(f"{purpose} {number}")  # noqa: S311  # it must be possible to replay


@dataclass(slots=True)
class _Case:
    bench: Bench
    shape: Shape
    text: str
    outcome: Outcome
    chance: random.Random
    aside: frozenset[Place] = frozenset()

    def run(self) -> None:
        filler = Filler(self.chance, self.shape, NOW)
        self.bench.refill(self.shape, filler.fill())
        has_writers = self.bench.database == "postgresql" and self.chance.random() < _WRITERS
        if has_writers:
            self._with_writers(filler.marks)
            return
        self._alone(NOW)
        if self.chance.random() < _AGAIN:
            later = NOW + timedelta(hours=self.chance.randint(1, 1_000))
            more = Filler(self.chance, self.shape, later, marks=filler.marks)
            more.text_form = filler.text_form
            self.bench.add(self.shape, more.fill())
            self._alone(later)

    def _alone(self, now: datetime) -> None:
        before = self.bench.read(self.shape)
        judge = Judge(Contracts(self.text, self.shape), before, now, aside=self.aside)
        self.aside = judge.set_aside
        self.outcome.history += [f"at {now}:", *_rows(before)]
        is_planned = self.chance.random() < _PLANNED
        said = self.sweep(now, judge.contracts, is_planned=is_planned)
        verdict = Verdict(judge, self.bench.read(self.shape), said)
        self.outcome.history += [f"went: {sorted(verdict.missing)}", f"said: {said}"]
        self.outcome.faults += verdict.faults()
        self._count(verdict)

    def _with_writers(self, marks: int) -> None:
        before = self.bench.read(self.shape)
        contracts = Contracts(self.text, self.shape)
        self.outcome.history += [f"at {NOW}, with writers:", *_rows(before)]
        writers = Writers(self.bench, contracts, before, self.chance, marks=marks)
        with writers:
            said = self.sweep(NOW, contracts, is_planned=False)
        after = self.bench.read(self.shape)
        self.outcome.history += [*map(str, writers.log), f"said: {said}"]
        self.outcome.faults += writers.faults(after)
        self.outcome.counts["with writers"] += 1
        self.outcome.counts["writes"] += len(writers.log)
        self.outcome.counts["rows beside writers"] += len(before.places() - after.places())

    def sweep(self, now: datetime, contracts: Contracts, *, is_planned: bool) -> Said:
        """Plan and sweep once; a refusal of the whole file is said, any other error is a fault."""
        said, clock, url = Said(), ManualClock(now), self.bench.sweeping_url(self.shape)
        try:
            read = loads(self.text)
            if is_planned:
                said.planned = self._plan(read, url, clock=clock, contracts=contracts)
            reports = run_contracts(read, url, options=SweepOptions(clock=clock, is_clock_right=True))
        except (ContractInvalidError, ContractRefusedError) as error:
            said.refused = str(error)
            return said
        for report in reports:
            said.counted += sum(report.counts.values())
            for failure in report.failures:
                said.errors.append(f"{report.scheduler} {failure.table} {failure.rule}: {failure.error}")
                said.failed.add((report.scheduler, _label(contracts, failure.table)))
            if report.is_skipped or any(not failure.table for failure in report.failures):
                said.whole.add(report.scheduler)
            for rule in report.rules:
                said.by_table[report.scheduler, _label(contracts, rule.table)] += rule.rows
        return said

    def _plan(
        self, read: Sequence[Contract], url: str, *, clock: ManualClock, contracts: Contracts
    ) -> dict[tuple[str, str], Planned] | None:
        """What the dry run says; the sweep is judged even where the dry run fails."""
        try:
            return _planned(plan(read, url, clock=clock), contracts)
        except (ContractInvalidError, ContractRefusedError):
            raise
        except Exception:  # noqa: BLE001  # a traceback is what the fuzz looks for
            self.outcome.faults.append(f"traceback of the plan: {traceback.format_exc()}")
            return None

    def _count(self, verdict: Verdict) -> None:
        counts, missing = self.outcome.counts, verdict.missing
        counts["sweeps"] += 1
        counts["files refused"] += verdict.said.refused is not None
        counts["planned"] += verdict.said.planned is not None
        for ruling in verdict.judge.rulings:
            kind, where = ruling.rule.kind, (ruling.rule.contract, ruling.rule.table)
            counts[f"rules {kind}"] += 1
            is_stopped = ruling.is_refused or where in verdict.said.failed or verdict.said.refused is not None
            counts[f"rules refused {kind}"] += is_stopped
            counts[f"rows {kind}"] += len(ruling.roots & missing)
            heavy = {place for place in ruling.roots if verdict.judge.is_heavy(ruling.rule, place)}
            is_parted = verdict.judge.goes_in_parts(ruling.rule)
            counts["heavy rows that went in parts"] += len(heavy & missing) if is_parted else 0
            counts["heavy rows set aside"] += 0 if is_parted else len(heavy - missing)
            counts["rows with a parent"] += len((ruling.taken - ruling.roots) & missing)
        counts["rows that had to go"] += len(verdict.must_go())
        if verdict.said.planned is not None and not verdict.said.failed and verdict.expected() is not None:
            counts["plans compared"] += 1


def _megabytes() -> int:
    return int(psutil.Process().memory_info().rss) >> 20


def _planned(rules: list[Any], contracts: Contracts) -> dict[tuple[str, str], Planned]:
    found: dict[tuple[str, str], Planned] = {}
    for rule in rules:
        where = (rule.scheduler, _label(contracts, rule.table))
        so_far = found.get(where, Planned())
        found[where] = Planned(
            rows=so_far.rows + rule.rows,
            children=so_far.children + sum(rule.children.values()),
            is_refused=so_far.is_refused or rule.refused is not None,
            is_counted=so_far.is_counted and rule.is_counted,
        )
    return found


def _label(contracts: Contracts, written: str) -> str:
    """The label of a table that a report names as the contract wrote it."""
    schema, _, name = written.rpartition(".")
    return contracts.label(name, schema or None)


def _kinds(table: TableShape) -> dict[str, str]:
    return {column.name: column.kind for column in table.columns if column.name in {"at1", "at2", "hold"}}


def _rows(world: World) -> Iterator[str]:
    for label, rows in world.rows.items():
        yield from (f"  {label}: {row}" for row in rows.values())
