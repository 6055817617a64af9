"""What several POSTs take and answer."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pydantic import BaseModel, Field
from pydantic_core import PydanticCustomError, core_schema

from gandy.settings.bounds import BOUNDS, RefusedValueError
from gandy.web.routers.shapes import Body, Json

if TYPE_CHECKING:
    from pydantic import GetCoreSchemaHandler, GetJsonSchemaHandler
    from pydantic.json_schema import JsonSchemaValue

    from gandy.store.cancelling import CancelResult


@dataclass(frozen=True, slots=True)
class Taken:
    """A field that the table of bounds knows: `Annotated[timedelta, Taken("delay")]`, sent in seconds."""

    option: str
    is_typed: bool = False  #: by a person, in a form: durations then read as on the command line

    def __get_pydantic_core_schema__(
        self, source: object, handler: GetCoreSchemaHandler
    ) -> core_schema.CoreSchema:
        """Let the table decide, whatever the declared type would take."""
        return core_schema.no_info_plain_validator_function(self._take)

    def __get_pydantic_json_schema__(
        self, schema: core_schema.CoreSchema, handler: GetJsonSchemaHandler
    ) -> JsonSchemaValue:
        """Describe it by the table, too."""
        return dict(BOUNDS[self.option].schema)

    def _take(self, value: object) -> object:
        bound = BOUNDS[self.option]
        try:
            if self.is_typed and isinstance(value, str):
                return bound.take_text(value)
            return bound.take_json(value)
        except RefusedValueError as error:
            raise PydanticCustomError("out_of_bounds", "{problem}", {"problem": str(error)}) from None


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
