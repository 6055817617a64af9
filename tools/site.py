"""The site of `make docs`: its navigation is docs/index.md; linked files outside docs/ are copied into it."""

from __future__ import annotations

import re
from pathlib import Path
from posixpath import relpath
from typing import TYPE_CHECKING, Final, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Iterator

    from mkdocs.config.defaults import MkDocsConfig
    from mkdocs.structure.files import Files
    from mkdocs.structure.pages import Page

ROOT: Final = Path(__file__).parents[1]
DOCS: Final = ROOT / "docs"
OUTSIDE: Final = "repository"  #: the folder of the site with the files from outside docs/

Nav: TypeAlias = "list[str | dict[str, Nav]]"

_LINK: Final = re.compile(r"\]\((?P<target>[^)#:]+)(?P<anchor>#[^)]*)?\)")


def navigation() -> Nav:
    """Return the pages in the order of the index, in sections by its headings."""
    nav: Nav = ["index.md"]
    section = nav
    for line in (DOCS / "index.md").read_text(encoding="utf-8").splitlines():
        if line.startswith("## "):
            section = []
            nav.append({line.removeprefix("## "): section})
        for found in _LINK.finditer(line):
            target = found["target"]
            is_folder = (DOCS / target).is_dir()
            section.append({target.title(): _pages_of(target)} if is_folder else target)
    return nav


def _pages_of(folder: str) -> Nav:
    return [f"{folder}/index.md", *(f"{folder}/{page.name}" for page in sorted((DOCS / folder).glob("*.md")))]


def linked_outside() -> set[Path]:
    """Return the files outside docs/ that pages link to."""
    return {path for page in DOCS.rglob("*.md") for _, path in _outside(page)}


def _outside(page: Path) -> Iterator[tuple[str, Path]]:
    for found in _LINK.finditer(page.read_text(encoding="utf-8")):
        path = (page.parent / found["target"]).resolve()
        if path.is_file() and not path.is_relative_to(DOCS):
            yield found["target"], path


def on_config(config: MkDocsConfig) -> MkDocsConfig:
    """Take the navigation from the index."""
    config.nav = navigation()
    return config


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the linked files as they are, and a page for each folder that the index links to."""
    from mkdocs.structure.files import File, InclusionLevel  # noqa: PLC0415 the tests need none of it

    def add(uri: str, content: str | bytes) -> None:
        files.append(File.generated(config, uri, content=content, inclusion=InclusionLevel.NOT_IN_NAV))

    for path in sorted(linked_outside()):
        add(f"{OUTSIDE}/{path.relative_to(ROOT)}.txt", path.read_bytes())
    for folder in {Path(page.src_uri).parent for page in files.documentation_pages()}:
        if (DOCS / folder / "index.md").exists() or f"]({folder})" not in _index():
            continue
        links = [f"- [{_title(page)}]({page.name})" for page in sorted((DOCS / folder).glob("*.md"))]
        add(f"{folder}/index.md", f"# {str(folder).title()}\n\n" + "\n".join(links))
    return files


def on_page_markdown(markdown: str, page: Page, **_: object) -> str:
    """Lead links to files outside docs/ to their copies, and links to folders to their pages."""
    here = (DOCS / page.file.src_uri).parent

    def lead(found: re.Match[str]) -> str:
        target, anchor = found["target"], found["anchor"] or ""
        path = (here / target).resolve()
        if path.is_file() and not path.is_relative_to(DOCS):
            copy = f"{OUTSIDE}/{path.relative_to(ROOT)}.txt"
            return f"]({relpath(copy, Path(page.file.src_uri).parent)})"
        return f"]({target}/index.md{anchor})" if path.is_dir() else found[0]

    return _LINK.sub(lead, markdown)


def _index() -> str:
    return (DOCS / "index.md").read_text(encoding="utf-8")


def _title(page: Path) -> str:
    return page.read_text(encoding="utf-8").partition("\n")[0].removeprefix("# ")
