"""The maintenance contract for any table of any application; stands alone."""

from __future__ import annotations
