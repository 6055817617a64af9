"""Whose rows an operation may see and touch: those of one application, or of all of them, said explicitly."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, TypeAlias


@dataclass(frozen=True, slots=True)
class OneOwner:
    """One application."""

    name: str

    @property
    def bound(self) -> str:
        """The value of a statement's `owner`."""
        return self.name

    def __str__(self) -> str:
        return self.name


@dataclass(frozen=True, slots=True)
class AllOwners:
    """Every application in the database; only a person at the command line asks for it."""

    @property
    def bound(self) -> None:
        """The value of a statement's `owner`: a statement that takes null finds the rows of all."""
        return

    def __str__(self) -> str:
        return "all owners"


Owners: TypeAlias = OneOwner | AllOwners

ALL_OWNERS: Final = AllOwners()
