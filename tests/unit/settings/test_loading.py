from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING

import pytest

from gandy.errors import SettingProblem, SettingsError, SettingsFileError
from gandy.settings import LoadedSettings, load_settings

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A project of its own: no search goes above it."""
    (tmp_path / ".git").mkdir()
    return tmp_path


def load(
    folder: Path, toml: str = "", /, keywords: dict[str, object] | None = None, **environ: str
) -> LoadedSettings:
    if toml:
        (folder / "gandy.toml").write_text(toml, encoding="utf-8")
    return load_settings(keywords=keywords or {}, environ=environ, directory=folder)


def problems_of(
    folder: Path, toml: str = "", /, keywords: dict[str, object] | None = None, **environ: str
) -> list[str]:
    with pytest.raises(SettingsError) as refused:
        load(folder, toml, keywords, **environ)
    return [str(problem) for problem in refused.value.problems]


def test_keyword_beats_environment_beats_file_beats_default(folder: Path) -> None:
    toml = "[worker]\nslots = 2\nthreads = 2\nprefetch = 2"
    loaded = load(folder, toml, {"worker": {"slots": 4}}, GANDY_WORKER_SLOTS="3", GANDY_WORKER_THREADS="3")

    worker = loaded.settings.worker
    assert (worker.slots, worker.threads, worker.prefetch, worker.finish_batch) == (4, 3, 2, 1_000)
    assert [
        str(loaded.origins[f"worker.{name}"]) for name in ("slots", "threads", "prefetch", "finish_batch")
    ] == [
        "keyword",
        "environment GANDY_WORKER_THREADS",
        f"file {folder / 'gandy.toml'}",
        "default",
    ]


def test_without_anything_the_database_is_a_file_in_the_folder(folder: Path) -> None:
    loaded = load(folder)

    assert loaded.settings.database.url == f"sqlite:///{folder / 'gandy.db'}"
    assert loaded.file is None
    assert loaded.directory == folder


def test_the_file_is_found_from_a_folder_below_it_and_the_database_lies_beside_it(folder: Path) -> None:
    (folder / "gandy.toml").write_text('app = "billing:app"', encoding="utf-8")
    below = folder / "src" / "billing"
    below.mkdir(parents=True)

    loaded = load(below)

    assert loaded.file == folder / "gandy.toml"
    assert loaded.app == "billing:app"
    assert loaded.settings.database.url == f"sqlite:///{folder / 'gandy.db'}"


def test_the_search_ends_at_the_root_of_the_project(folder: Path) -> None:
    (folder / "gandy.toml").write_text("[worker]\nslots = 2", encoding="utf-8")
    project = folder / "project"
    (project / ".git").mkdir(parents=True)

    assert load(project).file is None


def test_a_relative_path_of_the_environment_is_seen_from_the_current_folder(folder: Path) -> None:
    toml = '[database]\nurl = "sqlite:///in-file.db"'

    assert load(folder, toml).settings.database.url == f"sqlite:///{folder}/in-file.db"
    assert load(folder, GANDY_DATABASE_URL="sqlite:///here.db").settings.database.url == "sqlite:///here.db"


def test_every_problem_is_in_one_error(folder: Path) -> None:
    toml = '[worker]\nslots = "5"\nthreds = 3\n[wroker]\n[web]\nport = 70000\n'

    found = problems_of(folder, toml, {"web": 3}, GANDY_WORKER_LEASE_FOR="30", GANDY_WORKER_SLOT="1")

    path = folder / "gandy.toml"
    assert sorted(found) == sorted(
        [
            "keyword: web: is a section: give it a table of settings",
            (
                "environment: GANDY_WORKER_LEASE_FOR = '30': has no unit; write 30s or 30m; "
                "it must be a duration from 1s to 1d"
            ),
            "environment: GANDY_WORKER_SLOT: unknown setting; did you mean GANDY_WORKER_SLOTS?",
            f"{path}: worker.slots = '5': must be a whole number from 1 to 100000",
            f"{path}: worker.threds: unknown setting; did you mean worker.threads?",
            f"{path}: wroker: unknown setting; did you mean worker?",
            f"{path}: web.port = 70000: must be a whole number from 0 to 65535",
        ]
    )


def test_a_bad_value_is_a_problem_even_where_another_overrides_it(folder: Path) -> None:
    assert len(problems_of(folder, "[worker]\nslots = 0", GANDY_WORKER_SLOTS="3")) == 1


def test_a_problem_names_its_source_key_value_and_message(folder: Path) -> None:
    with pytest.raises(SettingsError) as refused:
        load(folder, GANDY_LOGGING_FORMAT="xml")

    assert refused.value.problems == (
        SettingProblem("environment", "GANDY_LOGGING_FORMAT", "'xml'", "must be one of text, json"),
    )
    assert refused.value.exit_code == 2


@pytest.mark.parametrize(
    ("variable", "value"),
    [("GANDY_DATABASE_URL", "postgres//ada:hunter2@db"), ("GANDY_WEB_TOKEN", "none hunter2")],
)
def test_no_secret_shows_in_a_problem_or_in_the_settings(folder: Path, variable: str, value: str) -> None:
    environ = {variable: value, "GANDY_WORKER_SLOTS": "0"}

    assert "hunter2" not in "\n".join(problems_of(folder, "", None, **environ))


def test_neither_the_settings_nor_their_listing_show_a_secret(folder: Path) -> None:
    loaded = load(
        folder,
        GANDY_DATABASE_URL="postgresql://ada:hunter2@db/main",
        GANDY_WEB_TOKEN="hunter2-and-so-much-more",
        GANDY_WORKER_SLOTS="5",
    )
    assert loaded.settings.web.token == "hunter2-and-so-much-more"

    shown = {setting.key: setting.value for setting in loaded.shown()}

    assert shown["database.url"] == "postgresql://ada:***@db/main"
    assert shown["web.token"] == "***"
    assert shown["web.readonly_token"] == "none"
    assert shown["worker.slots"] == "5"
    assert "hunter2" not in repr(loaded)


@pytest.mark.parametrize("word", ["on", "true", "1", "ON", " True "])
def test_a_switch_is_turned_on_by_the_usual_words(folder: Path, word: str) -> None:
    loaded = load(folder, "[database]\nprepared_statements = false", GANDY_DATABASE_PREPARED_STATEMENTS=word)

    assert loaded.settings.database.prepared_statements is True


@pytest.mark.parametrize("word", ["off", "false", "0"])
def test_a_switch_is_turned_off_by_the_usual_words(folder: Path, word: str) -> None:
    loaded = load(folder, GANDY_MANIFEST_MANAGER_ADVISORY_LOCK=word)

    assert loaded.settings.manifest_manager.advisory_lock is False


def test_none_and_auto_are_words_in_the_environment_and_in_toml(folder: Path) -> None:
    toml = '[cleanup]\nbatch_size = "none"\n[dispatcher]\nmax_active_jobs = "auto"'
    loaded = load(folder, toml, GANDY_DISPATCHER_MAX_ACTIVE_JOBS="none", GANDY_CLEANUP_TRAINS="Noisy, Legacy")

    assert loaded.settings.cleanup.batch_size is None
    assert loaded.settings.dispatcher.max_active_jobs is None
    assert loaded.settings.cleanup.trains == ("Noisy", "Legacy")
    (folder / "gandy.toml").unlink()
    assert load(folder).settings.dispatcher.max_active_jobs == "auto"


def test_python_may_pass_a_timedelta_or_its_text(folder: Path) -> None:
    keywords: dict[str, object] = {"worker": {"poll_every": timedelta(seconds=7), "shutdown_grace": "1m"}}

    worker = load(folder, "", keywords).settings.worker

    assert worker.poll_every == timedelta(seconds=7)
    assert worker.shutdown_grace == timedelta(minutes=1)


@pytest.mark.parametrize(
    "token",
    [
        "x",
        "fifteen-letters",
        " sixteen-letters",
        "sixteen-letters ",
        "sixteen\tletters!",
        "sixteen letters ok",
        "n\u00f6n-ascii-letters",
    ],
)
@pytest.mark.parametrize("name", ["token", "readonly_token"])
def test_a_token_that_is_short_or_changes_on_its_way_is_refused(folder: Path, name: str, token: str) -> None:
    by_variable = problems_of(folder, "", None, **{f"GANDY_WEB_{name.upper()}": token})
    by_keyword = problems_of(folder, "", {"web": {name: token}})

    for problems in (by_variable, by_keyword):
        assert len(problems) == 1
        assert "must be at least 16 visible ASCII characters" in problems[0]
        assert token.strip() not in problems[0]


def test_an_empty_variable_counts_as_none_at_all(folder: Path) -> None:
    assert load(folder, GANDY_WEB_TOKEN="", GANDY_WORKER_SLOTS=" ").settings.web.token is None


def test_lifecycle_contracts_in_the_file_are_left_to_their_reader(folder: Path) -> None:
    toml = (
        'version = 1\n[lifecycle]\ncontract = "tables.toml"\n'
        '[lifecycle.statestore]\nevery = "5m"\n[[lifecycle.statestore.tables]]\nname = "presence"\n'
    )

    assert load(folder, toml).settings.lifecycle.contract == str(folder / "tables.toml")


def test_what_kubernetes_sets_for_a_service_of_our_name_is_no_mistake(folder: Path) -> None:
    links = {
        "GANDY_WEB_SERVICE_HOST": "10.0.0.1",
        "GANDY_WEB_SERVICE_PORT_HTTP": "80",
        "GANDY_DATABASE_PORT": "tcp://10.0.0.1:5432",
        "GANDY_DATABASE_PORT_5432_TCP_ADDR": "10.0.0.1",
    }

    assert load(folder, "", None, **links).origins["web.host"].kind == "default"


@pytest.mark.parametrize(
    ("environ", "key", "message"),
    [
        (
            {"GANDY_WORKER_LEASE_FOR": "5s"},
            "worker.heartbeat_every",
            "must be at most half of worker.lease_for (5s)",
        ),
        (
            {"GANDY_WEB_TOKEN": "a" * 16, "GANDY_WEB_READONLY_TOKEN": "a" * 16},
            "web.readonly_token",
            "must differ from web.token, or its holders could change everything",
        ),
        (
            {"GANDY_DATABASE_NOTIFY_URL": "postgresql://db/main"},
            "database.notify_url",
            "has no effect: database.url is a file, which sends no notifications; remove it",
        ),
    ],
)
def test_settings_that_contradict_each_other_are_refused(
    folder: Path, environ: dict[str, str], key: str, message: str
) -> None:
    with pytest.raises(SettingsError) as refused:
        load(folder, "", None, **environ)

    assert [(problem.key, problem.message) for problem in refused.value.problems] == [(key, message)]


@pytest.mark.parametrize(
    ("content", "problem"),
    [(b"[worker\n", "is not TOML: "), (b"\xff\xfe", "is not text in UTF-8")],
)
def test_a_file_that_cannot_be_read_is_one_clear_error(folder: Path, content: bytes, problem: str) -> None:
    (folder / "gandy.toml").write_bytes(content)

    with pytest.raises(SettingsFileError) as refused:
        load(folder)

    assert refused.value.problem.startswith(problem)
    assert refused.value.exit_code == 2


def test_an_application_that_is_no_text_is_refused(folder: Path) -> None:
    assert problems_of(folder, "app = 3") == [
        f'{folder / "gandy.toml"}: app = 3: must be text such as "module:name"'
    ]
