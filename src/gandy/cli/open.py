"""`gandy open`: open the local dashboard, logged in."""

from __future__ import annotations

import asyncio
import socket
import webbrowser
from contextlib import suppress
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

import click

from gandy.cli.call import Call, pass_call
from gandy.cli.options import example
from gandy.cli.output import print_text, say
from gandy.cli.session import CommandSession, with_session
from gandy.errors import MissingExtraError, NothingRunsError
from gandy.model.owners import OneOwner, Owners

if TYPE_CHECKING:
    from gandy.settings import Settings
    from gandy.web.access.keys import ServedPlace
    from gandy.web.access.tokens import Token

_PATIENCE = 5.0


@click.command("open", epilog=example("gandy --app billing:app open", "gandy --app billing:app open --print"))
@click.option("--print", "is_printed", is_flag=True, help="Print the link instead of opening it.")
@pass_call
def open_dashboard(call: Call, *, is_printed: bool) -> None:
    """Open the local dashboard in the browser, logged in.

    The dashboard is that of `gandy up` on this host. The link works once, within ten minutes. Without a
    browser it is printed.
    """
    app = call.find_app()
    settings = app.settings if app else call.load_settings().settings
    owners = call.named_owners(app) or with_session(call, _owners)
    place = _find(settings, owners.name if isinstance(owners, OneOwner) else None)
    token = _token(settings, place)
    if token is None:
        say("Log in with your token: the dashboard uses a token that is not set here.")
    link = f"{place.address}/" if token is None else asyncio.run(_link(settings, place, token))
    if is_printed or not _browse(link):
        print_text(link)
    else:
        say(f"Opened {place.address}/ in the browser.")


async def _owners(session: CommandSession) -> Owners:
    return session.owners


def _find(settings: Settings, owner: str | None) -> ServedPlace:
    """Find the process that serves this application, or the only process that serves this database."""
    from gandy.app.web import has_web  # noqa: PLC0415 `gandy --help` needs none of it

    found = {place.owner: place for place in places_here(settings.database.url, owner) if _answers(place)}
    if not found:
        if not has_web():
            raise MissingExtraError("the dashboard", "web")
        what = "on this database" if owner is None else f"of {owner}"
        raise NothingRunsError(f"no dashboard {what} is running here as this user: start it with `gandy up`")
    if len(found) > 1:
        names = ", ".join(sorted(found))
        raise NothingRunsError(f"several dashboards are running here: {names}; pass --app or --owner")
    return next(iter(found.values()))


def places_here(url: str, owner: str | None) -> list[ServedPlace]:
    """List the processes of this user and host that serve the application, or any on this database."""
    from gandy.web.access.keys import (  # noqa: PLC0415 `gandy --help` needs none of it
        StateFolder,
        database_stem,
        running_places,
        stem_of,
    )

    try:
        with StateFolder() as folder:
            return running_places(folder, database_stem(url) if owner is None else stem_of(url, owner))
    except OSError:
        return []


def _answers(place: ServedPlace) -> bool:
    where = urlsplit(place.address)
    with suppress(OSError), socket.create_connection((where.hostname, where.port), timeout=_PATIENCE):
        return True
    return False


def _token(settings: Settings, place: ServedPlace) -> Token | None:
    """Return the token that the serving process accepts, if it is available here."""
    from gandy.web.access.keys import (  # noqa: PLC0415 `gandy --help` needs none of it
        StateFolder,
        read_token,
        stem_of,
    )
    from gandy.web.access.tokens import Tokens  # noqa: PLC0415 the same

    kept = None
    if place.token == Tokens.KEPT:
        with StateFolder() as folder:
            kept = read_token(folder, stem_of(settings.database.url, place.owner))
    return None if place.token is None else Tokens(settings.web, kept=kept).named(place.token)


async def _link(settings: Settings, place: ServedPlace, token: Token) -> str:
    from gandy.store.drivers.opening import open_database  # noqa: PLC0415 `gandy --help` needs none of it
    from gandy.web.access.keys import Keyring  # noqa: PLC0415 the same

    database = open_database(settings.database)
    try:
        await database.open()
        return f"{place.address}/login?code={await Keyring(database, place.owner).make_code(token)}"
    finally:
        await database.close()


def _browse(link: str) -> bool:
    try:
        return webbrowser.open(link)
    except webbrowser.Error:
        return False
