"""Verbs for many rows: what their previews name is what they touch, and nothing else."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Any

import pytest

from gandy.desk import cancelling, dead_letters
from gandy.desk.choosing import walks
from gandy.errors import UnknownTrainError, ValueBoundsError
from tests.app.operating import VERBS, open_later
from tests.doors.neighbours import (
    CALLER,
    NEIGHBOUR,
    belonging_to,
    changes_between,
    make_app,
    send,
    shared_url,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

__all__ = ["shared_url"]

Case = tuple[str, "Mapping[str, Any]", "Mapping[str, Any]"]

NO_TRAIN = "no_such_train"
#: A verb, the filter that the preview takes too, and what else the verb takes.
CASES: list[Case] = [
    ("runs.cancel", {"train": send}, {}),
    ("runs.cancel", {"state": "in_progress"}, {}),
    ("runs.cancel", {"manifest": "nightly"}, {}),
    ("runs.cancel", {"group": "etl", "since": timedelta(days=1)}, {}),
    ("runs.cancel", {"train": send, "input_has": "2"}, {}),
    ("runs.rerun_many", {"train": send, "state": "failed"}, {}),
    ("runs.rerun_many", {"manifest": "parked"}, {}),
    ("runs.rerun_many", {"error_has": "UNLUCKY", "since": timedelta(days=1)}, {}),
    ("runs.rerun_many", {"group": "default", "until": timedelta(microseconds=1)}, {}),
    ("queue.cancel", {"train": send}, {}),
    ("queue.cancel", {"manifest": "nightly"}, {}),
    ("queue.cancel", {"input_has": "5", "since": timedelta(days=1)}, {}),
    ("queue.cancel", {"group": "etl"}, {}),
    ("queue.cancel", {"status": "queued", "gate": "time"}, {}),
    ("groups.cancel", {"name": "etl"}, {}),
    ("groups.trigger", {"name": "etl"}, {}),
    ("dead_letters.requeue", {"train": send}, {"all": True}),
    ("dead_letters.requeue", {"manifest": "parked"}, {"all": True}),
    ("dead_letters.requeue", {"error_has": "Unlucky"}, {"all": True}),
    ("dead_letters.requeue", {"group": "default", "since": timedelta(days=1)}, {"all": True}),
    ("dead_letters.acknowledge", {"input_has": "13"}, {"all": True, "note": "seen"}),
    ("dead_letters.acknowledge", {}, {"all": True, "note": "seen"}),
]
TOUCHED: Mapping[str, Callable[[Any], list[Any]]] = {
    "cancel": lambda result: [*result.cancelled, *result.asked],
    "rerun_many": lambda result: [each.repeats for each in result.rerun],
    "trigger": lambda result: [each.external_id for each in result],
    "requeue": lambda result: [each.letter_id for each in result.requeued],
    "acknowledge": lambda result: list(result.acknowledged),
}


def preview_of(name: str) -> str:
    noun, verb = name.split(".")
    return f"{noun}.preview_{verb}"


def test_every_preview_is_compared_with_its_verb() -> None:
    assert {preview_of(name) for name, _, _ in CASES} == {name for name in VERBS if "preview_" in name}


@pytest.mark.parametrize(("name", "chosen", "more"), CASES, ids=range(len(CASES)))
async def test_a_bulk_verb_touches_what_its_preview_names(
    shared_url: str,
    name: str,
    chosen: Mapping[str, Any],
    more: Mapping[str, Any],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for module in (walks, cancelling, dead_letters):
        monkeypatch.setattr(module, "AT_ONCE", 1)
    theirs = belonging_to(NEIGHBOUR, shared_url)
    before = belonging_to(CALLER, shared_url)
    async with make_app(CALLER, shared_url) as app:
        previewed = await open_later(app, preview_of(name))(**chosen)
        assert changes_between(before, belonging_to(CALLER, shared_url)) == {}
        result = await open_later(app, name)(**chosen, **more)
        touched = TOUCHED[name.partition(".")[2]](result)

        assert sorted(previewed) == sorted(touched)
        assert touched
        assert len(set(previewed)) == len(previewed)
        if name not in {
            "groups.trigger",
            "runs.rerun_many",
        }:  # an asked run is asked again until it ends; all else is gone
            again = await open_later(app, preview_of(name))(**chosen)
            asked = getattr(result, "asked", ())
            assert sorted(again) == sorted(asked)
    assert changes_between(theirs, belonging_to(NEIGHBOUR, shared_url)) == {}


@pytest.mark.parametrize("name", ["runs.cancel", "runs.rerun_many", "queue.cancel"])
async def test_a_train_that_nothing_has_is_refused(shared_url: str, name: str) -> None:
    async with make_app(CALLER, shared_url) as app:
        for called in (name, preview_of(name)):
            with pytest.raises(UnknownTrainError, match=NO_TRAIN):
                await open_later(app, called)(train=NO_TRAIN)


@pytest.mark.parametrize("name", ["runs.cancel", "queue.cancel"])
async def test_a_call_that_could_mean_everything_or_two_things_is_refused(shared_url: str, name: str) -> None:
    before = belonging_to(CALLER, shared_url)
    async with make_app(CALLER, shared_url) as app:
        verb, preview = open_later(app, name), open_later(app, preview_of(name))
        for call in (verb(), preview(), verb(1, train="send")):
            with pytest.raises(ValueBoundsError, match="must be chosen by ids, or by"):
                await call
    assert changes_between(before, belonging_to(CALLER, shared_url)) == {}


async def test_letters_are_chosen_by_ids_or_by_all_and_not_by_both(shared_url: str) -> None:
    before = belonging_to(CALLER, shared_url)
    async with make_app(CALLER, shared_url) as app:
        letters = app.dead_letters
        for call in (
            letters.requeue(),
            letters.requeue(1, all=True),
            letters.requeue(1, train="send"),
            letters.requeue(train="send"),
            letters.acknowledge(note="seen"),
        ):
            with pytest.raises(ValueBoundsError, match="all=True"):
                await call
    assert changes_between(before, belonging_to(CALLER, shared_url)) == {}


async def test_only_what_has_not_ended_can_be_cancelled_by_its_state(shared_url: str) -> None:
    ended: Any = "completed"
    async with make_app(CALLER, shared_url) as app:
        with pytest.raises(ValueBoundsError, match="state must be one of pending, in_progress"):
            await app.runs.cancel(state=ended)
        with pytest.raises(ValueBoundsError, match="status must be one of undispatched, queued, waiting"):
            await app.queue.cancel(status=ended)
