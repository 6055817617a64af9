"""The names under which contracts are remembered: no two contracts share one, whatever they are called."""

from __future__ import annotations

from dataclasses import replace
from itertools import product
from typing import TYPE_CHECKING

import pytest

from gandy.clock import ManualClock
from gandy.errors import ContractUnknownError
from gandy.lifecycle import (
    Contract,
    SweepOptions,
    Table,
    check,
    forget,
    inline,
    keep,
    older_than,
    run_contracts,
)
from tests.lifecycle.ground import NOW, ago
from tests.lifecycle.paths import STATE_TABLES, execute, on_path, quoted

if TYPE_CHECKING:
    from tests.lifecycle.ground import Ground

RULE = older_than("at", keep_for="7d")
HELD = Table("note", [keep("held", equals=True), inline("the application")])
NAMES = ["c", "c@", "c@two"]
SCHEMAS = ["two", "@two", "two@", '"@two"']
MADE = (
    "CREATE TABLE {0}.note (id bigint PRIMARY KEY, at timestamptz, held boolean)",
    "CREATE INDEX by_age ON {0}.note (at)",
)


def kept(ground: Ground, contract: Contract) -> None:
    [report] = run_contracts([contract], ground.url, options=SweepOptions(clock=ManualClock(NOW)))
    assert report.failures == []


def make(ground: Ground, schema: str) -> Ground:
    execute(ground, f"CREATE SCHEMA IF NOT EXISTS {quoted(schema)}")
    execute(ground, *(step.format(quoted(schema)) for step in MADE))
    ground.fill(f"{quoted(schema)}.note", [(1, ago(days=9), False), (2, ago(days=9), True)])
    return on_path(ground, schema)


def remembered(ground: Ground) -> list[str]:
    return [name for [name] in ground.rows("SELECT scheduler FROM gandy_lifecycle_hold ORDER BY 1")]


def test_each_contract_of_each_search_path_has_a_memory_of_its_own(postgres: Ground) -> None:
    grounds = [make(postgres, schema) for schema in ("public", *SCHEMAS)]
    pairs = list(product(NAMES, grounds))
    for name, ground in pairs:
        kept(ground, Contract(name, [HELD]))

    names = remembered(postgres)
    assert len(set(names)) == len(pairs)
    for name in names:
        assert forget(postgres.url, name)["holds"] == 1
    assert remembered(postgres) == []


def test_a_name_with_a_separator_takes_no_hold_of_a_search_path(postgres: Ground) -> None:
    kept(make(postgres, "public"), Contract("first", [HELD]))
    kept(make(postgres, "two"), Contract("c", [HELD]))

    for _ in range(2):
        kept(postgres, Contract("c@two", [replace(HELD, rules=(RULE,), schema="two")]))

    assert postgres.ids("two.note") == [2]


@pytest.mark.parametrize("name", ["c", "c@two", "c@@two", "@"])
@pytest.mark.parametrize("is_doubled", [True, False])
def test_a_contract_is_forgotten_by_its_name_and_by_the_remembered_one(
    ground: Ground, name: str, *, is_doubled: bool
) -> None:
    ground.run("CREATE TABLE note (id {key}, at {instant}, held {flag})")
    kept(ground, Contract(name, [HELD]))
    assert remembered(ground) == [name.replace("@", "@@")]

    assert forget(ground.url, remembered(ground)[0] if is_doubled else name)["holds"] == 1

    assert remembered(ground) == []
    with pytest.raises(ContractUnknownError):
        forget(ground.url, name)


def test_a_hold_that_is_merged_from_a_second_set_is_found_by_its_contract(postgres: Ground) -> None:
    two = make(postgres, "two")
    kept(make(postgres, "public"), Contract("first", [HELD]))
    for table in STATE_TABLES:
        name = f"gandy_lifecycle_{table}"
        execute(postgres, f"CREATE TABLE two.{name} (LIKE public.{name} INCLUDING ALL)")
    # as a version wrote it that looked for its state on the search path
    execute(postgres, "INSERT INTO two.gandy_lifecycle_hold VALUES ('c@x', 'two', 'note', 'held', 'true')")
    [found] = check([Contract("c@x", [HELD])], two.url)

    execute(postgres, *found.remedy.partition("owner: ")[2].split("; "))

    merged = remembered(postgres)
    kept(two, Contract("c@x", [HELD]))
    assert remembered(postgres) == merged
    kept(two, Contract("c@x", [replace(HELD, rules=(RULE,))]))
    assert (remembered(postgres), postgres.ids("two.note")) == (["first"], [])
