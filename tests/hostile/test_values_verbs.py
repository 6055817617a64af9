"""Every hostile value at every parameter of every verb of operators in Python."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final

from gandy.app.keywords import FilterKeywords
from gandy.errors import ManifestDeclaredError, RunOverError
from gandy.store.drivers.opening import migrate
from tests.app.operating import VERBS, open_later
from tests.hostile.values import HOSTILE, Judge, innocent, make_app, still_works

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from gandy import Gandy

#: What the other parameters hold.
USUAL: Final = {
    "external_id": "kept",
    "name": "calm",
    "train": "innocent",
    "run_id": 1,
    "entry_id": 1,
    "letter_id": 1,
    "note": "seen",
}
#: What a verb needs to have something to do, if the parameter of the test is not among it.
NEEDED: Final[Mapping[str, Mapping[str, Any]]] = {
    "manifests.add": {"input": 1},
    "manifests.set": {"priority": 3},
    "groups.set": {"priority": 3},
    "queue.enqueue": {"input": 1},
    "runs.cancel": {"state": "pending"},
    "runs.preview_cancel": {"state": "pending"},
    "runs.rerun_many": {"state": "failed"},
    "runs.preview_rerun_many": {"state": "failed"},
    "queue.cancel": {"status": "queued"},
    "queue.preview_cancel": {"status": "queued"},
    "dead_letters.requeue": {"all": True},
    "dead_letters.acknowledge": {"all": True},
}
#: How an option is named by its refusal, where that is not the option and a blank.
NAMED: Final = {"next": "next", "all": "all"}
#: Any value of the train's type is an input, and the rest have tests of their own.
LEFT_OUT: Final = {"self", "input", "options"}
#: What stands for several keywords.
KEYWORDS: Final = {"filters": tuple(FilterKeywords.__annotations__)}


def places() -> Iterator[tuple[str, str, dict[str, Any]]]:
    """Name every parameter of every verb, with what the call needs besides."""
    for name, verb in VERBS.items():
        required = {
            each.name
            for each in verb.signature.parameters.values()
            if each.default is each.empty and each.kind not in {each.VAR_POSITIONAL, each.VAR_KEYWORD}
        }
        given = verb.signature.parameters.keys() - LEFT_OUT
        for option in (each for name in given for each in KEYWORDS.get(name, (name,))):
            needed = {} if option in {"ids", "all"} else NEEDED.get(name, {})
            yield name, option, {**needed, **{each: USUAL[each] for each in required - {option, "self"}}}


async def call(app: Gandy, name: str, given: dict[str, Any]) -> None:
    ids = (given.pop("ids"),) if "ids" in given else ()
    with suppress(ManifestDeclaredError, RunOverError):  # the value was accepted
        await open_later(app, name)(*ids, **given)


async def test_every_parameter_of_every_verb_is_refused_by_name_or_accepted(sqlite_url: str) -> None:
    judge = Judge()
    migrate(sqlite_url)
    async with make_app(sqlite_url) as app:
        await app.seed()
        await app.enqueue(innocent, 1)
        for number, (name, option, base) in enumerate(sorted(places(), key=str)):
            for hostile in HOSTILE[number % 3 :: 3]:

                async def given(
                    value: object, name: str = name, option: str = option, base: dict[str, Any] = base
                ) -> None:
                    await call(app, name, {**base, option: value})

                await judge.wait(NAMED.get(option, f"{option} "), hostile, given)
        judge.close()
        await still_works(app)
