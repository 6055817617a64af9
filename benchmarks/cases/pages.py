"""What a page and a listing take of the server's time when very much is stored."""

from __future__ import annotations

from typing import TYPE_CHECKING

from benchmarks.case import Case, Scale

if TYPE_CHECKING:
    from benchmarks.rounds import Measured
    from benchmarks.session import Session


def pages(session: Session, runs: int) -> Measured:
    """Read every page beside so many runs and a tenth as many manifests."""
    session.ask_first("fill", runs=runs)
    session.checkpoint()
    taken: dict[str, float] = session.ask_first("read")
    return {"slowest ms": max(taken.values()), **{f"{address} ms": spent for address, spent in taken.items()}}


CASES = (
    Case(
        name="pages",
        title="Server time of pages and listings beside 1,000,000 runs and 100,000 manifests",
        unit="runs",
        contestants=("pages on PostgreSQL", "pages on SQLite"),
        base="pages on PostgreSQL",
        measure=pages,
        full=Scale(rounds=3, size=1_000_000),
        quick=Scale(rounds=1, size=10_000),
        headline="slowest ms",
        notes=("Milliseconds in the serving process, from request to answer; each the middle of seven.",),
    ),
)
