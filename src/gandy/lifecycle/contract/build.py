"""One constructor for each rule, used by TOML and Python."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING

from gandy.lifecycle.contract.fields import Fields, Scalar, Span
from gandy.lifecycle.contract.rules import (
    Cap,
    DropPartition,
    Expires,
    Inline,
    Keep,
    OlderThan,
    Singleton,
    StaleCursor,
    Terminal,
    Words,
)

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence


def _words(fields: Fields, safety: str, lost_by_design: str) -> Words:
    return Words(
        safety=fields.text("safety", safety), lost_by_design=fields.text("lost_by_design", lost_by_design)
    )


def expires(
    column: str,
    *,
    unit: str | None = None,
    grace: Span = "0s",
    wait_for: Sequence[str] = (),
    safety: str = "",
    lost_by_design: str = "",
) -> Expires:
    """Delete rows once their expiry has passed; NULL means never."""
    fields = Fields("expires")
    rule = Expires(
        column=fields.name("expires", column),
        unit=fields.unit(unit),
        grace=fields.span_or_zero("grace", grace) or timedelta(0),
        wait_for=fields.references("wait_for", wait_for),
        words=_words(fields, safety, lost_by_design),
    )
    fields.raise_if_wrong()
    return rule


def older_than(
    column: str,
    *,
    keep_for: Span,
    unit: str | None = None,
    wait_for: Sequence[str] = (),
    safety: str = "",
    lost_by_design: str = "",
) -> OlderThan:
    """Delete rows whose timestamp is older than keep_for."""
    fields = Fields("older_than")
    rule = OlderThan(
        column=fields.name("older_than", column),
        keep_for=fields.span("keep_for", keep_for),
        unit=fields.unit(unit),
        wait_for=fields.references("wait_for", wait_for),
        words=_words(fields, safety, lost_by_design),
    )
    fields.raise_if_wrong()
    return rule


def terminal(
    column: str,
    *,
    states: Sequence[Scalar],
    at: str,
    keep_for: Span | Mapping[Scalar, Span],
    unit: str | None = None,
    wait_for: Sequence[str] = (),
    safety: str = "",
    lost_by_design: str = "",
) -> Terminal:
    """Delete rows in a final state, keep_for after they reached it; keep_for may differ per state."""
    fields = Fields("terminal")
    rule = Terminal(
        column=fields.name("terminal", column),
        at=fields.name("at", at),
        keep_for=fields.per_state(fields.states(states), keep_for),
        unit=fields.unit(unit),
        wait_for=fields.references("wait_for", wait_for),
        words=_words(fields, safety, lost_by_design),
    )
    fields.raise_if_wrong()
    return rule


def _newest(
    kind: str,
    rows: int,
    *,
    order_by: str,
    per: Sequence[str],
    wait_for: Sequence[str],
    safety: str,
    lost_by_design: str,
) -> Cap:
    fields = Fields(kind)
    rule = Cap(
        rows=fields.count(kind, rows),
        order_by=fields.name("order_by", order_by),
        per=fields.names("per", per),
        kind=kind,
        wait_for=fields.references("wait_for", wait_for),
        words=_words(fields, safety, lost_by_design),
    )
    fields.raise_if_wrong()
    return rule


def cap(
    rows: int,
    *,
    order_by: str,
    per: Sequence[str] = (),
    wait_for: Sequence[str] = (),
    safety: str = "",
    lost_by_design: str = "",
) -> Cap:
    """Keep at most `rows` rows per key: delete the oldest beyond them, even live rows."""
    return _newest(
        "cap",
        rows,
        order_by=order_by,
        per=per,
        wait_for=wait_for,
        safety=safety,
        lost_by_design=lost_by_design,
    )


def keep_last(
    rows: int,
    *,
    order_by: str,
    per: Sequence[str] = (),
    wait_for: Sequence[str] = (),
    safety: str = "",
    lost_by_design: str = "",
) -> Cap:
    """Keep the newest `rows` rows per key and delete the others."""
    return _newest(
        "keep_last",
        rows,
        order_by=order_by,
        per=per,
        wait_for=wait_for,
        safety=safety,
        lost_by_design=lost_by_design,
    )


def stale_cursor(
    column: str,
    *,
    keep_for: Span,
    log: str,
    log_at: str,
    unit: str | None = None,
    wait_for: Sequence[str] = (),
    safety: str = "",
    lost_by_design: str = "",
) -> StaleCursor:
    """Delete cursors that stopped advancing, once the log contains nothing older than their progress."""
    fields = Fields("stale_cursor")
    rule = StaleCursor(
        column=fields.name("stale_cursor", column),
        keep_for=fields.span("keep_for", keep_for),
        log=fields.name("log", log),
        log_at=fields.name("log_at", log_at),
        unit=fields.unit(unit),
        wait_for=fields.references("wait_for", wait_for),
        words=_words(fields, safety, lost_by_design),
    )
    fields.raise_if_wrong()
    return rule


def singleton(column: str, *, safety: str = "", lost_by_design: str = "") -> Singleton:
    """The key bounds the table; nothing is deleted."""
    fields = Fields("singleton")
    rule = Singleton(column=fields.name("singleton", column), words=_words(fields, safety, lost_by_design))
    fields.raise_if_wrong()
    return rule


def inline(
    path: str,
    *,
    column: str | None = None,
    states: Sequence[Scalar] = (),
    at: str | None = None,
    alarm_after: Span | None = None,
    unit: str | None = None,
    safety: str = "",
    lost_by_design: str = "",
) -> Inline:
    """The application deletes the rows itself; rows older than alarm_after show that it stopped doing so."""
    fields = Fields("inline")
    rule = Inline(
        path=fields.name("inline", path),
        column=fields.optional_name("column", column),
        states=fields.states(states) if states else (),
        at=fields.optional_name("at", at),
        alarm_after=None if alarm_after is None else fields.span("alarm_after", alarm_after),
        unit=fields.unit(unit),
        words=_words(fields, safety, lost_by_design),
    )
    if (rule.column is None) != (not rule.states):
        fields.note("states", "and column belong together")
    if (rule.at is None) != (rule.alarm_after is None):
        fields.note("alarm_after", "and at belong together")
    fields.raise_if_wrong()
    return rule


def keep(column: str, *, equals: Scalar, safety: str = "", lost_by_design: str = "") -> Keep:
    """Exclude rows with this value from every rule of the table (a legal hold)."""
    fields = Fields("keep")
    rule = Keep(
        column=fields.name("column", column),
        equals=fields.scalar("equals", equals),
        words=_words(fields, safety, lost_by_design),
    )
    fields.raise_if_wrong()
    return rule


def drop_partition(
    column: str,
    *,
    keep_for: Span,
    unit: str | None = None,
    safety: str = "",
    lost_by_design: str = "",
) -> DropPartition:
    """Drop whole partitions once every row they can contain is older than keep_for."""
    fields = Fields("drop_partition")
    rule = DropPartition(
        column=fields.name("drop_partition", column),
        keep_for=fields.span("keep_for", keep_for),
        unit=fields.unit(unit),
        words=_words(fields, safety, lost_by_design),
    )
    fields.raise_if_wrong()
    return rule
