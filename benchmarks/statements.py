"""Named SQL statements, kept in a .sql file beside the module that runs them."""

from __future__ import annotations

import re
from pathlib import Path

NAME = re.compile(r"^-- name: (\w+)\n", re.MULTILINE)


def load_statements(module: str) -> dict[str, str]:
    """Read the statements of a module, given its `__file__`."""
    _, *parts = NAME.split(Path(module).with_suffix(".sql").read_text())
    return dict(zip(parts[::2], parts[1::2], strict=True))
