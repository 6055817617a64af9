"""The prune paths that the application walks itself, beside the sweep.

Each takes a DB-API connection and the parameter mark of its driver, and leaves the commit to its caller.
"""

from __future__ import annotations

from typing import Any

PRESENCE_CAP = 500


class InlinePaths:
    """What the state store deletes as it works."""

    def __init__(self, connection: Any, mark: str) -> None:  # noqa: ANN401  # any DB-API connection
        self._connection = connection
        self._mark = mark

    def heartbeat(self, tenant: str, client: str, *, now_ms: int, expires_at_ms: int) -> None:
        """Renew a presence entry, then clean up the tenant's expired and surplus ones."""
        self._run(
            "INSERT INTO presence_entries (tenant_id, client_id, last_seen_at_ms, expires_at_ms)"
            " VALUES (?, ?, ?, ?) ON CONFLICT (tenant_id, client_id) DO UPDATE SET"
            " last_seen_at_ms = excluded.last_seen_at_ms, expires_at_ms = excluded.expires_at_ms",
            (tenant, client, now_ms, expires_at_ms),
        )
        self._run("DELETE FROM presence_entries WHERE tenant_id = ? AND expires_at_ms <= ?", (tenant, now_ms))
        self._run(
            "DELETE FROM presence_entries WHERE tenant_id = ? AND client_id IN (SELECT client_id FROM"
            " presence_entries WHERE tenant_id = ? ORDER BY last_seen_at_ms DESC, client_id DESC"
            " LIMIT 1000 OFFSET ?)",
            (tenant, tenant, PRESENCE_CAP),
        )

    def edge_heartbeat(self, edge: str, *, now_ms: int) -> None:
        """Drop the edge's own connections that were not refreshed."""
        self._run("DELETE FROM connections WHERE edge = ? AND expires_at_ms <= ?", (edge, now_ms))

    def is_first_receipt(self, message_key: str, *, now_ms: int, expires_at_ms: int) -> bool:
        """Whether the message is seen for the first time inside the window; drops its stale mark."""
        self._run(
            "DELETE FROM channel_inbound_dedupe WHERE message_key = ? AND expires_at_ms <= ?",
            (message_key, now_ms),
        )
        inserted = self._run(
            "INSERT INTO channel_inbound_dedupe (message_key, expires_at_ms) VALUES (?, ?)"
            " ON CONFLICT (message_key) DO NOTHING",
            (message_key, expires_at_ms),
        )
        return inserted == 1

    def delivered(self, outbox_id: int) -> None:
        """A delivered message leaves nothing behind."""
        self._run("DELETE FROM channel_outbox WHERE id = ?", (outbox_id,))

    def consume_callback(self, state: str, *, now: object) -> bool:
        """Use up a live handshake, once."""
        return self._run("DELETE FROM oauth_pending WHERE state = ? AND expires_at > ?", (state, now)) == 1

    def _run(self, statement: str, values: tuple[object, ...]) -> int:
        cursor = self._connection.cursor()
        cursor.execute(statement.replace("?", self._mark), values)
        return int(cursor.rowcount)
