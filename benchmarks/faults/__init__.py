"""What faults cost a running system: the long form of the journeys, as a table."""

from __future__ import annotations
