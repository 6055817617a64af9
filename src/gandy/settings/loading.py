"""The one loader: keyword over environment over gandy.toml over default, every problem in one error."""

from __future__ import annotations

import logging
import os
from dataclasses import fields, replace
from functools import cache
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING

from gandy.errors import SettingProblem, SettingsError, SettingsFileError, UntrustedFileError
from gandy.settings.bounds import RefusedValueError
from gandy.settings.catalogue import SettingField, list_settings
from gandy.settings.checks import find_contradictions
from gandy.settings.files import find_settings_file, read_settings_file
from gandy.settings.given import Given, Layer, Origin, given_by_environment, given_by_file, given_by_keywords
from gandy.settings.loaded import LoadedSettings, show_value
from gandy.settings.sections import Settings

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

_NOTHING: Mapping[str, object] = MappingProxyType({})
_DATABASE = "database.url"
_log = logging.getLogger("gandy.settings")


def load_settings(
    *,
    keywords: Mapping[str, object] = _NOTHING,
    environ: Mapping[str, str] | None = None,
    directory: Path | None = None,
) -> LoadedSettings:
    """Load the settings; keywords are mappings by section, as in {"worker": {"slots": 5}}."""
    start = directory.absolute() if directory else current_folder()
    layers = [given_by_keywords(keywords), given_by_environment(os.environ if environ is None else environ)]
    file, document = _find_document(start, is_optional=any(_DATABASE in layer.values for layer in layers))
    if file:
        layers.append(given_by_file(document, file))
    folder = file.parent if file else start
    values, origins = _choose(layers, folder)
    loaded = LoadedSettings(_build(values), MappingProxyType(origins), folder, file, _app_of(document, file))
    _refuse(tuple(_contradictions(loaded)))
    return loaded


def current_folder() -> Path:
    """Find the folder that a call is made in; one that was removed is an error of ours."""
    try:
        return Path.cwd()
    except OSError as error:
        raise SettingsFileError(Path(), f"the current folder cannot be found: {error.strerror}") from error


def _find_document(start: Path, *, is_optional: bool) -> tuple[Path | None, dict[str, object]]:
    """Read gandy.toml; a refused one is passed over where the call names its database in another way."""
    file = find_settings_file(start)
    if file is None:
        return None, {}
    try:
        return file, read_settings_file(file)
    except UntrustedFileError as error:
        if not is_optional:
            raise
        _say_once(str(file), error.reason)
        return None, {}


@cache
def _say_once(file: str, reason: str) -> None:
    _log.warning("%s: not read, because %s", file, reason)


def refuse_bad_values(keywords: Mapping[str, object]) -> None:
    """Raise for settings of Python that cannot be used, before anything else is read."""
    layer = given_by_keywords(keywords)
    problems = list(layer.problems)
    by_key = {setting.key: setting for setting in list_settings()}
    for key, given in layer.values.items():
        try:
            by_key[key].kind.accept(given.value)
        except RefusedValueError as error:
            problems.append(_problem(by_key[key], given, str(error)))
    _refuse(tuple(problems))


def _choose(layers: list[Layer], folder: Path) -> tuple[dict[str, object], dict[str, Origin]]:
    """Read every value that was given, also those that another overrides, and keep the first of each."""
    problems = [problem for layer in layers for problem in layer.problems]
    values: dict[str, object] = {}
    origins: dict[str, Origin] = {}
    for setting in list_settings():
        default = Given(Origin("default"), setting.key, setting.default)
        for given in (
            *(layer.values[setting.key] for layer in layers if setting.key in layer.values),
            default,
        ):
            try:
                value = _read(setting, given, folder)
            except RefusedValueError as error:
                problems.append(_problem(setting, given, str(error)))
            else:
                values.setdefault(setting.key, value)
                origins.setdefault(setting.key, given.origin)
    _refuse(tuple(problems))
    return values, origins


def _read(setting: SettingField, given: Given, folder: Path) -> object:
    raw = given.value
    if given.origin.kind == "environment" and isinstance(raw, str):
        raw = setting.kind.from_text(raw)
    value = setting.kind.accept(raw)
    is_written_in_the_folder = given.origin.kind in {"file", "default"}
    return setting.kind.anchor(value, folder) if setting.kind.anchor and is_written_in_the_folder else value


def _problem(setting: SettingField, given: Given, reason: str) -> SettingProblem:
    shown = setting.kind.refused(given.value)
    return SettingProblem(given.origin.source, given.key, shown, reason or f"must be {setting.kind.expected}")


def _build(values: Mapping[str, object]) -> Settings:
    settings = Settings()
    sections = {}
    for section in fields(Settings):
        own = {item.name: values[item.key] for item in list_settings() if item.section == section.name}
        sections[section.name] = replace(getattr(settings, section.name), **own)
    return replace(settings, **sections)


def _app_of(document: Mapping[str, object], file: Path | None) -> str | None:
    app = document.get("app")
    if app is None or isinstance(app, str):
        return app
    raise SettingsError((SettingProblem(str(file), "app", repr(app), 'must be text such as "module:name"'),))


def _contradictions(loaded: LoadedSettings) -> Iterator[SettingProblem]:
    by_key = {setting.key: setting for setting in list_settings()}
    for key, message in find_contradictions(loaded.settings):
        shown = show_value(by_key[key], loaded.settings)
        yield SettingProblem(loaded.origins[key].source, key, shown, message)


def _refuse(problems: tuple[SettingProblem, ...]) -> None:
    if problems:
        raise SettingsError(problems)
