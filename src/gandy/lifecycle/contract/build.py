"""One constructor for each rule, used by TOML and Python."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING

from gandy.lifecycle.contract.base import Words
from gandy.lifecycle.contract.fields import Fields, Scalar, Span
from gandy.lifecycle.contract.rules import (
    Cap,
    DropPartition,
    Expires,
    Inline,
    Keep,
    KeepLast,
    OlderThan,
    Singleton,
    StaleCursor,
    Terminal,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from gandy.lifecycle.contract.rules import Rule


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
    fields = Fields(Expires.kind)
    rule = Expires(
        column=fields.name(Expires.kind, column),
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
    fields = Fields(OlderThan.kind)
    rule = OlderThan(
        column=fields.name(OlderThan.kind, column),
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
    fields = Fields(Terminal.kind)
    rule = Terminal(
        column=fields.name(Terminal.kind, column),
        at=fields.name("at", at),
        keep_for=fields.per_state(fields.states(states), keep_for),
        unit=fields.unit(unit),
        wait_for=fields.references("wait_for", wait_for),
        words=_words(fields, safety, lost_by_design),
    )
    fields.raise_if_wrong()
    return rule


def _newest(
    declared: type[Cap],
    rows: int,
    *,
    order_by: str,
    per: Sequence[str],
    wait_for: Sequence[str],
    safety: str,
    lost_by_design: str,
) -> Cap:
    fields = Fields(declared.kind)
    rule = declared(
        rows=fields.count(declared.kind, rows),
        order_by=fields.name("order_by", order_by),
        per=fields.names("per", per),
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
        Cap,
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
        KeepLast,
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
    fields = Fields(StaleCursor.kind)
    rule = StaleCursor(
        column=fields.name(StaleCursor.kind, column),
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
    fields = Fields(Singleton.kind)
    rule = Singleton(column=fields.name(Singleton.kind, column), words=_words(fields, safety, lost_by_design))
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
    fields = Fields(Inline.kind)
    rule = Inline(
        path=fields.name(Inline.kind, path),
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
    fields = Fields(Keep.kind)
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
    fields = Fields(DropPartition.kind)
    rule = DropPartition(
        column=fields.name(DropPartition.kind, column),
        keep_for=fields.span("keep_for", keep_for),
        unit=fields.unit(unit),
        words=_words(fields, safety, lost_by_design),
    )
    fields.raise_if_wrong()
    return rule


#: The constructor of each kind, by its keyword; its parameters are the fields of the rule in TOML.
BUILDERS: dict[str, Callable[..., Rule]] = {
    Expires.kind: expires,
    OlderThan.kind: older_than,
    Terminal.kind: terminal,
    Cap.kind: cap,
    KeepLast.kind: keep_last,
    StaleCursor.kind: stale_cursor,
    Singleton.kind: singleton,
    Inline.kind: inline,
    Keep.kind: keep,
    DropPartition.kind: drop_partition,
}
