"""What Gandy is compared with is what it was; `benchmarks/frozen.toml` says how to change it on purpose."""

from __future__ import annotations

from benchmarks import frozen
from benchmarks.contestants import CONTESTANTS


def test_every_contestant_that_is_compared_with_is_as_it_was_frozen() -> None:
    assert frozen.found() == frozen.listed()


def test_pins_settings_and_statements_of_every_contestant_are_frozen() -> None:
    ours = ("benchmarks.gandy", "benchmarks.lifecycle")
    others = [launch for launch in CONTESTANTS.values() if not launch.module.startswith(ours)]
    modules = {f"{launch.module.replace('.', '/')}.py" for launch in others}
    pins = {f"benchmarks/peers/{launch.environment}.txt" for launch in others if launch.environment}

    assert modules | pins <= frozen.listed().keys()


def test_every_pin_names_one_version() -> None:
    loose = [
        f"{path.name}: {line}"
        for path in (frozen.HERE / "peers").glob("*.txt")
        for line in path.read_text(encoding="utf-8").splitlines()
        if "==" not in line
    ]

    assert loose == []
