"""The pages of the dashboard, a module for each place in the menu."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from gandy.web.pages import (
    dead_letters,
    groups,
    home,
    login,
    manifest_form,
    manifests,
    queue,
    runs,
    tables,
    workers,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    from gandy.web.access.routes import Routes

PAGES: Final[Sequence[Routes]] = (
    login.router,
    home.router,
    manifest_form.router,
    manifests.router,
    groups.router,
    runs.router,
    queue.router,
    dead_letters.router,
    workers.router,
    tables.router,
)
