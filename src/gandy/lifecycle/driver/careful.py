"""The second try of a batch that the database refused: what cannot go is quarantined, the rest goes."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from sqlalchemy import Connection, select, text

from gandy.lifecycle.driver.apart import RowsApart, hint_of, must_all_be_gone
from gandy.lifecycle.driver.lanes import Advanced, Remember
from gandy.lifecycle.driver.levels import KEPT, RowKeptError, may_keep_references
from gandy.lifecycle.driver.singly import Removed, TransactionEndedError, Trials, remove_singly
from gandy.lifecycle.selection.statements import equal
from gandy.lifecycle.state.quarantine import KeyText, Quarantined, put_in_quarantine

if TYPE_CHECKING:
    from collections.abc import Mapping

    from gandy.lifecycle.driver.guarded import Doomed, Guard
    from gandy.lifecycle.driver.shift import Shift
    from gandy.lifecycle.driver.ties import Ties
    from gandy.lifecycle.selection.addresses import Rows
    from gandy.lifecycle.selection.statements import Values
    from gandy.lifecycle.state.progress import RuleKey


@dataclass(frozen=True, slots=True, kw_only=True)
class CarefulLane:
    """Batches of one selection in which each row stands for itself."""

    shift: Shift
    guard: Guard
    rule: RuleKey
    remember: Remember
    ties: Ties

    def advance(self, after: Values | None, limit: int, *, is_apart: bool = False) -> Advanced | None:
        """Delete what can go of the next batch and quarantine the rest, in one transaction."""
        return self.guard.fitting.fit(limit, lambda rows: self._tried(after, rows, is_apart=is_apart))

    def _tried(self, after: Values | None, limit: int, *, is_apart: bool) -> Advanced | None:
        trials = Trials(is_apart=is_apart)
        while True:
            try:
                return self._advance(after, limit, trials)
            except TransactionEndedError:
                continue  # without the row that ended it
            except RowKeptError:
                trials.is_apart = True  # each row is asked what became of it

    def _advance(self, after: Values | None, limit: int, trials: Trials) -> Advanced | None:
        batch = self.ties.listed(after, limit)
        with self.shift.session.batch(self.shift.patience) as connection:
            batch = batch or self.ties.found(connection, after, limit)
            if batch is None:
                return None
            self.shift.hold_on(connection)
            if self.guard.has_locks:  # a check that waits for the commit would spoil the whole batch
                connection.execute(text("SET CONSTRAINTS ALL IMMEDIATE"))
            doomed = self.guard.doomed(connection, batch)
            removed = self._remove(connection, doomed, trials)
            self.quarantine(connection, doomed.rows, removed.refused)
            self.remember(connection, batch.end)
        self.ties.settled(batch, removed.rows + len(removed.refused))
        reason = next(iter(removed.refused.values()), None)
        return Advanced(batch.end, batch.is_full, removed.rows, removed.gone, len(removed.refused), reason)

    def _remove(self, connection: Connection, doomed: Doomed, trials: Trials) -> Removed:
        if trials.is_apart or may_keep_references(doomed.levels):
            removed = RowsApart(connection, self.shift, doomed).run(trials)
        else:
            removed = remove_singly(connection, doomed, shift=self.shift, trials=trials)
            must_all_be_gone(connection, doomed, removed)
        hint = hint_of(doomed)
        refused = {
            row: reason if KEPT in reason else reason + hint for row, reason in removed.refused.items()
        }
        return replace(removed, refused=refused)

    def set_aside(self, end: Values, reason: str) -> None:
        """Quarantine the one row that a batch consisted of."""
        selection = self.guard.selection
        with self.shift.session.batch(self.shift.patience) as connection:
            self.shift.hold_on(connection)
            found = connection.execute(select(KeyText(selection.key)).where(equal(selection.order, end)))
            put_in_quarantine(connection, [self._row(key, reason) for key in found.scalars()])
            self.remember(connection, end)

    def quarantine(self, connection: Connection, rows: Rows, refused: Mapping[Values, str]) -> None:
        """Record rows that stay, each with the reason."""
        poison = rows.only(list(refused))
        for part in poison.parts():
            clause = rows.table.clause
            found = connection.execute(
                select(*part.columns(), KeyText(self.guard.selection.key)).where(part.are(clause))
            )
            put_in_quarantine(
                connection, [self._row(str(row[-1]), refused[tuple(row[:-1])]) for row in found]
            )

    def _row(self, key: str, reason: str) -> Quarantined:
        return Quarantined(
            scheduler=self.rule.scheduler,
            table_name=self.rule.table,
            row_key=key,
            rule=self.rule.rule,
            error=reason,
            quarantined_at=self.shift.now,
        )
