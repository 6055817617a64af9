"""The documentation page about the bounds of Gandy's own tables, made from their declaration."""

from __future__ import annotations

from textwrap import dedent
from typing import Final

from gandy.settings import Settings
from gandy.upkeep.declaration import own_matrix

_HEAD: Final = """\
    # Maintenance of Gandy's own tables

    <!-- Written by `python -m gandy.upkeep`; a test compares. -->

    Every table that Gandy writes is bounded out of the box, with no configuration. The spans below are the
    defaults; [settings](settings.md) lists their settings, and `keep_for` and `keep_last` override them for
    one train or manifest.

    - Batches are short transactions of at most `cleanup.batch_size` rows (MetadataCleanup) or 2,000 (the
      others), sized so that each takes about 50 ms. They walk an index, so the cost of a cycle that finds
      nothing does not depend on the number of rows kept.
    - A batch waits at most 200 ms for a lock and then tries again with fewer rows: cleanup gives way to work.
    - A row that cannot be deleted is found by halving the batch, logged with its error and counted as
      `set_aside`; all others are deleted.
    - Servers need no common lock: a second server finds nothing left. Only creating and dropping
      partitions is limited to one server at a time.
    - Shutdown stops between two batches.

    | Table | Bounded by | Prune path | Safety rule |
    |---|---|---|---|
    """
_FOOT: Final = """\

    ## What happens to references
    Before a run is deleted, its lines in `log` are deleted, and `dead_letter.retry_metadata_id` is set to
    null. Other columns also contain run ids and keep them for the
    record: `dead_letter.metadata_id`, `metadata.parent_id`, `work_queue.retry_of`,
    `work_queue.parent_id`, and `last_run_id`, `last_failed_run_id` and `last_successful_run_id` of
    `manifest`. The id of a deleted run is not an error. Whether a dependent is due is decided by
    counts on the manifests, never by a run that may be deleted.

    ## Days
    On PostgreSQL a finished run is in the partition of the day on which its retention ends, and so are its
    lines. TableMaintenance creates days ahead (the longest of the three retentions plus 4 days, at most 100)
    and drops past days: detached concurrently, then dropped. An interrupted detach is
    finished by the next cycle; a partition that was detached and not dropped is dropped. Runs that are kept
    for less than a day, or beyond the days created so far, are in a partition of their own, pruned by row.

    A day begins as one piece. When its piece, runs and lines together, has `retention.piece_bytes`, a cycle
    creates the next one, and the cycle after it lets ended runs go there. All pieces are dropped with their
    day.
    """


def render_page() -> str:
    """Return the documentation page in Markdown."""
    rows = "".join(
        f"| {row.table} | {row.bounded_by} | {row.prune_path} | {row.safety} |\n"
        for row in own_matrix(Settings())
    )
    return dedent(_HEAD) + rows + dedent(_FOOT)
