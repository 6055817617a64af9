"""Who waits for whom, as far as a picture can show."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from gandy.errors import GroupNotFoundError
from gandy.store.statements import statement

if TYPE_CHECKING:
    from gandy.store.statements import Operation, Rows

#: So many manifests are looked at, and so many dependencies drawn.
LOOKED_AT: Final = 2_000
DRAWN: Final = 200


def list_dependencies(owner: str, group: str | None) -> Operation[Rows]:
    """List the dependencies of an application, or those that touch one of its groups."""
    if group is None:
        return (yield statement("list_dependencies", owner=owner, members=LOOKED_AT, limit=DRAWN))
    found = yield statement("find_group", owner=owner, name=group)
    if not found:
        raise GroupNotFoundError(owner, group)
    group_id = found[0].id
    of = {"owner": owner, "group_id": group_id}
    return (yield statement("list_group_dependencies", members=LOOKED_AT, limit=DRAWN, **of))
