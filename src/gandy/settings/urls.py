"""Database URLs: parse them, and show them without their passwords.

Refuse an ambiguous URL, such as a password with a bare @, before it reaches a driver: the driver would take a
part of the password for a host and show it in an error.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from difflib import get_close_matches
from functools import cache
from pathlib import Path
from typing import Final, Literal, TypeAlias
from urllib.parse import quote, unquote, unquote_to_bytes

from gandy.errors import DatabaseUrlError

Parameters: TypeAlias = tuple[tuple[str, str], ...]
Hosts: TypeAlias = tuple[tuple[str, int | None], ...]

_SQLITE: Final = "sqlite:///"
_MASK: Final = "***"
_HIGHEST_PORT: Final = 65_535
_SCHEME: Final = re.compile(r"([a-z][a-z0-9]{0,19})(?:\+([a-z0-9_]{1,20}))?://", re.IGNORECASE)
_POSTGRES: Final = frozenset({"postgresql", "postgres"})
_BAD_ESCAPE: Final = re.compile(r"%(?![0-9A-Fa-f]{2})|%00")
_NOT_VISIBLE: Final = re.compile(r"[\s\x00-\x1f\x7f]")
_HOST: Final = re.compile(r"(\[[0-9A-Fa-f:.%a-z]+\]|[^:\[\]]*)(?::([0-9]*))?")
#: Parameters whose values are never shown.
_SECRETS: Final = frozenset(
    {"password", "sslpassword", "oauth_client_secret", "scram_client_key", "scram_server_key"}
)
_WRITE: Final = "in a name or password write @ as %40, : as %3A, / as %2F, ? as %3F, # as %23, % as %25"


@dataclass(frozen=True, slots=True)
class DatabaseUrl:
    """A parsed URL; every part is decoded."""

    kind: Literal["postgres", "sqlite"]
    shown: str  #: without any password
    driver: str | None = None  #: of a scheme such as postgresql+psycopg
    user: str | None = None
    password: str | None = None
    hosts: Hosts = ()
    database: str | None = None  #: its name, or the path of its file
    parameters: Parameters = ()

    def __repr__(self) -> str:
        return f"DatabaseUrl({self.shown!r})"


class _UnreadableError(Exception):
    """The reason why a URL cannot be parsed, without its content."""


def read_url(text: str) -> DatabaseUrl:
    """Parse a URL; an error shows only its scheme."""
    scheme = _SCHEME.match(text)
    shown = f"{scheme.group()}{_MASK}" if scheme else _MASK
    if scheme is None or (kind := scheme[1].lower()) not in {*_POSTGRES, "sqlite"}:
        named = f"the scheme {scheme[1]!r} is not supported" if scheme else "it has no scheme"
        raise DatabaseUrlError(shown, named)
    try:
        if kind == "sqlite":
            return _read_sqlite(text, scheme)
        return _read_postgres(text, scheme)
    except _UnreadableError as error:
        raise DatabaseUrlError(shown, str(error)) from None


def mask_url(url: str) -> str:
    """Return a URL without its passwords; of an invalid URL, only the scheme."""
    try:
        return read_url(url).shown
    except DatabaseUrlError as error:
        return error.url


def supports_notify(url: str) -> bool:
    """Return whether the database supports LISTEN and NOTIFY."""
    return not url.startswith(_SQLITE)


def anchor_sqlite_url(url: str, directory: Path) -> str:
    """Resolve the path of an SQLite file against a folder; return any other URL unchanged."""
    path = url.removeprefix(_SQLITE)
    if not url.startswith(_SQLITE) or path == ":memory:" or Path(path).is_absolute():
        return url
    return f"{_SQLITE}{quote(str(directory))}/{path}"


def _read_sqlite(text: str, scheme: re.Match[str]) -> DatabaseUrl:
    rest = text[scheme.end() :]
    path = unquote(rest.removeprefix("/"))
    if not rest.startswith("/"):
        raise _UnreadableError(
            "a SQLite file has no host: three slashes for a relative path, four for an absolute"
        )
    if "?" in rest:
        raise _UnreadableError("a SQLite URL takes no parameters; write ? in the name of a file as %3F")
    if "\x00" in path or "://" in path:
        raise _UnreadableError("this is not the path of a file")
    return DatabaseUrl("sqlite", text, driver=scheme[2], database=path)


def _read_postgres(text: str, scheme: re.Match[str]) -> DatabaseUrl:
    rest = text[scheme.end() :]
    end = next((at for at, character in enumerate(rest) if character in "/?"), len(rest))
    authority, tail = rest[:end], rest[end:]
    _refuse_ambiguous(authority, tail)
    path, _, query = tail.partition("?")
    login, at, hosts = authority.rpartition("@")
    user, colon, password = login.partition(":")
    parameters = _read_parameters(query)
    secret = f"{user}:{_MASK}" if colon else user
    return DatabaseUrl(
        "postgres",
        f"{scheme.group()}{secret}{at}{hosts}{path}{_shown_query(query)}",
        driver=scheme[2],
        user=_decoded(user) if user else None,
        password=_decoded(password) if colon else None,
        hosts=_read_hosts(hosts),
        database=_decoded(path[1:]) or None,
        parameters=parameters,
    )


def _refuse_ambiguous(authority: str, tail: str) -> None:
    if _NOT_VISIBLE.search(authority + tail):
        raise _UnreadableError("it contains a space or a control character; write a space as %20")
    if authority.count("@") > 1 or "@" in tail:
        raise _UnreadableError(f"it contains an unescaped @; {_WRITE}")
    if _BAD_ESCAPE.search(authority + tail):
        raise _UnreadableError(f"a % is not followed by two hexadecimal digits; {_WRITE}")


def _read_hosts(text: str) -> Hosts:
    return tuple(_read_host(each) for each in text.split(",")) if text else ()


def _read_host(text: str) -> tuple[str, int | None]:
    found = _HOST.fullmatch(text)
    if found is None or (found[2] and not 0 < int(found[2][:6]) <= _HIGHEST_PORT):
        raise _UnreadableError(
            f"the text after the colon of its host is not a port from 1 to {_HIGHEST_PORT}; if it is a "
            f"password, an @ and a host must follow it, and {_WRITE}"
        )
    return _decoded(found[1].strip("[]")), int(found[2]) if found[2] else None


def _read_parameters(query: str) -> Parameters:
    """Parse the part after the question mark; no parameter may follow a secret, which may contain a &."""
    found: list[tuple[str, str]] = []
    for part in query.split("&") if query else ():
        name, equals, value = part.partition("=")
        if not equals or not name or "=" in value:
            raise _UnreadableError(
                "its parameters are not NAME=VALUE with & between; write & as %26, = as %3D"
            )
        if name not in _SECRETS and any(earlier in _SECRETS for earlier, _ in found):
            raise _UnreadableError(
                "a parameter follows the password: write the password last, and & in it as %26"
            )
        if name not in _SECRETS | _known_parameters():
            raise _UnreadableError(_unknown(name, len(found) + 1))
        found.append(("sslmode", "require") if (name, value) == ("ssl", "true") else (name, _decoded(value)))
    return tuple(found)


def _unknown(name: str, number: int) -> str:
    """Describe an unknown parameter; do not show a dissimilar name, which may be part of a password."""
    close = get_close_matches(name, _known_parameters(), n=1, cutoff=0.7)
    named = (
        f" {name!r}; did you mean {close[0]}?"
        if close
        else f": check number {number} after the question mark"
    )
    return f"PostgreSQL has no such parameter{named}"


@cache
def _known_parameters() -> frozenset[str]:
    from psycopg.pq import Conninfo  # noqa: PLC0415 - a URL without parameters needs no driver

    return frozenset(each.keyword.decode() for each in Conninfo.get_defaults()) | {"ssl"}


def _shown_query(query: str) -> str:
    parts = (part.partition("=") for part in query.split("&"))
    shown = (f"{name}={_MASK if name in _SECRETS else value}" for name, _, value in parts)
    return f"?{'&'.join(shown)}" if query else ""


def _decoded(text: str) -> str:
    try:
        return unquote_to_bytes(text).decode()
    except UnicodeDecodeError:
        raise _UnreadableError("an escaped part is not UTF-8") from None
