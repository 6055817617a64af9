"""The contract of lifecycle.toml in Python: the same rules, checked by the same code."""

from __future__ import annotations

from gandy.lifecycle import (
    Contract,
    Table,
    cap,
    expires,
    inline,
    older_than,
    singleton,
    stale_cursor,
    terminal,
)

DATABASE_ENV = "STATESTORE_DATABASE_URL"


def _lease(table: str, safety: str) -> Table:
    return Table(table, [expires("lease_expires_at_ms", unit="ms", safety=safety)])


STATESTORE = Contract(
    "statestore",
    [
        Table(
            "presence_entries",
            [
                expires(
                    "expires_at_ms", unit="ms", safety="Presence is derived inventory; only expired rows go"
                ),
                cap(
                    500,
                    per=["tenant_id"],
                    order_by="last_seen_at_ms",
                    safety="The heartbeat cap also takes the oldest live entries beyond it; "
                    "the next heartbeat brings them back",
                ),
                inline("heartbeat cleanup"),
            ],
        ),
        Table(
            "connections",
            [
                expires("expires_at_ms", unit="ms", safety="Active owners keep refreshing their expiry"),
                inline("edge heartbeat cleanup"),
            ],
        ),
        Table(
            "channel_inbound_dedupe",
            [
                expires(
                    "expires_at_ms", unit="ms", safety="Replay protection holds inside the dedupe window"
                ),
                inline("best-effort cleanup on receipt"),
            ],
        ),
        Table(
            "channel_inbox",
            [
                terminal(
                    "status",
                    states=["completed"],
                    at="processed_at",
                    keep_for="7d",
                    wait_for=["channel_outbox.inbox_id"],
                    safety="Completed rows wait for their outbox rows",
                ),
                terminal(
                    "status",
                    states=["failed"],
                    at="failed_at",
                    keep_for="7d",
                    wait_for=["channel_outbox.inbox_id"],
                    safety="Failed rows age from their failure",
                ),
            ],
        ),
        Table(
            "channel_outbox",
            [
                inline(
                    "delivery path",
                    column="status",
                    states=["sent"],
                    at="sent_at",
                    alarm_after="1h",
                    safety="Delivered rows go at once, on delivery",
                ),
                terminal(
                    "status",
                    states=["failed"],
                    at="failed_at",
                    keep_for="7d",
                    safety="The transcript is recovered from its own table, never from retained outbox rows",
                ),
            ],
        ),
        _lease("conversation_leases", "Only expired leases go"),
        _lease("workspace_leases", "Active owners renew before expiry"),
        Table(
            "oauth_pending",
            [
                expires("expires_at", safety="A live handshake survives until its advertised expiry"),
                inline("callback consumption"),
            ],
        ),
        _lease("oauth_refresh_leases", "Only expired refresh ownership goes"),
        _lease("models_dev_refresh_leases", "The cache row is another table's, and stays"),
        Table("models_dev_cache", [singleton("id", safety="One row, replaced in place")]),
    ],
    database_env=DATABASE_ENV,
)

OUTBOX = Contract(
    "outbox",
    [
        Table(
            "outbox",
            [
                older_than(
                    "created_at",
                    keep_for="24h",
                    safety="Durable state stays authoritative",
                    lost_by_design="replay history",
                )
            ],
        ),
        Table(
            "outbox_consumers",
            [
                stale_cursor(
                    "updated_at",
                    keep_for="24h",
                    log="outbox",
                    log_at="created_at",
                    safety="Only cursors that stopped advancing go, once nothing older is left to replay",
                )
            ],
        ),
    ],
    database_env=DATABASE_ENV,
)

CONTRACTS = (STATESTORE, OUTBOX)
