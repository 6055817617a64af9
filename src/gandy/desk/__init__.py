"""What a person may ask for: the one door for every face."""

from __future__ import annotations
