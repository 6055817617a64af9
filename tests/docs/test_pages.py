"""Every block of the quickstart and of the how-to guides works; every link leads somewhere."""

from __future__ import annotations

import re
import tomllib
from typing import TYPE_CHECKING

import pytest

from tests.docs.page import DOCS, ROOT, Reader, blocks, commands
from tests.docs.warm import warm_gandy

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

RUN = [DOCS / "quickstart.md", *sorted((DOCS / "how-to").glob("*.md"))]
PAGES = [ROOT / "README.md", *sorted(DOCS.rglob("*.md"))]


def needs_postgres(page: Path) -> bool:
    return "=postgresql://" in page.read_text(encoding="utf-8")


def named(pages: list[Path]) -> list[object]:
    return [pytest.param(page, id=str(page.relative_to(ROOT))) for page in pages]


@pytest.fixture(scope="module")
def programs(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A folder with a `gandy` that starts quickly: the pages call it hundreds of times."""
    with warm_gandy(tmp_path_factory.mktemp("programs")) as folder:
        yield folder


@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.parametrize("page", named([page for page in RUN if not needs_postgres(page)]))
def test_the_page_can_be_followed(page: Path, tmp_path: Path, programs: Path) -> None:
    text = page.read_text(encoding="utf-8")
    assert blocks(text)

    Reader(tmp_path, programs=programs).follow(text)


@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.parametrize("page", named([page for page in RUN if needs_postgres(page)]))
def test_the_page_can_be_followed_with_a_server(
    page: Path, tmp_path: Path, postgres_url: str, programs: Path
) -> None:
    Reader(tmp_path, postgres_url, programs).follow(page.read_text(encoding="utf-8"))


def test_the_program_that_pages_call_is_a_process_like_any_other(programs: Path, tmp_path: Path) -> None:
    reader = Reader(tmp_path, programs=programs)
    reader.follow("```sh\nexport GANDY_DATABASE_URL=sqlite:///here.db\ngandy migrate\n```\n")
    assert (tmp_path / "here.db").exists()
    assert "applied" in reader.said

    reader.follow("```sh\ngandy nonsense  # exits 2\ngandy --version | grep gandy\n```\n")
    assert "Usage: gandy [OPTIONS]" in reader.said
    with pytest.raises(AssertionError, match="No such command"):
        reader.follow("```sh\ngandy nonsense\n```\n")


@pytest.mark.parametrize("page", named(RUN))
def test_what_a_page_says_to_install_exists(page: Path) -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    asked = [
        command.line
        for block in blocks(page.read_text(encoding="utf-8"))
        if block.language == "sh"
        for command in commands(block)
        if command.line.startswith("pip install")
    ]
    extras = {
        extra for line in asked for found in re.findall(r"\[([^]]+)\]", line) for extra in found.split(",")
    }

    assert extras <= set(project["optional-dependencies"])


@pytest.mark.parametrize("page", named(PAGES))
def test_every_link_leads_somewhere(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    links = [link.partition("#") for link in re.findall(r"\]\(([^)]+)\)", text) if "://" not in link]

    assert [link for link, _, _ in links if link and not (page.parent / link).exists()] == []
    assert [
        anchor
        for link, _, anchor in links
        if anchor and anchor not in anchors(page.parent, link or page.name)
    ] == []


def anchors(folder: Path, link: str) -> set[str]:
    """The headings of a page, as GitHub turns them into anchors."""
    text = (folder / link).read_text(encoding="utf-8")
    headings = re.findall(r"^#+ (.+)$", text, re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


def test_every_page_is_reached_from_the_index() -> None:
    index = (DOCS / "index.md").read_text(encoding="utf-8")
    linked = {(DOCS / link).resolve() for link in re.findall(r"\]\(([^)#]+)\)", index)}
    folders = {link for link in linked if link.is_dir()}
    pages = {page for page in DOCS.rglob("*.md") if page != DOCS / "index.md"}

    assert {page for page in pages if page not in linked and not folders.intersection(page.parents)} == set()
