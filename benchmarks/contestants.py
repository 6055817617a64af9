"""Who takes part, and how each is started."""

from __future__ import annotations

from benchmarks.process import Launch

CONTESTANTS = {
    "gandy": Launch("benchmarks.gandy_contestant"),
    "gandy beside kept runs": Launch("benchmarks.gandy_beside", arguments=("kept",)),
    "gandy beside future entries": Launch("benchmarks.gandy_beside", arguments=("future",)),
    "gandy on SQLite": Launch("benchmarks.gandy_on_sqlite"),
    "direct SQLite": Launch("benchmarks.ceilings.sqlite_loop"),
    "t1": Launch("benchmarks.ceilings.one_table"),
    "t3m": Launch("benchmarks.ceilings.fused"),
    "t4": Launch("benchmarks.ceilings.live_entry"),
    "t3m by COPY": Launch("benchmarks.ceilings.fused_by_copy"),
    "gandy schedules": Launch("benchmarks.gandy_schedules"),
    "10,000 manifests": Launch("benchmarks.gandy_schedules"),
    "100,000 manifests": Launch("benchmarks.gandy_schedules"),
    "1,000,000 manifests": Launch("benchmarks.gandy_schedules"),
    "1,000,000 manifests, 5,000,000 runs": Launch("benchmarks.gandy_schedules"),
    "SQLite, 1,000 manifests": Launch("benchmarks.gandy_schedules_on_sqlite"),
    "SQLite, 10,000 manifests": Launch("benchmarks.gandy_schedules_on_sqlite"),
    "SQLite, 100,000 manifests": Launch("benchmarks.gandy_schedules_on_sqlite"),
    "direct schedules": Launch("benchmarks.ceilings.schedules"),
    "direct deletion": Launch("benchmarks.ceilings.deletion"),
    "partition drop": Launch("benchmarks.ceilings.partition_drop"),
    "gandy by row": Launch("benchmarks.gandy_cleanup", arguments=("row",)),
    "gandy by day": Launch("benchmarks.gandy_cleanup", arguments=("day",)),
    "gandy beside expired runs": Launch("benchmarks.gandy_upkeep", arguments=("idle",)),
    "gandy removing them": Launch("benchmarks.gandy_upkeep", arguments=("cleaning",)),
    "pages on PostgreSQL": Launch("benchmarks.gandy_pages"),
    "pages on SQLite": Launch("benchmarks.gandy_pages", arguments=("sqlite",)),
    "lifecycle": Launch("benchmarks.lifecycle.sweep"),
    "one instant": Launch("benchmarks.lifecycle.ties", arguments=("create_index",)),
    "one instant, key in the index": Launch(
        "benchmarks.lifecycle.ties", arguments=("create_index_with_key",)
    ),
    "limited loop": Launch("benchmarks.lifecycle.limited_loop"),
    "writer alone": Launch("benchmarks.lifecycle.writer", arguments=("nothing",)),
    "writer beside the sweep": Launch("benchmarks.lifecycle.writer", arguments=("sweep",)),
    "writer beside the loop": Launch("benchmarks.lifecycle.writer", arguments=("loop",)),
    "single delete": Launch("benchmarks.lifecycle.single_delete"),
    "pgqueuer": Launch("benchmarks.peers.pgqueuer_peer", environment="pgqueuer"),
    "oban": Launch("benchmarks.peers.oban_peer", environment="oban"),
    "awa": Launch("benchmarks.peers.awa_peer", environment="awa"),
    "django-ox": Launch("benchmarks.peers.django_ox_peer", environment="django_ox"),
    "chancy": Launch("benchmarks.peers.chancy_peer", environment="chancy"),
    "procrastinate": Launch("benchmarks.peers.procrastinate_peer", environment="procrastinate"),
    "dbos": Launch("benchmarks.peers.dbos_peer", environment="dbos"),
    "APScheduler 3": Launch("benchmarks.peers.apscheduler3_peer", environment="apscheduler3"),
    "APScheduler 4": Launch("benchmarks.peers.apscheduler4_peer", environment="apscheduler4"),
}
