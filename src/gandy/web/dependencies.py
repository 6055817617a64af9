"""What routes depend on: the open application, the visitor and the operator."""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated, TypeAlias

from fastapi import Depends, Request

from gandy.context import Context
from gandy.desk.cancelling import CancelDesk
from gandy.model.owners import Operator
from gandy.web.access.gate import Visitor

#: Called for each request, because a mounted dashboard is created before its application is open.
ContextSource: TypeAlias = Callable[[], Context]


async def _context(request: Request) -> Context:
    source: ContextSource = request.app.state.context
    return source()


async def _visitor(request: Request) -> Visitor:
    visitor: Visitor = request.state.visitor
    return visitor


async def _operator(request: Request) -> Operator:
    return (await _visitor(request)).at("api" if is_api(request) else "dashboard")


def is_api(request: Request) -> bool:
    """Whether the path belongs to the REST interface or the metrics."""
    path = path_of(request)
    return path.startswith("/api/") or path == "/metrics"


def path_of(request: Request) -> str:
    """Return the path without the mount point."""
    path: str = request.scope["path"]
    return path.removeprefix(request.scope.get("root_path", ""))


CurrentContext: TypeAlias = Annotated[Context, Depends(_context)]
CurrentVisitor: TypeAlias = Annotated[Visitor, Depends(_visitor)]
CurrentOperator: TypeAlias = Annotated[Operator, Depends(_operator)]


def cancel_desk(context: Context, operator: Operator) -> CancelDesk:
    """Return the desk that cancels."""
    return CancelDesk(
        context.database, operator, context.settings, owners=context.owners, registry=context.registry
    )
