"""Routes with a declared access class, and the schema of refusals."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from typing import Any, ClassVar, Final, Literal, TypeVar

from fastapi import APIRouter, Request, Response
from fastapi.routing import APIRoute
from pydantic import BaseModel, ConfigDict, Field
from typing_extensions import override

from gandy.errors import GandyError, UndeclaredRouteError
from gandy.web.access.gate import Access, Gate


class FieldProblem(BaseModel):
    """One invalid field of a request."""

    where: str
    problem: str


class ProblemDetails(BaseModel):
    """Why a request was refused."""

    model_config = ConfigDict(title="ProblemDetails")

    type: str = Field(description="A stable name of the kind of problem.")
    title: str
    status: int
    detail: str
    instance: str
    errors: list[FieldProblem] | None = None


def _described(description: str) -> dict[str, Any]:
    schema = ProblemDetails.model_json_schema(ref_template="#/$defs/{model}")
    fields = schema.pop("$defs")["FieldProblem"]
    schema["properties"]["errors"] = {"type": "array", "items": fields}
    return {"description": description, "content": {"application/problem+json": {"schema": schema}}}


REFUSED: Final = _described("Refused; see the detail.")
UNREACHABLE: Final = _described("The database does not answer.")


Endpoint = TypeVar("Endpoint", bound=Callable[..., Any])
Handler = Callable[[Request], Coroutine[Any, Any, Response]]


class GuardedRoute(APIRoute):
    """A route that authenticates before the request body is read."""

    access: ClassVar[Access]

    @override
    def get_route_handler(self) -> Handler:
        handle = super().get_route_handler()

        async def guarded(request: Request) -> Response:
            gate: Gate = request.app.state.gate
            try:
                request.state.visitor = await gate.admit(request, self.access)
            except GandyError as error:
                gate.note(request, error)
                raise
            return await handle(request)

        return guarded


class ProbeRoute(GuardedRoute):
    """A route open to everyone."""

    access = Access.PROBE


class LoginRoute(GuardedRoute):
    """A route for clients that are not logged in; closed if no token is set."""

    access = Access.LOGIN


class ReadingRoute(GuardedRoute):
    """A route for clients that may read."""

    access = Access.READS


class ChangingRoute(GuardedRoute):
    """A route for clients that may change something."""

    access = Access.CHANGES


class _UndeclaredRoute(APIRoute):
    """Refuses routes without a declared access class, which the framework's own decorators create."""

    def __init__(self, path: str, *_arguments: object, **_options: object) -> None:
        raise UndeclaredRouteError(path)


class Routes(APIRouter):
    """Collects the routes of one module."""

    def __init__(self, prefix: str = "", *, tag: str | None = None) -> None:
        """Take the tag of the routes in the OpenAPI document; pages have none and are not in it."""
        super().__init__(
            prefix=prefix,
            tags=None if tag is None else [tag],
            include_in_schema=tag is not None,
            responses=None if tag is None else {"4XX": REFUSED, "503": UNREACHABLE},
            route_class=_UndeclaredRoute,
        )

    def probes(self, path: str, **options: Any) -> Callable[[Endpoint], Endpoint]:  # noqa: ANN401 the framework's own
        """Declare a route open to everyone."""
        return self._declare(path, "GET", ProbeRoute, options)

    def login(
        self,
        path: str,
        *,
        method: str = "GET",
        **options: Any,  # noqa: ANN401 the same
    ) -> Callable[[Endpoint], Endpoint]:
        """Declare a route for login or logout."""
        return self._declare(path, method, LoginRoute, options)

    def reads(self, path: str, **options: Any) -> Callable[[Endpoint], Endpoint]:  # noqa: ANN401 the same
        """Declare a route that changes nothing."""
        return self._declare(path, "GET", ReadingRoute, options)

    def changes(
        self,
        path: str,
        *,
        method: Literal["POST", "DELETE"] = "POST",
        **options: Any,  # noqa: ANN401 the same
    ) -> Callable[[Endpoint], Endpoint]:
        """Declare a route that changes something."""
        return self._declare(path, method, ChangingRoute, options)

    def _declare(
        self, path: str, method: str, route: type[GuardedRoute], options: dict[str, Any]
    ) -> Callable[[Endpoint], Endpoint]:
        def declare(endpoint: Endpoint) -> Endpoint:
            self.add_api_route(path, endpoint, methods=[method], route_class_override=route, **options)
            return endpoint

        return declare
