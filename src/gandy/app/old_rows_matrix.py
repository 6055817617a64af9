"""What the scheduled `DeleteOldRows` of an application bound, for an audit of their tables."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from gandy.app.delete_old_rows import DeleteOldRows
from gandy.lifecycle.contract.matrix import MatrixRow, bound_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from gandy.app.delete_old_rows import OldRows
    from gandy.model.manifest import Declarations


def old_rows_matrix(declarations: Declarations, database: str, *, home: str) -> Iterator[MatrixRow]:
    """Say what they bound in this database (`home`: the app's own); one switched off bounds nothing."""
    definition = DeleteOldRows.definition
    for manifest in declarations.manifests:
        if manifest.train != definition.name or manifest.input_json is None or not manifest.is_enabled:
            continue
        old = definition.input.decode(manifest.input_json)
        if _database_of(old, home) != database:
            continue
        table = old.bounded()
        yield MatrixRow(
            scheduler=declarations.owner,
            table=table.label,
            bounded_by=bound_of(table),
            prune_path=f"{definition.name}, manifest {manifest.external_id}",
            safety="Rows that are old enough, and no others.",
        )


def _database_of(old: OldRows, home: str) -> str | None:
    return home if old.database_env is None else os.environ.get(old.database_env)
