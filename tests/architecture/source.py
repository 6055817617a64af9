"""The source files as the architecture tests read them."""

from __future__ import annotations

import ast
import functools
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

ROOT = Path(__file__).parents[2]
PACKAGE = ROOT / "src" / "gandy"
TESTS = ROOT / "tests"


@dataclass(frozen=True, slots=True)
class SourceFile:
    """A Python file, its text and its syntax tree."""

    path: Path
    text: str
    tree: ast.Module

    @property
    def room(self) -> str:
        """The part of the package that it belongs to: `store`, `rules`, `app`..."""
        return self.path.relative_to(PACKAGE).parts[0].removesuffix(".py")

    def at(self, node: ast.expr | ast.stmt) -> str:
        """Where something stands, in the form that editors open."""
        return f"{self.path.relative_to(ROOT)}:{node.lineno}"

    def walk(self) -> Iterator[ast.AST]:
        return ast.walk(self.tree)


@functools.cache
def package_files() -> list[SourceFile]:
    """Every module of the package."""
    return _files_under(PACKAGE)


@functools.cache
def files_of_tests() -> list[SourceFile]:
    """Every file of the tests, but for those that only type checkers read."""
    return [file for file in _files_under(TESTS) if (TESTS / "typing") not in file.path.parents]


def docstrings(tree: ast.AST) -> set[int]:
    """The identities of the constants that are docstrings."""
    owners = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
    return {
        id(node.body[0].value)
        for node in ast.walk(tree)
        if isinstance(node, owners) and node.body and isinstance(node.body[0], ast.Expr)
    }


def _files_under(folder: Path) -> list[SourceFile]:
    files = []
    for path in sorted(folder.rglob("*.py")):
        text = path.read_text(encoding="utf-8")
        files.append(SourceFile(path, text, ast.parse(text)))
    return files
