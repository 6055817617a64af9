"""A kind of rule answers for itself: tables of all kinds must not spread over the lifecycle again."""

from __future__ import annotations

import ast

import pytest

from tests.architecture.source import PACKAGE, package_files
from tests.architecture.test_names import names_used

pytestmark = pytest.mark.xdist_group("architecture")  # all files are parsed once

LIFECYCLE = PACKAGE / "lifecycle"
KINDS = LIFECYCLE / "contract" / "rules.py"
#: Modules that a new kind is named in: its class, its constructor, and the conditions that are made of it.
OF_EVERY_KIND = {"contract/rules.py", "contract/build.py", "selection/shapes.py"}
#: Modules that name a kind besides, and need no change for another kind.
OF_ONE_KIND = {
    "Cap": {"selection/walks.py"},  # its walk
    "DropPartition": {"selection/walks.py"},  # its walk
    "Inline": {"selection/walks.py"},  # its watch
    # Its rows are kept from the rules of every kind.
    "Keep": {"contract/tables.py", "selection/holds.py", "selection/walks.py", "state/holds.py"},
}


def kinds() -> list[str]:
    [file] = [file for file in package_files() if file.path == KINDS]
    return [node.name for node in file.tree.body if isinstance(node, ast.ClassDef)]


def modules_that_name(kind: str) -> set[str]:
    inside = (file for file in package_files() if LIFECYCLE in file.path.parents)
    return {str(file.path.relative_to(LIFECYCLE)) for file in inside if kind in names_used(file.tree)}


@pytest.mark.parametrize("kind", kinds())
def test_few_modules_name_a_kind_of_rule(kind: str) -> None:
    named = modules_that_name(kind)

    assert "contract/build.py" in named
    assert named - OF_EVERY_KIND == OF_ONE_KIND.get(kind, set())
