"""Inputs as people write them: checked by the train's type, with the stored secrets in place of masks."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from gandy.errors import PayloadError
from gandy.model.layout import MASK
from gandy.work.layouts import layouts_for, record_known

if TYPE_CHECKING:
    from gandy.model.layout import Layouts
    from gandy.store.statements import Operation
    from gandy.train.registry import Registry

Json: TypeAlias = Any  # whatever an application's types look like as JSON

_WHOLE_MASK: Final = "*** ("
_MASKED: Final = (
    "a mask stands where a secret belongs, and no kept one takes its place; write the secret itself"
)


def check_input(registry: Registry | None, train: str, text: str | None) -> None:
    """Refuse an input that the train would refuse; a train that is not known here checks it when it runs."""
    if text is not None and registry is not None and train in registry:
        registry.get(train).input.decode(text)


def edited_input(
    registry: Registry | None, owner: str, train: str, *, given: str, stored: str | None
) -> Operation[str]:
    """Give an edited input as it is stored: a mask that was left as it was shown keeps the stored secret."""
    layouts = yield from layouts_for(registry, owner, train)
    text = with_stored_secrets(layouts.input, train, given=given, stored=stored)
    check_input(registry, train, text)
    yield from record_known(owner, registry, train)
    return text


def with_stored_secrets(layouts: Layouts, train: str, *, given: str, stored: str | None) -> str:
    """Put the stored secrets in place of their masks; a mask that stands for none is refused."""
    try:
        value = json.loads(given)
        real = None if stored is None else json.loads(stored)
    except ValueError:
        return given  # the train's type says what is wrong
    found: list[Json] = []
    result = _restored(value, layouts.shown(stored), real)
    layouts.replaced(result, found.append)
    if any(_is_mask(secret) for secret in found):
        raise PayloadError(train=train, part="input", problems=(_MASKED,))
    return given if result == value else json.dumps(result, ensure_ascii=False)


def _restored(given: Json, shown: Json, real: Json) -> Json:
    if given == shown:
        return real
    if isinstance(given, dict) and isinstance(shown, dict):
        return {
            key: _restored(each, shown[key], real[key]) if key in shown else each
            for key, each in given.items()
        }
    if isinstance(given, list) and isinstance(shown, list) and len(given) == len(shown):
        return [_restored(*each) for each in zip(given, shown, real, strict=True)]
    return given


def _is_mask(secret: Json) -> bool:
    if isinstance(secret, dict | list):
        return any(_is_mask(each) for each in (secret.values() if isinstance(secret, dict) else secret))
    return isinstance(secret, str) and (secret == MASK or secret.startswith(_WHOLE_MASK))
