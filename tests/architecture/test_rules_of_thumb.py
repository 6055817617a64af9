"""The searches of the habits, tried on code that breaks each of them."""

from __future__ import annotations

import ast

import pytest

from tests.architecture.source import PACKAGE, SourceFile
from tests.architecture.test_habits import DIALECT_WORD, decisions, sleeps, sql_texts, words

pytestmark = pytest.mark.xdist_group("architecture")  # all files are parsed once


def file_with(text: str) -> SourceFile:
    return SourceFile(PACKAGE / "app.py", text, ast.parse(text))


@pytest.mark.parametrize(
    "text",
    [
        "if dialect == 'sqlite': pass",
        "a = 1 if url.startswith('postgresql://') else 2",
        "if store.is_sqlite: pass",
        "match d:\n  case Dialect.POSTGRES: pass",
    ],
)
def test_a_question_about_the_dialect_is_seen(text: str) -> None:
    found = [word for each in decisions(file_with(text)) for word in words(each) if DIALECT_WORD.search(word)]

    assert found


@pytest.mark.parametrize(
    "text",
    [
        "x = 'SELECT a FROM b WHERE c'",
        "x = f'insert into {table} values (1)'",
        "x = '''\n  -- claim\n  WITH due AS (SELECT 1) UPDATE t SET a = 1'''",
        "x = 'create unique index i on t (a)'",
    ],
)
def test_a_statement_in_a_python_file_is_seen(text: str) -> None:
    assert list(sql_texts(file_with(text)))


@pytest.mark.parametrize(
    "text",
    ["x = 'Update the settings and try again'", "def f():\n  'Select rows from the table.'", "x = 'BEGIN'"],
)
def test_prose_is_not_taken_for_sql(text: str) -> None:
    assert list(sql_texts(file_with(text))) == []


@pytest.mark.parametrize(
    ("text", "count"),
    [("time.sleep(1)", 1), ("sleep(x)", 1), ("asyncio.sleep(0)", 0), ("clock.advance(1)", 0)],
)
def test_a_sleep_is_seen(text: str, count: int) -> None:
    assert len(list(sleeps(file_with(text)))) == count
