"""One name, one meaning; one rule, one use."""

from __future__ import annotations

import ast
from collections import defaultdict

import pytest

from tests.architecture.source import PACKAGE, package_files

pytestmark = pytest.mark.xdist_group("architecture")  # all files are parsed once


def test_no_public_class_name_means_two_things() -> None:
    homes = defaultdict(set)
    for file in package_files():
        for node in file.tree.body:
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                homes[node.name].add(str(file.path.relative_to(PACKAGE)))

    assert {name: places for name, places in homes.items() if len(places) > 1} == {}


def test_every_rule_is_used_by_the_package_itself() -> None:
    used = {name for file in package_files() for name in names_used(file.tree)}
    unused = [
        f"{file.path.stem}.{node.name}"
        for file in package_files()
        if file.room == "rules"
        for node in file.tree.body
        if isinstance(node, ast.FunctionDef | ast.ClassDef) and node.name not in used
    ]

    assert unused == []


def names_used(tree: ast.Module) -> set[str]:
    """What a module reads, calls or imports; a definition alone is no use."""
    names = {node.id for node in ast.walk(tree) if isinstance(node, ast.Name)}
    names |= {node.attr for node in ast.walk(tree) if isinstance(node, ast.Attribute)}
    return names | {
        alias.name for node in ast.walk(tree) if isinstance(node, ast.ImportFrom) for alias in node.names
    }
