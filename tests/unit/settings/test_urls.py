from __future__ import annotations

from pathlib import Path
from urllib.parse import quote

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from psycopg.conninfo import conninfo_to_dict

from gandy.errors import DatabaseUrlError
from gandy.settings import mask_url
from gandy.settings.urls import anchor_sqlite_url, read_url
from gandy.store.drivers.database import sqlite_path


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        ("postgresql://ada:secret@db/main", "postgresql://ada:***@db/main"),
        ("postgresql://ada@db/main", "postgresql://ada@db/main"),
        ("postgresql://:secret@db/main", "postgresql://:***@db/main"),
        ("postgresql://db:5432/main", "postgresql://db:5432/main"),
        (
            "postgresql://db/main?user=ada&password=secret&sslpassword=secret",
            "postgresql://db/main?user=ada&password=***&sslpassword=***",
        ),
        ("postgresql://a,[::1]:5,c:7/main", "postgresql://a,[::1]:5,c:7/main"),
        ("postgresql:///main?host=/run/pg", "postgresql:///main?host=/run/pg"),
        ("postgresql+psycopg://ada:secret@db", "postgresql+psycopg://ada:***@db"),
        ("postgresql://ada:secret@db/main?password=secret&x=1", "postgresql://***"),
        ("postgresql://ada:secret", "postgresql://***"),
        ("postgres//ada:secret@db", "***"),
        ("mysql://ada:secret@db", "mysql://***"),
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


@settings(max_examples=300)
@given(
    user=st.text(min_size=1, max_size=8),
    password=st.text(max_size=12),
    host=st.sampled_from(["db", "db.example.org", "[::1]", "%2Frun%2Fpg"]),
    database=st.text(min_size=1, max_size=8),
)
def test_an_escaped_url_is_read_as_libpq_reads_it(user: str, password: str, host: str, database: str) -> None:
    """The driver's own parser is the judge: what one refuses, the other does not take."""
    url = f"postgresql://{quote(user, '')}:{quote(password, '')}@{host}:5433/{quote(database, '')}"
    if "\x00" in user + password + database:
        with pytest.raises(DatabaseUrlError):
            read_url(url)
        return

    read, by_libpq = read_url(url), conninfo_to_dict(url)

    assert (read.user, read.password, read.database) == (user, password, database)
    assert by_libpq == {
        "user": user, "host": read.hosts[0][0], "port": "5433", "dbname": database,
        **({"password": password} if password else {}),
    }  # fmt: skip


@settings(max_examples=500)
@given(st.text(alphabet="ab1:/@?#&=%[], ", max_size=24))
def test_whatever_is_accepted_is_read_as_libpq_reads_it(noise: str) -> None:
    url = f"postgresql://{noise}"
    try:
        read = read_url(url)
    except DatabaseUrlError:
        assert mask_url(url) == "postgresql://***"
        return

    by_libpq = conninfo_to_dict(url)

    assert (read.user, read.database) == (by_libpq.get("user"), by_libpq.get("dbname"))
    assert (read.password or None) == by_libpq.get("password")
    assert ",".join(host for host, _ in read.hosts) == by_libpq.get("host", "")


@pytest.mark.parametrize(
    ("url", "anchored"),
    [
        ("sqlite:///gandy.db", "sqlite:////srv/app/gandy.db"),
        ("sqlite:///data/gandy.db", "sqlite:////srv/app/data/gandy.db"),
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
