"""Runs beyond the newest so many of their manifest."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from gandy.store.cleanup import Found, RowWalk, place_of
from gandy.store.statements import batch, statement
from gandy.store.walks import DELETE_RUNS

if TYPE_CHECKING:
    from gandy.store.cleanup import Place
    from gandy.store.statements import Operation


@dataclass(frozen=True, slots=True)
class CappedPage:
    """Some of the manifests that keep only so many runs."""

    last_id: int | None  #: None: there are no more
    surplus: tuple[tuple[int, int], ...]  #: manifests with too many runs, and the newest run that is too much


@dataclass(frozen=True, slots=True, kw_only=True)
class SurplusRuns(RowWalk):
    """The surplus runs of a page of manifests, from one manifest to the next."""

    surplus: tuple[tuple[int, int], ...]

    def find(self, after: Place | None, limit: int) -> Operation[Found]:
        """Find the next ones of the manifest where the walk is, then of those behind it."""
        current = int(after.within) if after and after.within is not None else 0
        older = int(after.id) - 1 if after else 0
        rest = [
            {"manifest_id": manifest, "newest": older if manifest == current else newest}
            for manifest, newest in self.surplus
            if manifest >= current
        ]
        rows = (yield batch(self.finding, rest, limit=limit))[:limit]
        last = place_of(rows[-1]) if rows else None
        return Found(len(rows), last, ids=[row.id for row in rows], buckets=[row.bucket for row in rows])


def page_capped(after: int, page: int) -> Operation[CappedPage]:
    """Look at the next manifests that keep only so many runs."""
    manifests = yield statement("page_capped_manifests", after_id=after, page=page)
    wanted = [{"manifest_id": row.id, "keep_last": row.keep_last} for row in manifests]
    found = yield batch("find_newest_surplus", wanted)
    surplus = tuple(sorted((row.manifest_id, row.newest) for row in found))
    return CappedPage(manifests[-1].id if len(manifests) == page else None, surplus)


def surplus_runs(page: CappedPage) -> SurplusRuns:
    """Walk the surplus of a page."""
    return SurplusRuns(
        table="metadata",
        finding="find_surplus_runs",
        deletions=DELETE_RUNS,
        given={},
        surplus=page.surplus,
    )
