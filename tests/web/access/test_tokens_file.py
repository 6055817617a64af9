"""Tokens for several people: a line each, seen as it changes."""

from __future__ import annotations

import hashlib
import os
from typing import TYPE_CHECKING

import pytest

from gandy.errors import TokensFileError
from tests.cli.test_foreign_files import ANOTHER_USER, SPOILT, GiveAway, give_away
from tests.web.access.calling import Caller
from tests.web.access.credentials import bearer, cookie
from tests.web.access.matrix import ADA, BOB, PEOPLE, write_tokens_file
from tests.web.conftest import OPERATOR
from tests.web.shop import make_shop

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable
    from pathlib import Path

    from gandy import Gandy


__all__ = ["give_away"]

JSON = {"Content-Type": "application/json"}
#: Ways to spoil gandy.toml that no file of tokens suffers from.
STICKY = {
    "a folder that all can write, with the sticky bit",
    "a link into a folder that all can write",
}


def digest(token: str) -> str:
    return hashlib.sha256(token.encode()).hexdigest()


@pytest.fixture
def file(tmp_path: Path) -> Path:
    """A file with an operator and a reader."""
    write_tokens_file(tmp_path / "tokens", PEOPLE)
    return tmp_path / "tokens"


@pytest.fixture
async def app(sqlite_url: str, file: Path) -> AsyncIterator[Gandy]:
    """An application that goes by it."""
    async with make_shop(sqlite_url, tokens_file=str(file)) as made:
        await made.seed()
        yield made


def change(file: Path, text: str) -> None:
    """Write the file again, at a later instant than before."""
    later = file.stat().st_mtime_ns + 1_000_000_000
    file.write_text(text, encoding="utf-8")
    os.utime(file, ns=(later, later))


async def test_names_of_the_file_are_in_the_trail_whatever_the_form_says(app: Gandy) -> None:
    call = Caller(app.asgi())
    done = await call("POST", "/api/v1/manifests/nightly/disable", {**bearer(ADA), **JSON}, body=b"{}")
    trail = await call("GET", "/audit", cookie((await call.log_in(ADA, name="mallory")).cookie))

    assert done.status == 200
    assert "<td>ada</td>" in trail.text
    assert "mallory" not in trail.text


async def test_a_shared_token_beside_the_file_cannot_take_a_persons_name(sqlite_url: str, file: Path) -> None:
    async with make_shop(sqlite_url, tokens_file=str(file), token=OPERATOR) as app:
        call = Caller(app.asgi())
        page = await call("GET", "/", cookie((await call.log_in(OPERATOR, name="ada")).cookie))

    assert "ada (token)" in page.text


async def test_a_change_is_seen_at_once_and_ends_the_sessions_of_who_is_gone(app: Gandy, file: Path) -> None:
    call = Caller(app.asgi())
    sessions = {token: (await call.log_in(token)).cookie for token in (ADA, BOB)}
    change(file, f"ada operator {digest('another-token-for-ada')}\nbob read-only {digest(BOB)}\n")

    for headers in (bearer(ADA), cookie(sessions[ADA])):
        assert (await call("GET", "/api/v1/runs", headers)).status == 401
    for headers in (bearer(BOB), cookie(sessions[BOB]), bearer("another-token-for-ada")):
        assert (await call("GET", "/api/v1/runs", headers)).status == 200


async def test_a_session_of_who_becomes_a_reader_changes_nothing_more(app: Gandy, file: Path) -> None:
    call = Caller(app.asgi())
    session = (await call.log_in(ADA)).cookie
    change(file, f"ada, read-only, {digest(ADA)}\n")

    assert (await call("GET", "/api/v1/runs", cookie(session))).status == 200
    assert (await call("POST", "/api/v1/groups/default/cancel", cookie(session))).status == 403


def spoil(file: Path, what: str) -> None:
    """Let the file go bad."""
    if what == "gone":
        file.unlink()
    elif what == "writable":
        file.chmod(0o666)
    else:
        change(file, "rubbish" if what == "rubbish" else "# empty\n")


@pytest.mark.parametrize("what", ["rubbish", "gone", "writable", "empty"])
async def test_a_file_that_goes_bad_opens_nothing_until_it_is_mended(
    app: Gandy, file: Path, what: str, caplog: pytest.LogCaptureFixture
) -> None:
    call = Caller(app.asgi())
    session = (await call.log_in(ADA)).cookie
    spoil(file, what)

    for headers in (bearer(ADA), cookie(session), {}):
        assert (await call("GET", "/api/v1/runs", headers)).status == 503
    assert ("fixed" in caplog.text) is (what != "empty")
    mend(file)
    assert (await call("GET", "/api/v1/runs", cookie(session))).status == 200


def mend(file: Path) -> None:
    """Write the file as it was."""
    write_tokens_file(file, PEOPLE)
    file.chmod(0o600)


HASH = digest("some-token-of-a-person")


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("ada operator", "line 1, needs three fields"),
        (f"# people\n\nada operator {HASH} more\n", "line 3, needs three fields"),
        (f"ada admin {HASH}", "line 1, has a role"),
        (f"ada operator {HASH[:-1]}", "line 1, has no SHA-256"),
        (f"ada operator {HASH[:-1]}g", "line 1, has no SHA-256"),
        (f"ada operator {digest('')}", "line 1, has the SHA-256 of an empty text"),
        (f", operator, {HASH}", "line 1, needs a printable name"),
        (f"{'a' * 81} operator {HASH}", "line 1, needs a printable name"),
        (f"a\u202eda, operator, {HASH}", "line 1, needs a printable name"),
        (f"ada operator {HASH}\nada read-only {digest('x')}", "line 2, repeats the name of line 1"),
        (f"ada operator {HASH}\nbob read-only {HASH}", "line 2, repeats the token of line 1"),
        (f"ada read-only {digest(OPERATOR)}", "line 1, is a token of the settings"),
        ("\udcff", "is not text in UTF-8"),
    ],
)
def test_a_bad_line_is_named_at_the_start(sqlite_url: str, file: Path, text: str, said: str) -> None:
    file.write_bytes(text.encode(errors="surrogateescape"))

    with pytest.raises(TokensFileError) as refused:
        make_shop(sqlite_url, tokens_file=str(file), token=OPERATOR).asgi()

    assert said in str(refused.value)
    assert HASH not in str(refused.value)
    assert refused.value.exit_code == 2


@pytest.mark.parametrize(("what", "spoil"), SPOILT.items(), ids=SPOILT)
async def test_a_file_that_another_user_could_have_written_opens_nothing(
    sqlite_url: str,
    file: Path,
    give_away: GiveAway,
    what: str,
    spoil: Callable[[Path, GiveAway], None],
) -> None:
    async with make_shop(sqlite_url, tokens_file=str(file)) as app:
        call = Caller(app.asgi())
        assert (await call("GET", "/api/v1/runs", bearer(ADA))).status == 200
    spoil(file, give_away)

    if what in STICKY:  # no other user can replace the file there
        make_shop(sqlite_url, tokens_file=str(file)).asgi()
        return
    with pytest.raises(TokensFileError, match="because") as refused:
        make_shop(sqlite_url, tokens_file=str(file)).asgi()
    assert str(file) in str(refused.value)


@pytest.mark.parametrize("what", ["a link of another user", "a folder that all can write"])
def test_a_way_that_another_user_could_turn_elsewhere_opens_nothing(
    sqlite_url: str, file: Path, give_away: GiveAway, what: str
) -> None:
    """The file lies in a folder of its own below: who can replace a folder on the way picks the file."""
    kept, public = file.parent / "kept", file.parent / "public"
    kept.mkdir(mode=0o700)
    public.mkdir(mode=0o755)
    file.rename(kept / file.name)
    way = public / "current"
    if what.startswith("a link"):
        way.symlink_to(kept)
        give_away(way)
    else:
        kept.rename(way)
        public.chmod(0o777)

    with pytest.raises(TokensFileError, match="because"):
        make_shop(sqlite_url, tokens_file=str(way / file.name)).asgi()


async def test_a_file_that_becomes_anothers_opens_nothing_any_more(
    app: Gandy, file: Path, give_away: GiveAway, caplog: pytest.LogCaptureFixture
) -> None:
    call = Caller(app.asgi())
    change(file, f"ada operator {digest(ADA)}\n")
    give_away(file)

    assert (await call("GET", "/api/v1/runs", bearer(ADA))).status == 503
    assert "belongs to" in caplog.text


def test_a_file_that_a_group_of_several_may_write_is_refused(
    sqlite_url: str, file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ask = os.fstat

    def answer(descriptor: int) -> os.stat_result:
        found = ask(descriptor)
        return os.stat_result((found.st_mode | 0o060, *found[1:5], ANOTHER_USER, *found[6:]))

    monkeypatch.setattr(os, "fstat", answer)

    with pytest.raises(TokensFileError, match="other users can write"):
        make_shop(sqlite_url, tokens_file=str(file)).asgi()


def test_no_pipe_is_waited_for(sqlite_url: str, file: Path) -> None:
    file.unlink()
    os.mkfifo(file, 0o600)

    with pytest.raises(TokensFileError, match="not a regular file"):
        make_shop(sqlite_url, tokens_file=str(file)).asgi()


@pytest.mark.parametrize("length", [1, 3, 15, 16, 17])
async def test_a_token_of_the_file_is_as_long_as_any_other(app: Gandy, file: Path, length: int) -> None:
    token = "t" * length
    change(file, f"ada operator {digest(token)}\nbob read-only {digest(BOB)}\n")
    call = Caller(app.asgi())

    expected = 200 if length >= 16 else 401
    assert (await call("GET", "/api/v1/runs", bearer(token))).status == expected
    assert bool((await call.log_in(token)).cookie) is (length >= 16)


async def test_a_bad_file_stops_the_start(sqlite_url: str, file: Path) -> None:
    change(file, "rubbish")

    with pytest.raises(TokensFileError, match="line 1"):
        async with make_shop(sqlite_url, tokens_file=str(file)).running(("web",)):
            raise AssertionError
