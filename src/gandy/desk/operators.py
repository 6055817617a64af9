"""Who is at the desk, where nobody says."""

from __future__ import annotations

import getpass
import os
from typing import TYPE_CHECKING

from gandy.model.owners import Operator
from gandy.settings.values import presentable

if TYPE_CHECKING:
    from gandy.model.owners import Face


def local_operator(face: Face) -> Operator:
    """Name the user of the operating system; one without a name is a number."""
    try:
        return Operator(presentable(getpass.getuser()), face)
    except (KeyError, OSError):
        return Operator(f"uid {os.getuid()}", face)
