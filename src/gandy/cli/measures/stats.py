"""`gandy stats` and `gandy lifecycle growth`: figures of runs and of tables over time."""

from __future__ import annotations

from dataclasses import asdict
from datetime import timedelta
from typing import TYPE_CHECKING

import click

from gandy.cli.call import Call, pass_call
from gandy.cli.listing import PrintedRows, emit_found, first_of, limited
from gandy.cli.options import bounded, example, json_option
from gandy.cli.output import emit_rows, say
from gandy.cli.session import CommandSession, with_session
from gandy.desk.choosing.names import sentence_of
from gandy.desk.growth import FORECAST_FROM, TableGrowth, read_growth
from gandy.desk.stats import SORTS, USUAL_WINDOWS, RunStats, StatsDesk
from gandy.store.stats.rollups import RANKED

if TYPE_CHECKING:
    from gandy.desk.audit import Listed
    from gandy.desk.stats import StatsSort

_NO_SAMPLE = "No sample yet: the service lifecycle of `gandy up` takes one every hour."
_FIGURES = tuple(name for name in SORTS if name != "name")


@click.command(
    epilog=example("gandy stats", "gandy stats --since 6h --sort duration_p95", "gandy stats --manifests")
)
@click.option("--train", type=bounded("name"), metavar="NAME", help="Only this train.")
@click.option(
    "--since",
    type=bounded("window"),
    metavar="D",
    help="Runs that ended within this span; by default the last hour, day and week.",
)
@click.option("--manifests", "by_manifest", is_flag=True, help="By manifest, for one span: 1d, or --since.")
@click.option(
    "--sort", type=click.Choice(SORTS), help="Sort by this column, the largest first; else by name."
)
@limited(100)
@json_option
@pass_call
def stats(
    call: Call,
    *,
    train: str | None,
    since: timedelta | None,
    by_manifest: bool,
    sort: StatsSort | None,
    limit: int | None,
    as_json: bool,
) -> None:
    """Show runs, failure rates, waits and durations by train or manifest.

    Percentiles are at most 4.5 % from the exact ones. A span of more than two hours begins with a whole hour,
    one of more than two days with a whole day (UTC). Runs of the last seconds may be missing.
    """

    async def read(session: CommandSession) -> PrintedRows[RunStats]:
        desk = StatsDesk(session.database, session.owners, session.registry)
        if not by_manifest:
            windows = USUAL_WINDOWS if since is None else [since]
            trains = await desk.trains(windows, train=train, sort=sort or "name")
            return first_of(trains, limit) if trains else _nothing(trains)
        window, most = since or timedelta(days=1), 10_000 if limit is None else limit
        rows = await desk.manifests(window, train=train, sort=sort or "runs", limit=most)
        if not rows:
            return _nothing(rows)
        is_short = rows.is_cut or len(rows) == limit
        return PrintedRows(rows, _of_many(len(rows), is_cut=rows.is_cut) if is_short else None)

    found = with_session(call, read)
    named = ("train", "manifest") if by_manifest else ("train",)
    if as_json:
        emit_found(found, (), as_json=True)
        return
    columns = call.columns(*named, "window", *_FIGURES)
    emit_rows([_shown(each) for each in found.rows], columns, as_json=False, asked=sort)
    if found.remark:
        say(found.remark)


def _nothing(found: Listed[RunStats]) -> PrintedRows[RunStats]:
    """Say that nothing has the name of the train, if it is so."""
    return PrintedRows((), None if found.unknown is None else sentence_of(found.unknown))


def _of_many(count: int, *, is_cut: bool) -> str:
    chosen = f", chosen by their newest {RANKED:,} figures" if is_cut else ""
    return f"These are the first {count:,} manifests in this order{chosen}; there may be more."


def _shown(each: RunStats) -> dict[str, object]:
    rate = "-" if each.failure_rate is None else f"{each.failure_rate:.1%}"
    return {**asdict(each), "failure_rate": rate}


@click.command(epilog=example("gandy lifecycle growth --since 30d"))
@click.option(
    "--since",
    type=bounded("window"),
    default=FORECAST_FROM,
    show_default="7d",
    metavar="D",
    help="Samples of this span; beyond a week, one a day.",
)
@json_option
@pass_call
def growth(call: Call, *, since: timedelta, as_json: bool) -> None:
    """Show how Gandy's tables and the tables of contracts grow, with a straight line as forecast.

    The service lifecycle of an application takes the samples, one an hour; rows are estimates. The forecast
    continues the growth of the last week for 30 days: it knows nothing of bounds that will take effect.
    """

    async def read(session: CommandSession) -> tuple[TableGrowth, ...]:
        return await read_growth(session.database, session.owners, since=since)

    found = with_session(call, read)
    if as_json:
        emit_rows(found, (), as_json=True)
        return
    columns = (
        "scheduler",
        "table",
        "rows",
        "bytes",
        "lag",
        "rows_per_day",
        "bytes_per_day",
        "rows_in_30_days",
        "bytes_in_30_days",
        "since",
    )
    emit_rows([_rounded(each) for each in found], columns, as_json=False, empty=_NO_SAMPLE)


def _rounded(each: TableGrowth) -> dict[str, object]:
    def whole(value: float | None) -> int | None:
        return None if value is None else round(value)

    per_day = {"rows_per_day": whole(each.rows_per_day), "bytes_per_day": whole(each.bytes_per_day)}
    return {**asdict(each), **per_day}
