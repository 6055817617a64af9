"""How a refusal looks to a program: problem details, as RFC 9457 has them."""

from __future__ import annotations

from typing import Any, Final

from pydantic import BaseModel, ConfigDict, Field


class FieldProblem(BaseModel):
    """One field of a request that is wrong."""

    where: str
    problem: str


class ProblemDetails(BaseModel):
    """Why a request was refused, and what to do."""

    model_config = ConfigDict(title="ProblemDetails")

    type: str = Field(description="A name for the kind of problem; it does not change.")
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


REFUSED: Final = _described("Refused; the detail says why.")
UNREACHABLE: Final = _described("The database does not answer now.")
