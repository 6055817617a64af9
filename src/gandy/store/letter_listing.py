"""The newest dead letters, by whichever index leads to those that are wanted."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Literal, TypeAlias

from gandy.store.owners import narrowed_to_manifest
from gandy.store.searching import below, search
from gandy.store.statements import statement

if TYPE_CHECKING:
    from gandy.model.owners import Owners
    from gandy.store.searching import Search
    from gandy.store.statements import Operation

LetterStatus: TypeAlias = Literal["awaiting_intervention", "retried", "acknowledged"]

#: Counting ends here; what is told then says "or more".
COUNTED: Final = 10_000


@dataclass(frozen=True, slots=True, kw_only=True)
class LetterFilter:
    """Which letters to list; None does not filter."""

    train: str | None = None
    manifest: str | None = None
    status: LetterStatus | None = None
    before: int | None = None
    limit: int = 50


def list_letters(wanted: LetterFilter, owners: Owners) -> Operation[Search]:
    """Read the newest letters."""
    owners = yield from narrowed_to_manifest(owners, wanted.manifest)
    given = {
        "owner": owners.bound,
        "train": wanted.train,
        "status": wanted.status,
        "before": below(wanted.before),
    }
    if wanted.manifest is not None:
        walk = "search_letters_of_manifest"
        return (yield from search(walk, {**given, "manifest": wanted.manifest}, limit=wanted.limit))
    if None not in {owners.bound, wanted.train} and wanted.status == "awaiting_intervention":
        return (yield from search("search_awaiting_letters_of_train", given, limit=wanted.limit))
    gather = None if wanted.status is None else "gather_letters"
    return (yield from search("search_letters", given, limit=wanted.limit, gather=gather))


def count_awaiting(wanted: LetterFilter, owners: Owners) -> Operation[int]:
    """Count the letters that wait for a person, up to the limit."""
    owners = yield from narrowed_to_manifest(owners, wanted.manifest)
    of = {"owner": owners.bound, "train": wanted.train, "manifest": wanted.manifest}
    return int((yield statement("count_awaiting_like", limit=COUNTED, **of))[0].letters)
