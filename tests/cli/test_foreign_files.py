"""A gandy.toml that another user could have written has no effect, and is named."""

from __future__ import annotations

import json
import os
import struct
from typing import TYPE_CHECKING, Protocol

import pytest

from gandy.settings import load_settings

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from click.testing import Result

    from tests.cli.conftest import Gandy

pytestmark = pytest.mark.usefixtures("imports")

ANOTHER_USER = 65_534
APP = 'from pathlib import Path\nPath({trace!r}).touch()\nfrom gandy import Gandy\napp = Gandy("planted")\n'
NAMED = ("--database", "sqlite:///named.db")


class GiveAway(Protocol):
    """Makes another user the owner of a path, of a link itself where it is one."""

    def __call__(self, path: Path, *, user: int = ANOTHER_USER) -> None: ...


@pytest.fixture
def give_away(monkeypatch: pytest.MonkeyPatch) -> GiveAway:
    """Root changes the owner; for everybody else the system's answer about the owner is changed."""
    given: dict[tuple[int, int], int] = {}
    if os.geteuid() != 0:
        for name in ("stat", "lstat", "fstat"):
            monkeypatch.setattr(os, name, _answering(getattr(os, name), given))

    def give(path: Path, *, user: int = ANOTHER_USER) -> None:
        if os.geteuid() == 0:
            os.chown(path, user, -1, follow_symlinks=False)
        else:
            found = path.lstat()
            given[found.st_dev, found.st_ino] = user

    return give


def _answering(
    ask: Callable[..., os.stat_result], given: dict[tuple[int, int], int]
) -> Callable[..., object]:
    def answer(*arguments: object, **options: object) -> os.stat_result:
        found = ask(*arguments, **options)
        owner = given.get((found.st_dev, found.st_ino), found.st_uid)
        return os.stat_result((*found[:4], owner, *found[5:]), {"st_mtime_ns": found.st_mtime_ns})

    return answer


def plant(folder: Path) -> Path:
    """Write a gandy.toml with a database and an application that leaves a trace where it is imported."""
    (folder / "planted.py").write_text(APP.format(trace=str(folder / "imported")))
    file = folder / "gandy.toml"
    file.write_text('app = "planted:app"\n[database]\nurl = "sqlite:///planted.db"\n[worker]\nslots = 77\n')
    return file


def loosen(mode: int) -> Callable[[Path, GiveAway], None]:
    return lambda path, _: path.chmod(mode)


def hand_over(path: Path, give_away: GiveAway) -> None:
    give_away(path)


def link(target: Callable[[Path], Path], spoil: Callable[[Path, GiveAway], None]) -> Callable[..., None]:
    """Replace the file by a link into another folder, and spoil what `target` picks of the file there."""

    def place(path: Path, give_away: GiveAway) -> None:
        elsewhere = path.parent / "elsewhere"
        elsewhere.mkdir(mode=0o700)
        path.rename(elsewhere / path.name)
        path.symlink_to(elsewhere / path.name)
        spoil(target(elsewhere / path.name), give_away)

    return place


def of_the_folder(spoil: Callable[[Path, GiveAway], None]) -> Callable[[Path, GiveAway], None]:
    return lambda path, give_away: spoil(path.parent, give_away)


def leave(path: Path, _: object) -> None:
    assert path.exists()


def foreign_link(path: Path, give_away: GiveAway) -> None:
    link(lambda target: target, leave)(path, give_away)
    give_away(path)


def listed(path: Path, _: object) -> None:
    """Let another user write by an access control list; the mode alone would not tell whom."""
    own = 7 if path.is_dir() else 6  # its owner can still enter a folder
    entries = [(1, own, NOBODY), (2, 6, 4242), (4, 0, NOBODY), (16, 6, NOBODY), (32, 0, NOBODY)]
    written = struct.pack("<I", 2) + b"".join(struct.pack("<HHI", *entry) for entry in entries)
    try:
        os.setxattr(path, "system.posix_acl_access", written)
    except OSError:  # the file system knows no such lists
        path.chmod(0o666)


NOBODY = 0xFFFFFFFF  # an entry that names no one
SPOILT = {
    "a file that a list lets another user write": listed,
    "a folder that a list lets another user write": of_the_folder(listed),
    "a file of another user": hand_over,
    "a file that all can write": loosen(0o646),
    "a file that only all others can write": loosen(0o402),
    "a folder of another user": of_the_folder(hand_over),
    "a folder that all can write": of_the_folder(loosen(0o777)),
    "a folder that all can write, with the sticky bit": of_the_folder(loosen(0o1777)),
    "a link of another user": foreign_link,
    "a link to a file of another user": link(lambda target: target, hand_over),
    "a link to a file that all can write": link(lambda target: target, loosen(0o666)),
    "a link into a folder of another user": link(lambda target: target.parent, hand_over),
    "a link into a folder that all can write": link(lambda target: target.parent, loosen(0o1777)),
}
COMMANDS = (
    ("config", "show"),
    ("runs", "list"),
    ("manifests", "list"),
    ("migrate",),
    ("migrate", "--check"),
    ("doctor",),
    ("sync",),
    ("tick", "dispatcher"),
    ("work", "--until-idle"),
    ("up",),
)


def is_one_line_about(result: Result, file: Path) -> bool:
    lines = result.stderr.splitlines()
    return len(lines) == 1 and str(file) in lines[0] and "because" in lines[0]


@pytest.mark.parametrize("spoil", SPOILT.values(), ids=SPOILT)
def test_a_spoilt_file_stops_every_command_that_would_use_another_database(
    gandy: Gandy, folder: Path, give_away: GiveAway, spoil: Callable[[Path, GiveAway], None]
) -> None:
    file = plant(folder)
    spoil(file, give_away)

    for command in COMMANDS:
        result = gandy(*command)
        assert (result.exit_code, result.stdout) == (2, ""), (command, result.output)
        assert is_one_line_about(result, file), (command, result.stderr)
    assert not (folder / "imported").exists()
    assert not list(folder.glob("*.db"))


@pytest.mark.parametrize("spoil", SPOILT.values(), ids=SPOILT)
def test_a_spoilt_file_is_passed_over_where_the_call_names_its_database(
    gandy: Gandy,
    folder: Path,
    give_away: GiveAway,
    spoil: Callable[[Path, GiveAway], None],
    caplog: pytest.LogCaptureFixture,
) -> None:
    file = plant(folder)
    spoil(file, give_away)

    by_option = gandy(*NAMED, "config", "show", "--json")
    by_variable = gandy("config", "show", "--json", env={"GANDY_DATABASE_URL": NAMED[1]})
    migrated = gandy(*NAMED, "migrate")

    for result in (by_option, by_variable):
        shown = json.loads(result.stdout)
        assert (shown["file"], shown["app"]) == (None, None)
        assert "77" not in {each["value"] for each in shown["settings"] if each["setting"] == "worker.slots"}
    assert migrated.exit_code == 0
    assert not (folder / "imported").exists()
    assert [str(file) in record.getMessage() for record in caplog.records] == [True]


def test_a_good_file_is_read_as_itself_and_through_a_link(gandy: Gandy, folder: Path) -> None:
    file = plant(folder)
    assert '"77"' in gandy("config", "show", "--json").stdout

    link(lambda target: target, leave)(file, None)

    assert '"77"' in gandy("config", "show", "--json").stdout
    assert gandy("migrate").exit_code == 0
    assert (folder / "imported").exists()


@pytest.mark.parametrize("mark", [".git", "pyproject.toml"])
def test_the_search_goes_up_within_a_project_only(
    gandy: Gandy, folder: Path, mark: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The same file is found from below only where a mark says that both folders are one project."""
    outer = folder / "outer"
    below = outer / "source" / "package"
    below.mkdir(parents=True)
    plant(outer)
    (folder / ".git").rmdir()
    monkeypatch.chdir(below)

    assert json.loads(gandy("config", "show", "--json").stdout)["file"] is None
    (outer / mark).touch()
    assert json.loads(gandy("config", "show", "--json").stdout)["file"] == str(outer / "gandy.toml")
    (outer / "source" / ".git").mkdir()
    assert json.loads(gandy("config", "show", "--json").stdout)["file"] is None


@pytest.mark.parametrize(
    "spoil", [hand_over, loosen(0o777), loosen(0o1777)], ids=["foreign", "open", "sticky"]
)
def test_the_search_never_enters_a_foreign_or_open_folder_from_below(
    gandy: Gandy,
    folder: Path,
    give_away: GiveAway,
    spoil: Callable[[Path, GiveAway], None],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    plant(folder)
    below = folder / "mine"
    below.mkdir(mode=0o700)
    spoil(folder, give_away)
    monkeypatch.chdir(below)

    shown = gandy("config", "show", "--json")

    assert (shown.exit_code, json.loads(shown.stdout)["file"]) == (0, None)
    assert gandy("migrate").exit_code == 0
    assert (below / "gandy.db").exists()
    assert not (folder / "imported").exists()


@pytest.mark.parametrize("spoil", [hand_over, loosen(0o1777)], ids=["foreign", "sticky"])
def test_no_module_is_imported_from_a_foreign_or_open_folder(
    gandy: Gandy, folder: Path, give_away: GiveAway, spoil: Callable[[Path, GiveAway], None]
) -> None:
    plant(folder).unlink()
    spoil(folder, give_away)

    result = gandy("--app", "planted:app", *NAMED, "trains", "list")

    assert result.exit_code == 2
    assert "searched, because" in result.stderr
    assert not (folder / "imported").exists()


def test_a_group_of_ones_own_may_write_and_another_may_not(folder: Path) -> None:
    file = plant(folder)
    file.chmod(0o664)
    os.chown(file, -1, os.getegid())
    status = file.stat()
    is_private = status.st_gid in {0, status.st_uid}

    if is_private:
        assert load_settings(environ={}, directory=folder).file == file
    if os.geteuid() == 0:
        os.chown(file, -1, ANOTHER_USER)
        with pytest.raises(Exception, match="other users can write to it"):
            load_settings(environ={}, directory=folder)


def test_what_is_no_plain_file_is_one_line(gandy: Gandy, folder: Path) -> None:
    file = folder / "gandy.toml"
    makers: tuple[Callable[[], object], ...] = (
        file.mkdir,
        lambda: os.mkfifo(file),
        lambda: file.symlink_to(folder / "nowhere"),
        lambda: file.symlink_to(file),
        lambda: file.symlink_to("/dev/zero"),
    )
    for make in makers:
        make()
        result = gandy("migrate")
        assert (result.exit_code, len(result.stderr.splitlines())) == (2, 1), result.output
        assert str(file) in result.stderr
        file.rmdir() if file.is_dir() else file.unlink()
