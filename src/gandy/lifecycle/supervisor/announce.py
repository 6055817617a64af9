"""Events as structured log lines: the name is the message, the fields come as JSON and as `extra`."""

from __future__ import annotations

import json
import logging
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

LOGGER = logging.getLogger("gandy.lifecycle")


def announce(level: int, name: str, fields: Mapping[str, object]) -> None:
    """Write one event."""
    text = json.dumps(fields, default=str, sort_keys=True)
    LOGGER.log(level, "%s %s", name, text, extra={"event": name, "fields": dict(fields)})


def pruned(scheduler: str, counts: Mapping[str, int]) -> None:
    """A tick deleted rows."""
    announce(logging.INFO, f"{scheduler}.lifecycle_pruned", {"tables": dict(counts)})


def tick_failed(scheduler: str, *, table: str, rule: str, error: str) -> None:
    """A rule failed; the others went on."""
    fields = {"table": table, "rule": rule, "error": error}
    announce(logging.ERROR, f"{scheduler}.lifecycle_tick_failed", fields)


def judged_again(scheduler: str) -> None:
    """A table or a hold changed while the sweep ran."""
    announce(logging.INFO, f"{scheduler}.lifecycle_judged_again", {})


def confirmation_needed(scheduler: str, *, table: str, rule: str, rows: int, of: int) -> None:
    """A rule waits for a person's word."""
    fields = {"table": table, "rule": rule, "rows": rows, "of": of}
    announce(logging.WARNING, f"{scheduler}.lifecycle_confirmation_needed", fields)


def inline_overdue(scheduler: str, *, table: str, path: str, oldest: object) -> None:
    """Rows are left that the application's own path should have deleted."""
    fields = {"table": table, "path": path, "oldest": oldest}
    announce(logging.WARNING, f"{scheduler}.lifecycle_inline_overdue", fields)


def falling_behind(scheduler: str, *, table: str, rule: str, arriving: float, draining: float) -> None:
    """Rows arrive faster than the budget lets them go."""
    fields = {"table": table, "rule": rule, "arriving_per_second": arriving, "draining_per_second": draining}
    announce(logging.WARNING, f"{scheduler}.lifecycle_falling_behind", fields)


def quarantine_outdated(scheduler: str, *, table: str, key: str) -> None:
    """A quarantined key cannot be read as a key of its table any more: the row is tried again."""
    fields = {"table": table, "key": key}
    announce(logging.WARNING, f"{scheduler}.lifecycle_quarantine_outdated", fields)
