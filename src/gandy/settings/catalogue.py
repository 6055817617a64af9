"""The settings as a list: what the loader, the reference and the command line go through."""

from __future__ import annotations

from dataclasses import MISSING, Field, dataclass, fields
from functools import cache
from typing import TYPE_CHECKING

from gandy.settings.sections import Settings

if TYPE_CHECKING:
    from gandy.settings.kinds import Kind


@dataclass(frozen=True, slots=True)
class SettingField:
    """One setting: its names, its kind, its default and what it does."""

    section: str
    name: str
    kind: Kind[object]
    default: object
    default_shown: str
    about: str

    @property
    def key(self) -> str:
        """The name in messages and listings, such as `worker.slots`."""
        return f"{self.section}.{self.name}"

    @property
    def variable(self) -> str:
        """The name in the environment, such as `GANDY_WORKER_SLOTS`."""
        return f"GANDY_{self.section}_{self.name}".upper()


@cache
def list_settings() -> tuple[SettingField, ...]:
    """List every setting, in the order of the sections."""
    defaults = Settings()
    return tuple(
        _describe(section.name, declared)
        for section in fields(Settings)
        for declared in fields(getattr(defaults, section.name))
    )


def _describe(section: str, declared: Field[object]) -> SettingField:
    kind: Kind[object] = declared.metadata["kind"]
    default = declared.default if declared.default_factory is MISSING else declared.default_factory()
    return SettingField(
        section=section,
        name=declared.name,
        kind=kind,
        default=default,
        default_shown=declared.metadata.get("default_is", kind.write(default)),
        about=declared.metadata["about"],
    )
