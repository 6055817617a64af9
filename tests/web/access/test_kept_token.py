"""The token that a start on loopback makes: where it is kept, from whom, and what is refused."""

from __future__ import annotations

import os
import stat
from concurrent.futures import ThreadPoolExecutor
from itertools import product
from typing import TYPE_CHECKING

import pytest

from gandy.errors import HostNeedsTokenError, KeptFileError
from gandy.web.access.access import open_access
from gandy.web.access.keys import StateFolder, keep_token, running_places, stem_of
from tests.web.access.calling import Caller
from tests.web.access.credentials import bearer
from tests.web.access.matrix import app_service, at_once
from tests.web.conftest import READER
from tests.web.shop import make_shop

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A state folder of the test's own."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    return tmp_path / "state" / "gandy"


def start(url: str, **web: object) -> str | None:
    """Give the token that a start makes."""
    return open_access("shop", make_shop(url, **web).settings).kept


def kept_in(home: Path) -> list[str]:
    return [file.name for file in home.glob("*.token")]


def mode_of(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def test_the_token_is_kept_for_this_user_alone_and_used_again(home: Path, sqlite_url: str) -> None:
    umask = os.umask(0)
    try:
        first, second = start(sqlite_url), start(sqlite_url)
    finally:
        os.umask(umask)

    (file,) = home.iterdir()
    assert first == second == file.read_text(encoding="utf-8").strip()
    assert len(first or "") >= 16
    assert (mode_of(file), mode_of(home)) == (0o600, 0o700)


def test_starts_at_once_come_to_one_token(home: Path, sqlite_url: str) -> None:
    with ThreadPoolExecutor(8) as threads:
        found = set(threads.map(lambda _: start(sqlite_url), range(16)))

    assert len(found) == 1
    assert len(list(home.iterdir())) == 1


@pytest.mark.parametrize(
    ("one", "other", "is_same"),
    [
        ("postgresql://u:one@db/app", "postgres://other:two@DB:5432/app", True),
        ("postgresql://u@db/app", "postgresql://u@db/app?sslmode=require&password=x", True),
        ("postgresql://u@db/app", "postgresql://u@db/other", False),
        ("postgresql://u@db/app", "postgresql://u@elsewhere/app", False),
        ("postgresql://u@db/app", "postgresql://u@db:6432/app", False),
        ("sqlite:////tmp/a/../x.db", "sqlite:////tmp/x.db", True),
        ("sqlite:////tmp/x.db", "sqlite:////tmp/y.db", False),
    ],
)
def test_there_is_one_for_each_database_and_owner(one: str, other: str, *, is_same: bool) -> None:
    assert (stem_of(one, "shop") == stem_of(other, "shop")) is is_same
    assert stem_of(one, "shop") != stem_of(one, "billing")
    assert "one" not in stem_of(one, "shop")


def readable(file: Path) -> None:
    file.chmod(0o640)


def linked(file: Path) -> None:
    file.rename(file.with_name("elsewhere"))
    file.symlink_to(file.with_name("elsewhere"))


def short(file: Path) -> None:
    file.write_text("short\n", encoding="utf-8")


def empty(file: Path) -> None:
    file.write_text("", encoding="utf-8")


def open_folder(file: Path) -> None:
    file.parent.chmod(0o755)


def linked_folder(file: Path) -> None:
    folder = file.parent
    folder.rename(folder.with_name("elsewhere"))
    folder.symlink_to(folder.with_name("elsewhere"))


def of_another(_file: Path) -> None:
    """Nothing is changed: it is this process that becomes another user."""


@pytest.mark.parametrize("bend", [readable, linked, short, empty, open_folder, linked_folder, of_another])
def test_a_file_that_others_could_read_or_have_written_is_refused(
    home: Path, sqlite_url: str, bend: object, monkeypatch: pytest.MonkeyPatch
) -> None:
    start(sqlite_url)
    (file,) = home.iterdir()
    assert callable(bend)
    bend(file)
    if bend is of_another:
        user = os.geteuid()
        monkeypatch.setattr(os, "geteuid", lambda: user + 1)

    with pytest.raises(KeptFileError, match="GANDY_WEB_TOKEN"):
        start(sqlite_url)


def test_a_token_that_cannot_be_kept_ends_with_the_process(
    tmp_path: Path, sqlite_url: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "file").touch()
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "file"))
    first, second = start(sqlite_url), start(sqlite_url)

    assert first != second
    assert len(first or "") >= 16
    assert "GANDY_WEB_TOKEN" in caplog.text
    assert (first or "?") not in caplog.text


def test_a_token_of_a_database_that_is_long_gone_is_forgotten(home: Path, sqlite_url: str) -> None:
    start(sqlite_url)
    (old,) = home.iterdir()
    os.utime(old, (0, 0))
    with StateFolder() as folder:
        keep_token(folder, "another")

    assert [file.name for file in home.iterdir()] == ["another.token"]


@pytest.mark.parametrize("host", ["0.0.0.0", "10.1.2.3", "::", "gandy.example", "localhost.example"])  # noqa: S104 refused
def test_any_other_host_is_refused_without_a_token(home: Path, sqlite_url: str, host: str) -> None:
    with pytest.raises(HostNeedsTokenError, match="GANDY_WEB_TOKEN"):
        start(sqlite_url, host=host)
    assert not home.exists()


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost", "::1", "127.9.9.9"])
def test_loopback_makes_one(home: Path, sqlite_url: str, host: str) -> None:
    assert start(sqlite_url, host=host)
    assert home.exists()


def test_none_is_made_where_a_token_is_set(home: Path, sqlite_url: str) -> None:
    assert start(sqlite_url, readonly_token=READER) is None
    assert not home.exists()


@pytest.mark.parametrize(
    ("address", "host", "headers"),
    [
        ("10.0.0.7", "127.0.0.1:8423", {}),
        ("127.0.0.1", "gandy.example:8423", {}),
        ("127.0.0.1", "127.0.0.1:8423", {"X-Forwarded-For": "127.0.0.1"}),
    ],
    ids=["another machine", "a foreign name", "a proxy"],
)
@pytest.mark.parametrize("path", ["/", "/login", "/api/v1/runs", "/metrics", "/static/app.css"])
async def test_a_made_token_is_for_this_machine(
    home: Path, sqlite_url: str, address: str, host: str, headers: dict[str, str], path: str
) -> None:
    async with make_shop(sqlite_url) as app:
        service = app_service(app)
        asgi = service._server.config.app
        token = bearer(service._access.kept)
        refused = await Caller(asgi, address, host)("GET", path, {**token, **headers})
        near = await Caller(asgi)("GET", path, token)

    assert kept_in(home)
    assert (refused.status, near.status) == (403, 200)
    assert "GANDY_WEB_TOKEN" in refused.text


#: Names of headers that proxies, balancers and content networks write, by their manuals.
OF_PROXIES = (
    *("Via", "Forwarded", "X-Forwarded", "X-Forwarded-For", "X-Forwarded-Host", "X-Forwarded-Proto"),
    *("X-Forwarded-Port", "X-Forwarded-Server", "X-Forwarded-By", "X-Forwarded-Prefix", "X-Forwarded-Ssl"),
    *("X-Real-IP", "CF-Connecting-IP", "Cf-Connecting-IPv6", "CF-Ray", "CF-Visitor", "True-Client-IP"),
    *("X-Client-IP", "X-Cluster-Client-IP", "Client-IP", "Fastly-Client-IP", "Fly-Client-IP", "CDN-Loop"),
    *("X-Original-Forwarded-For", "X-Original-Host", "X-Envoy-External-Address", "X-Azure-ClientIP"),
    *("X-Appengine-User-IP", "WL-Proxy-Client-IP", "Proxy-Client-IP", "X-Remote-IP", "X-Remote-Addr"),
)
#: Headers of browsers and programs on this machine.
OF_OTHERS = (
    *("User-Agent", "Accept", "Accept-Language", "Cookie", "Connection", "Cache-Control", "Referer"),
    *("Sec-Fetch-Site", "Sec-Fetch-Mode", "Upgrade-Insecure-Requests", "DNT", "HX-Request", "X-Request-Id"),
)


async def test_a_made_token_is_not_answered_through_any_proxy(home: Path, sqlite_url: str) -> None:
    async with make_shop(sqlite_url) as app:
        service = app_service(app)
        call = Caller(service._server.config.app)
        token = bearer(service._access.kept)
        for name, value in product(OF_PROXIES, ("127.0.0.1", "", "1.1 here")):
            for spelling in (name, name.lower(), name.upper()):
                answer = await call("GET", "/api/v1/trains", {**token, spelling: value})
                assert answer.status == 403, (spelling, value)
        for name in OF_OTHERS:
            assert (await call("GET", "/api/v1/trains", {**token, name: "none"})).status == 200, name
    assert kept_in(home)


async def test_a_plain_proxy_on_the_same_host_makes_no_visitor_an_operator(
    home: Path, sqlite_url: str
) -> None:
    async with make_shop(sqlite_url) as app:
        asgi = app_service(app)._server.config.app
        asgi.state.gate.slowing._pause = at_once
        call = Caller(asgi)  # a proxy that says nothing looks like this machine
        answers = [
            await call("GET", "/api/v1/runs"),
            await call("POST", "/api/v1/queue/enqueue", body=b'{"train": "wait_for_ever"}'),
            await call("GET", "/metrics"),
        ]

    assert kept_in(home)
    assert [answer.status for answer in answers] == [401, 401, 401]


def test_a_process_that_serves_can_be_found_and_one_that_is_gone_cannot(home: Path, sqlite_url: str) -> None:
    app = make_shop(sqlite_url)
    door = open_access("shop", app.settings)
    stem = stem_of(sqlite_url, "shop")
    place = door.place("127.0.0.1", 4711)
    with StateFolder() as folder:
        with door.announced(place):
            during = running_places(folder, stem)
            (file,) = home.glob("*.up")
            left = file.read_bytes()
        after = running_places(folder, stem)
        file.write_bytes(left)  # as a killed process leaves it
        file.chmod(0o600)
        stale = running_places(folder, stem)

    assert during == [place]
    assert (after, stale) == ([], [])
    assert not file.exists()


def test_a_process_that_cannot_say_where_it_is_serves_all_the_same(
    tmp_path: Path, sqlite_url: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "file").touch()
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "file"))
    door = open_access("shop", make_shop(sqlite_url, readonly_token=READER).settings)
    with door.announced(door.place("127.0.0.1", 1)):
        said = caplog.text

    assert "`gandy open` will not find this process" in said
