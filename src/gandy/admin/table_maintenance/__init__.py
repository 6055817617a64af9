"""TableMaintenance: bounds every other table of Gandy's own, by the day where history is kept so."""

from __future__ import annotations
