"""Owners and operators: whose rows are seen, and who changes them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Literal, TypeAlias


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


Face: TypeAlias = Literal["python", "cli", "api", "dashboard", "service"]


@dataclass(frozen=True, slots=True)
class Operator:
    """The name under which a change is kept in the trail."""

    name: str
    face: Face
