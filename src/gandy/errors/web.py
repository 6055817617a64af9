"""Errors of the dashboard and the REST interface."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gandy.errors.base import GandyError, message

if TYPE_CHECKING:
    from pathlib import Path


@message(
    "no token is set, so all requests are refused: set GANDY_WEB_TOKEN on the server to at least 16 "
    "characters, and pass it as a Bearer token or in the login form"
)
class WebTokenUnsetError(GandyError):
    """No token is configured, so that the dashboard refuses all requests."""


@message(
    "the generated token is valid only on this machine, under its own name and without a proxy; "
    "set GANDY_WEB_TOKEN on the server for other access"
)
class WebClosedError(GandyError):
    """A request from another machine or name, or through a proxy, while the token is for this machine."""


class TokensFileError(GandyError):
    """The file of GANDY_WEB_TOKENS_FILE cannot be used."""

    exit_code = 2

    def __init__(self, path: Path, problem: str, *, line: int | None = None) -> None:
        where = f"{path}" if line is None else f"{path}, line {line},"
        super().__init__(f"tokens file {where} {problem}")
        self.path = path
        self.problem = problem
        self.line = line


@message("{path} {problem}; or set GANDY_WEB_TOKEN, then no token is stored")
class KeptFileError(GandyError):
    """A private file has wrong permissions or content."""

    path: Path
    problem: str


@message("this link has been used or has expired; `gandy open` on the server's machine makes another")
class CodeSpentError(GandyError):
    """A one-time code that is used, expired or invalid."""


@message("{problem}")
class NothingRunsError(GandyError):
    """No process of this host serves the requested dashboard."""

    problem: str


@message(
    "listening on {host} opens the dashboard to others: set GANDY_WEB_TOKEN to at least 16 "
    "characters (or GANDY_WEB_TOKENS_FILE), or listen on 127.0.0.1"
)
class HostNeedsTokenError(GandyError):
    """The dashboard would be reachable by others without a configured token."""

    exit_code = 2

    host: str


@message("cannot listen on {host}:{port}: {problem}; choose another with --port")
class PortTakenError(GandyError):
    """The port of the dashboard is not available."""

    host: str
    port: int
    problem: str


@message("log in, or send the token as `Authorization: Bearer ...`")
class TokenMissingError(GandyError):
    """A request without the required token."""


@message("this token is not valid; compare it with GANDY_WEB_TOKEN on the server")
class TokenWrongError(GandyError):
    """A request with an invalid token."""


@message("several Authorization headers were sent; send one")
class SeveralTokensError(GandyError):
    """A request with several Authorization headers, which is ambiguous."""


@message("this token is read-only; use the token of GANDY_WEB_TOKEN")
class ReadOnlyTokenError(GandyError):
    """A read-only token was used for a change."""


@message("cross-site request from {origin} refused; use the dashboard's own pages")
class ForeignOriginError(GandyError):
    """A cross-site request (CSRF)."""

    origin: str


@message("this form is no longer valid, nothing was changed; load the page again")
class FormExpiredError(GandyError):
    """A browser's change without a valid CSRF token."""


@message("route {path}: declare it with reads, changes, door or probes")
class UndeclaredRouteError(GandyError):
    """A route without a declaration whether it reads or changes."""

    path: str


@message("a note is required: why is no further run needed?")
class ResolutionNoteMissingError(GandyError, ValueError):
    """A dead letter was acknowledged without a note."""
