"""What random lives are made of."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING

from hypothesis import strategies as st

from gandy.model.manifest import GroupDeclaration
from gandy.model.run import EndedBy, TrainState
from gandy.model.schedule import Cron, EdgeKind, Interval, Manual, MisfirePolicy, Once

if TYPE_CHECKING:
    from gandy.model.schedule import Schedule

NAMES = ("a", "b", "c", "d", "e")
WORKERS = 3
REMEMBERED = 12
ROUNDS = 60
GROUPS = (
    GroupDeclaration(name="default"),
    GroupDeclaration(name="narrow", max_active_jobs=1, priority=5),
    GroupDeclaration(name="wide", max_active_jobs=3),
)

picks = st.integers(0, 11)
names = st.sampled_from(NAMES)
several = st.lists(names, min_size=1, max_size=3, unique=True)
ends = st.sampled_from([EdgeKind.SUCCESS, EdgeKind.SUCCESS, EdgeKind.FAILURE, EdgeKind.END])
timed: st.SearchStrategy[Schedule] = st.sampled_from(
    [
        Interval(timedelta(minutes=1)),
        Interval(timedelta(minutes=5)),
        Cron("*/7 * * * *"),
        Cron("30 * * * *"),
        Once(delay=timedelta(minutes=2)),
        Manual(),
    ]
)
spans = st.sampled_from(
    [
        timedelta(seconds=1),
        timedelta(seconds=10),
        timedelta(seconds=20),
        timedelta(seconds=61),
        timedelta(minutes=5),
        timedelta(minutes=21),
        timedelta(minutes=70),
        timedelta(hours=5),
        timedelta(days=1),
        timedelta(days=8),
    ]
)
options = st.fixed_dictionaries(
    {
        "group": st.sampled_from([group.name for group in GROUPS]),
        "max_retries": st.sampled_from([0, 1, 2, 3]),
        "is_retried": st.sampled_from([True, True, True, False]),
        "retry_delay": st.sampled_from([None, timedelta(0), timedelta(seconds=10)]),
        "misfire_policy": st.sampled_from(list(MisfirePolicy)),
        "variance": st.sampled_from([timedelta(0), timedelta(0), timedelta(seconds=20)]),
        "timeout": st.sampled_from([None, timedelta(minutes=2), timedelta(hours=2)]),
        "keep_for": st.sampled_from([None, timedelta(0), timedelta(days=2)]),
        "keep_last": st.sampled_from([None, 2]),
    }
)
given_inputs = st.lists(
    st.sampled_from([None, '{"n": 1}', '{"n":1}', '{"n": 2}', '{"n": true}']), max_size=4
).map(tuple)
endings = st.sampled_from(
    [
        (TrainState.COMPLETED, EndedBy.ITSELF),
        (TrainState.COMPLETED, EndedBy.ITSELF),
        (TrainState.FAILED, EndedBy.ITSELF),
        (TrainState.FAILED, EndedBy.ITSELF),
        (TrainState.FAILED, EndedBy.TIMEOUT),
        (TrainState.FAILED, EndedBy.SHUTDOWN),
        (TrainState.CANCELLED, EndedBy.OPERATOR),
    ]
)
