"""The parts of the application that requests use."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Annotated, TypeAlias

from fastapi import Depends, Request

from gandy.events import EventBus
from gandy.lifecycle import Contract
from gandy.model.owners import OneOwner, Operator
from gandy.settings import Settings
from gandy.store.drivers.database import Database
from gandy.telemetry.observing import Telemetry
from gandy.train.registry import Registry
from gandy.web.access.gate import Visitor


@dataclass(frozen=True, slots=True, kw_only=True)
class WebParts:
    """An open application."""

    owner: str
    database: Database
    registry: Registry
    settings: Settings
    telemetry: Telemetry
    events: EventBus
    contracts: tuple[Contract, ...] = ()

    @property
    def owners(self) -> OneOwner:
        """The application itself: a request never reads rows of another owner."""
        return OneOwner(self.owner)


#: Called for each request, because a mounted dashboard is created before its application is open.
PartsSource: TypeAlias = Callable[[], WebParts]


async def _parts(request: Request) -> WebParts:
    source: PartsSource = request.app.state.parts
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


Parts: TypeAlias = Annotated[WebParts, Depends(_parts)]
CurrentVisitor: TypeAlias = Annotated[Visitor, Depends(_visitor)]
CurrentOperator: TypeAlias = Annotated[Operator, Depends(_operator)]
