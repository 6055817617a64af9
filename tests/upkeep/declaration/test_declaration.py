"""The declaration covers every table, and the documentation is printed from it."""

from __future__ import annotations

from dataclasses import fields, replace
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from gandy.settings import RetentionSettings, Settings
from gandy.upkeep.declaration import UPKEEP, ByRow, PrunedBy, own_matrix, upkeep_of
from gandy.upkeep.page import render_page
from gandy.upkeep.trains import DeadLetterCleanupTrain, MetadataCleanupTrain, TableMaintenanceTrain
from tests.architecture.source import ROOT

if TYPE_CHECKING:
    from tests.support.history import Past


def test_every_table_that_gandy_has_is_declared(past: Past) -> None:
    query = (
        "SELECT relname AS name FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace "
        "WHERE n.nspname = 'gandy' AND c.relkind IN ('r', 'p') AND NOT c.relispartition"
        if past.has_days
        else "SELECT name FROM sqlite_master WHERE type = 'table' AND name NOT LIKE 'sqlite_%'"
    )
    only_elsewhere = {"sequence"} if past.has_days else {"history_horizon", "history_piece"}

    tables = {row["name"] for row in past.world.rows(query)} - {"history"} | {"metadata"}  # its view

    assert tables == {upkeep.table for upkeep in UPKEEP} - only_elsewhere


def test_every_bound_is_some_trains_business() -> None:
    trains = (MetadataCleanupTrain, DeadLetterCleanupTrain, TableMaintenanceTrain)

    assert {train.definition.name for train in trains} == set(PrunedBy)
    assert sorted(map(id, UPKEEP)) == sorted(
        id(each) for pruned_by in PrunedBy for each in upkeep_of(pruned_by)
    )


def test_a_walk_is_on_the_table_that_it_is_declared_for(past: Past) -> None:
    request = past.request()

    assert [
        upkeep.table
        for upkeep in UPKEEP
        if isinstance(upkeep.means, ByRow)
        and upkeep.means.dead(request, past.world.clock.now).table != upkeep.table
    ] == []


def test_the_page_on_maintenance_is_the_one_that_the_code_prints() -> None:
    page = (ROOT / "docs" / "reference" / "maintenance.md").read_text(encoding="utf-8")

    assert page == render_page(), "write it anew: python -m gandy.upkeep > docs/reference/maintenance.md"


def test_every_span_of_the_retention_is_in_the_matrix() -> None:
    spans = {field.name for field in fields(RetentionSettings)} - {"interval"}
    unmentioned = {
        name
        for name in spans
        if own_matrix(Settings()) == own_matrix(Settings(retention=_other_than_default(name)))
    }

    assert unmentioned == set()


def _other_than_default(name: str) -> RetentionSettings:
    value = getattr(RetentionSettings(), name)
    other: Any = value + timedelta(days=1) if isinstance(value, timedelta) else value + 1
    return replace(RetentionSettings(), **{name: other})
