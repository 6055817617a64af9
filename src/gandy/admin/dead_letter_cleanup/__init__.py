"""DeadLetterCleanup: deletes letters that a person has dealt with, some time after."""

from __future__ import annotations
