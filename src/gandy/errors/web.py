"""Errors of the dashboard and the REST interface."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gandy.errors.base import GandyError

if TYPE_CHECKING:
    from pathlib import Path


class WebTokenUnsetError(GandyError):
    """No token is configured, so that the dashboard refuses all requests."""

    def __init__(self) -> None:
        super().__init__(
            "no token is set, so all requests are refused: set GANDY_WEB_TOKEN on the server to at least 16 "
            "characters, and pass it as a Bearer token or in the login form"
        )


class WebClosedError(GandyError):
    """A request from another machine or name, or through a proxy, while the token is for this machine."""

    def __init__(self) -> None:
        super().__init__(
            "the generated token is valid only on this machine, under its own name and without a proxy; "
            "set GANDY_WEB_TOKEN on the server for other access"
        )


class TokensFileError(GandyError):
    """The file of GANDY_WEB_TOKENS_FILE cannot be used."""

    exit_code = 2

    def __init__(self, path: Path, problem: str, *, line: int | None = None) -> None:
        where = f"{path}" if line is None else f"{path}, line {line},"
        super().__init__(f"tokens file {where} {problem}")
        self.path = path
        self.problem = problem
        self.line = line


class KeptFileError(GandyError):
    """A private file has wrong permissions or content."""

    def __init__(self, path: Path, problem: str) -> None:
        super().__init__(f"{path} {problem}; or set GANDY_WEB_TOKEN, then no token is stored")
        self.path = path
        self.problem = problem


class CodeSpentError(GandyError):
    """A one-time code that is used, expired or invalid."""

    def __init__(self) -> None:
        super().__init__(
            "this link has been used or has expired; `gandy open` on the server's machine makes another"
        )


class NothingRunsError(GandyError):
    """No process of this host serves the requested dashboard."""

    def __init__(self, problem: str) -> None:
        super().__init__(problem)


class HostNeedsTokenError(GandyError):
    """The dashboard would be reachable by others without a configured token."""

    exit_code = 2

    def __init__(self, host: str) -> None:
        super().__init__(
            f"listening on {host} opens the dashboard to others: set GANDY_WEB_TOKEN to at least 16 "
            "characters (or GANDY_WEB_TOKENS_FILE), or listen on 127.0.0.1"
        )
        self.host = host


class PortTakenError(GandyError):
    """The port of the dashboard is not available."""

    def __init__(self, host: str, port: int, problem: str) -> None:
        super().__init__(f"cannot listen on {host}:{port}: {problem}; choose another with --port")
        self.host = host
        self.port = port
        self.problem = problem


class TokenMissingError(GandyError):
    """A request without the required token."""

    def __init__(self) -> None:
        super().__init__("log in, or send the token as `Authorization: Bearer ...`")


class TokenWrongError(GandyError):
    """A request with an invalid token."""

    def __init__(self) -> None:
        super().__init__("this token is not valid; compare it with GANDY_WEB_TOKEN on the server")


class SeveralTokensError(GandyError):
    """A request with several Authorization headers, which is ambiguous."""

    def __init__(self) -> None:
        super().__init__("several Authorization headers were sent; send one")


class ReadOnlyTokenError(GandyError):
    """A read-only token was used for a change."""

    def __init__(self) -> None:
        super().__init__("this token is read-only; use the token of GANDY_WEB_TOKEN")


class ForeignOriginError(GandyError):
    """A cross-site request (CSRF)."""

    def __init__(self, origin: str) -> None:
        super().__init__(f"cross-site request from {origin} refused; use the dashboard's own pages")
        self.origin = origin


class FormExpiredError(GandyError):
    """A browser's change without a valid CSRF token."""

    def __init__(self) -> None:
        super().__init__("this form is no longer valid, nothing was changed; load the page again")


class UndeclaredRouteError(GandyError):
    """A route without a declaration whether it reads or changes."""

    def __init__(self, path: str) -> None:
        super().__init__(f"route {path}: declare it with reads, changes, door or probes")
        self.path = path


class ResolutionNoteMissingError(GandyError, ValueError):
    """A dead letter was acknowledged without a note."""

    def __init__(self) -> None:
        super().__init__("a note is required: why is no further run needed?")
