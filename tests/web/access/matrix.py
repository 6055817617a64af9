"""The matrix: every configuration, every credential, every route, and the judge's word on each answer."""

from __future__ import annotations

import hashlib
import sqlite3
from collections import Counter
from contextlib import asynccontextmanager, closing
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from gandy.app.web import make_web
from gandy.web.access.keys import Keyring
from gandy.web.access.tokens import Tokens
from tests.web.access.calling import Caller
from tests.web.access.credentials import (
    OLD,
    Credential,
    Known,
    cookie,
    forgeries,
    holders,
    strangers,
    swapped,
    with_form_token,
)
from tests.web.access.judge import Verdict, expected, seen
from tests.web.access.routes import ROUTES
from tests.web.conftest import OPERATOR, READER
from tests.web.shop import make_shop

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Mapping
    from pathlib import Path

    from gandy import Gandy
    from gandy.web.access.tokens import Token
    from tests.web.access.judge import Allowed

ADA: Final = "a-token-for-ada-alone"
BOB: Final = "a-token-for-bob-alone"
NAMES: Final = {ADA: "ada", BOB: "bob"}
_VARIABLES: Final[Mapping[str, Allowed]] = {OPERATOR: "operator", READER: "reader"}
PEOPLE: Final[Mapping[str, Allowed]] = {ADA: "operator", BOB: "reader"}
_SNAPSHOT: Final = ("manifest", "manifest_group", "work_queue", "metadata", "dead_letter", "worker", "audit")


@dataclass(frozen=True, slots=True)
class Configuration:
    """What is set, and what each token then allows."""

    name: str
    settings: Mapping[str, str] = field(default_factory=dict)
    tokens: Mapping[str, Allowed] = field(default_factory=dict)
    has_file: bool = False
    is_started: bool = False  #: by us, on loopback, rather than mounted

    @property
    def is_closed(self) -> bool:
        """Whether there is nothing that could open it."""
        return not self.tokens and not self.is_started


CONFIGURATIONS: Final = (
    Configuration("none, mounted"),
    Configuration("none, started on loopback", is_started=True),
    Configuration("operator token", {"token": OPERATOR}, {OPERATOR: "operator"}),
    Configuration("read-only token", {"readonly_token": READER}, {READER: "reader"}),
    Configuration("both tokens", {"token": OPERATOR, "readonly_token": READER}, _VARIABLES),
    Configuration("tokens file", {}, PEOPLE, has_file=True),
    Configuration(
        "tokens file and both tokens",
        {"token": OPERATOR, "readonly_token": READER},
        {**_VARIABLES, **PEOPLE},
        has_file=True,
    ),
)


@dataclass(slots=True)
class Counted:
    """What came of one configuration."""

    name: str
    credentials: int = 0
    verdicts: Counter[Verdict] = field(default_factory=Counter)
    wrong: list[str] = field(default_factory=list)


def write_tokens_file(path: Path, people: Mapping[str, Allowed]) -> None:
    """Write a line for each."""
    words = {"operator": "operator", "reader": "read-only"}
    lines = [
        f"{NAMES[token]} {words[allowed]} {hashlib.sha256(token.encode()).hexdigest()}\n"
        for token, allowed in people.items()
    ]
    path.write_text("# people\n\n" + "".join(lines), encoding="utf-8")


async def walk(configuration: Configuration, folder: Path) -> Counted:
    """Ask every route with every credential, and judge each answer; what is refused changes nothing."""
    counted = Counted(configuration.name)
    async with _opened(configuration, folder) as (app, tokens):
        asgi = _served(app, configuration)
        asgi.state.gate.slowing._pause = at_once
        call = Caller(asgi)
        path = folder / "gandy.db"
        credentials = await _credentials(call, tokens, path, is_closed=configuration.is_closed)
        for credential in [*credentials, *await _former(path), *await _spent(app, call, tokens)]:
            counted.credentials += 1
            before = _snapshot(path)
            await _ask_all(call, credential, counted, is_closed=configuration.is_closed)
            if credential.allowed != "operator" and _snapshot(path) != before:
                counted.wrong.append(f"{credential.name} changed something")
    return counted


async def _ask_all(call: Caller, credential: Credential, counted: Counted, *, is_closed: bool) -> None:
    for asked in ROUTES:
        headers = {"Content-Type": "application/json", **credential.headers}
        answer = await call(asked.method, asked.path, headers, body=b"{}" if asked.method == "POST" else b"")
        wanted = expected(asked, credential.allowed, is_closed=is_closed)
        found = seen(asked, answer)
        counted.verdicts[found] += 1
        if found is not wanted:
            counted.wrong.append(f"{credential.name}: {asked}: {answer.status} is {found}, not {wanted}")


async def _credentials(
    call: Caller, tokens: Mapping[str, Allowed], path: Path, *, is_closed: bool
) -> list[Credential]:
    """Make them all: operators log in before the forger reads the rows of their sessions."""
    if is_closed:
        tokens = {OPERATOR: "stranger", READER: "stranger"}
        found = [Credential(token, {"Authorization": f"Bearer {token}"}) for token in tokens]
        return [*strangers(tokens), *found]
    right = await holders(call, tokens)
    known = Known(next((token for token in tokens if tokens[token] == "reader"), OLD), _keys(path))
    reader = [] if known.token == OLD else await swapped(call, known.token, known)
    return [*strangers(tokens), *forgeries(known), *reader, *right]


async def _former(path: Path) -> list[Credential]:
    """Log in before the token was changed, and take a code then."""
    async with make_shop(f"sqlite:///{path}", token=OLD) as before:
        call = Caller(before.asgi())
        session = (await call.log_in(OLD)).cookie
        assert (await call("GET", "/api/v1/runs", cookie(session))).status == 200
        code = await Keyring(before.database, before.name).make_code(_token(before, OLD))
    return [
        Credential("session of a token that was changed", cookie(session)),
        Credential("code of a token that was changed", cookie(code)),
    ]


async def _spent(app: Gandy, call: Caller, tokens: Mapping[str, Allowed]) -> list[Credential]:
    """Use a code twice, and show what is left of it."""
    found = [token for token in tokens if app.settings.web.token == token]
    if not found:
        return []
    code = await Keyring(app.database, app.name).make_code(_token(app, found[0]))
    first = await call("GET", f"/login?code={code}")
    second = await call("GET", f"/login?code={code}")
    assert (first.status, second.status) == (303, 401)
    return [
        Credential("session of a code", await with_form_token(call, first.cookie), "operator"),
        Credential("session of a code's second use", cookie(second.cookie)),
        Credential("code as cookie", cookie(code)),
        Credential("code as token", {"Authorization": f"Bearer {code}"}),
    ]


def _token(app: Gandy, text: str) -> Token:
    found = Tokens(app.settings.web).find(text)
    assert found is not None
    return found


@asynccontextmanager
async def _opened(
    configuration: Configuration, folder: Path
) -> AsyncIterator[tuple[Gandy, Mapping[str, Allowed]]]:
    settings: dict[str, Any] = dict(configuration.settings)
    if configuration.has_file:
        settings["tokens_file"] = str(folder / "tokens")
        write_tokens_file(folder / "tokens", PEOPLE)
    async with make_shop(f"sqlite:///{folder / 'gandy.db'}", **settings) as app:
        await app.seed()
        yield app, configuration.tokens or _made(app, configuration)


def _made(app: Gandy, configuration: Configuration) -> Mapping[str, Allowed]:
    if configuration.is_closed:
        return {}
    kept = app_service(app)._access.kept
    assert kept is not None
    return {kept: "operator"}


def _served(app: Gandy, configuration: Configuration) -> Any:  # noqa: ANN401 an ASGI application
    return app_service(app)._server.config.app if configuration.is_started else app.asgi()


def app_service(app: Gandy) -> Any:  # noqa: ANN401 the service, looked into
    """Make the service that `gandy up` serves the dashboard with."""
    return make_web(app._require("the matrix").context)


def _keys(path: Path) -> list[dict[str, Any]]:
    with closing(sqlite3.connect(path)) as link:
        link.row_factory = sqlite3.Row
        rows = link.execute("SELECT * FROM web_key ORDER BY created_at").fetchall()
    own = {"reader", f"file {NAMES[BOB]}"}
    return [dict(row) for row in rows if row["token"] not in own][:2]


def _snapshot(path: Path) -> list[Any]:
    with closing(sqlite3.connect(path)) as link:
        return [link.execute(f"SELECT * FROM {table}").fetchall() for table in _SNAPSHOT]  # noqa: S608 our own


async def at_once(_seconds: float) -> None:
    """Wait for nothing: the matrix is refused thousands of times from one address."""
