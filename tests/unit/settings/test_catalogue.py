"""Every setting there is: each can be set from everywhere, and each refuses what makes no sense."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path

import pytest

from gandy.errors import SettingsError
from gandy.settings import LoadedSettings, SettingField, list_settings, load_settings
from gandy.settings.catalogue import render_reference

REFERENCE = Path(__file__).parents[3] / "docs" / "reference" / "settings.md"
SETTINGS = [pytest.param(setting, id=setting.key) for setting in list_settings()]

#: What can stand beside it without a contradiction, where a test sets one alone.
COMPANIONS = {
    "GANDY_DATABASE_NOTIFY_URL": {"GANDY_DATABASE_URL": "postgresql://db/main"},
    "GANDY_WORKER_HEARTBEAT_EVERY": {"GANDY_WORKER_LEASE_FOR": "30s"},
}


def another_text(setting: SettingField) -> str:
    """Give a good value that is not the default, as the environment writes it."""
    candidates = (
        "postgresql://db/other", "6s", "7", "off", "json", "debug", "other,names", "other", "0.5", "Other=6s",
        "do_nothing", "2000000"
    )  # fmt: skip
    for text in candidates:
        try:
            value = setting.kind.accept(setting.kind.from_text(text))
        except ValueError:
            continue
        if value != setting.default:
            return text
    raise AssertionError(f"no candidate fits {setting.key}")


def value_of(loaded: LoadedSettings, setting: SettingField) -> object:
    return getattr(getattr(loaded.settings, setting.section), setting.name)


@pytest.mark.parametrize("setting", SETTINGS)
def test_the_environment_sets_it_under_its_derived_name(setting: SettingField, tmp_path: Path) -> None:
    assert setting.variable == f"GANDY_{setting.section.upper()}_{setting.name.upper()}"
    text = another_text(setting)

    loaded = load_settings(
        environ={**COMPANIONS.get(setting.variable, {}), setting.variable: text}, directory=tmp_path
    )

    assert value_of(loaded, setting) == setting.kind.accept(setting.kind.from_text(text))
    assert loaded.origins[setting.key].kind == "environment"
    assert loaded.origins[setting.key].place == setting.variable


@pytest.mark.parametrize("setting", SETTINGS)
def test_a_value_that_makes_no_sense_is_refused_with_a_message(setting: SettingField, tmp_path: Path) -> None:
    with pytest.raises(SettingsError) as refused:
        load_settings(keywords={setting.section: {setting.name: object()}}, environ={}, directory=tmp_path)

    (problem,) = refused.value.problems
    assert problem.key == setting.key
    assert problem.message == f"must be {setting.kind.expected}"


@pytest.mark.parametrize("setting", SETTINGS)
def test_its_default_is_good_and_can_be_written_out(setting: SettingField) -> None:
    assert setting.kind.accept(setting.default) == setting.default
    assert setting.about.endswith(".")
    if not isinstance(setting.default, tuple):  # an empty variable counts as none at all
        assert (
            setting.kind.accept(setting.kind.from_text(setting.kind.write(setting.default)))
            == setting.default
        )


def test_names_in_the_environment_are_unique() -> None:
    variables = [setting.variable for setting in list_settings()]

    assert len(variables) == len(set(variables))


def test_a_dead_worker_is_noticed_within_fifteen_seconds_by_default(tmp_path: Path) -> None:
    worker = load_settings(environ={}, directory=tmp_path).settings.worker

    assert worker.lease_for + worker.heartbeat_every <= timedelta(seconds=15)


def test_the_reference_of_the_settings_is_up_to_date() -> None:
    assert REFERENCE.read_text(encoding="utf-8") == render_reference(), (
        "python -m gandy.settings > docs/reference/settings.md"
    )
