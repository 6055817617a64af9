"""Names in filters that nothing has: the error that says so, with similar names."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from gandy.errors import GandyError, GroupNotFoundError, ManifestNotFoundError, UnknownTrainError
from gandy.model.manifest import DEFAULT_GROUP
from gandy.model.owners import OneOwner
from gandy.model.run import ADMINISTRATIVE_TRAINS
from gandy.settings.values import similar_names
from gandy.store.owners import has_group
from gandy.store.reading.listings import (
    EntryFilter,
    LetterFilter,
    RunFilter,
    list_entries,
    list_letters,
    list_runs,
)
from gandy.store.reading.views import (
    ManifestFilter,
    list_groups_of,
    list_manifests_of,
    train_of,
)
from gandy.store.workers import list_workers

if TYPE_CHECKING:
    from collections.abc import Iterable

    from gandy.model.owners import Owners
    from gandy.store.reading.listings import JobFilter
    from gandy.store.statements import Operation
    from gandy.train.registry import Registry

#: Names among which similar ones are looked for.
_MOST_NAMES: Final = 1_000


def find_unknown(
    wanted: JobFilter, owners: Owners, registry: Registry | None
) -> Operation[GandyError | None]:
    """Return the error of the first name of a filter that nothing has."""
    error = yield from find_unknown_place(wanted, owners)
    if error is None and wanted.train is not None:
        return (yield from find_unknown_train(wanted.train, owners, registry))
    return error


def find_unknown_place(wanted: JobFilter, owners: Owners) -> Operation[GandyError | None]:
    """Return the error of an unknown group or manifest: no list is walked for what no row can have."""
    if wanted.group not in {None, DEFAULT_GROUP} and not (yield from has_group(owners, str(wanted.group))):
        groups = yield from list_groups_of(owners, limit=_MOST_NAMES)
        error = GroupNotFoundError(str(owners), str(wanted.group))
        return _with_similar(error, error.name, (row.name for row in groups))
    if wanted.manifest is None or not isinstance(owners, OneOwner):
        return None  # the manifest of several owners is looked up before the list
    if (yield from train_of(owners.name, wanted.manifest)) is not None:
        return None
    manifests = yield from list_manifests_of(ManifestFilter(limit=_MOST_NAMES), owners)
    missing = ManifestNotFoundError(wanted.manifest)
    return _with_similar(missing, wanted.manifest, (row.external_id for row in manifests.rows))


def find_unknown_train(train: str, owners: Owners, registry: Registry | None) -> Operation[GandyError | None]:
    """Return the error of a train that neither the application, nor a worker, nor a row has.

    Where a search of rows stopped early, the train may be known.
    """
    if train in ADMINISTRATIVE_TRAINS or (registry is not None and train in registry):
        return None
    workers = yield from list_workers(owners, limit=_MOST_NAMES)
    known = {each for row in workers for each in row.trains} | set(() if registry is None else registry.names)
    if train in known or (yield from _has_rows(train, owners)):
        return None
    names = tuple(sorted(known))
    return UnknownTrainError(name=train, known=names, similar=similar_names(train, names))


def _has_rows(train: str, owners: Owners) -> Operation[bool]:
    for search in (
        list_manifests_of(ManifestFilter(train=train, limit=1), owners),
        list_runs(RunFilter(train=train, limit=1), owners),
        list_entries(EntryFilter(train=train, limit=1), owners),
        list_letters(LetterFilter(train=train, limit=1), owners),
    ):
        found = yield from search
        if found.rows or found.is_cut:
            return True
    return False


def _with_similar(error: GandyError, wanted: str, names: Iterable[str]) -> GandyError:
    if similar := similar_names(wanted, names):
        error.add_note(f"did you mean {' or '.join(similar)}?")
    return error


def sentence_of(error: GandyError) -> str:
    """Return the message of an error with its notes, as a sentence."""
    text = "; ".join([str(error), *getattr(error, "__notes__", ())])
    return text if text.endswith(("?", ".")) else f"{text}."
