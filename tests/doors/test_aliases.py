"""Inputs whose fields have other names outside: they are queued by every door, and masked by every name."""

from __future__ import annotations

import asyncio
import hashlib
import json
import logging
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any

import pytest
from pydantic import (
    AliasChoices,
    AliasPath,
    BaseModel,
    ConfigDict,
    Field,
    Json,
    SecretStr,
    TypeAdapter,
    computed_field,
)
from pydantic.alias_generators import to_camel
from pydantic.dataclasses import dataclass as pydantic_dataclass
from typing_extensions import TypedDict

from gandy import Gandy
from gandy.errors import PayloadError
from gandy.model.layout import Layouts
from gandy.store.drivers.opening import migrate
from gandy.train.codec import PayloadCodec
from tests.doors.calls import client_of
from tests.doors.neighbours import TOKEN
from tests.doors.vault import leaks, secrets_of

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    import httpx

PIN = secrets_of("well")[0]
MASK = "**********"


class Plain(BaseModel):
    pass_word: SecretStr = Field(alias="passWord")


class Choices(BaseModel):
    pass_word: SecretStr = Field(validation_alias=AliasChoices("first", AliasPath("deep", "down"), "last"))


class Apart(BaseModel):
    pass_word: SecretStr = Field(validation_alias="inwards", serialization_alias="outwards")


class OnlyOut(BaseModel):
    model_config = ConfigDict(serialize_by_alias=True)

    pass_word: SecretStr = Field(serialization_alias="outwards")


class Generated(BaseModel):
    model_config = ConfigDict(alias_generator=to_camel, serialize_by_alias=True, extra="forbid")

    pass_word: SecretStr


class NeverByName(BaseModel):
    model_config = ConfigDict(validate_by_name=False, validate_by_alias=True)

    pass_word: SecretStr = Field(alias="passWord")


class Nested(BaseModel):
    one: Plain = Field(alias="theOne")
    many: list[Generated] = Field(default=[], alias="theMany")
    named: dict[str, Apart] = Field(default={}, alias="theNamed")
    either: Plain | int = Field(default=1, alias="theEither")


class AsText(BaseModel):
    inner: Json[Plain] = Field(alias="theInner")
    several: Json[list[SecretStr]] = Field(default=[], alias="theSeveral")

    @computed_field
    def size(self) -> int:
        return 1


class TextAlone(BaseModel):
    inner: Json[SecretStr]


@pydantic_dataclass
class OfPydantic:
    pass_word: Annotated[SecretStr, Field(alias="passWord")]


@dataclass
class Ordinary:
    pass_word: Annotated[SecretStr, Field(alias="passWord")]


class Typed(TypedDict):
    pass_word: Annotated[SecretStr, Field(alias="passWord")]


INNER = json.dumps({"passWord": PIN})
#: Each type with an input as other programs send it, by aliases.
FORMS: Mapping[str, tuple[Any, dict[str, Any]]] = {
    "plain": (Plain, {"passWord": PIN}),
    "choices": (Choices, {"first": PIN}),
    "choices_of_a_path": (Choices, {"deep": {"down": PIN}}),
    "apart": (Apart, {"inwards": PIN}),
    "only_out": (OnlyOut, {"pass_word": PIN}),
    "generated": (Generated, {"passWord": PIN}),
    "never_by_name": (NeverByName, {"passWord": PIN}),
    "nested": (
        Nested,
        {
            "theOne": {"passWord": PIN},
            "theMany": [{"passWord": PIN}],
            "theNamed": {"a": {"inwards": PIN}},
            "theEither": {"passWord": PIN},
        },
    ),
    "as_text": (AsText, {"theInner": INNER, "theSeveral": json.dumps([PIN])}),
    "text_alone": (TextAlone, {"inner": json.dumps(PIN)}),
    "of_pydantic": (OfPydantic, {"passWord": PIN}),
    "ordinary": (Ordinary, {"passWord": PIN}),
    "typed": (Typed, {"passWord": PIN}),
}


def secrets_inside(value: object) -> list[str]:
    """Find the secrets of a value without any code of ours."""
    if isinstance(value, SecretStr):
        return [value.get_secret_value()]
    if isinstance(value, list):
        return [text for each in value for text in secrets_inside(each)]
    inside = value if isinstance(value, dict) else getattr(value, "__dict__", {})
    return [text for each in inside.values() for text in secrets_inside(each)]


def mark_of(value: object) -> str:
    return hashlib.sha256(" ".join(secrets_inside(value)).encode()).hexdigest()


def job_of(name: str, kind: Any) -> Callable[..., Any]:  # noqa: ANN401 any type
    async def job(value: Any) -> dict[str, str]:  # noqa: ANN401 the same
        text = " ".join(secrets_inside(value))
        logging.getLogger("library").warning("opened with %s", text)
        return {"mark": mark_of(value), "said": text}

    job.__name__ = job.__qualname__ = name
    job.__annotations__ = {"value": kind, "return": dict[str, str]}
    return job


JOBS = {name: job_of(name, kind) for name, (kind, _) in FORMS.items()}


def make_doors(url: str) -> Gandy:
    migrate(url)
    app = Gandy("doors", url, web={"port": 0, "token": TOKEN}, worker={"slots": 4})
    for job in JOBS.values():
        app.train(job)
    return app


async def enqueue_everywhere(app: Gandy, client: httpx.AsyncClient) -> dict[int, str]:
    """Queue every form by Python and by REST, and give the mark that each job says when all arrived."""
    marks: dict[int, str] = {}
    for name, (kind, sent) in FORMS.items():
        value = TypeAdapter(kind).validate_python(sent)
        job = await app.enqueue(JOBS[name], value)
        answer = await client.post("/api/v1/queue/enqueue", json={"train": name, "input": sent})
        assert answer.status_code == 200, (name, answer.text)
        marks[job.id] = marks[answer.json()["id"]] = mark_of(value)
        assert secrets_inside(value), name
    return marks


async def test_every_form_is_queued_by_every_door_and_masked_by_every_name(
    database_url: str, caplog: pytest.LogCaptureFixture
) -> None:
    async with make_doors(database_url) as app, client_of(app) as client:
        marks = await enqueue_everywhere(app, client)
        queued = await client.get("/api/v1/queue?limit=100")
        assert leaks(queued.text) == []
        await app.work(asyncio.Event(), until_idle=True)
        for run, mark in marks.items():
            shown = await client.get(f"/api/v1/runs/{run}")
            found = shown.json()
            assert (found["state"], found["output"] and found["output"]["mark"]) == ("completed", mark), found
            assert MASK in json.dumps(found["input"]), found
            for path in (f"/api/v1/runs/{run}/logs", f"/runs/{run}"):
                assert leaks((await client.get(path)).text) == [], path
            assert leaks(shown.text) == []
    assert leaks(caplog.text) == []


async def test_what_was_stored_by_either_name_is_read(database_url: str) -> None:
    async with make_doors(database_url) as app:
        for name, (kind, sent) in FORMS.items():
            value = TypeAdapter(kind).validate_python(sent)
            codec = app.registry.get(name).input
            by_name = codec.encode(value)
            for text in (by_name, json.dumps(sent)):
                assert secrets_inside(codec.decode(text)) == secrets_inside(value), (name, text)
                assert codec.canonical(codec.decode(text)) == codec.canonical(value)


class Crossed(BaseModel):
    one: int = Field(alias="two")
    two: int = Field(alias="three")


def test_an_alias_that_is_the_name_of_another_field_is_refused() -> None:
    codec: PayloadCodec[Crossed] = PayloadCodec(Crossed, train="crossed", part="input")

    with pytest.raises(PayloadError, match="two: the alias of one field is the name of another"):
        codec.encode(Crossed(two=1, three=2))


class Keyed(BaseModel):
    by: dict[SecretStr, int]


async def test_a_secret_that_is_a_key_is_refused_and_masked_where_it_is_stored(database_url: str) -> None:
    migrate(database_url)
    app = Gandy("doors", database_url, web={"port": 0, "token": TOKEN}, worker={"slots": 4})
    train = app.train(job_of("keyed", Keyed))
    async with app, client_of(app) as client:
        with pytest.raises(PayloadError, match="it is a key"):
            await app.enqueue(train, Keyed(by={SecretStr(PIN): 1}))
        sent = await client.post("/api/v1/queue/enqueue", json={"train": "keyed", "input": {"by": {PIN: 1}}})
        layout = app.registry.get("keyed").input.layout

    assert sent.status_code == 422
    assert leaks(sent.text) == []
    assert Layouts([layout]).shown(json.dumps({"by": {PIN: 1}})) == {"by": MASK}
