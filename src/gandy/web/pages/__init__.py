"""The pages of the dashboard, a module for each place in the menu."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from gandy.web.pages import login

if TYPE_CHECKING:
    from collections.abc import Sequence

    from gandy.web.access.routes import Routes

PAGES: Final[Sequence[Routes]] = (login.router,)
