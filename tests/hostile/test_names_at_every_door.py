"""One rule for names: every value gets the same answer in Python, at the command line, by REST, in TOML."""

from __future__ import annotations

import json
from functools import partial
from typing import TYPE_CHECKING, Any, Final

import pytest
from click.testing import CliRunner

from gandy import Gandy, Run, Train, every
from gandy.cli.main import main
from gandy.errors import GandyError
from gandy.lifecycle import Contract, Table, older_than
from gandy.lifecycle.contract.toml import load
from gandy.settings import load_settings
from tests.hostile.values import Judge, innocent, make_app
from tests.support.worlds import migrated_url
from tests.web.conftest import client_of

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence
    from pathlib import Path

__all__ = ["migrated_url"]

#: By kind, code points that a name may hold nowhere.
FORBIDDEN: Final = {
    "control": (0x00, 0x01, 0x07, 0x08, 0x09, 0x0A, 0x0D, 0x1B, 0x7F, 0x85, 0x9B, 0x9F),
    "direction": (0x061C, 0x200E, 0x200F, *range(0x202A, 0x202F), *range(0x2066, 0x206A)),
    "zero width": (0xAD, 0x034F, 0x180E, 0x200B, 0x200C, 0x200D, 0x2060, 0x2064, 0xFEFF, 0x1D173, 0xE0020),
    "invisible": (0x115F, 0x1160, 0x17B4, 0x180B, 0x2800, 0x3164, 0xFE00, 0xFE0F, 0xFFA0, 0xE0100, 0xE01EF),
    "unassigned": (0x0378, 0xFFFE, 0xFFFF, 0x1FFFE, 0x10FFFF),
    "private": (0xE000, 0xF8FF, 0xF0000, 0x100000),
    "surrogate": (0xD800, 0xDBFF, 0xDC00, 0xDFFF),
    "space": (0xA0, 0x1680, 0x2003, 0x2028, 0x2029, 0x202F, 0x3000),
}
NOT_NORMAL: Final = ("cafe\u0301", "\u212b", "\u1100\u1161\u11a8", "\u0958", "q\u0307\u0323", "\U0001d15e")
HOSTILE: Final = (
    *(
        text.replace("*", chr(point))
        for points in FORBIDDEN.values()
        for point in points
        for text in ("*ab", "a*b", "ab*")
    ),
    *NOT_NORMAL, "", " ", " a", "a ", "\ta", "a\n", "x" * 201,
)  # fmt: skip
FRIENDLY: Final = (
    "billing", "a b", "a/b", "Zürich", "日本語", "עברית", "नमस्ते", "\N{SNOWMAN}", "x" * 200,
    "'; DROP TABLE work_queue; --", "%s %(a)s {0} :a", "--yes", "a@b:c", "\u1e69", "각", "\N{GRINNING FACE}",
)  # fmt: skip


def declaring_doors() -> dict[str, Callable[[str], object]]:
    """Every call in Python that takes a name and touches no database."""

    def app() -> Gandy:
        return make_app("sqlite://")

    def scheduled(name: str = "one", **options: Any) -> object:  # noqa: ANN401 any option
        return app().schedule(name, innocent, 1, every(hours=1), **options)

    return {
        "application": Gandy,
        "train": lambda name: app().train(name=name)(_other),
        "train class": _declare_class,
        "train's group": lambda name: app().train(group=name)(_other),
        "group": lambda name: app().group(name),
        "schedule": scheduled,
        "schedule's group": lambda name: scheduled(group=name),
        "schedule_once": lambda name: app().schedule_once(name, innocent, 1, delay=every(hours=1).every),
        "then": lambda name: app().schedule("p", innocent, 1).then(name, innocent, 1),
        "schedule_many": lambda name: (
            app().schedule_many(name[:198], innocent, {"a": 1}, every(hours=1))
            if len(name) <= 200
            else app().schedule_many(name, innocent, {"a": 1}, every(hours=1))
        ),
        "activate": _activate,
        "contract": lambda name: Contract(name, [_table()]),
        "cleanup": lambda name: app().cleanup(trains=[name]),
        "cleanup keyword": lambda name: load_settings(keywords={"cleanup": {"trains": [name]}}, environ={}),
    }


async def _other(number: int) -> int:
    return number


def _declare_class(name: str) -> None:
    type("Hostile", (Train,), {"route": (innocent,), "__orig_bases__": (Train[int, int],), "name": name})


def _activate(name: str) -> None:
    try:
        Run().activate(name)
    except GandyError as error:
        if "external_id" in str(error):
            raise


def _table() -> Table:
    return Table("orders", rules=[older_than("at", keep_for="1d", lost_by_design="x")])


def _judge(judge: Judge, door: str, name: str, *, is_accepted: bool) -> None:
    if is_accepted != (name in FRIENDLY):
        judge.note(door, ascii(name)[:40], "accepted" if is_accepted else "refused")


@pytest.mark.parametrize("door", declaring_doors())
def test_a_declaration_gives_the_same_answer_as_every_other_door(door: str) -> None:
    judge = Judge()
    for name in (*HOSTILE, *FRIENDLY):
        try:
            declaring_doors()[door](name)
            is_accepted = True
        except GandyError as error:
            is_accepted = False
            if not str(error).replace("\n", "").isprintable():
                judge.note(door, ascii(name)[:40], f"an unprintable message: {error}")
        _judge(judge, door, name, is_accepted=is_accepted)
    judge.close()


@pytest.fixture
async def app(migrated_url: str) -> AsyncIterator[Gandy]:
    async with make_app(migrated_url) as opened:
        await opened.seed()
        yield opened


def asking_doors(app: Gandy) -> dict[str, Callable[[str], Awaitable[object]]]:
    """Every call in Python that takes a name to the database."""
    return {
        "enqueue's group": lambda name: app.enqueue(innocent, 1, group=name),
        "enqueue's key": lambda name: app.enqueue(innocent, 1, key=name),
        "enqueue_many's group": lambda name: app.enqueue_many(innocent, [1], group=name),
        "add_schedule": lambda name: app.add_schedule(name, innocent, 1),
        "add_schedule's group": lambda name: app.add_schedule("one", innocent, 1, group=name),
    }


async def test_what_is_asked_for_gets_the_same_answer(app: Gandy) -> None:
    judge = Judge()
    for door, ask in asking_doors(app).items():
        for name in (*HOSTILE, *FRIENDLY):
            try:
                await ask(name)
                is_accepted = True
            except GandyError:
                is_accepted = False
            _judge(judge, door, name, is_accepted=is_accepted)
    judge.close()


async def test_rest_gives_the_same_answer(app: Gandy) -> None:
    judge = Judge()
    doors = {
        "group of a job": partial(_body, "/api/v1/queue/enqueue", {"train": "innocent", "input": 1}, "group"),
        "key of a job": partial(_body, "/api/v1/queue/enqueue", {"train": "innocent", "input": 1}, "key"),
        "group of a manifest": partial(_body, "/api/v1/manifests/kept/set", {}, "group"),
    }
    async with client_of(app) as client:
        for door, request in doors.items():
            for name in (*HOSTILE, *FRIENDLY):
                path, content = request(name)
                answer = await client.post(
                    path, content=content, headers={"Content-Type": "application/json"}
                )
                assert answer.status_code in {200, 422}, answer.text
                _judge(judge, door, name, is_accepted=answer.is_success)
        groups = (await client.get("/api/v1/groups?limit=500")).json()["items"]
    judge.close()
    assert {group["name"] for group in groups} <= {*FRIENDLY, "calm", "default"}


def _body(path: str, base: dict[str, object], field: str, name: str) -> tuple[str, str]:
    return path, json.dumps({**base, field: name})


def test_the_command_line_gives_the_same_answer(
    tmp_path: Path, sqlite_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    judge = Judge()
    (tmp_path / "victim.py").write_text(
        f"from tests.hostile.values import make_app\napp = make_app({sqlite_url!r})"
    )
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    runner = CliRunner()
    call = ["--app", "victim:app"]
    assert runner.invoke(main, [*call, "sync"]).exit_code == 0
    doors = {
        "queue enqueue --group": ["queue", "enqueue", "innocent", "--input", "1", "--group"],
        "queue enqueue --key": ["queue", "enqueue", "innocent", "--input", "1", "--key"],
        "manifests set --group": ["manifests", "set", "kept", "--group"],
    }
    for number, (door, words) in enumerate(doors.items()):
        for name in (*HOSTILE[number::5], *NOT_NORMAL, *FRIENDLY):
            result = runner.invoke(main, [*call, *words[:-1], f"{words[-1]}={name}"])
            assert result.exit_code in {0, 2}, result.output
            _judge(judge, door, name, is_accepted=result.exit_code == 0)
    judge.close()


def test_a_file_and_the_environment_give_the_same_answer(tmp_path: Path) -> None:
    judge = Judge()
    (tmp_path / ".git").mkdir()
    for name in _writable((*HOSTILE, *FRIENDLY)):
        written = _toml(name)
        for door, text, read in (
            ("cleanup.trains", f"[cleanup]\ntrains = [{written}]\n", _load_settings),
            ("lifecycle.NAME", _contract(written), _load_contract),
        ):
            _judge(judge, door, name, is_accepted=read(tmp_path, text))
    for name in (each for each in (*HOSTILE, *FRIENDLY) if each == each.strip() and "," not in each):
        if "\x00" not in name and name.strip():
            accepted = _is_loaded(tmp_path, {"GANDY_CLEANUP_TRAINS": name})
            _judge(judge, "GANDY_CLEANUP_TRAINS", name, is_accepted=accepted)
    judge.close()


def _writable(names: Sequence[str]) -> Iterator[str]:
    """TOML has no way to write a lone surrogate."""
    return (name for name in names if not any("\ud800" <= each <= "\udfff" for each in name))


def _toml(name: str) -> str:
    return '"' + "".join(f"\\U{ord(each):08X}" for each in name) + '"'


def _contract(written: str) -> str:
    rule = '{ older_than = "at", keep_for = "1d", lost_by_design = "x" }'
    return f'version = 1\n[lifecycle.{written}]\ntables = [{{ name = "orders", rules = [{rule}] }}]\n'


def _load_settings(folder: Path, text: str) -> bool:
    (folder / "gandy.toml").write_text(text)
    try:
        return _is_loaded(folder, {})
    finally:
        (folder / "gandy.toml").unlink()


def _is_loaded(folder: Path, environ: dict[str, str]) -> bool:
    try:
        load_settings(environ=environ, directory=folder)
    except GandyError:
        return False
    return True


def _load_contract(folder: Path, text: str) -> bool:
    file = folder / "contract.toml"
    file.write_text(text)
    try:
        load(str(file))
    except GandyError:
        return False
    return True


def test_a_refusal_says_which_code_point_and_gives_the_normal_form() -> None:
    for name, said in (
        ("a\u202eb", "U+202E"),
        ("a\u200bb", "U+200B"),
        ("e\u0301", "'\\xe9'"),
        ("a\ue000", "U+E000"),
    ):
        with pytest.raises(GandyError) as refused:
            Gandy("a").group(name)
        assert said in str(refused.value)
