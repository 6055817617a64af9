from __future__ import annotations

from tests.cli.conftest import folder, gandy, imports
from tests.doors.neighbours import shared_url
from tests.doors.vault import vault_url

__all__ = ["folder", "gandy", "imports", "shared_url", "vault_url"]
