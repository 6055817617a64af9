"""What the settings say where a declaration says nothing."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from gandy.model.schedule import MisfirePolicy

if TYPE_CHECKING:
    from gandy.model.manifest import Declarations, ManifestDeclaration
    from gandy.settings import Settings


def with_defaults(declarations: Declarations, settings: Settings) -> Declarations:
    """Fill in what the manifests of an application leave to the settings."""
    manifests = tuple(filled_in(each, settings) for each in declarations.manifests)
    return replace(declarations, manifests=manifests)


def filled_in(declaration: ManifestDeclaration, settings: Settings) -> ManifestDeclaration:
    """Fill in what one manifest leaves to the settings."""
    unsaid, usual = declaration.unsaid, settings.schedule
    if not unsaid:
        return declaration
    return replace(
        declaration,
        max_retries=settings.retry.max_retries if "max_retries" in unsaid else declaration.max_retries,
        misfire_policy=MisfirePolicy(usual.misfire)
        if "misfire_policy" in unsaid
        else declaration.misfire_policy,
        misfire_threshold=usual.misfire_threshold
        if "misfire_threshold" in unsaid
        else declaration.misfire_threshold,
        unsaid=frozenset(),
    )
