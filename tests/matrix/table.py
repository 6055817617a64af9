"""The matrix as data, and the pairs that the marks of the tests name."""

from __future__ import annotations

import ast
import tomllib
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

ROOT: Final = Path(__file__).parents[2]
MATRIX: Final = Path(__file__).with_name("matrix.toml")


class Feature(NamedTuple):
    """A feature, the kinds that each test covers, and why no test covers the others."""

    about: str
    tests: Mapping[str, tuple[str, ...]]
    none: Mapping[str, str]

    def tests_of(self, kind: str) -> list[str]:
        """The tests of a pair."""
        return [test for test, kinds in self.tests.items() if kind in kinds]


class Matrix(NamedTuple):
    """All kinds, with what they are, and all features."""

    kinds: Mapping[str, str]
    features: Mapping[str, Feature]

    def named(self) -> set[tuple[str, str, str]]:
        """Every feature, kind and test that belong together."""
        return {
            (name, kind, test)
            for name, feature in self.features.items()
            for test, kinds in feature.tests.items()
            for kind in kinds
        }


@cache
def read_matrix() -> Matrix:
    """Read the matrix."""
    data = tomllib.loads(MATRIX.read_text(encoding="utf-8"))
    features = {
        name: Feature(
            found["about"],
            {test: tuple(kinds.split()) for test, kinds in found["tests"].items()},
            found.get("none", {}),
        )
        for name, found in data["features"].items()
    }
    return Matrix(data["kinds"], features)


def marked() -> set[tuple[str, str, str]]:
    """Every feature, kind and test that a mark names, without running pytest."""
    return {found for path in sorted((ROOT / "tests").rglob("test_*.py")) for found in _marked_in(path)}


def _marked_in(path: Path) -> Iterator[tuple[str, str, str]]:
    text = path.read_text(encoding="utf-8")
    if "mark.pair(" not in text:
        return
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            for mark in node.decorator_list:
                if ast.unparse(mark).startswith("pytest.mark.pair(") and isinstance(mark, ast.Call):
                    feature, kinds = (ast.literal_eval(argument) for argument in mark.args)
                    for kind in kinds.split():
                        yield feature, kind, f"{path.relative_to(ROOT)}::{node.name}"
