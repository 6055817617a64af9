"""The judge of the matrix: says by the contract alone what an answer may be, without the gate's code."""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING, Final, Literal, TypeAlias

if TYPE_CHECKING:
    from tests.web.access.calling import Answer
    from tests.web.access.routes import Asked

Allowed: TypeAlias = Literal["stranger", "reader", "operator"]

PROBES: Final = {"/healthz", "/readyz"}
LOGIN: Final = {"/login", "/logout"}


class Verdict(StrEnum):
    """What an answer is."""

    ANSWERED = "answered"
    UNKNOWN = "401 or the login page"
    FORBIDDEN = "403"
    CLOSED = "503 that names the variable"
    LOGIN = "the login page itself"
    WRONG = "wrong"


def expected(asked: Asked, allowed: Allowed, *, is_closed: bool) -> Verdict:
    """Say what the contract asks for."""
    if asked.path in PROBES:
        return Verdict.ANSWERED
    if is_closed:
        return Verdict.CLOSED
    if asked.path in LOGIN:
        return Verdict.LOGIN
    if asked.path.startswith("/static/"):
        return Verdict.ANSWERED
    if allowed == "stranger":
        return Verdict.UNKNOWN
    return Verdict.FORBIDDEN if allowed == "reader" and asked.method != "GET" else Verdict.ANSWERED


def seen(asked: Asked, answer: Answer) -> Verdict:
    """Say what an answer is; one that is nothing of all this is wrong."""
    leads_to_login = answer.status == 303 and answer.header("location").startswith("/login")
    if answer.status == 503:
        return Verdict.CLOSED if "GANDY_WEB_TOKEN" in answer.text else Verdict.WRONG
    if asked.path in LOGIN:
        is_fine = answer.status in {200, 401} or leads_to_login
        return Verdict.LOGIN if is_fine and not answer.cookie else Verdict.WRONG
    if answer.status == 401 or leads_to_login:
        return Verdict.UNKNOWN
    if answer.status == 403:
        return Verdict.FORBIDDEN
    return Verdict.ANSWERED if answer.status < 500 else Verdict.WRONG
