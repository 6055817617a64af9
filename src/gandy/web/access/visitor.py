"""Somebody who asks, and how that is known."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from gandy.model.owners import Operator
from gandy.web.access.tokens import Role

if TYPE_CHECKING:
    from gandy.model.owners import Face
    from gandy.web.access.keyring import Session


@dataclass(frozen=True, slots=True, kw_only=True)
class Visitor:
    """Who asks; a session is there where a browser asks, none where a token was sent."""

    role: Role
    name: str
    session: Session | None = None

    @property
    def may_change(self) -> bool:
        """Whether more than looking is allowed."""
        return self.role is Role.OPERATOR

    def at(self, face: Face) -> Operator:
        """Stand at the desk."""
        return Operator(self.name, face)
