"""What bounds Gandy's own tables, and how dead rows go; shared by the trains that prune."""

from __future__ import annotations
