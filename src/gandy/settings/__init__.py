"""Settings: typed sections, a loader, and the source of each value."""

from __future__ import annotations

from gandy.settings.catalogue import SettingField, list_settings
from gandy.settings.job_sections import (
    DispatcherSettings,
    HookSettings,
    ManifestManagerSettings,
    RetrySettings,
    RunLogSettings,
    ScheduleSettings,
    WorkerSettings,
)
from gandy.settings.loading import (
    LoadedSettings,
    SettingSource,
    ShownSetting,
    load_settings,
    refuse_bad_values,
)
from gandy.settings.sections import (
    DatabaseSettings,
    LoggingSettings,
    Settings,
    WebSettings,
)
from gandy.settings.upkeep_sections import (
    CleanupSettings,
    LifecycleSettings,
    RetentionSettings,
)
from gandy.settings.urls import mask_url
from gandy.settings.values import format_duration, parse_duration

__all__ = [
    "CleanupSettings",
    "DatabaseSettings",
    "DispatcherSettings",
    "HookSettings",
    "LifecycleSettings",
    "LoadedSettings",
    "LoggingSettings",
    "ManifestManagerSettings",
    "RetentionSettings",
    "RetrySettings",
    "RunLogSettings",
    "ScheduleSettings",
    "SettingField",
    "SettingSource",
    "Settings",
    "ShownSetting",
    "WebSettings",
    "WorkerSettings",
    "format_duration",
    "list_settings",
    "load_settings",
    "mask_url",
    "parse_duration",
    "refuse_bad_values",
]
