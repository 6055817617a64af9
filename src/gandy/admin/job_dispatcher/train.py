"""The route of one cycle."""

from __future__ import annotations

from gandy.admin.job_dispatcher.apply_capacity import apply_capacity
from gandy.admin.job_dispatcher.cycle import CycleRequest, CycleResult
from gandy.admin.job_dispatcher.dispatch import dispatch
from gandy.admin.job_dispatcher.load_ready import load_ready
from gandy.admin.job_dispatcher.measure_capacity import measure_capacity
from gandy.train.base import Train


class JobDispatcherTrain(Train[CycleRequest, CycleResult]):
    """One cycle, inside the transaction that it is given: all of it is committed, or nothing."""

    route = (load_ready, measure_capacity, apply_capacity, dispatch)
