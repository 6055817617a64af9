"""The maintenance matrix of Gandy's own tables, printed from the declaration that drives the pruning."""

from __future__ import annotations

from dataclasses import fields
from datetime import timedelta
from textwrap import dedent
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, Final, assert_never

from gandy.admin.upkeep.declaration import UPKEEP, ByCount, ByDay, ByKey, ByRow, Inline
from gandy.lifecycle.contract.matrix import MatrixRow
from gandy.settings import Settings
from gandy.settings.values import format_duration

if TYPE_CHECKING:
    from gandy.admin.upkeep.declaration import Upkeep

_HEAD: Final = """\
    # Maintenance of Gandy's own tables

    <!-- Written by `python -m gandy.admin`; a test compares. -->

    Every table that Gandy writes is bounded out of the box, with no configuration. The spans below are the
    defaults; [settings](settings.md) lists what each can be set to, and `keep_for` and `keep_last` say it for
    one train or manifest.

    - Batches are short transactions of at most `cleanup.batch_size` rows (MetadataCleanup) or 2,000 (the
      others), sized so that each takes about 50 ms. They walk an index, so a cycle that finds nothing costs
      the same whatever is kept.
    - A batch waits at most 200 ms for a lock and then tries again with less: cleanup loses to work.
    - A row that cannot be deleted is found by halving the batch, logged with its error and counted as
      `set_aside`; all others go.
    - No lock keeps servers apart: whoever comes second finds nothing left. Only the making and dropping of
      partitions is left to one server at a time.
    - Shutdown stops between two batches.

    | Table | Bounded by | Prune path | Safety rule |
    |---|---|---|---|
    """
_FOOT: Final = """\

    ## What happens to references
    Before a run is deleted, its entry in `work_queue` and its lines in `log` go, and
    `dead_letter.retry_metadata_id` is set to null. Other columns name runs too and keep the number as a
    record of what was: `dead_letter.metadata_id`, `metadata.parent_id`, `work_queue.retry_of`,
    `work_queue.parent_id`, and `last_run_id`, `last_failed_run_id` and `last_successful_run_id` of
    `manifest`. The number of a run past its keeping is no error. Whether a dependent is due is decided by
    counts on the manifests, never by a run that may be gone.

    ## Days
    On PostgreSQL a finished run lies in the partition of the day on which its keeping ends, and so do its
    lines. TableMaintenance makes days ahead (the longest of the three retentions and four days, at most 100)
    and drops those that are over: detached concurrently, then dropped. A detach that was cut short is
    finished by the next cycle; a partition that was detached and not dropped is dropped. Runs that are kept
    for less than a day, or beyond the days made so far, lie in a partition of their own, pruned by row.
    """


def own_matrix(settings: Settings) -> tuple[MatrixRow, ...]:
    """Say what bounds each table under these settings; `scheduler` is Gandy itself."""
    spoken = {section.name: _spoken(getattr(settings, section.name)) for section in fields(settings)}
    return tuple(
        MatrixRow(
            scheduler="gandy",
            table=upkeep.table,
            bounded_by=upkeep.bound.format(**spoken),
            prune_path=_path(upkeep),
            safety=upkeep.safety,
        )
        for upkeep in UPKEEP
    )


def render_page() -> str:
    """Write the page of the documentation, in Markdown."""
    rows = "".join(
        f"| {row.table} | {row.bounded_by} | {row.prune_path} | {row.safety} |\n"
        for row in own_matrix(Settings())
    )
    return dedent(_HEAD) + rows + dedent(_FOOT)


def _path(upkeep: Upkeep) -> str:
    match upkeep.means:
        case ByRow():
            return f"{upkeep.pruned_by}, by row"
        case ByDay():
            return f"{upkeep.pruned_by}, by partition"
        case ByCount():
            return f"{upkeep.pruned_by}, manifest by manifest"
        case Inline(path):
            return path
        case ByKey():
            return "none: bounded by its key"
        case means:
            assert_never(means)


def _spoken(section: Any) -> SimpleNamespace:  # noqa: ANN401 any section of the settings
    values = {each.name: getattr(section, each.name) for each in fields(section)}
    return SimpleNamespace(
        **{
            name: format_duration(value) if isinstance(value, timedelta) else value
            for name, value in values.items()
        }
    )
