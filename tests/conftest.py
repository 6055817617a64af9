"""The ground that every test stands on: databases of its own, and a report of which ones were used."""

from __future__ import annotations

import functools
import gc
import os
import platform
import sqlite3
import sys
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING

import hypothesis
import pytest

from tests.support import postgres_found
from tests.support.databases import DatabaseHome, SqliteHome
from tests.support.memory import quick_folder
from tests.support.postgres import PostgresServer, ThrowawayServer
from tests.support.postgres_found import NoPostgresError

if TYPE_CHECKING:
    from collections.abc import Generator, Iterator

SQLITE_LABEL = f"SQLite {sqlite3.sqlite_version}"
OLD_SERVER_FOLDERS = {"store"}
SLOW_FOLDERS = {"journeys", "packaging"}
OLD_SERVER = [] if postgres_found.older() is None else ["postgres-old"]
_PART_WITH_LONG_TESTS = 0.7
DATABASES = ["sqlite", "postgres", *OLD_SERVER]


@pytest.fixture(scope="session")
def postgres_server() -> Iterator[PostgresServer]:
    """A PostgreSQL server for the whole session (each parallel worker has its own)."""
    url = postgres_found.borrowed_url()
    server = (
        ThrowawayServer(postgres_found.newest())
        if url is None
        else PostgresServer(url, postgres_found.label_of(url))
    )
    yield server
    server.close()


@pytest.fixture(scope="session")
def old_postgres_server() -> Iterator[PostgresServer]:
    """The oldest PostgreSQL installed beside the usual one."""
    installation = postgres_found.older()
    if installation is None:
        raise NoPostgresError("no older PostgreSQL is installed beside the usual one")
    server = ThrowawayServer(installation)
    yield server
    server.close()


@pytest.fixture
def private_postgres_server() -> Iterator[ThrowawayServer]:
    """A PostgreSQL server for one test alone, which may stop, crash or freeze it."""
    server = ThrowawayServer(postgres_found.newest())
    yield server
    server.close()


@pytest.fixture(scope="session")
def sqlite_home() -> Iterator[SqliteHome]:
    """A folder for SQLite databases."""
    with quick_folder("gandy-sqlite-") as folder:
        yield SqliteHome(folder)


@pytest.fixture(
    params=[
        pytest.param(name, marks=[] if name == "sqlite" else [pytest.mark.postgres]) for name in DATABASES
    ]
)
def database_home(request: pytest.FixtureRequest) -> DatabaseHome:
    """Each kind of database in turn; `template` and `database` work alike on all of them."""
    fixtures = {
        "sqlite": "sqlite_home",
        "postgres": "postgres_server",
        "postgres-old": "old_postgres_server",
    }
    home = request.getfixturevalue(fixtures[request.param])
    assert isinstance(home, DatabaseHome)
    return home


@pytest.fixture(scope="session", autouse=True)
def state_home(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A folder for what processes keep for their user: nothing of a test reaches the real one."""
    folder = tmp_path_factory.mktemp("state")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_STATE_HOME", str(folder))
        yield folder


@pytest.fixture
def database_url(database_home: DatabaseHome) -> Iterator[str]:
    """A fresh, empty database of each kind in turn."""
    with database_home.database() as url:
        yield url


@pytest.fixture
def postgres_url(postgres_server: PostgresServer) -> Iterator[str]:
    """A fresh, empty PostgreSQL database."""
    with postgres_server.database() as url:
        yield url


@pytest.fixture
def sqlite_url(sqlite_home: SqliteHome) -> Iterator[str]:
    """A SQLite file that does not exist yet."""
    with sqlite_home.database() as url:
        yield url


def pytest_configure() -> None:
    """Let no setting of the surroundings into the tests, and no slow machine fail a property."""
    for name in [
        name for name in os.environ if name.startswith("GANDY_") and not name.startswith("GANDY_TEST_")
    ]:
        del os.environ[name]
    hypothesis.settings.register_profile("gandy", deadline=None, print_blob=True)
    hypothesis.settings.load_profile("gandy")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Mark what needs a server or much time, and note on each test which database it is for."""
    _leave_out_old_server(config, items)
    for item in items:
        if _folder_of(item) in SLOW_FOLDERS:
            item.add_marker(pytest.mark.slow)
        database = _database_of(item)
        if database not in {None, "sqlite"}:
            item.add_marker(pytest.mark.postgres)
        if database is not None:
            item.user_properties.append(("database", database))
    if "PYTEST_XDIST_WORKER" in os.environ:
        items[:] = _spread(items)
        _keep_groups_together(items)


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """Look for no garbage while tests are collected: nothing of what they make is any."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.enable()


def pytest_collection_finish() -> None:
    """Spare the garbage collector what was collected: thousands of tests that stay until the end."""
    gc.freeze()
    gc.set_threshold(20_000, 20, 20)


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    """Name a failed test at once: what went wrong follows in the end, many minutes later."""
    if report.failed and "PYTEST_XDIST_WORKER" not in os.environ:
        sys.stderr.write(f"\nFAILED {report.nodeid}\n")


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport() -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Make what was logged printable: a lone surrogate cannot be sent to the process that reports."""
    report = yield
    report.sections = [(name, text.encode(errors="replace").decode()) for name, text in report.sections]
    return report


def _spread(items: list[pytest.Item]) -> list[pytest.Item]:
    """Mix whole journeys, and tests with a timeout of their own, among the others; let none begin late.

    They wait for processes more than they compute, so that several of them together leave cores idle.
    """
    long = [item for item in items if item.get_closest_marker("slow") or item.get_closest_marker("timeout")]
    gone = set(long)
    rest = [item for item in items if item not in gone]
    each = int(len(rest) * _PART_WITH_LONG_TESTS) // max(len(long), 1)
    mixed = [
        item
        for number, item_of_long in enumerate(long)
        for item in (item_of_long, *rest[number * each : (number + 1) * each])
    ]
    return mixed + rest[len(long) * each :]


def _keep_groups_together(items: list[pytest.Item]) -> None:
    """Name the group of a test behind its id, where xdist looks for it.

    xdist itself writes it to an attribute that pytest no longer reads since 9.2: each worker would then fill
    the databases and start the browser that one of them was to share out.
    """
    for item in items:
        groups = sorted(str(mark.args[0]) for mark in item.iter_markers("xdist_group"))
        suffix = f"@{'_'.join(groups)}"
        if groups and not item.nodeid.endswith(suffix):
            item._id = type(item.id).parse(item.nodeid + suffix)


def _leave_out_old_server(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Take the older server to the store's suite alone: what stands on the store speaks no SQL of its own."""
    left_out = [
        item
        for item in items
        if _database_of(item) == "postgres-old" and _folder_of(item) not in OLD_SERVER_FOLDERS
    ]
    if left_out:
        config.hook.pytest_deselected(items=left_out)
        gone = set(left_out)
        items[:] = [item for item in items if item not in gone]


def _folder_of(item: pytest.Item) -> str:
    """Name the folder of tests that it is in, wherever the repository lies."""
    return _folder_of_file(item.path)


@functools.cache
def _folder_of_file(path: Path) -> str:
    return path.relative_to(Path(__file__).parent).parts[0]


def _database_of(item: pytest.Item) -> str | None:
    fixtures = set(getattr(item, "fixturenames", ()))
    if "database_home" in fixtures and isinstance(item, pytest.Function):
        return str(item.callspec.params["database_home"])
    if fixtures & {"postgres_server", "private_postgres_server"} or item.get_closest_marker("postgres"):
        return "postgres"
    if "old_postgres_server" in fixtures:
        return "postgres-old"
    return "sqlite" if "sqlite_home" in fixtures else None


def _labels() -> dict[str, str]:
    older = postgres_found.older()
    return {
        "sqlite": SQLITE_LABEL,
        "postgres": _newest_label(),
        "postgres-old": "none" if older is None else older.label,
    }


def _newest_label() -> str:
    url = postgres_found.borrowed_url()
    if url is not None:
        return postgres_found.label_of(url)
    try:
        return postgres_found.newest().label
    except NoPostgresError as error:
        return f"no PostgreSQL: {error}"


def pytest_report_header() -> list[str]:
    """Say what was found."""
    return [f"databases: {', '.join(_labels()[name] for name in DATABASES)}"]


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Say what was used, and by how many tests."""
    reports = [report for kind in ("passed", "failed") for report in terminalreporter.stats.get(kind, [])]
    used = Counter(
        value
        for report in reports
        for name, value in getattr(report, "user_properties", ())
        if name == "database"
    )
    terminalreporter.section("used")
    terminalreporter.line(
        f"Python {platform.python_version()} on {platform.platform()}: {len(reports)} tests"
    )
    for name, label in _labels().items():
        if used[name]:
            terminalreporter.line(f"{label}: {used[name]} tests")
    for note in _setup_notes():
        terminalreporter.line(f"note: {note}")


def _setup_notes() -> list[str]:
    """What the setup could not install, and what takes its place."""
    notes = Path(sys.prefix) / "setup-notes.txt"
    return notes.read_text(encoding="utf-8").splitlines() if notes.is_file() else []
