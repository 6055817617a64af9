"""What several POSTs take and answer."""

from __future__ import annotations

import json
from datetime import timedelta
from typing import TYPE_CHECKING, Annotated, TypeAlias

from pydantic import BaseModel, Field

from gandy.web.routers.shapes import Body, Json

if TYPE_CHECKING:
    from gandy.store.cancelling import CancelResult

_LONGEST = timedelta(days=3650)


#: A duration in seconds.
SecondsIn: TypeAlias = Annotated[float, Field(ge=0, le=_LONGEST.total_seconds(), allow_inf_nan=False)]


class InputBody(Body):
    """An input instead of the stored one."""

    input: Json = Field(None, description="Leave it out to keep the stored input; null is an input.")


class CancelAnswer(BaseModel):
    """What became of jobs that were to be cancelled."""

    cancelled: list[int] = Field(description="They had not begun, and never will.")
    asked: list[int] = Field(description="They run, and their workers are told to stop them.")
    over: list[int] = Field(description="They had ended before.")

    @classmethod
    def of(cls, result: CancelResult) -> CancelAnswer:
        """Take it from the desk."""
        return cls(cancelled=list(result.cancelled), asked=list(result.asked), over=list(result.over))


def input_text(body: InputBody | None) -> str | None:
    """Give the JSON text of an input that was sent; None where none was."""
    if body is None or "input" not in body.model_fields_set:
        return None
    return json.dumps(body.input, ensure_ascii=False)


def span_of(seconds: float | None) -> timedelta | None:
    """Read a duration that may be left out."""
    return None if seconds is None else timedelta(seconds=seconds)
