"""Each feature, switched off by a small mistake in the product."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from tests.matrix.switching import Piece

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

_NO_ORPHANS: Final = Piece("store/seeding.py", "is_whole=bool(declarations.manifests),", "is_whole=False,")

SWITCHES: Final[Mapping[str, Sequence[Piece]]] = {
    "disable": [
        Piece(
            "store/overriding.py",
            "merged = {**json.loads(stored.overrides), **changes}",
            "merged = {**json.loads(stored.overrides), **changes, 'is_enabled': declared['is_enabled']}",
        ),
        Piece("store/declared.py", '"is_enabled": declaration.is_enabled,', '"is_enabled": True,'),
    ],
    "group switch": [Piece("store/overriding.py", '"is_enabled": group.is_enabled,', '"is_enabled": True,')],
    "cap": [
        Piece(
            "store/dispatching.py",
            "for group in groups if group.max_active_jobs is not None}",
            "for group in groups if False}",
        )
    ],
    "misfire": [
        Piece(
            "rules/recurring.py",
            "late_before = _seen_at(view, cursor, now) - view.misfire_threshold",
            "late_before = since",
        )
    ],
    "exclusion": [
        Piece(
            "rules/exclusions.py",
            "return any(_holds(exclusion, wall) for exclusion in exclusions)",
            "return False",
        )
    ],
    "dead letter": [Piece("rules/ending.py", "return failure_count >= max(1, max_retries)", "return False")],
    "retry": [
        Piece(
            "rules/ending.py",
            "return RetryPlan(delay, failures, end.losses, end.lone_losses)",
            "return Settled()",
        )
    ],
    "timeout": [
        Piece("store/reaping.py", '"cancel_timed_out", limit=AT_ONCE', '"cancel_timed_out", limit=0')
    ],
    "cancel": [Piece("store/cancelling.py", '"cancel_entries", ids=ids,', '"cancel_entries", ids=[],')],
    "override": [Piece("store/overriding.py", "overrides = _merged(stored, changes)", 'overrides = "{}"')],
    "orphaning": [_NO_ORPHANS],
    "rename": [
        _NO_ORPHANS,
        Piece(
            "store/seeding.py",
            '    yield statement("retrain_entries", ids=ids, owner=owner)',
            '    yield statement("retrain_entries", ids=[], owner=owner)',
        ),
    ],
    "cleanup": [
        Piece(
            "upkeep/partitions.py",
            "if not is_requested or not isinstance(shift.database, KeepsDays):",
            "if True:",
        ),
        Piece(
            "upkeep/pruning.py",
            "for upkeep, dead in await _walks(pruned_by, request, shift):",
            "for upkeep, dead in ():",
        ),
    ],
    "DST": [
        Piece(
            "rules/zones.py",
            "return instant.astimezone(zone(name))",
            "return (found := instant.astimezone(zone(name))) - (found.dst() or timedelta(0))",
        ),
        Piece(
            "rules/zones.py",
            "offset = wall_of(instant_of(seconds), name).utcoffset()",
            "offset = (at := instant_of(seconds).astimezone(zone(name))).utcoffset() - at.dst()",
        ),
    ],
    "clock jump": [
        Piece("scheduler/repair.py", "if mark.went_back(FAR):", "if False:"),
        Piece(
            "store/clocks.py", "if not isinstance(view.schedule, Recurring) or view.is_next_set:", "if True:"
        ),
    ],
    "restart": [
        Piece(
            "store/reaping.py",
            '"find_abandoned", after=after, limit=AT_ONCE',
            '"find_abandoned", after=after, limit=0',
        )
    ],
    "both databases": [
        Piece("store/drivers/sqlite.py", "        connection.commit()\n", "        connection.rollback()\n"),
        Piece(
            "store/drivers/postgres.py",
            "AsyncTransaction(connection)",
            "AsyncTransaction(connection, force_rollback=True)",
        ),
    ],
    "owner": [
        Piece(
            "app/opening.py",
            "        context = Context(\n            owner=app.name,",
            '        context = Context(\n            owner="shop",',
        )
    ],
    "layout migration": [Piece("store/drivers/migrate.py", "apply_script(migration.sql)", "pass")],
}
