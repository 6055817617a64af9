"""Inputs and outputs as JSON: validated both ways, secrets kept in storage and masked everywhere else."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from functools import cached_property, lru_cache, partial
from types import GenericAlias
from typing import Any, Final, Generic, TypeAlias, TypeVar

from pydantic import (
    PydanticSchemaGenerationError,
    PydanticUndefinedAnnotation,
    PydanticUserError,
    Secret,
    SecretBytes,
    SecretStr,
    TypeAdapter,
    ValidationError,
)
from pydantic_core import PydanticSerializationError, to_jsonable_python

from gandy.errors import PayloadError, PayloadTooLargeError
from gandy.model.layout import MASK, OPEN_LAYOUT, Layout, texts_of
from gandy.train.failure import message_of, type_path
from gandy.train.layout import Aliases, aliases_of, layout_of

Value = TypeVar("Value")
Json: TypeAlias = "bool | int | float | str | list[Json] | dict[str, Json] | None"

MAX_PAYLOAD_BYTES: Final = 1_048_576
_TOGETHER_BYTES: Final = 1_048_576  # of values that are checked by one call
_SECRETS: Final = (SecretStr, SecretBytes, Secret)
_ANYTHING: Final = TypeAdapter(object)
_MASK_BYTES: Final = MASK.encode()
_NESTED_MASK: Final = f'"{MASK}"'  # of a secret inside a string that contains JSON
_UNUSABLE: Final = (PydanticSchemaGenerationError, PydanticUndefinedAnnotation, PydanticUserError)


class PayloadCodec(Generic[Value]):
    """Turns values of one declared type into JSON text and back. The validator is compiled on first use."""

    def __init__(self, declared: object, *, train: str, part: str) -> None:
        """Remember the declared type; `part` is the word that errors use: input or output."""
        self.declared = declared
        self._train = train
        self._part = part
        self._is_nothing = declared in (None, type(None))

    @cached_property
    def adapter(self) -> TypeAdapter[Value]:
        """The compiled validator; raises for a type without a JSON form."""
        try:
            return _adapter_of(self.declared)
        except _UNUSABLE as error:
            problem = str(error).splitlines()[0]
            raise self._invalid(
                f"{problem}; use a pydantic model, a dataclass or plain JSON types"
            ) from error

    # Call the adapter's parts directly: the wrappers would double the cost of bulk work.
    @cached_property
    def _to_json(self) -> Callable[..., bytes]:
        return self.adapter.serializer.to_json

    @cached_property
    def _from_json(self) -> Callable[[str | bytes], Value]:
        read: Callable[..., Value] = self.adapter.validator.validate_json
        return partial(read, **self._aliases.reading) if self._aliases.reading else read

    @cached_property
    def _many(self) -> TypeAdapter[list[Value]]:
        """Checks many values by one call."""
        return _adapter_of(GenericAlias(list, (self.declared,)))

    @cached_property
    def _aliases(self) -> Aliases:
        return aliases_of(self.adapter)

    @cached_property
    def layout(self) -> Layout:
        """Where the JSON form of this type holds secrets."""
        return layout_of(self.adapter)

    @cached_property
    def has_secrets(self) -> bool:
        """Whether values of this type may hold pydantic secrets."""
        try:
            return self.layout is not OPEN_LAYOUT
        except PayloadError:
            return False

    def encode(self, value: Value, *, limit: int = MAX_PAYLOAD_BYTES) -> str:
        """Return the JSON text to store, after checking that it decodes again."""
        if value is None and self._is_nothing:
            return "null"
        try:
            try:
                raw = self._to_json(value, round_trip=True, by_alias=False, warnings="error")
                self._refuse_crossed()
                if self.has_secrets:
                    raw = _compact(self._revealed(value))
                again = self._from_json(raw)
                if _MASK_BYTES in raw:
                    self._refuse_masked(value, again)
            except (PydanticSerializationError, ValidationError) as error:
                raise self._invalid(*self._problems(value, error)) from None
            has_non_finite = b"null" in raw and _has_non_finite(self.adapter.dump_python(value))
        except (PayloadError, KeyboardInterrupt):
            raise
        except BaseException as error:  # validators and serializers are application code
            raise self._broken(error) from error
        if has_non_finite:
            raise self._invalid("NaN and infinity have no JSON form; use None or a string")
        if len(raw) > limit:
            raise PayloadTooLargeError(train=self._train, part=self._part, size=len(raw), limit=limit)
        return raw.decode()

    def encode_together(self, values: Sequence[Value], *, limit: int = MAX_PAYLOAD_BYTES) -> list[str] | None:
        """Return what `encode` returns for each value, in half the time; None: it has to look at each.

        Each value is written alone, but all are checked by one call, after that: to be written may use up a
        value.
        """
        if len(values) <= 1 or self._is_nothing:
            return None
        try:
            if self.has_secrets or self._aliases.crossed:
                return None
            write, many = self._to_json, self._many
            raw = [write(value, round_trip=True, by_alias=False, warnings=False) for value in values]
            whole = b"[" + b",".join(raw) + b"]"
            if len(whole) > min(limit, _TOGETHER_BYTES) or _MASK_BYTES in whole:
                return None
            many.serializer.to_json([*values], round_trip=True, by_alias=False, warnings="error")
            many.validator.validate_json(whole, **self._aliases.reading)
            if b"null" in whole and _has_non_finite(many.dump_python([*values])):
                return None
            return [each.decode() for each in raw]
        except KeyboardInterrupt:
            raise
        except BaseException:  # noqa: BLE001 - `encode` names the value and its problem
            return None

    def decode(self, text: str | bytes) -> Value:
        """Return the value of a stored JSON text."""
        try:
            return self._from_json(text)
        except ValidationError as error:
            raise self._invalid(*_messages(error)) from None
        except (PayloadError, KeyboardInterrupt):
            raise
        except BaseException as error:  # the same
            raise self._broken(error) from error

    def canonical(self, value: Value) -> str:
        """Return the same text for equal values: keys and sets sorted, no spaces."""
        normal = self.decode(self.encode(value))
        return _compact(self._revealed(normal, sort=True), sort=True).decode()

    def secrets(self, value: Value) -> tuple[str, ...]:
        """Return the secret texts inside a value."""
        if not self.has_secrets:
            return ()
        try:
            found = _secrets_in(self.adapter.dump_python(value, warnings=False))
            return tuple(dict.fromkeys(text for secret in found for text in texts_of(secret)))
        except PydanticSerializationError:  # not of the declared type: encode() reports why
            return ()
        except (PayloadError, KeyboardInterrupt):
            raise
        except BaseException as error:  # the same
            raise self._broken(error) from error

    def _revealed(self, value: Value, *, sort: bool = False) -> Json:
        shown: Json = self.adapter.dump_python(value, mode="json", round_trip=True, by_alias=False)
        is_whole = not self._aliases.has_nested_json  # a string that contains JSON would contain only masks
        real = self.adapter.dump_python(value, round_trip=is_whole, by_alias=False)
        return _reveal(real, shown, sort=sort)

    def _refuse_crossed(self) -> None:
        """Refuse a type in which a field could be read from another field's value."""
        if self._aliases.crossed:
            names = ", ".join(self._aliases.crossed)
            raise self._invalid(f"{names}: the alias of one field is the name of another; rename one of them")

    def _refuse_masked(self, value: Value, again: Value) -> None:
        """Refuse a value whose secret would be stored as a mask because its serializer hides it."""
        if MASK in self.secrets(again) and MASK not in self.secrets(value):
            raise self._invalid("a secret has no JSON form here: it is a key, or a serializer hides it")
        if not self.has_secrets and any(_secrets_in(self.adapter.dump_python(value, warnings=False))):
            raise self._invalid("it holds a secret where its type declares none; declare it as SecretStr")

    def _problems(self, value: Value, error: PydanticSerializationError | ValidationError) -> tuple[str, ...]:
        """Name the invalid fields: serialize again in strict mode, then validate each field."""
        if isinstance(error, ValidationError):
            return _messages(error)
        try:
            self.adapter.validate_python(value, strict=True)
            again = self.adapter.dump_python(value, warnings=False, by_alias=False)
            self.adapter.validate_python(again, **self._aliases.reading)
        except ValidationError as detailed:
            return _messages(detailed)
        except PydanticSerializationError:
            pass
        return _serialization_problem(error)

    def _broken(self, error: BaseException) -> PayloadError:
        return self._invalid(f"the code of its type raised {type_path(type(error))}: {message_of(error)}")

    def _invalid(self, *problems: str) -> PayloadError:
        return PayloadError(train=self._train, part=self._part, problems=problems)


def _adapter_of(declared: Any) -> TypeAdapter[Any]:  # noqa: ANN401 - a type that was read from an annotation
    return TypeAdapter(declared)


@lru_cache(maxsize=256)
def _codec_of(kind: Any, train: str) -> PayloadCodec[Any]:  # noqa: ANN401 - the same
    return PayloadCodec(kind, train=train, part="input")


def encode_any(value: object, *, train: str = "to activate") -> str:
    """Return the JSON text of a value whose declared type is unknown; `train` is for messages."""
    kind: Any = type(value)
    return _codec_of(kind, train).encode(value)


def _messages(error: ValidationError) -> tuple[str, ...]:
    """Describe each problem and its place, never the offending value, which may be secret."""
    details = error.errors(include_url=False, include_input=False, include_context=False)
    return tuple(
        f"{'.'.join(str(part) for part in detail['loc'])}: {detail['msg']}"
        if detail["loc"]
        else detail["msg"]
        for detail in details
    )


def _serialization_problem(error: PydanticSerializationError) -> tuple[str, ...]:
    text = str(error)
    if "utf-8" in text:
        return ("bytes that are not UTF-8 have no JSON form; declare them as pydantic's Base64Bytes",)
    if "Unexpected" in text or "Expected" in text:
        return ("a value is not of its declared type",)
    return (text.splitlines()[0],)


def _compact(value: Json, *, sort: bool = False) -> bytes:
    return json.dumps(value, sort_keys=sort, separators=(",", ":"), ensure_ascii=False).encode()


def _reveal(real: object, shown: Json, *, sort: bool) -> Json:
    """Walk a value and its JSON form side by side, putting the real secrets in place of the masks."""
    if isinstance(real, _SECRETS):
        plain = _plain(real.get_secret_value())
        return _compact(plain).decode() if shown == _NESTED_MASK else plain
    if isinstance(shown, str) and isinstance(real, Mapping | list | tuple | AbstractSet):
        return _reveal_nested(real, shown, sort=sort)
    if isinstance(real, Mapping) and isinstance(shown, dict):
        pairs = zip(real.values(), shown.items(), strict=len(real) <= len(shown))  # computed fields come last
        return {key: _reveal(inner, item, sort=sort) for inner, (key, item) in pairs}
    if isinstance(real, list | tuple | AbstractSet) and isinstance(shown, list):
        items = [_reveal(inner, item, sort=sort) for inner, item in zip(real, shown, strict=True)]
        return (
            sorted(items, key=lambda item: _compact(item, sort=True))
            if sort and isinstance(real, AbstractSet)
            else items
        )
    return shown


def _reveal_nested(real: object, shown: str, *, sort: bool) -> str:
    """Reveal the secrets inside a string that contains JSON; return any other string unchanged."""
    try:
        return _compact(_reveal(real, json.loads(shown), sort=sort), sort=sort).decode()
    except ValueError:
        return shown


def _plain(secret: object) -> Json:
    """Return the value of a secret, with its inner secrets revealed."""
    shown: Json = to_jsonable_python(secret)
    return (
        shown
        if isinstance(secret, str | bytes)
        else _reveal(_ANYTHING.dump_python(secret), shown, sort=False)
    )


def _secrets_in(value: object) -> Iterator[Json]:
    if isinstance(value, _SECRETS):
        yield _plain(value.get_secret_value())
    for inner in _inside(value):
        yield from _secrets_in(inner)


def _has_non_finite(value: object) -> bool:
    if isinstance(value, float):
        return not math.isfinite(value)
    return any(_has_non_finite(inner) for inner in _inside(value))


def _inside(value: object) -> Iterator[object]:
    if isinstance(value, Mapping):
        yield from value
        yield from value.values()
    elif isinstance(value, list | tuple | AbstractSet):
        yield from value
