from __future__ import annotations

from typing import TYPE_CHECKING

import psycopg
import pytest

from tests.support.proxy import running_proxy
from tests.support.waiting import wait_until

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.support.postgres import ThrowawayServer
    from tests.support.proxy import Proxy

pytestmark = pytest.mark.postgres


@pytest.fixture
def proxy(postgres_server: ThrowawayServer) -> Iterator[Proxy]:
    with running_proxy(postgres_server.folder) as proxy:
        yield proxy


@pytest.fixture
def url(postgres_url: str) -> str:
    with psycopg.connect(postgres_url, autocommit=True) as connection:
        connection.execute("CREATE TABLE mark (number int); CREATE TABLE other (number int)")
    return postgres_url


def test_a_lost_commit_answer_leaves_its_rows(proxy: Proxy, url: str) -> None:
    proxy.lose_commit_answers()

    with pytest.raises(psycopg.OperationalError):
        _insert(proxy.url(url), 1)

    assert (proxy.lost, _numbers(url)) == (1, [1])
    _insert(proxy.url(url), 2)
    assert _numbers(url) == [1, 2], "only as many are lost as was said"


@pytest.mark.parametrize("prepares", [False, True])
def test_the_transaction_whose_commit_is_lost_can_be_chosen(
    proxy: Proxy, url: str, *, prepares: bool
) -> None:
    with psycopg.connect(proxy.url(url), autocommit=True) as connection:

        def insert(statement: bytes, number: int) -> None:
            with connection.transaction():
                connection.execute(statement, (number,), prepare=prepares)

        insert(b"INSERT INTO mark VALUES (%s)", 1)
        proxy.lose_commit_answers(within="INTO mark")
        insert(b"INSERT INTO other VALUES (%s)", 2)
        with pytest.raises(psycopg.OperationalError):
            insert(b"INSERT INTO mark VALUES (%s)", 3)

    assert _numbers(url) == [1, 3]


def test_connections_can_be_cut(proxy: Proxy, url: str) -> None:
    with psycopg.connect(proxy.url(url), autocommit=True) as connection:
        assert proxy.cut() == 1
        wait_until(lambda: not _answers(connection), "the connection is gone")

    _insert(proxy.url(url), 1)
    assert (proxy.accepted, _numbers(url)) == (2, [1])


def _answers(connection: psycopg.Connection[tuple[object, ...]]) -> bool:
    try:
        connection.execute("SELECT 1")
    except psycopg.OperationalError:
        return False
    return True


def _insert(url: str, number: int) -> None:
    with psycopg.connect(url) as connection:
        connection.execute("INSERT INTO mark VALUES (%s)", (number,))


def _numbers(url: str) -> list[int]:
    with psycopg.connect(url) as connection:
        return [row[0] for row in connection.execute("SELECT number FROM mark ORDER BY 1").fetchall()]
