"""What can be wrong with a request to the dashboard or the REST interface."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gandy.errors.base import GandyError

if TYPE_CHECKING:
    from pathlib import Path


class WebTokenUnsetError(GandyError):
    """The dashboard has no token that it could ask for, so that it answers nothing."""

    def __init__(self) -> None:
        super().__init__(
            "no token is set, so nothing is answered here: set GANDY_WEB_TOKEN on the server to at least 16 "
            "characters, and pass it as a Bearer token or in the login form"
        )


class WebClosedError(GandyError):
    """Another machine asks, or by another name or a proxy, and the token was made for this machine."""

    def __init__(self) -> None:
        super().__init__(
            "the token that was made here is for this machine alone, under its own name and without a proxy; "
            "set GANDY_WEB_TOKEN on the server to be reached in another way"
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
    """A file that only this user may read and write is not so."""

    def __init__(self, path: Path, problem: str) -> None:
        super().__init__(f"{path} {problem}; or set GANDY_WEB_TOKEN, and none is kept")
        self.path = path
        self.problem = problem


class CodeSpentError(GandyError):
    """A one-time code that opens nothing any more, or never did."""

    def __init__(self) -> None:
        super().__init__(
            "this link has been used or is too old; `gandy open` on the server's machine makes another"
        )


class NothingRunsError(GandyError):
    """No process of this host serves the dashboard that was asked for."""

    def __init__(self, problem: str) -> None:
        super().__init__(problem)


class HostNeedsTokenError(GandyError):
    """The dashboard was to listen where others can reach it, and no token is set."""

    exit_code = 2

    def __init__(self, host: str) -> None:
        super().__init__(
            f"listening on {host} opens the dashboard to others: set GANDY_WEB_TOKEN to at least 16 "
            "characters (or GANDY_WEB_TOKENS_FILE), or listen on 127.0.0.1"
        )
        self.host = host


class PortTakenError(GandyError):
    """The port of the dashboard cannot be had."""

    def __init__(self, host: str, port: int, problem: str) -> None:
        super().__init__(f"cannot listen on {host}:{port}: {problem}; choose another with --port")
        self.host = host
        self.port = port
        self.problem = problem


class TokenMissingError(GandyError):
    """A token is asked for and none was sent."""

    def __init__(self) -> None:
        super().__init__("log in, or send the token as `Authorization: Bearer ...`")


class TokenWrongError(GandyError):
    """A token was sent that opens nothing."""

    def __init__(self) -> None:
        super().__init__("this token is not valid; compare it with GANDY_WEB_TOKEN on the server")


class SeveralTokensError(GandyError):
    """More than one token was sent, and which of them counts is not for us to choose."""

    def __init__(self) -> None:
        super().__init__("several Authorization headers were sent; send one")


class ReadOnlyTokenError(GandyError):
    """Somebody who may only look asked for a change."""

    def __init__(self) -> None:
        super().__init__("this token may look and change nothing; use the one of GANDY_WEB_TOKEN")


class ForeignOriginError(GandyError):
    """Another site sent the request through somebody's browser."""

    def __init__(self, origin: str) -> None:
        super().__init__(f"a request from {origin} may change nothing here; use the dashboard's own pages")
        self.origin = origin


class FormExpiredError(GandyError):
    """A browser asks for a change without the token of a page of ours."""

    def __init__(self) -> None:
        super().__init__("this form is no longer valid, nothing was changed; load the page again")


class UndeclaredRouteError(GandyError):
    """A route that does not say whether it reads or changes."""

    def __init__(self, path: str) -> None:
        super().__init__(f"route {path}: declare it with reads, changes, door or probes, never otherwise")
        self.path = path


class ResolutionNoteMissingError(GandyError, ValueError):
    """A dead letter was to be acknowledged without a word why."""

    def __init__(self) -> None:
        super().__init__("say in a note why no further run is needed")
