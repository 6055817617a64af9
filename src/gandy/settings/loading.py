"""Load settings from keywords, environment, file and defaults, each with its source."""

from __future__ import annotations

import logging
import os
import re
from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from difflib import get_close_matches
from functools import cache
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Literal

from gandy.errors import SettingProblem, SettingsError, SettingsFileError, UntrustedFileError
from gandy.settings.bounds import RefusedValueError
from gandy.settings.catalogue import SettingField, find_contradictions, list_settings
from gandy.settings.files import find_settings_file, read_settings_file
from gandy.settings.sections import Settings

if TYPE_CHECKING:
    from collections.abc import Iterator


@dataclass(frozen=True, slots=True)
class ShownSetting:
    """One setting for display: secrets and passwords are hidden."""

    key: str
    value: str
    origin: SettingSource


@dataclass(frozen=True, slots=True)
class LoadedSettings:
    """The settings, the source of each, and the other content of gandy.toml."""

    settings: Settings
    origins: Mapping[str, SettingSource]  #: by key, such as `worker.slots`
    directory: Path  #: the folder of gandy.toml, else the start of the search
    file: Path | None
    app: str | None  #: the application that gandy.toml names

    def shown(self) -> tuple[ShownSetting, ...]:
        """List every setting with its value and its origin."""
        return tuple(
            ShownSetting(setting.key, show_value(setting, self.settings), self.origins[setting.key])
            for setting in list_settings()
        )


def show_value(setting: SettingField, settings: Settings) -> str:
    """Format the value of one setting, with secrets hidden."""
    value: object = getattr(getattr(settings, setting.section), setting.name)
    return setting.kind.shown(setting.kind.write(value))


#: Top-level keys of gandy.toml that are not sections: the application, the version of its contracts.
_TOP_LEVEL_KEYS = ("app", "version")
_ALL_OTHERS = "*"
#: Variables of the command line, and of the tests and benchmarks of Gandy itself.
_OTHER_VARIABLES = re.compile(r"GANDY_(APP|TEST_\w+|BENCH_\w+)")
#: Kubernetes sets these for every visible service: a service gandy-web gives GANDY_WEB_SERVICE_HOST.
_SERVICE_LINKS = re.compile(r"GANDY_\w*(SERVICE_HOST|SERVICE_PORT\w*|PORT|PORT_[0-9]+_\w+)")


@dataclass(frozen=True, slots=True)
class SettingSource:
    """The source of a value."""

    kind: Literal["keyword", "environment", "file", "default"]
    place: str = ""  #: the variable, or the path of the file

    def __str__(self) -> str:
        return f"{self.kind} {self.place}".rstrip()

    @property
    def source(self) -> str:
        """Return the source as a whole, without the variable."""
        return self.place if self.kind == "file" else self.kind


@dataclass(frozen=True, slots=True)
class Given:
    """One unparsed value."""

    origin: SettingSource
    key: str  #: as written in its source
    value: object


@dataclass(frozen=True, slots=True)
class Layer:
    """The content of one source: values by setting, and problems such as unknown names."""

    values: Mapping[str, Given]
    problems: tuple[SettingProblem, ...] = ()


def given_by_keywords(keywords: Mapping[str, object]) -> Layer:
    """Collect the keywords of Python, by section and field."""
    return _given_by_sections(keywords, SettingSource("keyword"))


def given_by_file(document: Mapping[str, object], path: Path) -> Layer:
    """Collect the settings of gandy.toml, without the tables in `lifecycle`, which are contracts."""
    sections = {key: value for key, value in document.items() if key not in _TOP_LEVEL_KEYS}
    lifecycle = sections.get("lifecycle")
    if isinstance(lifecycle, Mapping):
        sections["lifecycle"] = {
            key: value for key, value in lifecycle.items() if not isinstance(value, Mapping)
        }
    return _given_by_sections(sections, SettingSource("file", str(path)))


def given_by_environment(environ: Mapping[str, str]) -> Layer:
    """Collect the variables that name a setting; an empty variable counts as unset."""
    known = {setting.variable: setting for setting in list_settings()}
    ours = {name: text for name, text in environ.items() if name.startswith("GANDY_") and text.strip()}
    values = {
        known[name].key: Given(SettingSource("environment", name), name, text)
        for name, text in ours.items()
        if name in known
    }
    unknown = [name for name in ours if name not in known and _is_meant_for_us(name)]
    return Layer(values, tuple(_unknown("environment", name, tuple(known)) for name in sorted(unknown)))


def _given_by_sections(sections: Mapping[str, object], origin: SettingSource) -> Layer:
    values: dict[str, Given] = {}
    problems: list[SettingProblem] = []
    for name, content in sections.items():
        if name not in _section_names():
            problems.append(_unknown(origin.source, name, _section_names() + _TOP_LEVEL_KEYS))
        elif not isinstance(content, Mapping):
            problems.append(
                SettingProblem(origin.source, name, None, "is a section: give it a table of settings")
            )
        else:
            section = _given_by_section(name, content, origin)
            values |= section.values
            problems += section.problems
    return Layer(values, tuple(problems))


def _given_by_section(section: str, content: Mapping[str, object], origin: SettingSource) -> Layer:
    known = tuple(setting.key for setting in list_settings() if setting.section == section)
    content = _without_table(content) if section == "cleanup" else content
    keys = {f"{section}.{name}": value for name, value in content.items()}
    return Layer(
        {key: Given(origin, key, value) for key, value in keys.items() if key in known},
        tuple(_unknown(origin.source, key, known) for key in keys if key not in known),
    )


def _without_table(content: Mapping[str, object]) -> Mapping[str, object]:
    """Split a table under `retention` into the values of single trains, and the value "*" of all others."""
    table = content.get("retention")
    if not isinstance(table, Mapping):
        return content
    others = {name: value for name, value in content.items() if name != "retention"}
    usual = {"retention": table[_ALL_OTHERS]} if _ALL_OTHERS in table else {}
    single = {name: value for name, value in table.items() if name != _ALL_OTHERS}
    return {"retention_by_train": single, **others, **usual}


def _section_names() -> tuple[str, ...]:
    return tuple(section.name for section in fields(Settings))


def _is_meant_for_us(variable: str) -> bool:
    return not _OTHER_VARIABLES.fullmatch(variable) and not _SERVICE_LINKS.fullmatch(variable)


def _unknown(source: str, key: str, known: tuple[str, ...]) -> SettingProblem:
    close = get_close_matches(key, known, n=1, cutoff=0.7)
    hint = f"did you mean {close[0]}?" if close else "`gandy config show` lists them all"
    return SettingProblem(source, key, None, f"unknown setting; {hint}")


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
    """Return the current folder; raise a SettingsFileError if it was removed."""
    try:
        return Path.cwd()
    except OSError as error:
        raise SettingsFileError(Path(), f"the current folder cannot be found: {error.strerror}") from error


def _find_document(start: Path, *, is_optional: bool) -> tuple[Path | None, dict[str, object]]:
    """Read gandy.toml; ignore a refused file if the caller names the database in another way."""
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
    """Raise for invalid keywords of Python, before anything else is read."""
    layer = given_by_keywords(keywords)
    problems = list(layer.problems)
    by_key = {setting.key: setting for setting in list_settings()}
    for key, given in layer.values.items():
        try:
            by_key[key].kind.accept(given.value)
        except RefusedValueError as error:
            problems.append(_problem(by_key[key], given, str(error)))
    _refuse(tuple(problems))


def _choose(layers: list[Layer], folder: Path) -> tuple[dict[str, object], dict[str, SettingSource]]:
    """Read all values, also overridden ones, and keep the first of each setting."""
    problems = [problem for layer in layers for problem in layer.problems]
    values: dict[str, object] = {}
    origins: dict[str, SettingSource] = {}
    for setting in list_settings():
        default = Given(SettingSource("default"), setting.key, setting.default)
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
