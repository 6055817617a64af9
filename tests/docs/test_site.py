"""The site of the documentation: what `make docs` needs, without building it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import yaml  # type: ignore[import-untyped]

from tests.docs.page import DOCS, ROOT
from tools.site import linked_outside, navigation

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tools.site import Nav


def pages(nav: Nav) -> Iterator[str]:
    """Every page of a navigation, sections included."""
    for entry in nav:
        if isinstance(entry, str):
            yield entry
        else:
            for section in entry.values():
                yield from pages(section)


def test_the_navigation_has_every_page_once() -> None:
    found = list(pages(navigation()))
    there = {str(page.relative_to(DOCS)) for page in DOCS.rglob("*.md")}

    assert len(found) == len(set(found))
    assert set(found) == there | {"decisions/index.md"}


def test_the_navigation_has_the_sections_of_the_index() -> None:
    sections = [name for entry in navigation() if isinstance(entry, dict) for name in entry]

    assert sections == ["How to", "Explanation", "Reference"]


def test_files_outside_the_pages_go_with_the_site() -> None:
    assert ROOT / "examples/deploy/compose.yaml" in linked_outside()
    assert all(path.is_relative_to(ROOT) for path in linked_outside())


def test_the_site_is_searched_and_its_links_are_checked() -> None:
    site = yaml.safe_load((ROOT / "mkdocs.yml").read_text(encoding="utf-8"))

    assert "search" in site["plugins"]
    assert set(site["validation"].values()) == {"warn"}, "which the strict build takes for errors"
    assert all((ROOT / hook).is_file() for hook in site["hooks"])
