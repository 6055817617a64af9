"""JobDispatcher: turns ready entries that no worker asked for into runs, within the caps."""

from __future__ import annotations
