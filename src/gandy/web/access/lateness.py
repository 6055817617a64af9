"""Late answers: the refusal of a wrong credential waits outside of all that other requests need."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from starlette.types import ASGIApp, Message, Receive, Scope, Send

    from gandy.web.access.gate import Gate

LATENESS: Final = "gandy.lateness"


@dataclass(slots=True)
class Lateness:
    """How late one request is answered; the gate says it."""

    seconds: float = 0.0


class Late:
    """Keeps a whole answer back for as long as the gate says; it stands before whatever hands out turns."""

    def __init__(self, app: ASGIApp, gate: Gate) -> None:
        self._app = app
        self._gate = gate

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request."""
        lateness = scope[LATENESS] = Lateness()
        kept: list[Message] = []

        async def late(message: Message) -> None:
            if not lateness.seconds:
                await send(message)
                return
            kept.append(message)
            if message["type"] == "http.response.body" and not message.get("more_body", False):
                await self._gate.slowing.wait(lateness.seconds)
                for each in kept:
                    await send(each)

        await self._app(scope, receive, late)
