"""Error responses: problem details (RFC 9457) for the REST interface, a page for browsers."""

from __future__ import annotations

import logging
import re
from http import HTTPStatus
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import quote

from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse, RedirectResponse
from starlette.exceptions import HTTPException

from gandy.errors import (
    AppNotOpenError,
    CodeSpentError,
    ContractTargetError,
    DatabaseFaultError,
    DeclarationError,
    EnqueueError,
    ForeignOriginError,
    FormExpiredError,
    GandyError,
    ManifestDeclaredError,
    ManifestInUseError,
    MissingInputError,
    OverrideError,
    PayloadError,
    ReadOnlyTokenError,
    ResolutionNoteMissingError,
    RowConflictError,
    RunNotBegunError,
    RunNotOverError,
    RunOverError,
    ScheduleError,
    SeveralTokensError,
    TokenMissingError,
    TokenWrongError,
    TriggerInputConflictError,
    TriggerInputMissingError,
    UnknownTrainError,
    ValueBoundsError,
    WebClosedError,
    WebTokenUnsetError,
)
from gandy.web.dependencies import is_api, path_of
from gandy.web.hardening import HEADERS

if TYPE_CHECKING:
    from collections.abc import Sequence

    from fastapi import FastAPI, Request
    from starlette.responses import Response

    from gandy.web.rendering import Rendering

_log = logging.getLogger("gandy.web")

_STATUS: Final[Sequence[tuple[type[Exception], HTTPStatus]]] = (
    (TokenMissingError, HTTPStatus.UNAUTHORIZED),
    (TokenWrongError, HTTPStatus.UNAUTHORIZED),
    (SeveralTokensError, HTTPStatus.BAD_REQUEST),
    (CodeSpentError, HTTPStatus.UNAUTHORIZED),
    (WebClosedError, HTTPStatus.FORBIDDEN),
    (WebTokenUnsetError, HTTPStatus.SERVICE_UNAVAILABLE),
    (ReadOnlyTokenError, HTTPStatus.FORBIDDEN),
    (ForeignOriginError, HTTPStatus.FORBIDDEN),
    (FormExpiredError, HTTPStatus.FORBIDDEN),
    (ManifestDeclaredError, HTTPStatus.CONFLICT),
    (ManifestInUseError, HTTPStatus.CONFLICT),
    (TriggerInputConflictError, HTTPStatus.CONFLICT),
    (TriggerInputMissingError, HTTPStatus.CONFLICT),
    (RowConflictError, HTTPStatus.CONFLICT),
    (RunNotOverError, HTTPStatus.CONFLICT),
    (RunNotBegunError, HTTPStatus.CONFLICT),
    (RunOverError, HTTPStatus.CONFLICT),
    (PayloadError, HTTPStatus.UNPROCESSABLE_ENTITY),
    (MissingInputError, HTTPStatus.UNPROCESSABLE_ENTITY),
    (ValueBoundsError, HTTPStatus.UNPROCESSABLE_ENTITY),
    (OverrideError, HTTPStatus.UNPROCESSABLE_ENTITY),
    (EnqueueError, HTTPStatus.UNPROCESSABLE_ENTITY),
    (ScheduleError, HTTPStatus.UNPROCESSABLE_ENTITY),
    (DeclarationError, HTTPStatus.UNPROCESSABLE_ENTITY),
    (ResolutionNoteMissingError, HTTPStatus.UNPROCESSABLE_ENTITY),
    (ContractTargetError, HTTPStatus.UNPROCESSABLE_ENTITY),
    (UnknownTrainError, HTTPStatus.NOT_FOUND),
    (LookupError, HTTPStatus.NOT_FOUND),
    (DatabaseFaultError, HTTPStatus.SERVICE_UNAVAILABLE),
    (AppNotOpenError, HTTPStatus.SERVICE_UNAVAILABLE),
)
_KIND: Final = "urn:gandy:problem:"


class Problem:
    """One error response."""

    def __init__(
        self, status: int, kind: str, detail: str, *, errors: Sequence[dict[str, object]] = ()
    ) -> None:
        self.status = status
        self.kind = kind
        self.detail = detail
        self.errors = errors
        self.title = HTTPStatus(status).phrase

    def as_json(self, instance: str) -> dict[str, object]:
        """Return the members of RFC 9457, and the invalid fields if there are any."""
        told: dict[str, object] = {
            "type": f"{_KIND}{self.kind}",
            "title": self.title,
            "status": self.status,
            "detail": self.detail,
            "instance": instance,
        }
        return {**told, "errors": list(self.errors)} if self.errors else told


def install(app: FastAPI, rendering: Rendering) -> None:
    """Register a handler for every kind of error."""

    def answer(request: Request, problem: Problem) -> Response:
        if not is_api(request):
            return _page(request, problem, rendering)
        headers = {"WWW-Authenticate": "Bearer"} if problem.status == HTTPStatus.UNAUTHORIZED else None
        return JSONResponse(
            problem.as_json(request.url.path),
            status_code=problem.status,
            media_type="application/problem+json",
            headers=headers,
        )

    async def gandy_error(request: Request, error: Exception) -> Response:
        return answer(request, of_error(error))

    async def validation_error(request: Request, error: Exception) -> Response:
        assert isinstance(error, RequestValidationError)  # noqa: S101 registered only for this type
        return answer(request, _of_validation(error))

    async def http_error(request: Request, error: Exception) -> Response:
        assert isinstance(error, HTTPException)  # noqa: S101 registered only for this type
        return answer(request, _of_http(error))

    async def unexpected(request: Request, error: Exception) -> Response:
        _log.error("%s %s failed", request.method, request.url.path, exc_info=error)
        detail = "the server failed; see its log"
        response = answer(request, Problem(HTTPStatus.INTERNAL_SERVER_ERROR, "server-error", detail))
        response.headers.update(HEADERS)  # this handler runs outside of the middleware that adds them
        return response

    app.add_exception_handler(GandyError, gandy_error)
    app.add_exception_handler(RequestValidationError, validation_error)
    app.add_exception_handler(HTTPException, http_error)
    app.add_exception_handler(Exception, unexpected)


def of_error(error: Exception) -> Problem:
    """Return the response to a GandyError."""
    status = next((found for kind, found in _STATUS if isinstance(error, kind)), HTTPStatus.BAD_REQUEST)
    return Problem(status, _kebab(type(error).__name__), str(error))


def _of_validation(error: RequestValidationError) -> Problem:
    """Report the fields, never the values, which may be secret."""
    found: Sequence[Any] = error.errors()
    if any(each["type"] == "json_invalid" for each in found):
        return Problem(HTTPStatus.BAD_REQUEST, "malformed-json", "the request body is not valid JSON")
    errors = [{"where": ".".join(map(str, each["loc"])), "problem": each["msg"]} for each in found]
    said = "; ".join(f"{each['where']}: {each['problem']}" for each in errors)
    return Problem(HTTPStatus.UNPROCESSABLE_ENTITY, "invalid-request", said, errors=errors)


def _of_http(error: HTTPException) -> Problem:
    phrase = HTTPStatus(error.status_code).phrase
    return Problem(error.status_code, _kebab(phrase.replace(" ", "")), str(error.detail or phrase))


def _page(request: Request, problem: Problem, rendering: Rendering) -> Response:
    if problem.kind == "token-missing" and request.method == "GET":
        back = path_of(request)
        return RedirectResponse(rendering.link(request, f"/login?next={quote(back)}"), HTTPStatus.SEE_OTHER)
    return rendering.page(request, "problem.html", {"problem": problem}, status=problem.status)


def _kebab(name: str) -> str:
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "-", name.removesuffix("Error")).lower()
