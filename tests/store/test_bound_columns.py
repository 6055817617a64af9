"""The columns of a batch, as array literals of PostgreSQL."""

from __future__ import annotations

from typing import TYPE_CHECKING

import psycopg
import pytest

from gandy.store.drivers.postgres_values import array_literal, bind
from gandy.store.statements import batch_of

if TYPE_CHECKING:
    from tests.support.postgres import PostgresServer

TEXTS = [
    ["a", "b"],
    ['say "a"', "back\\slash", '","', "{}", "NULL", "", " "],
    ["same", "other", "same"],
    ["é", "\n", "a,b"],
    ["one"],
]


@pytest.mark.parametrize("texts", TEXTS)
def test_texts_come_back_as_they_were(postgres_server: PostgresServer, texts: list[str]) -> None:
    with postgres_server.database() as url, psycopg.connect(url) as connection:
        found = connection.execute("SELECT %s::text[]", [array_literal(texts)]).fetchone()

    assert found == (texts,)


def test_a_text_that_no_column_can_hold_is_not_taken_for_two() -> None:
    assert array_literal(["a\x00b", "c"]) == '{"a\x00b","c"}'


def test_a_column_without_values_is_empty_unless_all_are() -> None:
    names = ("id", "input", "unique_key")
    some = batch_of("queue_work", names, [(None, "1", None), (None, None, None)])
    none = batch_of("queue_work", names, [(None, None, None), (None, None, None)])

    assert bind(some) == {"id": "{}", "input": '{"1",NULL}', "unique_key": "{}"}
    assert bind(none) == {"id": "{NULL,NULL}", "input": "{}", "unique_key": "{}"}
