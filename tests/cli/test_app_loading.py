from __future__ import annotations

from pathlib import Path
from textwrap import dedent

import pytest

from gandy.app.loading import load_app
from gandy.cli.call import Call
from gandy.errors import AppLoadError, AppNotGivenError, AppReferenceError, GandyError

pytestmark = pytest.mark.usefixtures("imports")


def write_module(folder: Path, name: str, source: str) -> None:
    (folder / f"{name}.py").write_text(dedent(source), encoding="utf-8")


def refusal(reference: str) -> GandyError:
    with pytest.raises(GandyError) as refused:
        load_app(reference, directory=Path.cwd())
    return refused.value


def test_an_application_is_found_in_the_current_folder(folder: Path) -> None:
    write_module(folder, "billing_found", 'from gandy import Gandy\napp = Gandy("billing")')

    app = load_app("billing_found:app", directory=folder)

    assert app.name == "billing"


def test_an_application_named_in_the_file_is_found_beside_the_file(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_module(folder, "billing_beside", 'from gandy import Gandy\napp = Gandy("billing")')
    (folder / "gandy.toml").write_text('app = "billing_beside:app"', encoding="utf-8")
    (folder / "below").mkdir()
    monkeypatch.chdir(folder / "below")

    assert Call(app_reference=None, database=None).load_app().name == "billing"


@pytest.mark.usefixtures("folder")
def test_without_an_application_the_message_says_how_to_name_one() -> None:
    with pytest.raises(AppNotGivenError, match="--app MODULE:NAME, set GANDY_APP, or write"):
        Call(app_reference=None, database=None).load_app()


@pytest.mark.usefixtures("folder")
@pytest.mark.parametrize("reference", ["billing", "billing:", ":app"])
def test_a_reference_of_another_shape_is_refused(reference: str) -> None:
    error = refusal(reference)

    assert isinstance(error, AppReferenceError)
    assert error.exit_code == 2
    assert "MODULE:NAME" in str(error)


def test_a_module_that_is_not_there_is_named(folder: Path) -> None:
    error = refusal("no_such_package.jobs:app")

    assert isinstance(error, AppReferenceError)
    assert (
        error.problem == f"there is no module 'no_such_package' in {folder} nor among the installed packages"
    )


def test_a_module_that_misses_a_dependency_is_shown_where_it_does(folder: Path) -> None:
    write_module(folder, "billing_missing", "import os\nimport no_such_dependency\n")

    error = refusal("billing_missing:app")

    assert isinstance(error, AppLoadError)
    assert (error.location, error.problem) == ("billing_missing.py:2", "No module named 'no_such_dependency'")
    assert error.exit_code == 1


@pytest.mark.parametrize(
    ("source", "location", "problem"),
    [
        ("value = 1\nvalue / 0\n", "billing_raising.py:2", "ZeroDivisionError: division by zero"),
        ("import json\njson.loads('')\n", "billing_raising.py:2", "JSONDecodeError"),
        ("raise SystemExit(3)\n", "billing_raising.py:1", "SystemExit: 3"),
        ("x = (\n", "billing_raising.py:1", "SyntaxError"),
        (
            "from gandy.settings import parse_duration\nparse_duration('5')\n",
            "billing_raising.py:2",
            "'5' has no unit; write 5s or 5m",
        ),
    ],
)
def test_an_exception_in_the_module_is_told_with_its_line(
    folder: Path, source: str, location: str, problem: str
) -> None:
    write_module(folder, "billing_raising", source)

    error = refusal("billing_raising:app")

    assert isinstance(error, AppLoadError)
    assert error.location == location
    assert problem in error.problem
    assert "\n" not in str(error)


def test_a_name_that_is_not_there_brings_up_those_that_are(folder: Path) -> None:
    write_module(folder, "billing_other", 'from gandy import Gandy\nbilling = Gandy("billing")\napp = 3')

    assert str(refusal("billing_other:ap")) == (
        "application 'billing_other:ap': has no 'ap'; did you mean billing_other:billing?"
    )
    assert str(refusal("billing_other:app")) == (
        "application 'billing_other:app': 'app' is a int, not a Gandy; did you mean billing_other:billing?"
    )


def test_a_module_without_an_application_says_so(folder: Path) -> None:
    write_module(folder, "billing_empty", "")

    assert "the module has no application: app = Gandy(...)" in str(refusal("billing_empty:app"))
