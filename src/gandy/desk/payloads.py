"""Inputs as people write and read them: checked by the train's type, and without secrets."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, TypeAlias

if TYPE_CHECKING:
    from gandy.train.registry import Registry

Json: TypeAlias = Any  # whatever an application's types look like as JSON


def shown_input(registry: Registry | None, train: str, text: str | None) -> Json:
    """Give a stored input as it may be shown; where the train is known its secrets are masked."""
    if text is None:
        return None
    if registry is not None and train in registry:
        text = registry.get(train).input.masked(text)
    return json.loads(text)


def check_input(registry: Registry | None, train: str, text: str | None) -> None:
    """Refuse an input that the train would refuse; a train that is not known here checks it when it runs."""
    if text is not None and registry is not None and train in registry:
        registry.get(train).input.decode(text)
