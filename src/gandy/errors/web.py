"""What can be wrong with a request to the dashboard or the REST interface."""

from __future__ import annotations

from gandy.errors.base import GandyError


class WebClosedError(GandyError):
    """Somebody from another machine asks, and no token says who may."""

    def __init__(self) -> None:
        super().__init__(
            "without a token only this machine is answered, under its own name; "
            "set GANDY_WEB_TOKEN and pass it as a Bearer token or in the login form"
        )


class HostNeedsTokenError(GandyError):
    """The dashboard was to listen where others can reach it, and no token is set."""

    exit_code = 2

    def __init__(self, host: str) -> None:
        super().__init__(
            f"listening on {host} opens the dashboard to others: set GANDY_WEB_TOKEN, or listen on 127.0.0.1"
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
        super().__init__(f"route {path}: declare it with reads, changes or open_to_all, never otherwise")
        self.path = path


class ResolutionNoteMissingError(GandyError, ValueError):
    """A dead letter was to be acknowledged without a word why."""

    def __init__(self) -> None:
        super().__init__("say in a note why no further run is needed")
