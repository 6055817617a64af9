"""From the words of an enqueue to the request that the store takes."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING

from gandy.errors import EnqueueError, MissingInputError, PayloadError
from gandy.model.manifest import DEFAULT_GROUP
from gandy.settings.bounds import problems_of
from gandy.store.queueing import EnqueueRequest, Uniqueness, uniqueness_key
from gandy.train.junctions import Required

if TYPE_CHECKING:
    from collections.abc import Sequence

    from gandy.settings.bounds import Timeout
    from gandy.store.queueing import UniqueUntil
    from gandy.train.registry import AnyTrain


@dataclass(frozen=True, slots=True, kw_only=True)
class EnqueueOptions:
    """The keywords of an enqueue with their defaults; None leaves it to the train."""

    group: str | None = None
    delay: timedelta | None = None
    priority: int | None = None
    max_retries: int | None = None
    retry: bool | None = None
    retry_delay: timedelta | None = None
    timeout: Timeout | None = None
    unique_for: timedelta | None = None
    unique_until: UniqueUntil | None = None
    key: str | None = None

    @property
    def is_unique(self) -> bool:
        """Whether another job with the same key is answered with the first."""
        return self.key is not None or self.unique_for is not None or self.unique_until is not None


def input_left_out(definition: AnyTrain) -> object:
    """Return the input of a job that was given none: the function's default, or None where it takes none."""
    if definition.takes_input:
        raise MissingInputError(definition.name, definition.input_type_name)
    return None if isinstance(definition.default_input, Required) else definition.default_input


def enqueue_request(
    owner: str, definition: AnyTrain, values: Sequence[object], *, options: EnqueueOptions
) -> EnqueueRequest:
    """Check and encode everything here, so that the store has nothing left to refuse."""
    if problems := problems_of(options):
        raise EnqueueError(definition.name, problems)
    train = definition.options
    return EnqueueRequest(
        owner=owner,
        train=definition.name,
        inputs=_encoded(definition, values),
        input_type_name=definition.input_type_name,
        group=options.group or train.group or DEFAULT_GROUP,
        priority=train.priority if options.priority is None else options.priority,
        delay=options.delay or timedelta(0),
        max_retries=train.max_retries if options.max_retries is None else options.max_retries,
        is_retried=train.retry if options.retry is None else options.retry,
        retry_delay=train.retry_delay if options.retry_delay is None else options.retry_delay,
        timeout=options.timeout or train.timeout,
        uniqueness=_uniqueness(definition, values, options),
    )


def _encoded(definition: AnyTrain, values: Sequence[object]) -> list[str]:
    """Encode every input; of several, say which one cannot be."""
    encode = definition.input.encode
    texts: list[str] = []
    try:
        texts.extend(encode(value) for value in values)  # keeps what came before the one that raises
    except PayloadError as error:
        raise error if len(values) == 1 else error.of_item(len(texts)) from None
    return texts


def _uniqueness(definition: AnyTrain, values: Sequence[object], options: EnqueueOptions) -> Uniqueness | None:
    of_train = definition.options.unique_until
    if not options.is_unique and of_train is None:
        return None
    if options.key is None:
        codec = definition.input
        keys = [
            uniqueness_key(definition.name, codec.canonical(value), is_secret=codec.has_secrets)
            for value in values
        ]
    elif len(values) == 1:
        keys = [uniqueness_key(definition.name, options.key)]
    else:
        raise EnqueueError(definition.name, ("one key cannot stand for many jobs; leave it out",))
    return Uniqueness(
        keys=keys, until=options.unique_until or of_train or "start", keep_for=options.unique_for
    )
