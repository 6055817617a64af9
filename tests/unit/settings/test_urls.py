from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gandy.settings import mask_url
from gandy.settings.urls import anchor_sqlite_url
from gandy.store.drivers.urls import sqlite_path


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        ("postgresql://ada:secret@db/main", "postgresql://ada:***@db/main"),
        ("postgresql://ada@db/main", "postgresql://ada@db/main"),
        ("postgresql://:secret@db/main", "postgresql://:***@db/main"),
        ("postgresql://db:5432/main", "postgresql://db:5432/main"),
        (
            "postgresql://db/main?user=ada&password=secret&x=1",
            "postgresql://db/main?user=ada&password=***&x=1",
        ),
        ("postgres//ada:secret@db", "postgres//ada:***@db"),
        ("sqlite:///gandy.db", "sqlite:///gandy.db"),
    ],
)
def test_a_url_is_shown_without_its_password(url: str, shown: str) -> None:
    assert mask_url(url) == shown


@settings(max_examples=500)
@given(st.text(alphabet="abc:/@?#&=%", max_size=20))
def test_no_password_shows_through_whatever_characters_are_around_it(noise: str) -> None:
    password = f"{noise}SECRET{noise}"

    assert "SECRET" not in mask_url(f"postgresql://ada:{password}@db/main")


@pytest.mark.parametrize(
    ("url", "anchored"),
    [
        ("sqlite:///gandy.db", "sqlite:////srv/app/gandy.db"),
        ("sqlite:///data/gandy.db?mode=rw", "sqlite:////srv/app/data/gandy.db?mode=rw"),
        ("sqlite:////var/gandy.db", "sqlite:////var/gandy.db"),
        ("sqlite:///:memory:", "sqlite:///:memory:"),
        ("postgresql://db/main", "postgresql://db/main"),
    ],
)
def test_only_a_relative_file_is_seen_from_the_folder(url: str, anchored: str) -> None:
    assert anchor_sqlite_url(url, Path("/srv/app")) == anchored


@pytest.mark.parametrize("name", ["100%25", "what?", "a#b", "two words", "Zürich"])
def test_a_folder_of_any_name_is_found_again_by_who_opens_the_file(name: str) -> None:
    url = anchor_sqlite_url("sqlite:///gandy.db", Path("/srv") / name)

    assert sqlite_path(url) == Path("/srv") / name / "gandy.db"
