"""What a junction sees of the run that it is part of."""

from __future__ import annotations
