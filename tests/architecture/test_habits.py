from __future__ import annotations

import ast
import io
import re
import tokenize
from typing import TYPE_CHECKING

import pytest

from tests.architecture.source import PACKAGE, ROOT, TESTS, docstrings, files_of_tests, package_files

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.architecture.source import SourceFile

pytestmark = pytest.mark.xdist_group("architecture")  # all files are parsed once

KNOW_DIALECTS = {"store", "lifecycle"}
# A URL is read there: a relative path in one is a file beside the settings, whatever the dialect does later.
READ_URLS = {PACKAGE / "settings" / "urls.py"}
WRITE_SQL = {"lifecycle"}
#: Where time is let pass: the one way to wait, and applications whose jobs take time.
LET_TIME_PASS = {
    TESTS / "support" / "waiting.py",
    TESTS / "unit" / "work" / "virtual_time.py",  # a clock that jumps
}
#: Applications of real processes: their jobs take their time.
JOBS = {TESTS / "journeys" / "apps", TESTS / "journeys" / "zoo"}

DIALECT_WORD = re.compile(r"sqlite|postgres", re.IGNORECASE)
SQL_STATEMENT = re.compile(
    r"""\s*(?:--[^\n]*\n\s*)*
    (?: select\s.+\sfrom\s | insert\s+into\s | update\s+\S+\s+set\s | delete\s+from\s
      | truncate\s+(?:table\s)?\S
      | (?:create|alter|drop)\s+(?:unique\s+)?(?:table|index|view|schema|trigger|function)\s
      | with\s+(?:recursive\s+)?\w+\s+as\s+(?:materialized\s+)?\( )""",
    re.IGNORECASE | re.VERBOSE | re.DOTALL,
)
FORBIDDEN_COMMENT = re.compile(r"type:\s*ignore|pyright:\s*ignore|TODO|FIXME|XXX")
FORBIDDEN_MODULES = {"pickle", "cPickle", "dill", "cloudpickle", "marshal", "shelve"}
FORBIDDEN_CALLS = {"eval", "exec"}


def decisions(file: SourceFile) -> Iterator[ast.expr]:
    """Every expression that code branches on."""
    for node in file.walk():
        if isinstance(node, ast.If | ast.IfExp | ast.While | ast.Assert):
            yield node.test
        elif isinstance(node, ast.Compare):
            yield node
        elif isinstance(node, ast.comprehension):
            yield from node.ifs
        elif isinstance(node, ast.MatchValue):
            yield node.value


def words(expression: ast.expr) -> Iterator[str]:
    for node in ast.walk(expression):
        match node:
            case ast.Name(id=word) | ast.Attribute(attr=word) | ast.Constant(value=str(word)):
                yield word


def imported_modules(file: SourceFile) -> Iterator[tuple[ast.stmt, str]]:
    for node in file.walk():
        if isinstance(node, ast.Import):
            yield from ((node, name.name.split(".")[0]) for name in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield node, (node.module or "").split(".")[0]


def sleeps(file: SourceFile) -> Iterator[str]:
    """Calls of a sleep; `sleep(0)`, which only lets others run, is none."""
    for node in file.walk():
        match node:
            case ast.Call(
                func=ast.Attribute(attr="sleep") | ast.Name(id="sleep"), args=[ast.Constant(value=0)]
            ):
                continue
            case ast.Call(func=ast.Attribute(attr="sleep") | ast.Name(id="sleep")):
                yield file.at(node)


def sql_texts(file: SourceFile) -> Iterator[str]:
    spoken = docstrings(file.tree)
    for node in file.walk():
        match node:
            case ast.Constant(value=str(text)) if id(node) not in spoken and SQL_STATEMENT.match(text):
                yield f"{file.at(node)} {text.strip()[:60]}"


def test_only_the_store_and_the_lifecycle_ask_which_database_it_is() -> None:
    asked = [
        file.at(decision)
        for file in package_files()
        if file.room not in KNOW_DIALECTS and file.path not in READ_URLS
        for decision in decisions(file)
        if any(DIALECT_WORD.search(word) for word in words(decision))
    ]

    assert asked == []


def test_sql_is_kept_in_sql_files() -> None:
    assert [text for file in package_files() if file.room not in WRITE_SQL for text in sql_texts(file)] == []


def test_no_test_sleeps() -> None:
    assert [
        place
        for file in files_of_tests()
        if file.path not in LET_TIME_PASS and not JOBS.intersection(file.path.parents)
        for place in sleeps(file)
    ] == []


def test_no_comment_silences_a_type_checker_or_promises_work() -> None:
    found = [
        f"{file.path.relative_to(ROOT)}:{token.start[0]} {token.string}"
        for file in package_files()
        for token in tokenize.generate_tokens(io.StringIO(file.text).readline)
        if token.type == tokenize.COMMENT and FORBIDDEN_COMMENT.search(token.string)
    ]

    assert found == []


def test_nothing_stored_can_name_code_to_run() -> None:
    found = [
        f"{file.at(node)} {module}"
        for file in package_files()
        for node, module in imported_modules(file)
        if module in FORBIDDEN_MODULES
    ]
    found += [
        file.at(node)
        for file in package_files()
        for node in file.walk()
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in FORBIDDEN_CALLS
    ]

    assert found == []


@pytest.mark.parametrize("name", ["pyproject.toml", "constraints.txt", "Makefile", "tools/setup.sh"])
def test_no_file_names_a_package_registry(name: str) -> None:
    text = (ROOT / name).read_text(encoding="utf-8")

    assert re.findall(r"--(?:extra-)?index-url|--find-links|pypi\.org|pythonhosted|/simple\b", text) == []
