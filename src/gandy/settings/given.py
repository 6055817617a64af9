"""What was given, by whom: the values of the keywords, the environment and gandy.toml, before any is read."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, fields
from difflib import get_close_matches
from typing import TYPE_CHECKING, Literal

from gandy.errors import SettingProblem
from gandy.settings.catalogue import list_settings
from gandy.settings.sections import Settings

if TYPE_CHECKING:
    from pathlib import Path

#: Top-level keys of gandy.toml that are no section: the application, the version of its lifecycle contracts.
_TOP_LEVEL_KEYS = ("app", "version")
_ALL_OTHERS = "*"
#: What belongs to the command line, and to the tests and benchmarks of Gandy itself.
_OTHER_VARIABLES = re.compile(r"GANDY_(APP|TEST_\w+|BENCH_\w+)")
#: Kubernetes sets these for every service in sight: one named gandy-web gives GANDY_WEB_SERVICE_HOST.
_SERVICE_LINKS = re.compile(r"GANDY_\w*(SERVICE_HOST|SERVICE_PORT\w*|PORT|PORT_[0-9]+_\w+)")


@dataclass(frozen=True, slots=True)
class Origin:
    """Where a value came from."""

    kind: Literal["keyword", "environment", "file", "default"]
    place: str = ""  #: the variable, or the path of the file

    def __str__(self) -> str:
        return f"{self.kind} {self.place}".rstrip()

    @property
    def source(self) -> str:
        """Name the source as a whole, without the variable."""
        return self.place if self.kind == "file" else self.kind


@dataclass(frozen=True, slots=True)
class Given:
    """One value as it was given."""

    origin: Origin
    key: str  #: as the one who gave it wrote it
    value: object


@dataclass(frozen=True, slots=True)
class Layer:
    """What one source gave: values by setting, and what names no setting."""

    values: Mapping[str, Given]
    problems: tuple[SettingProblem, ...] = ()


def given_by_keywords(keywords: Mapping[str, object]) -> Layer:
    """Gather what Python passed, by section and field."""
    return _given_by_sections(keywords, Origin("keyword"))


def given_by_file(document: Mapping[str, object], path: Path) -> Layer:
    """Gather what gandy.toml says; the tables in `lifecycle` are contracts, and others read them."""
    sections = {key: value for key, value in document.items() if key not in _TOP_LEVEL_KEYS}
    lifecycle = sections.get("lifecycle")
    if isinstance(lifecycle, Mapping):
        sections["lifecycle"] = {
            key: value for key, value in lifecycle.items() if not isinstance(value, Mapping)
        }
    return _given_by_sections(sections, Origin("file", str(path)))


def given_by_environment(environ: Mapping[str, str]) -> Layer:
    """Gather the variables that name a setting; an empty one is as good as none."""
    known = {setting.variable: setting for setting in list_settings()}
    ours = {name: text for name, text in environ.items() if name.startswith("GANDY_") and text.strip()}
    values = {
        known[name].key: Given(Origin("environment", name), name, text)
        for name, text in ours.items()
        if name in known
    }
    unknown = [name for name in ours if name not in known and _is_meant_for_us(name)]
    return Layer(values, tuple(_unknown("environment", name, tuple(known)) for name in sorted(unknown)))


def _given_by_sections(sections: Mapping[str, object], origin: Origin) -> Layer:
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


def _given_by_section(section: str, content: Mapping[str, object], origin: Origin) -> Layer:
    known = tuple(setting.key for setting in list_settings() if setting.section == section)
    content = _without_table(content) if section == "cleanup" else content
    keys = {f"{section}.{name}": value for name, value in content.items()}
    return Layer(
        {key: Given(origin, key, value) for key, value in keys.items() if key in known},
        tuple(_unknown(origin.source, key, known) for key in keys if key not in known),
    )


def _without_table(content: Mapping[str, object]) -> Mapping[str, object]:
    """Read a table under `retention` as what it says of single trains, and of all others under a star."""
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
    return SettingProblem(source, key, None, f"is no setting; {hint}")
