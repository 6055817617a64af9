"""t4: direct SQL on Gandy's own tables: a live run is its queue entry; a statement each to claim and end."""

from __future__ import annotations

from benchmarks.ceilings.fused import Fused
from benchmarks.ceilings.gandy_schema import create_schema
from benchmarks.protocol import serve
from benchmarks.statements import load_statements

SQL = load_statements(__file__)


class LiveEntry(Fused):
    """The same work as t3m, on the layout that Gandy has now."""

    sql = SQL

    def setup(self, url: str) -> None:
        """Make Gandy's tables."""
        create_schema(url)


if __name__ == "__main__":
    serve(LiveEntry())
