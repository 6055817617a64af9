"""Where an application can be imported from, which is how the processes of its trains find it."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from gandy.app.declaring import Declaring


def find_place(app: Declaring) -> str | None:
    """Return MODULE:NAME, found in the modules of the trains; None where no process could import it."""
    modules = {definition.source.__module__: None for definition in app.registry}
    for module in modules:
        if module == "__main__":
            continue
        for name, value in vars(sys.modules.get(module, app)).items():
            if value is app:
                return f"{module}:{name}"
    return None
