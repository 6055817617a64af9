"""Sessions and one-time codes on both databases: how they begin, and how they end."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

import psycopg
import pytest

from gandy import Gandy
from gandy.clock import ManualClock
from gandy.store import audit as web_keys
from gandy.store.drivers.opening import migrate
from gandy.web.access.keys import CODE_FOR, SESSION_FOR, Keyring
from gandy.web.access.tokens import Tokens
from tests.support.worlds import migrated_url
from tests.web.access.calling import Caller
from tests.web.access.credentials import cookie
from tests.web.conftest import OPERATOR, READER
from tests.web.shop import make_shop

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from gandy.web.access.tokens import Token

__all__ = ["migrated_url"]

SECOND = timedelta(seconds=1)


@pytest.fixture
def clock() -> ManualClock:
    """A clock that stands still."""
    return ManualClock(datetime(2026, 1, 5, 12, tzinfo=UTC))


@pytest.fixture
async def app(migrated_url: str, clock: ManualClock) -> AsyncIterator[Gandy]:
    """An application with both tokens that goes by this clock."""
    made = make_shop(migrated_url, token=OPERATOR, readonly_token=READER)
    made.use_clock(clock)
    async with made:
        yield made


@pytest.fixture
def call(app: Gandy) -> Caller:
    """Calls it."""
    return Caller(app.asgi())


def token_of(app: Gandy, text: str = OPERATOR) -> Token:
    found = Tokens(app.settings.web).find(text)
    assert found is not None
    return found


async def status(call: Caller, session: str) -> int:
    return (await call("GET", "/api/v1/runs", cookie(session))).status


async def make_code(app: Gandy) -> str:
    return await Keyring(app.database, app.name).make_code(token_of(app))


async def test_logging_out_ends_the_session_and_not_only_its_cookie(call: Caller) -> None:
    session, other = [(await call.log_in(OPERATOR)).cookie for _ in range(2)]
    assert await status(call, session) == 200

    left = await call("POST", "/logout", cookie(session))

    assert (left.status, left.header("location")) == (303, "/login")
    assert await status(call, session) == 401
    assert await status(call, other) == 200


async def test_another_site_cannot_log_anybody_out(call: Caller) -> None:
    session = (await call.log_in(OPERATOR)).cookie
    answer = await call("POST", "/logout", {**cookie(session), "Origin": "https://evil.example"})

    assert answer.status == 403
    assert await status(call, session) == 200


@pytest.mark.parametrize(
    "name", ["%00", "a%00b", "%E2%80%AEeve", "%0D%0Aeve", "%ED%A0%80", "n" * 80, "%F0%9F%9A%82"]
)
async def test_whatever_name_is_typed_the_session_begins(call: Caller, name: str) -> None:
    answer = await call.log_in(OPERATOR, name)

    assert answer.status == 303
    page = await call("GET", "/", cookie(answer.cookie))
    assert page.status == 200
    assert "\u202e" not in page.text


async def test_a_changed_token_ends_its_sessions_and_no_other(app: Gandy, call: Caller) -> None:
    operator, reader = (await call.log_in(OPERATOR)).cookie, (await call.log_in(READER)).cookie

    app.configure({"web": {"token": "another-token-entirely"}})

    assert await status(call, operator) == 401
    assert await status(call, reader) == 200


async def test_a_session_ends_after_its_time(clock: ManualClock, call: Caller) -> None:
    session = (await call.log_in(OPERATOR)).cookie
    clock.advance(SESSION_FOR - SECOND)
    assert await status(call, session) == 200
    clock.advance(2 * SECOND)

    assert await status(call, session) == 401


async def test_a_session_of_another_application_with_the_same_token_opens_nothing(
    migrated_url: str, call: Caller
) -> None:
    async with Gandy("neighbour", migrated_url, web={"token": OPERATOR}) as neighbour:
        theirs = Caller(neighbour.asgi())
        session = (await theirs.log_in(OPERATOR)).cookie
        code = await make_code(neighbour)
        assert await status(theirs, session) == 200

        assert await status(call, session) == 401
        assert (await call("GET", f"/login?code={code}")).status == 401


async def test_a_session_has_what_its_token_allows_now(app: Gandy, call: Caller) -> None:
    session = (await call.log_in(READER)).cookie
    app.configure({"web": {"token": None}})

    answer = await call("POST", "/api/v1/groups/default/cancel", cookie(session))

    assert answer.status == 403


async def test_only_the_newest_sessions_of_a_token_are_kept_and_no_other_is_pushed_out(
    call: Caller, monkeypatch: pytest.MonkeyPatch, clock: ManualClock
) -> None:
    monkeypatch.setattr(web_keys, "MOST_KEYS", 3)
    sessions = [(await call.log_in(OPERATOR)).cookie]
    for _ in range(5):
        clock.advance(SECOND)
        sessions.append((await call.log_in(READER)).cookie)

    assert [await status(call, session) for session in sessions] == [200, 401, 401, 200, 200, 200]


async def test_a_code_signs_in_once_however_many_use_it_at_once(app: Gandy, call: Caller) -> None:
    code = await make_code(app)

    answers = await asyncio.gather(*(call("GET", f"/login?code={code}&next=/runs") for _ in range(8)))

    (signed_in,) = [answer for answer in answers if answer.status == 303]
    assert signed_in.header("location") == "/runs"
    assert await status(call, signed_in.cookie) == 200
    assert {answer.status for answer in answers if answer is not signed_in} == {401}
    assert not any(answer.cookie for answer in answers if answer is not signed_in)


async def test_a_code_is_good_for_a_short_time_and_says_what_to_do_after(
    app: Gandy, call: Caller, clock: ManualClock
) -> None:
    code = await make_code(app)
    clock.advance(CODE_FOR + SECOND)

    answer = await call("GET", f"/login?code={code}")

    assert answer.status == 401
    assert "gandy open" in answer.text


async def test_a_code_works_after_a_restart(app: Gandy, migrated_url: str, clock: ManualClock) -> None:
    code = await make_code(app)
    restarted = make_shop(migrated_url, token=OPERATOR)
    restarted.use_clock(clock)
    async with restarted:
        restarted_call = Caller(restarted.asgi())

        assert (await restarted_call("GET", f"/login?code={code}")).status == 303


@pytest.mark.parametrize("place", ["https://evil.example/", "//evil.example", "/\\evil.example"])
async def test_a_code_leads_nowhere_else(app: Gandy, call: Caller, place: str) -> None:
    answer = await call("GET", f"/login?code={await make_code(app)}&next={place}")

    assert answer.header("location") == "/"


@pytest.mark.parametrize(("scheme", "is_secure"), [("https", True), ("http", False)])
async def test_the_cookie_of_a_code_is_for_this_site_and_no_script(
    app: Gandy, call: Caller, scheme: str, *, is_secure: bool
) -> None:
    answer = await call("GET", f"/login?code={await make_code(app)}", {"X-Forwarded-Proto": scheme})
    said = answer.header("set-cookie").lower()

    assert "httponly" in said
    assert "samesite=lax" in said
    assert ("secure" in said) is is_secure


def test_no_role_but_the_owner_of_the_tables_is_granted_the_keys(postgres_url: str) -> None:
    migrate(postgres_url)
    with psycopg.connect(postgres_url, autocommit=True) as link:
        link.execute("CREATE ROLE onlooker")
        try:
            link.execute("GRANT USAGE ON SCHEMA gandy TO onlooker")
            link.execute("SET ROLE onlooker")
            with pytest.raises(psycopg.errors.InsufficientPrivilege):
                link.execute("SELECT secret FROM gandy.web_key")
        finally:
            link.execute("RESET ROLE")
            link.execute("DROP OWNED BY onlooker")
            link.execute("DROP ROLE onlooker")


async def test_dashboards_on_two_ports_do_not_take_each_others_cookie(call: Caller) -> None:
    callers = [Caller(call.asgi, host=f"127.0.0.1:{port}") for port in (8423, 8424)]
    answers = [await caller.log_in(OPERATOR) for caller in callers]
    names = {answer.header("set-cookie").partition("=")[0] for answer in answers}

    assert names == {"gandy_session_8423", "gandy_session_8424"}


async def test_a_link_that_this_browser_has_used_leads_in_again(app: Gandy, call: Caller) -> None:
    link = f"/login?code={await make_code(app)}&next=/runs"
    session = (await call("GET", link)).cookie
    again = await call("GET", link, cookie(session))

    assert (again.status, again.header("location")) == (303, "/runs")
    assert (await call("GET", link)).status == 401
