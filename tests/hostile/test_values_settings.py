"""Every hostile value at every setting: as a keyword, in the environment and in gandy.toml."""

from __future__ import annotations

import json
from datetime import timedelta
from typing import TYPE_CHECKING, Final

import pytest

from gandy import NO_TIMEOUT
from gandy.settings import list_settings, load_settings
from gandy.settings.bounds import (
    HIGHEST_COUNT,
    HIGHEST_NUMBER,
    LONGEST_RETENTION,
    LONGEST_SPAN,
    RefusedValueError,
)
from tests.hostile.values import HOSTILE, Hostile, Judge, as_text, make_app, still_works
from tests.support.worlds import migrated_url

if TYPE_CHECKING:
    from pathlib import Path

    from gandy.settings import SettingField

__all__ = ["migrated_url"]

#: Good alone, and refused beside the default of another.
BESIDE: Final = {
    "worker.heartbeat_every": {"lease_for": "1d"},
    "worker.lease_for": {"heartbeat_every": "10ms"},
}
SPANS: Final = tuple(timedelta(seconds=seconds) for seconds in (0, 0.01, 1, 3_600, 86_400, 315_360_000))
NUMBERS: Final = (0, 1, *(10**power for power in range(3, 10)))
#: What a machine has to be large for.
FEW: Final = {
    "worker.prefetch": 100,
    "worker.lease_for": timedelta(seconds=30),
    "worker.slots": 50,
    "worker.threads": 50,
    "worker.processes": 2,
    "database.pool_size": 10,
}


def _given(setting: SettingField, value: object) -> dict[str, object]:
    return {setting.section: {**BESIDE.get(setting.key, {}), setting.name: value}}


@pytest.mark.parametrize("setting", list_settings(), ids=lambda setting: setting.key)
def test_a_setting_is_refused_by_name_or_holds_something_bounded(
    setting: SettingField, tmp_path: Path
) -> None:
    judge = Judge()
    (tmp_path / ".git").mkdir()
    for hostile in HOSTILE:
        if judge.call(setting.name, hostile, lambda value: _load(setting, value, tmp_path)):
            loaded = load_settings(keywords=_given(setting, hostile.value), environ={}, directory=tmp_path)
            _check_bounded(
                judge, setting, hostile, getattr(getattr(loaded.settings, setting.section), setting.name)
            )
        _in_the_environment(judge, setting, hostile, tmp_path)
        _in_the_file(judge, setting, hostile, tmp_path)
    judge.close()


def _load(setting: SettingField, value: object, folder: Path) -> None:
    load_settings(keywords=_given(setting, value), environ={}, directory=folder)


def _in_the_environment(judge: Judge, setting: SettingField, hostile: Hostile, folder: Path) -> None:
    text = as_text(hostile.value)
    if text is None:
        return
    beside = BESIDE.get(setting.key, {})
    environ = {f"GANDY_{setting.section}_{name}".upper(): value for name, value in beside.items()}
    judge.call(
        setting.name.upper(),
        hostile,
        lambda _: load_settings(environ={**environ, setting.variable: text}, directory=folder),
    )


def _in_the_file(judge: Judge, setting: SettingField, hostile: Hostile, folder: Path) -> None:
    """Write what TOML has a form for: text, which may hold NUL there, and numbers."""
    value = hostile.value
    if not isinstance(value, str | int | float) or "\ud800" <= str(value)[:1] <= "\udfff":
        return
    written = str(value).lower() if isinstance(value, bool | float) else json.dumps(value)
    if "\\ud" in written or len(written) > 300:
        return
    lines = [f'{name} = "{text}"' for name, text in BESIDE.get(setting.key, {}).items()]
    file = folder / "gandy.toml"
    file.write_text("\n".join([f"[{setting.section}]", *lines, f"{setting.name} = {written}"]))
    judge.call(setting.name, hostile, lambda _: load_settings(environ={}, directory=folder))
    file.unlink()


def _check_bounded(judge: Judge, setting: SettingField, hostile: Hostile, held: object) -> None:
    is_bounded = (
        held in {None, NO_TIMEOUT, "auto"}
        if not isinstance(held, timedelta | int | float | str | tuple)
        else not isinstance(held, timedelta) or timedelta(0) <= held <= LONGEST_RETENTION
    )
    if isinstance(held, timedelta) and setting.section not in {"retention", "cleanup"}:
        is_bounded = is_bounded and held <= LONGEST_SPAN
    if isinstance(held, int):
        is_bounded = 0 <= held <= (HIGHEST_NUMBER if setting.key.endswith("_bytes") else HIGHEST_COUNT)
    if isinstance(held, float):
        is_bounded = 0 <= held <= 1
    if not is_bounded:
        judge.note(setting.key, hostile, f"it holds {held!r}")


@pytest.mark.parametrize("end", [0, -1], ids=["lowest", "highest"])
async def test_with_every_setting_at_its_end_a_job_still_runs(migrated_url: str, end: int) -> None:
    app = make_app(migrated_url)
    for setting in list_settings():
        if setting.section != "web" and (taken := _taken_of(setting)):
            app.configure({setting.section: {setting.name: FEW.get(setting.key, taken[end])}})
    app.configure({"worker": {"heartbeat_every": "500ms", "max_output_bytes": 1_000}})  # what the job needs
    app.configure({"manifest_manager": {"default_timeout": "1m"}})
    async with app:
        await still_works(app)
        await app.tick("manifest-manager")
        await app.tick("metadata-cleanup")


def _taken_of(setting: SettingField) -> list[object]:
    """Find the ends of what a setting takes, the lowest first; none for switches and words."""
    taken = []
    for value in (*SPANS, *NUMBERS):
        try:
            setting.kind.accept(value)
        except RefusedValueError:
            continue
        taken.append(value)
    return taken
