from __future__ import annotations

import ast
from collections import Counter
from typing import TYPE_CHECKING

import pytest

from tests.architecture.source import PACKAGE, ROOT, package_files

if TYPE_CHECKING:
    from tests.architecture.source import SourceFile

pytestmark = pytest.mark.xdist_group("architecture")  # all files are parsed once

LONGEST_FILE = 400
LONGEST_BODY = 60
DEEPEST_FOLDER = 3
#: A folder of more modules is a list to search in, not a place to know one's way around.
BROADEST_FOLDER = 20
SHORTEST_MODULE = 40
#: Modules that are shorter, and why.
SHORT: dict[str, str] = {}
WIDEST_LINE_OF_A_TEMPLATE = 120
#: Two modules of a package that fit in this many lines, one of which only the other imports, are one module.
ROOM_FOR_ONE_MORE = 300
#: Modules that put the nouns of a layer together: each noun has a module of its own.
COMPOSERS = {"web/application.py", "app/verbs/face.py"}
#: Modules that stay apart from their only importer, and why.
APART = {
    "cli/demonstration/trains.py": "the trains of the demo read like an application's own",
    "upkeep/partitions.py": "only PostgreSQL has partitions",
    "upkeep/page.py": "importing __main__ would print the page",
}


def body_lines(function: ast.FunctionDef | ast.AsyncFunctionDef) -> int:
    body = function.body[1:] if ast.get_docstring(function) and len(function.body) > 1 else function.body
    return (body[-1].end_lineno or 0) - body[0].lineno + 1


def test_no_file_is_longer_than_a_reader_holds() -> None:
    too_long = {
        str(file.path.relative_to(PACKAGE)): lines
        for file in package_files()
        if (lines := len(file.text.splitlines())) > LONGEST_FILE
    }

    assert too_long == {}


def test_no_function_is_longer_than_a_screen() -> None:
    too_long = {
        f"{file.at(node)} {node.name}": body_lines(node)
        for file in package_files()
        for node in file.walk()
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and body_lines(node) > LONGEST_BODY
    }

    assert too_long == {}


def test_folders_are_not_nested_deeper_than_three() -> None:
    too_deep = [
        str(file.path.relative_to(PACKAGE))
        for file in package_files()
        if len(file.path.relative_to(PACKAGE).parent.parts) > DEEPEST_FOLDER
    ]

    assert too_deep == []


def test_no_line_of_a_template_is_wider_than_a_reviewer_sees() -> None:
    templates = sorted(PACKAGE.rglob("*.html"))
    too_wide = {
        f"{path.relative_to(ROOT)}:{number}": len(line)
        for path in templates
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), start=1)
        if len(line) > WIDEST_LINE_OF_A_TEMPLATE
    }

    assert templates
    assert too_wide == {}


def test_no_folder_holds_more_modules_than_a_reader_keeps_in_mind() -> None:
    modules = Counter(
        str(file.path.parent.relative_to(PACKAGE)) for file in package_files() if not is_special(file)
    )

    assert {folder: count for folder, count in modules.items() if count > BROADEST_FOLDER} == {}


def test_a_module_below_forty_lines_has_a_reason() -> None:
    short = {
        str(file.path.relative_to(PACKAGE))
        for file in package_files()
        if not is_special(file) and len(file.text.splitlines()) < SHORTEST_MODULE
    }

    assert short == set(SHORT)


def is_special(file: SourceFile) -> bool:
    return file.path.stem in {"__init__", "__main__"}


def test_a_module_that_fits_in_its_only_importer_is_part_of_it() -> None:
    lines = {name_of(file): len(file.text.splitlines()) for file in package_files()}
    importers: dict[str, set[str]] = {}
    for file in package_files():
        for name in imported(file) & lines.keys():
            importers.setdefault(name, set()).add(name_of(file))

    apart = {
        name
        for name, (importer, *others) in importers.items()
        if not others
        and not importer.endswith("__init__.py")
        and importer not in COMPOSERS
        and importer.rpartition("/")[0] == name.rpartition("/")[0]
        and lines[name] + lines[importer] <= ROOM_FOR_ONE_MORE
    }

    assert apart == set(APART)


def name_of(file: SourceFile) -> str:
    return file.path.relative_to(PACKAGE).as_posix()


def imported(file: SourceFile) -> set[str]:
    """The modules of the package that a module imports, for its types too."""
    found = set()
    for node in file.walk():
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("gandy"):
            path = "/".join(str(node.module).split(".")[1:])
            found |= {f"{path}.py", *(f"{path}/{alias.name}.py" for alias in node.names)}
    return found - {name_of(file)}
