"""Owners and operators: the application that owns rows, and the author of a change."""

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
    """Every application in the database; available only on the command line."""

    @property
    def bound(self) -> None:
        """The value of a statement's `owner`: with null, a statement finds the rows of all owners."""
        return

    def __str__(self) -> str:
        return "all owners"


Owners: TypeAlias = OneOwner | AllOwners

ALL_OWNERS: Final = AllOwners()


Face: TypeAlias = Literal["python", "cli", "api", "dashboard", "service"]


@dataclass(frozen=True, slots=True)
class Operator:
    """The name under which a change is recorded in the audit trail."""

    name: str
    face: Face
