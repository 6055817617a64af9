"""Whether a statement surely compares two columns as the database's own key does; in doubt no row goes."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Doubt:
    """Why a comparison may give another answer than the database's own, and what would help."""

    reason: str
    remedy: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    """What decides how a statement compares the values of a column."""

    kind: str = ""  # columns of one kind are compared alike
    takes: frozenset[str] = frozenset()  # other kinds of referring columns that are compared alike
    collation: str = ""
    hidden: Doubt | None = None  # a statement does not find the type's own equality
    is_composite: bool = False  # a value of it cannot be given to a statement

    def against(self, parent: Comparison) -> Doubt | None:
        """What is unclear where this column refers to the parent's."""
        if self.hidden is not None or parent.hidden is not None:
            return self.hidden or parent.hidden
        if self.collation != parent.collation:
            return different_collations(self.collation, parent.collation)
        if self.kind != parent.kind and self.kind not in parent.takes:
            return different_types(self.kind, parent.kind)
        return None


PLAIN = Comparison()


def different_collations(mine: str, theirs: str) -> Doubt:
    """Two columns of which each tells texts apart in its own way."""
    reason = f"their collations are {mine or 'none'} and {theirs or 'none'}"
    return Doubt(reason, "Give both columns the same collation")


def different_types(mine: str, theirs: str) -> Doubt:
    """Two columns of which one is converted before it is compared."""
    reason = f"their types are {mine or 'none'} and {theirs or 'none'}"
    return Doubt(reason, "Give both columns the same type")
