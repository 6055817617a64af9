"""The page on interactions, from the matrix beside the tests."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from tests.matrix.table import read_matrix

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.matrix.table import Feature, Matrix

_BEGINNING: Final = """\
# Interactions

<!-- Written by `python -m tools.references`; a test compares. -->

Every kind of schedule and dependent meets every feature, and a test covers the pair. Each of these tests
is also run with the feature switched off by a deliberate mistake in the code, and has to fail then: a few
of them in `make test`, all of them on both databases in `make interactions`. A dash: the feature does not
apply to the kind, for the reason below.

"""
_SHOWN: Final = {True: "yes", False: "-"}


def interactions_page() -> str:
    """Write the page: the kinds, the pairs, and the tests of each feature."""
    matrix = read_matrix()
    kinds = [
        "| kind | declared by |",
        "|---|---|",
        *(f"| {name} | {how} |" for name, how in matrix.kinds.items()),
    ]
    sections = [_section(name, feature, matrix) for name, feature in matrix.features.items()]
    return _BEGINNING + "\n".join([*kinds, "", *_table(matrix), "", *sections])


def _table(matrix: Matrix) -> Iterator[str]:
    yield f"| | {' | '.join(matrix.kinds)} |"
    yield "|---" * (len(matrix.kinds) + 1) + "|"
    for name, feature in matrix.features.items():
        cells = [_SHOWN[bool(feature.tests_of(kind))] for kind in matrix.kinds]
        yield f"| [{name}](#{_anchor(name)}) | {' | '.join(cells)} |"


def _section(name: str, feature: Feature, matrix: Matrix) -> str:
    lines = [f"## {name}", f"{feature.about[0].upper()}{feature.about[1:]}.", ""]
    for test, kinds in feature.tests.items():
        path, _, function = test.partition("::")
        covered = "every kind" if set(kinds) == set(matrix.kinds) else ", ".join(kinds)
        lines.append(f"- {covered}: `{function}` in `{path}`")
    reasons = dict.fromkeys(feature.none.values())
    for reason in reasons:
        without = [kind for kind, why in feature.none.items() if why == reason]
        lines.append(f"- none for {', '.join(without)}: {reason}")
    return "\n".join([*lines, ""])


def _anchor(name: str) -> str:
    return name.lower().replace(" ", "-")
